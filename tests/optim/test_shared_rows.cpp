// Rows that processes of one host share.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "support.h"

namespace gossamer::optim::test {
namespace {

std::string bytes_of(std::size_t n) {
  std::string all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(static_cast<char>(i * 11));
  return all;
}

/// Three labelled images of 2 × 2 bytes in each part.
void write_idx(const TemporaryDirectory& dir) {
  const auto word = [](char value) { return std::string{0, 0, 0, value}; };
  for (const char* part : {"train", "t10k"}) {
    write_plain(dir.file(std::string(part) + "-images-idx3-ubyte"),
                std::string{0, 0, 8, 3} + word(3) + word(2) + word(2) + bytes_of(12));
    write_plain(dir.file(std::string(part) + "-labels-idx1-ubyte"),
                std::string{0, 0, 8, 1} + word(3) + std::string{0, 1, 2});
  }
}

std::vector<float> values_of(const Dataset& data) {
  std::vector<std::uint32_t> rows(data.rows());
  std::iota(rows.begin(), rows.end(), 0U);
  std::vector<float> all(data.rows() * data.features());
  data.gather(rows, all);
  return all;
}

void check_same(const Dataset& a, const Dataset& b) {
  CHECK(a.rows() == b.rows());
  CHECK(a.features() == b.features());
  CHECK(a.classes() == b.classes());
  CHECK(a.hash() == b.hash());
  CHECK(values_of(a) == values_of(b));
  if (a.classes() > 0)
    for (std::size_t r = 0; r < a.rows(); ++r) CHECK(a.label(r) == b.label(r));
}

}  // namespace

TEST_CASE("shared rows are the same rows, in this process and in others") {
  const TemporaryDirectory dir;
  write_idx(dir);
  write_plain(dir.file("plain.csv"), "1,2,0\n3,4,1\n5,6,0\n7,8,1\n");
  write_plain(dir.file("text.csv"), "red,2,0\nblue,4,1\ngreen,6,0\nred,8,1\n");
  const std::string csv = dir.file("plain.csv"), text = dir.file("text.csv");
  for (const DataSpec& spec :
       {DataSpec{.format = "idx", .path = dir.path(), .mean = 0.3, .scale = 0.7},
        DataSpec{.format = "csv", .path = csv, .test_path = csv},
        DataSpec{.format = "csv", .path = text, .test_path = text, .text_as = "onehot"}, DataSpec{}}) {
    INFO(spec.format << " " << spec.path);
    const Data data = load_data(spec);
    const int fd = share_data(data);
    Data shared = shared_data(fd);
    check_same(*data.train, *shared.train);
    check_same(*data.test, *shared.test);
    const pid_t child = fork();
    if (child == 0) _exit(values_of(*shared_data(fd).train) == values_of(*data.train) ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);

    CHECK(write(fd, "x", 1) < 0);  // nobody can change them
    CHECK(mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    close(fd);
    check_same(*data.train, *shared.train);  // they stay while they are held
    const auto test = std::move(shared.test);
    shared.train.reset();
    check_same(*data.test, *test);
  }
}

TEST_CASE("a descriptor that holds no rows is refused") {
  CHECK_THROWS_WITH(shared_data(-1), ContainsSubstring("memory for rows that peers share: fstat"));
  const int fd = memfd_create("test", 0);
  CHECK_THROWS_WITH(shared_data(fd), ContainsSubstring("memory for rows that peers share"));
  for (const std::size_t bytes : {1, 100, 1000}) {
    const std::string other = bytes_of(bytes);
    REQUIRE(pwrite(fd, other.data(), other.size(), 0) == static_cast<ssize_t>(bytes));
    CHECK_THROWS_WITH(shared_data(fd), ContainsSubstring("found no rows"));
  }
  close(fd);
}

}  // namespace gossamer::optim::test

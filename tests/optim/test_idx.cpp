#include <algorithm>
#include <chrono>

#include "support.h"

namespace gossamer::optim::test {
namespace {

std::string word(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

/// Byte number i of the images.
double byte_of(std::size_t i) { return static_cast<double>(i * 7 % 256); }

std::string images(std::uint32_t count, std::uint32_t side, std::size_t bytes) {
  std::string file = word(0x803) + word(count) + word(side) + word(side);
  for (std::size_t i = 0; i < bytes; ++i) file.push_back(static_cast<char>(i * 7));
  return file;
}

std::string labels(std::uint32_t count) {
  std::string file = word(0x801) + word(count);
  for (std::uint32_t i = 0; i < count; ++i) file.push_back(static_cast<char>(i % 3));
  return file;
}

/// A complete small data set: 12 training and 5 test images of 4 × 4 bytes in 3 classes.
void write_set(const TemporaryDirectory& dir, bool gz) {
  const auto write = [&](const std::string& name, const std::string& content) {
    if (gz)
      write_gz(dir.file(name + ".gz"), content);
    else
      write_plain(dir.file(name), content);
  };
  write("train-images-idx3-ubyte", images(12, 4, 12 * 16));
  write("train-labels-idx1-ubyte", labels(12));
  write("t10k-images-idx3-ubyte", images(5, 4, 5 * 16));
  write("t10k-labels-idx1-ubyte", labels(5));
}

std::string load_error(const TemporaryDirectory& dir) {
  return message_of([&] { load_data({.format = "idx", .path = dir.path()}); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("idx files are read plain and compressed alike") {
  std::vector<std::uint64_t> hashes;
  for (const bool gz : {false, true}) {
    const TemporaryDirectory dir;
    write_set(dir, gz);
    const Data data = load_data({.format = "idx", .path = dir.path(), .mean = 0.5, .scale = 0.25});
    REQUIRE(data.train->rows() == 12);
    REQUIRE(data.test->rows() == 5);
    CHECK(data.train->features() == 16);
    CHECK(data.train->classes() == 3);
    CHECK(data.test->classes() == 3);
    CHECK(data.train->label(4) == 1);
    std::vector<float> x(32);
    data.train->gather({{11, 2}}, x);
    for (std::size_t k = 0; k < 16; ++k) {
      CHECK(x[k] == Approx((byte_of(11 * 16 + k) / 255 - 0.5) / 0.25));
      CHECK(x[16 + k] == Approx((byte_of(2 * 16 + k) / 255 - 0.5) / 0.25));
    }
    hashes.push_back(data.train->hash());
    CHECK(data.train->hash() != data.test->hash());
  }
  CHECK(hashes[0] == hashes[1]);
}

TEST_CASE("limit draws training rows of an idx set, in order") {
  const TemporaryDirectory dir;
  write_set(dir, true);
  const Data data = load_data({.format = "idx", .path = dir.path(), .limit = 7});
  const Data all = load_data({.format = "idx", .path = dir.path(), .limit = 70});
  REQUIRE(data.train->rows() == 7);
  CHECK(data.test->rows() == 5);
  REQUIRE(all.train->rows() == 12);
  CHECK(data.train->classes() == 3);
  std::vector<float> x(16), y(16);
  std::uint32_t found = 0;
  for (std::uint32_t r = 0; r < 12 && found < 7; ++r) {
    data.train->gather({&found, 1}, x);
    all.train->gather({&r, 1}, y);
    if (x == y && data.train->label(found) == all.train->label(r)) ++found;
  }
  CHECK(found == 7);
  CHECK(load_data({.format = "idx", .path = dir.path(), .limit = 7, .seed = 3}).train->hash() !=
        data.train->hash());
}

TEST_CASE("a missing idx file is named") {
  const TemporaryDirectory dir;
  CHECK(contains(load_error(dir), dir.file("train-images-idx3-ubyte")));
  write_set(dir, false);
  std::filesystem::remove(dir.file("t10k-labels-idx1-ubyte"));
  CHECK(contains(load_error(dir), dir.file("t10k-labels-idx1-ubyte")));
  const std::string message =
      message_of([] { load_data({.format = "idx", .path = "/usr/share/datasets/fashion-mnist/absent"}); });
  CHECK(contains(message, "dataset-fashion-mnist"));
}

TEST_CASE("damaged idx files are refused with what was found and expected") {
  const TemporaryDirectory dir;
  write_set(dir, false);
  const std::string path = dir.file("train-images-idx3-ubyte");
  SECTION("truncated data") {
    write_plain(path, images(12, 4, 100));
    const std::string message = load_error(dir);
    CHECK(contains(message, path + ": truncated: found 100 bytes of data, expected 192"));
  }
  SECTION("truncated header") {
    write_plain(path, word(0x803) + word(12));
    CHECK(contains(load_error(dir), "found 0 bytes of header, expected 4"));
  }
  SECTION("empty") {
    write_plain(path, "");
    CHECK(contains(load_error(dir), "truncated"));
  }
  SECTION("a header that claims more than any file could hold") {
    write_plain(path, images(0xFFFFFFFF, 4000, 100));
    CHECK(contains(load_error(dir), "truncated"));
  }
  SECTION("wrong magic number") {
    write_plain(path, labels(12));
    CHECK(contains(load_error(dir), "found the magic number 0x00000801, expected 0x00000803"));
  }
  SECTION("fewer labels than images") {
    write_plain(dir.file("train-labels-idx1-ubyte"), labels(11));
    const std::string message = load_error(dir);
    CHECK(contains(message, "12 images"));
    CHECK(contains(message, "11 labels"));
  }
  SECTION("more bytes than announced") {
    write_plain(path, images(12, 4, 193));
    CHECK(contains(load_error(dir), "found more than the 192 bytes"));
  }
  SECTION("test images of another size") {
    write_plain(dir.file("t10k-images-idx3-ubyte"), images(5, 3, 45));
    CHECK(contains(load_error(dir), "expected the same size"));
  }
  SECTION("no rows") {
    write_plain(path, images(0, 4, 0));
    CHECK(contains(load_error(dir), "expected at least 1 row"));
  }
}

TEST_CASE("damaged compressed idx files are refused") {
  const TemporaryDirectory dir;
  write_set(dir, true);
  const std::string path = dir.file("train-images-idx3-ubyte.gz");
  SECTION("cut off") { std::filesystem::resize_file(path, std::filesystem::file_size(path) - 20); }
  SECTION("without a byte of the checksum") {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    CHECK(contains(load_error(dir), "truncated"));
  }
  SECTION("overwritten") {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(30);
    file << "no deflate stream here";
  }
  CHECK(contains(load_error(dir), path));
}

TEST_CASE("Fashion-MNIST is read") {
  const std::string path = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(path)) GOSSAMER_SKIP("no /usr/share/datasets/fashion-mnist");
  const auto start = std::chrono::steady_clock::now();
  const Data data = load_data({.format = "idx", .path = path});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CAPTURE(seconds);
  CHECK(seconds < 10);  // 0.3 s alone on one core
  CHECK(data.train->rows() == 60000);
  CHECK(data.test->rows() == 10000);
  CHECK(data.train->features() == 784);
  CHECK(data.train->classes() == 10);
  std::vector<int> train(10), test(10);
  for (std::size_t r = 0; r < 60000; ++r) ++train[static_cast<std::size_t>(data.train->label(r))];
  for (std::size_t r = 0; r < 10000; ++r) ++test[static_cast<std::size_t>(data.test->label(r))];
  CHECK(train == std::vector<int>(10, 6000));
  CHECK(test == std::vector<int>(10, 1000));
  CHECK(data.train->hash() != data.test->hash());
}

}  // namespace gossamer::optim::test

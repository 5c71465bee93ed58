// Rows in memory that processes of one host share: training and test rows one after the other, of each a
// head, labels, widths and values.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "dataset.h"

namespace gossamer::optim {
namespace {

constexpr std::uint64_t kMark = 0x31736577'6f725347;  // and a number of the format
constexpr std::size_t kLine = 64;

struct Head {
  std::uint64_t mark = kMark, rows, features, classes, hash, labels, widths,
                values;  ///< the last three in bytes
  RowsLayout::Kind kind;
  float factor, offset;
};
static_assert(std::is_trivially_copyable_v<Head>);

constexpr std::size_t padded(std::uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
std::size_t size_of(const Head& h) {
  return padded(sizeof h) + padded(h.labels) + padded(h.widths) + padded(h.values);
}

[[noreturn]] void fail(const char* what) {
  throw OptimError(std::string("memory for rows that peers share: ") + what + ": " + std::strerror(errno));
}

class Mapping {
 public:
  Mapping(int fd, std::size_t size) : size_(size) {
    at_ = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (at_ == MAP_FAILED) fail("mmap");
  }
  ~Mapping() { munmap(at_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(at_), size_}; }

 private:
  void* at_;
  std::size_t size_;
};

const LabelledRows& labelled(const Dataset& data) { return dynamic_cast<const LabelledRows&>(data); }

Head head_of(const LabelledRows& rows) {
  const RowsLayout layout = rows.layout();
  return {.rows = rows.rows(),
          .features = rows.features(),
          .classes = rows.classes(),
          .hash = rows.hash(),
          .labels = rows.labels().size_bytes(),
          .widths = layout.widths.size_bytes(),
          .values = layout.values.size(),
          .kind = layout.kind,
          .factor = layout.factor,
          .offset = layout.offset};
}

/// Written by calls and not through a mapping, which would cost a page fault for each of its pages.
class Written {
 public:
  explicit Written(int fd) : fd_(fd) {}
  void put(const LabelledRows& rows) {
    const Head head = head_of(rows);
    const RowsLayout layout = rows.layout();
    put(std::as_bytes(std::span(&head, 1)));
    put(std::as_bytes(rows.labels()));
    put(std::as_bytes(layout.widths));
    put(layout.values);
  }

 private:
  void put(std::span<const std::byte> what) {
    const std::size_t next = at_ + padded(what.size());
    while (!what.empty()) {
      const ssize_t written = pwrite(fd_, what.data(), what.size(), static_cast<off_t>(at_));
      if (written < 0) {
        if (errno != EINTR) fail("pwrite");
        continue;
      }
      what = what.subspan(static_cast<std::size_t>(written));
      at_ += static_cast<std::size_t>(written);
    }
    at_ = next;
  }

  int fd_;
  std::size_t at_ = 0;
};

/// The next bytes of a mapping, as what they are.
class Taken {
 public:
  explicit Taken(std::shared_ptr<const Mapping> mapping)
      : left_(mapping->bytes()), mapping_(std::move(mapping)) {}
  template <class T>
  Elements<T> next(std::uint64_t bytes) {
    const auto part = left_.first(bytes);
    left_ = left_.subspan(padded(bytes));
    return {mapping_, {reinterpret_cast<const T*>(part.data()), bytes / sizeof(T)}};
  }
  /// Throws where there are not all of its rows.
  Head head() {
    Head head;
    if (left_.size() >= sizeof head) std::memcpy(&head, left_.data(), sizeof head);
    if (left_.size() < sizeof head || head.mark != kMark || left_.size() < size_of(head))
      throw OptimError("found no rows in the memory that was handed over; expected those of gossamer run");
    left_ = left_.subspan(padded(sizeof head));
    return head;
  }

 private:
  std::span<const std::byte> left_;
  std::shared_ptr<const Mapping> mapping_;
};

std::shared_ptr<const Dataset> read(Taken& from) {
  const Head h = from.head();
  const auto labels = from.next<std::int32_t>(h.labels);
  const auto widths = from.next<std::uint32_t>(h.widths);
  std::shared_ptr<const LabelledRows> rows;
  switch (h.kind) {
    case RowsLayout::Kind::floats:
      rows = make_float_rows(from.next<float>(h.values), h.features, h.classes, labels);
      break;
    case RowsLayout::Kind::bytes:
      rows = make_byte_rows(from.next<std::uint8_t>(h.values), h.features, h.classes, labels, h.factor,
                            h.offset);
      break;
    case RowsLayout::Kind::categories:
      rows = make_category_rows(from.next<float>(h.values), widths, h.classes, labels);
      break;
  }
  rows->knows_hash(h.hash);
  return rows;
}

}  // namespace

int share_data(const Data& data) {
  const LabelledRows &train = labelled(*data.train), &test = labelled(*data.test);
  const std::size_t size = size_of(head_of(train)) + size_of(head_of(test));
  const int fd = memfd_create("gossamer rows", MFD_ALLOW_SEALING);
  if (fd < 0) fail("memfd_create");
  try {
    if (ftruncate(fd, static_cast<off_t>(size)) != 0) fail("ftruncate");
    Written written(fd);
    written.put(train);
    written.put(test);
  } catch (...) {
    close(fd);
    throw;
  }
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);  // whoever reads can rely on it
  return fd;
}

Data shared_data(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0) fail("fstat");
  Taken from(std::make_shared<const Mapping>(fd, static_cast<std::size_t>(about.st_size)));
  auto train = read(from);
  return {std::move(train), read(from)};
}

}  // namespace gossamer::optim

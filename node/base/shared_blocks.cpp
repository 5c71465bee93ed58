#include "shared_blocks.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <cerrno>
#include <functional>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "machine.h"

namespace gossamer::node {
namespace {

/// Of blocks at most; those never taken take no memory.
constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr std::size_t kShareOfMachine = 16;
/// Of those that nobody reads, at most so many bytes are kept as they are.
constexpr std::size_t kMostKept = std::size_t{64} << 20;
/// Whoever maps it can be sure that it does not become shorter.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kHead = sizeof(ReaderCounts), kPage = 4096;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), std::string("memory for neighbours: ") + what);
}

ReaderCounts& counts_at(std::byte* head) { return *std::launder(reinterpret_cast<ReaderCounts*>(head)); }
ReaderCounts& counts_of(const SharedMapping& memory, const SharedPlace& place) {
  return counts_at(memory.bytes().data() + place.offset - kHead);
}

/// The pages of a block that is taken for the first time, all at once; false where there are none.
bool populate(int fd, std::span<std::byte> all, std::span<std::byte> block) {
  const auto offset = static_cast<std::size_t>(block.data() - all.data()), first = offset / kPage * kPage;
  const std::size_t bytes = offset - first + block.size();
#ifdef MADV_POPULATE_WRITE
  if (madvise(all.data() + first, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;  // else the kernel does not know it
#endif
  return fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first), static_cast<off_t>(bytes)) == 0;
}

/// Gives back the pages that are the block's alone; it reads as zeros then.
void release(std::byte* block, std::size_t size) {
  const auto begin = (reinterpret_cast<std::uintptr_t>(block) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(block) + size) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_REMOVE);
}

/// Memory for files, or addresses, are counted: what maps much of either would be in the way.
bool is_limited(__rlimit_resource what, std::size_t bytes) {
  rlimit limit{};
  return getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes;
}
bool addresses_are_limited() { return is_limited(RLIMIT_AS, ~std::size_t{0}); }

bool is_read(const ReaderCounts& counts) {
  return std::any_of(counts.of.begin(), counts.of.end(),
                     [](const auto& count) { return count.load(std::memory_order_acquire) != 0; });
}

std::uint64_t random_token() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

bool other_end_is_closed(int connection) {
  pollfd polled{connection, POLLIN | POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

/// What there is in this process. A child that is forked begins without: it shares the bytes of its parent's,
/// but neither who has which nor the readers.
struct OfThisProcess {
  std::mutex starting;
  std::atomic<SharedBlocks*> blocks{nullptr};
  bool tried = false;
};
OfThisProcess& of_this_process() {
  static OfThisProcess* all = new OfThisProcess;
  return *all;
}

}  // namespace

SharedMapping::SharedMapping(int fd, std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fail("mmap");
  bytes_ = {static_cast<std::byte*>(at), bytes};
}

SharedMapping::~SharedMapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

/// Blocks of a size that was asked for before are those of before, whose pages the machine has at hand.
class SharedBlocks::Allocator {
 public:
  Allocator(int fd, std::span<std::byte> memory)
      : fd_(fd), memory_(memory), buffer_(boost::interprocess::create_only, memory.data(), memory.size()) {}
  /// Null: there is no room.
  std::byte* take(std::size_t size) {
    if (const auto block = free_.take(size)) return *block;
    std::byte* block = fresh(size);
    if (block) return block;
    for (const auto& [gone, bytes] : free_.take_all()) let_go(gone, bytes);
    return fresh(size);
  }
  void free(std::byte* block, std::size_t size) {
    for (std::byte* gone : free_.give_back(block, size)) buffer_.deallocate(gone);
  }

 private:
  std::byte* fresh(std::size_t size) {
    auto* const block = static_cast<std::byte*>(buffer_.allocate_aligned(size, kHead, std::nothrow));
    if (!block || populate(fd_, memory_, {block, size})) return block;
    buffer_.deallocate(block);
    return nullptr;
  }
  void let_go(std::byte* block, std::size_t size) {
    release(block, size);
    buffer_.deallocate(block);
  }

  int fd_;
  std::span<std::byte> memory_;
  boost::interprocess::managed_external_buffer buffer_;
  FreeBlocks<std::byte*> free_{kMostKept};
};

SharedBlocks* SharedBlocks::start() {
  OfThisProcess& here = of_this_process();
  const std::lock_guard lock(here.starting);
  if (std::exchange(here.tried, true)) return started();
  static const int watched [[maybe_unused]] = pthread_atfork(nullptr, nullptr, [] {
    OfThisProcess& child = of_this_process();
    if (SharedBlocks* const parents = child.blocks.exchange(nullptr)) parents->abandoned_ = true;
    new (&child.starting) std::mutex;
    child.tried = false;
  });
  try {
    here.blocks = new SharedBlocks;     // never ends: threads may have blocks when the program ends
  } catch (const std::system_error&) {  // then frames go the usual way
  }
  return started();
}

SharedBlocks* SharedBlocks::started() { return of_this_process().blocks; }

SharedBlocks::SharedBlocks() : token_(random_token()) {
  const std::size_t bytes =
      std::min<std::size_t>(kMostBytes, memory_use().total / kShareOfMachine) / kPage * kPage;
  if (addresses_are_limited() || is_limited(RLIMIT_FSIZE, bytes))
    throw std::system_error(ENOMEM, std::generic_category(), "memory for neighbours");
  fd_ = memfd_create("gossamer frames", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) fail("memfd_create");
  try {
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("ftruncate");
    if (fcntl(fd_, F_ADD_SEALS, kSeals) != 0) fail("F_ADD_SEALS");
    memory_ = SharedMapping(fd_, bytes);
    allocator_ = std::make_unique<Allocator>(fd_, memory_.bytes());
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

ByteBlock SharedBlocks::take(std::size_t bytes) {
  std::byte* const block = bytes < kLeastBytes ? nullptr : take_locked(size_class(kHead + bytes));
  if (!block) return {};
  // without the lock: where there is no memory for the owner, it ends at once
  return {{block + kHead, [this, block](std::byte*) { free(block); }}, {block + kHead, bytes}};
}

std::byte* SharedBlocks::take_locked(std::size_t size) {
  const std::lock_guard lock(mutex_);
  look_at_lent();
  std::byte* block = allocator_->take(size);
  if (!block && !leaving_.empty()) {
    look_at_leaving();
    look_at_lent();
    block = allocator_->take(size);
  }
  if (!block) return nullptr;
  new (block) ReaderCounts;
  try {
    taken_.emplace(block, size);
  } catch (const std::bad_alloc&) {
    allocator_->free(block, size);
    return nullptr;
  }
  return block;
}

void SharedBlocks::free(std::byte* block) noexcept try {
  if (abandoned_) return;
  const std::lock_guard lock(mutex_);
  lent_.push_back(block);
  look_at_lent();
} catch (const std::bad_alloc&) {  // then it is no room any more
}

/// Those that came back.
void SharedBlocks::look_at_lent() {
  std::erase_if(lent_, [&](std::byte* block) {
    if (is_read(counts_at(block))) return false;
    const auto at = taken_.find(block);
    allocator_->free(block, at->second);
    taken_.erase(at);
    return true;
  });
}

std::optional<ReaderId> SharedBlocks::add_reader() {
  const std::lock_guard lock(mutex_);
  look_at_leaving();
  const auto reader = static_cast<ReaderId>(std::countr_one(readers_));
  if (reader >= ReaderCounts::kReaders) return std::nullopt;
  readers_ |= std::uint64_t{1} << reader;
  return reader;
}

void SharedBlocks::leave(ReaderId reader, int connection) {
  const std::lock_guard lock(mutex_);
  leaving_.push_back({reader, connection});
  look_at_leaving();
}

void SharedBlocks::look_at_leaving() {
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    if (!other_end_is_closed(leaving.connection)) return false;
    ::close(leaving.connection);
    for (const auto& [block, size] : taken_)
      counts_at(block).of[leaving.reader].store(0, std::memory_order_release);
    readers_ &= ~(std::uint64_t{1} << leaving.reader);
    return true;
  });
}

bool SharedBlocks::has(std::span<const std::byte> bytes) const {
  const std::span<const std::byte> all = memory_.bytes();
  return !std::less<>{}(bytes.data(), all.data() + kHead) &&
         std::less<>{}(bytes.data(), all.data() + all.size());
}

std::optional<SharedPlace> SharedBlocks::lend(std::span<const std::byte> bytes, ReaderId reader) {
  const SharedPlace place{static_cast<std::uint64_t>(bytes.data() - memory_.bytes().data()), bytes.size()};
  auto& count = counts_of(memory_, place).of[reader];
  if (count.load(std::memory_order_relaxed) >= ReaderCounts::kMost) return std::nullopt;
  count.fetch_add(1, std::memory_order_acq_rel);
  return place;
}

void SharedBlocks::take_back(const SharedPlace& place, ReaderId reader) {
  counts_of(memory_, place).of[reader].fetch_sub(1, std::memory_order_acq_rel);
}

ByteBlock take_readable_block(std::size_t bytes) {
  if (SharedBlocks* const shared = SharedBlocks::started())
    if (ByteBlock block = shared->take(bytes); block.owner) return block;
  return take_block(bytes);
}

BorrowedMemory::BorrowedMemory(int fd, ReaderId reader) : reader_(reader) {
  struct stat found {};
  if (fstat(fd, &found) != 0) fail("fstat");
  const int seals = fcntl(fd, F_GET_SEALS);
  const auto size = static_cast<std::size_t>(found.st_size);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || size < kHead || size > kMostBytes ||
      reader >= ReaderCounts::kReaders || addresses_are_limited())
    throw std::runtime_error("found other memory; expected blocks that a peer lends");
  memory_ = SharedMapping(fd, size);
}

std::span<const std::byte> BorrowedMemory::read(const SharedPlace& place) const {
  const std::uint64_t size = memory_.bytes().size();
  if (place.offset < kHead || place.offset > size || place.offset % kHead != 0 ||
      place.bytes > size - place.offset ||
      counts_of(memory_, place).of[reader_].load(std::memory_order_acquire) == 0)
    return {};
  return memory_.bytes().subspan(place.offset, place.bytes);
}

void BorrowedMemory::give_back(const SharedPlace& place) const {
  auto& count = counts_of(memory_, place).of[reader_];
  std::uint8_t before = count.load(std::memory_order_relaxed);
  while (before > 0 && !count.compare_exchange_weak(before, static_cast<std::uint8_t>(before - 1),
                                                    std::memory_order_acq_rel)) {
  }
}

}  // namespace gossamer::node

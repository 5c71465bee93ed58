#pragma once
// Blocks of this process's memory that other processes of the same machine read in place. What was lent is
// not written to before all of its readers have given it back, or have ended.
//
// In front of a block's bytes stands, in the shared memory too, how often each reader has it: the owner adds,
// the reader takes away.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "byte_pool.h"

namespace gossamer::node {

/// A mapping of shared memory; unmapped in the end.
class SharedMapping {
 public:
  SharedMapping() = default;
  /// For reading and writing. Throws std::system_error.
  SharedMapping(int fd, std::size_t bytes);
  ~SharedMapping();
  SharedMapping(SharedMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_{};
};

using ReaderId = std::uint32_t;
/// Of one block, by reader; a cache line.
struct alignas(64) ReaderCounts {
  static constexpr std::size_t kReaders = 64;
  static constexpr std::uint8_t kMost = 200;
  std::array<std::atomic<std::uint8_t>, kReaders> of{};
};
static_assert(sizeof(ReaderCounts) == 64 && std::atomic<std::uint8_t>::is_always_lock_free);

/// Where a block's bytes are in the memory that it is of.
struct SharedPlace {
  std::uint64_t offset = 0, bytes = 0;
};

/// Those of this process, which live as long as it does; a child that is forked has none of its parent's.
/// Thread-safe.
class SharedBlocks {
 public:
  /// Shorter ones are not worth it.
  static constexpr std::size_t kLeastBytes = std::size_t{16} << 10;

  /// From now on there are some; null where the system gives no such memory.
  static SharedBlocks* start();
  /// Null before.
  static SharedBlocks* started();

  /// No owner: it would be too short, or there is no room.
  ByteBlock take(std::size_t bytes);

  int fd() const { return fd_; }
  std::uint64_t token() const { return token_; }  ///< by which readers know this memory

  /// Another reader; none: there are too many.
  std::optional<ReaderId> add_reader();
  /// Nothing is lent to it any more. What was is free once the other end of this connection is closed, which
  /// is taken over here.
  void leave(ReaderId reader, int connection);

  bool has(std::span<const std::byte> bytes) const;
  /// A block's bytes, from its first on, all or some; none: its reader has it too often.
  std::optional<SharedPlace> lend(std::span<const std::byte> bytes, ReaderId reader);
  /// Once, where the reader was not told of it after all.
  void take_back(const SharedPlace& place, ReaderId reader);

 private:
  class Allocator;
  struct Leaving {
    ReaderId reader;
    int connection;
  };
  SharedBlocks();
  std::byte* take_locked(std::size_t size);
  void free(std::byte* block) noexcept;
  void look_at_leaving();
  void look_at_lent();

  int fd_ = -1;
  std::uint64_t token_;
  SharedMapping memory_;
  std::mutex mutex_;
  std::unique_ptr<Allocator> allocator_;
  std::map<std::byte*, std::size_t> taken_;  ///< with their sizes, those read elsewhere included
  std::vector<std::byte*> lent_;             ///< of no use here, but perhaps read elsewhere
  std::uint64_t readers_ = 0;                ///< that there are, a bit each
  std::vector<Leaving> leaving_;
  std::atomic<bool> abandoned_{false};  ///< in a child: they are its parent's
};

/// At least so many bytes that neighbours may be going to read, like take_block: shared ones, where there are
/// any and they have room.
ByteBlock take_readable_block(std::size_t bytes);

/// Another process's memory, as one of its readers sees it. Thread-safe.
class BorrowedMemory {
 public:
  /// Of SharedBlocks::fd, which stays the caller's. Throws std::system_error, std::runtime_error where it is
  /// no such memory.
  BorrowedMemory(int fd, ReaderId reader);

  /// Empty: there are none there, or they were not lent.
  std::span<const std::byte> read(const SharedPlace& place) const;
  void give_back(const SharedPlace& place) const;

 private:
  ReaderId reader_;
  SharedMapping memory_;
};

}  // namespace gossamer::node

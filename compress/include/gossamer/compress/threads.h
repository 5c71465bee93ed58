#pragma once
// Threads share the work on one large vector.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gossamer::compress {

/// A fixed team. What it computes never depends on its size: work is cut into pieces by the vector's length
/// alone. One call at a time; the caller owns it and works along.
class Threads {
 public:
  /// `count` threads with the caller among them, at least 1.
  explicit Threads(std::size_t count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  std::size_t count() const { return helpers_.size() + 1; }

  /// Calls work(piece, thread) once for each piece < pieces, with thread < count(), and returns when all have
  /// ended. Each thread begins with a share of its own, in ascending order and the same in every call with as
  /// many pieces, so that it finds its part of a vector in its cache; then it helps the others. Where pieces
  /// throw, none behind the lowest of them starts any more, and its exception is thrown: the same one for any
  /// number of threads. Allocates nothing.
  template <class Work>
  void for_each(std::size_t pieces, const Work& work) {
    run({[](const void* w, std::size_t piece, std::size_t thread) {
           (*static_cast<const Work*>(w))(piece, thread);
         },
         &work, pieces});
  }

 private:
  struct Job {
    void (*call)(const void*, std::size_t piece, std::size_t thread) = nullptr;
    const void* work = nullptr;
    std::size_t pieces = 0;
  };
  /// Pieces that belong to one thread.
  struct alignas(64) Share {
    std::atomic<std::size_t> next{0};  ///< the first that nobody has taken
    std::size_t end = 0;
  };
  void run(const Job& job);
  void help(std::size_t thread);
  bool join();
  void take_pieces(std::size_t thread);

  std::vector<std::thread> helpers_;
  Job job_;
  std::vector<Share> shares_;
  /// kOpen while helpers may join a job, and how many are at it. One that wakes too late is not waited for.
  std::atomic<std::uint32_t> state_{0};
  static constexpr std::uint32_t kOpen = 1u << 31;
  std::atomic<std::uint32_t> jobs_{0};  ///< counts jobs; helpers wait for it to change
  std::atomic<bool> stop_{false};
  std::mutex failure_;
  std::atomic<std::size_t> failed_piece_{0};  ///< the lowest that has thrown, else above all
  std::exception_ptr failed_;
};

/// Entries of one piece of a long vector: small enough for a core's L2 cache, a multiple of every usual
/// bucket.
inline constexpr std::size_t kSlice = std::size_t{1} << 16;

/// for_each on threads, or here in ascending order where threads is null or there is one piece.
template <class Work>
void for_each_piece(Threads* threads, std::size_t pieces, const Work& work) {
  if (threads != nullptr && pieces > 1) return threads->for_each(pieces, work);
  for (std::size_t piece = 0; piece < pieces; ++piece) work(piece, std::size_t{0});
}

}  // namespace gossamer::compress

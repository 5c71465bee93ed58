#pragma once
// Vectors whose buckets are signs for a pair of values each, on the threads that the caller lends.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <span>

#include "feedback_state.h"
#include "sign_kernels.h"
#include "wire.h"

namespace gossamer::compress {

/// r² and r = ‖v‖₁/(√d‖v‖₂) of magnitudes that are spread evenly between 0 and the largest: what signs at the
/// mean magnitude take in of them.
constexpr double kEvenSigns = 0.75, kEvenRatio = 0.8660254037844386;

/// v = g + e of one call of encode or encode_feedback, as it is scanned; without a state v = g.
class SignInput {
 public:
  /// Throws EncodeError for a state of another size, before anything is changed.
  SignInput(std::span<const float> g, FeedbackState* state, std::size_t bucket)
      : g_(g), state_(state), bad_(g.size()) {
    if (state != nullptr) make_lazy(*state, g.size(), bucket);
  }

  /// Scans the buckets of entries [start, start + scan.n); scan.g is set here. May be called by several
  /// threads.
  void scan(Sums kind, std::size_t start, SignScan scan);
  /// After their scan, entries of v. Those which are not finite are something else here where there is a
  /// state.
  std::span<const float> v(std::size_t start, std::size_t n) const;
  /// What bucket b sends, for the state to remember.
  void sent(std::size_t b, SignPair pair) {
    if (state_ != nullptr) state_->pending[b] = pair;
  }
  /// Where a scanned bucket's sum is not finite: throws where it is for an entry of v = g. (Where there is a
  /// state, finish() does.)
  void require_finite(std::size_t start, std::size_t n) const;
  /// After the last scan: throws EncodeError where an entry of v was not finite; see encode_feedback.
  void finish();
  bool failed() const { return bad_.load() != g_.size(); }
  /// Entries of v to write to, null without a state.
  float* residual(std::size_t start) { return state_ == nullptr ? nullptr : state_->residual.data() + start; }
  std::size_t size() const { return g_.size(); }

 private:
  std::span<const float> g_;
  FeedbackState* state_;
  std::atomic<std::size_t> bad_;  ///< first entry that is not finite
};

/// Buckets that are scanned by one call of a kernel.
inline constexpr std::size_t kRun = 64;

/// Scans all of v on the threads; signs holds the buckets' signs without a gap. Calls
/// value(b, sums, v of the bucket) → SignPair for each bucket b, from any thread.
template <class Value>
void scan_buckets(Sums kind, SignInput& input, std::size_t bucket, Threads* threads, std::byte* signs,
                  const Value& value) {
  const std::size_t n = input.size(), slice = wire::slice_of(bucket);
  for_each_piece(threads, wire::ceil_div(n, slice), [&](std::size_t piece, std::size_t) {
    std::array<BucketSums, kRun> sums;
    const std::size_t end = std::min((piece + 1) * slice, n);
    for (std::size_t start = piece * slice; start < end; start += kRun * bucket) {
      const std::size_t count = std::min(kRun * bucket, end - start);
      input.scan(kind, start, {nullptr, count, bucket, sums.data(), signs + start / 8, bucket / 8});
      const std::size_t first = start / bucket;
      for (std::size_t k = 0, i = 0; i < count; ++k, i += bucket)
        input.sent(first + k, value(first + k, sums[k], input.v(start + i, std::min(bucket, count - i))));
    }
  });
  input.finish();
}

/// acc += what the buckets' signs stand for, on the threads. value(b) → SignPair of bucket b; it may throw.
template <class Value>
void add_buckets(std::span<const std::byte> signs, std::size_t bucket, std::span<float> acc, Threads* threads,
                 const Value& value) {
  const std::size_t n = acc.size(), slice = wire::slice_of(bucket);
  if (n > 0) wire::require_no_signs_past(signs, n);
  for_each_piece(threads, wire::ceil_div(n, slice), [&](std::size_t piece, std::size_t) {
    std::array<SignLeaf, kRun> leaves;
    const std::size_t end = std::min((piece + 1) * slice, n);
    for (std::size_t start = piece * slice; start < end; start += kRun * bucket) {
      const std::size_t first = start / bucket;
      std::size_t count = 0;
      for (std::size_t at = start; at < std::min(start + kRun * bucket, end); at += bucket, ++count)
        leaves[count] = {signs.data() + at / 8, std::min(bucket, end - at), value(first + count)};
      add_leaves(std::span(leaves).first(count), acc.data() + start);
    }
  });
}

}  // namespace gossamer::compress

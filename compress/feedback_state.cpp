#include "feedback_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "gossamer/compress/feedback.h"
#include "sign_kernels_inline.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

// A saved state: "gfs", version, u64 entries, u64 bucket, u64 pending pairs; the pairs; residual; f32
// threshold of the selection. That of momentum: "gms", version, u64 velocities, u64 unsent, u64 0; both; f32
// threshold.
using Mark = std::array<char, 4>;
constexpr Mark kFeedback = {'g', 'f', 's', 1}, kMomentum = {'g', 'm', 's', 1};
using Sizes = std::array<std::uint64_t, 3>;
constexpr std::size_t kFront = sizeof(Mark) + sizeof(Sizes), kEnd = sizeof(float);

void require_state(bool holds, const char* found) {
  if (!holds) throw StateError(std::string("not a saved state: ") + found);
}

struct Part {
  const void* from;
  std::size_t bytes;
};
std::vector<std::byte> written(const Mark& mark, const Sizes& sizes, const SelectionState& selection,
                               Part first, Part second) {
  std::vector<std::byte> out;
  out.reserve(kFront + first.bytes + second.bytes + kEnd);
  const auto put = [&](const void* from, std::size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    out.insert(out.end(), begin, begin + bytes);
  };
  put(mark.data(), sizeof mark);
  put(sizes.data(), sizeof sizes);
  put(first.from, first.bytes);
  put(second.from, second.bytes);
  put(&selection.threshold, kEnd);
  return out;
}

/// Checks and reads what stands in front and at the end.
Sizes read_frame(std::span<const std::byte> saved, const Mark& mark, SelectionState& selection) {
  require_state(saved.size() >= kFront + kEnd, "it is cut short");
  require_state(std::memcmp(saved.data(), mark.data(), 3) == 0, "it is of another kind");
  require_state(saved[3] == static_cast<std::byte>(mark[3]), "it is of another version");
  Sizes sizes;
  std::memcpy(sizes.data(), saved.data() + sizeof mark, sizeof sizes);
  std::memcpy(&selection.threshold, saved.last(kEnd).data(), kEnd);
  require_state(std::isfinite(selection.threshold) && !std::signbit(selection.threshold),
                "its threshold is not a magnitude");
  return sizes;
}

/// As save wrote them; count numbers are there.
template <class Vector>
void take(const std::byte*& from, std::size_t count, Vector& values) {
  values.resize(count);
  const std::size_t bytes = count * sizeof(values[0]);
  if (count > 0) std::memcpy(values.data(), from, bytes);
  from += bytes;
}

}  // namespace

void FeedbackState::materialise() {
  for (std::size_t b = 0; b < pending.size(); ++b) {
    const SignPair sent = pending[b];
    const std::size_t end = std::min((b + 1) * bucket, residual.size());
    for (std::size_t i = b * bucket; i < end; ++i) residual[i] = plain::left_of(residual[i], sent);
  }
  pending.clear();
}

void require_feedback(const Codec& codec) {
  if (codec.traits().feedback()) return;
  throw CodecError("codec \"" + codec.spec() +
                   "\" must not run under error feedback: what it leaves out can be larger than what it is "
                   "given, and the residual would grow without end; without feedback, or another codec "
                   "(qsgd with 4 bits and norm=max, randk with scale=0, onebit_scaled, topk)");
}

void require_size(const FeedbackState& state, std::size_t n) {
  if (state.residual.empty() || state.residual.size() == n) return;
  throw EncodeError("cannot encode: the residual has " + std::to_string(state.residual.size()) +
                    " entries, the vector " + std::to_string(n) +
                    "; each layer needs a feedback state of its own");
}

void make_eager(FeedbackState& state, std::size_t n) {
  require_size(state, n);
  state.materialise();
  if (state.residual.empty()) state.residual.assign(n, -0.0f);
}

void make_lazy(FeedbackState& state, std::size_t n, std::size_t bucket) {
  require_size(state, n);
  if (state.residual.empty()) state.residual.assign(n, -0.0f);
  if (state.bucket != bucket) state.materialise();
  state.bucket = bucket;
  if (state.pending.empty()) state.pending.resize(wire::ceil_div(n, bucket));
}

std::vector<std::byte> save(const FeedbackState& state) {
  return written(kFeedback, {state.residual.size(), state.bucket, state.pending.size()}, state.selection,
                 {state.pending.data(), state.pending.size() * sizeof(SignPair)},
                 {state.residual.data(), state.residual.size() * sizeof(float)});
}

FeedbackState restore_feedback(std::span<const std::byte> saved) {
  FeedbackState state;
  const auto [entries, bucket, pairs] = read_frame(saved, kFeedback, state.selection);
  const std::size_t rest = saved.size() - kFront - kEnd;
  require_state(entries <= rest / sizeof(float) && pairs <= rest / sizeof(SignPair) &&
                    rest == entries * sizeof(float) + pairs * sizeof(SignPair),
                "its size is not what it claims");
  if (pairs > 0) {
    require_state(bucket > 0 && bucket % 32 == 0 && bucket <= wire::kBucketMax &&
                      pairs == wire::ceil_div(entries, bucket),
                  "its buckets do not cover its entries");
  }
  const std::byte* from = saved.data() + kFront;
  take(from, pairs, state.pending);
  take(from, entries, state.residual);
  state.bucket = bucket;
  for (const SignPair& pair : state.pending) {
    require_state(pair.plus >= 0 && pair.minus <= 0 && std::isfinite(pair.plus) && std::isfinite(pair.minus),
                  "it has a pending value that is not finite or of the wrong sign");
  }
  require_state(wire::first_not_finite(state.residual) == entries, "it holds NaN or Inf");
  return state;
}

std::vector<std::byte> save(const MomentumState& state) {
  return written(kMomentum, {state.velocity.size(), state.unsent.size(), 0}, state.selection,
                 {state.velocity.data(), state.velocity.size() * sizeof(float)},
                 {state.unsent.data(), state.unsent.size() * sizeof(float)});
}

MomentumState restore_momentum(std::span<const std::byte> saved) {
  MomentumState state;
  const auto [velocities, unsent, zero] = read_frame(saved, kMomentum, state.selection);
  const std::size_t rest = saved.size() - kFront - kEnd;
  // a layer that goes dense has a velocity and nothing unsent
  require_state(zero == 0 && (velocities == unsent || unsent == 0) && velocities <= rest / sizeof(float) &&
                    rest == (velocities + unsent) * sizeof(float),
                "its size is not what it claims");
  const std::byte* from = saved.data() + kFront;
  take(from, velocities, state.velocity);
  take(from, unsent, state.unsent);
  require_state(
      wire::first_not_finite(state.velocity) == velocities && wire::first_not_finite(state.unsent) == unsent,
      "it holds NaN or Inf");
  return state;
}

}  // namespace gossamer::compress

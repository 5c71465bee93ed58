#include "feedback_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "sign_kernels_inline.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

// A saved state: "gfs", version, u64 entries, u64 bucket, u64 pending pairs; then the pairs, then residual.
constexpr std::array<char, 4> kMark = {'g', 'f', 's', 1};
constexpr std::size_t kFront = kMark.size() + 3 * sizeof(std::uint64_t);

[[noreturn]] void refuse(const std::string& found) {
  throw StateError("not a saved feedback state: " + found);
}

void require_state(bool holds, const char* found) {
  if (!holds) refuse(found);
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
  const std::array<std::uint64_t, 3> sizes = {state.residual.size(), state.bucket, state.pending.size()};
  const std::size_t pairs = state.pending.size() * sizeof(SignPair);
  const std::size_t entries = state.residual.size() * sizeof(float);
  std::vector<std::byte> out(kFront + pairs + entries);
  std::byte* at = out.data();
  const auto put = [&](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  put(kMark.data(), kMark.size());
  put(sizes.data(), sizeof sizes);
  put(state.pending.data(), pairs);
  put(state.residual.data(), entries);
  return out;
}

FeedbackState restore_feedback(std::span<const std::byte> saved) {
  require_state(saved.size() >= kFront, "it is cut short");
  require_state(std::memcmp(saved.data(), kMark.data(), 3) == 0, "its first bytes are not \"gfs\"");
  require_state(saved[3] == static_cast<std::byte>(kMark[3]), "it is of another version");
  std::array<std::uint64_t, 3> sizes;
  std::memcpy(sizes.data(), saved.data() + kMark.size(), sizeof sizes);
  const auto [entries, bucket, pairs] = sizes;
  const std::size_t rest = saved.size() - kFront;
  require_state(entries <= rest / sizeof(float) && pairs <= rest / sizeof(SignPair) &&
                    rest == entries * sizeof(float) + pairs * sizeof(SignPair),
                "its size is not what it claims");
  if (pairs > 0) {
    require_state(bucket > 0 && bucket % 32 == 0 && bucket <= wire::kBucketMax &&
                      pairs == wire::ceil_div(entries, bucket),
                  "its buckets do not cover its entries");
  }
  const std::byte* from = saved.data() + kFront;
  FeedbackState state;
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

}  // namespace gossamer::compress

#include <cmath>

#include "codecs.h"
#include "sign_buckets.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kBlock = 4096;  ///< entries that are worked on together

/// Bare signs, sign(0) = +1, decoded as ±1: what each peer sends in signSGD with majority vote, where the sum
/// over peers holds the vote (Bernstein et al. 2018, "signSGD: compressed optimisation for non-convex
/// problems", algorithm 2). Nothing of the vector's size is left: biased, and not contractive, since ±1 may
/// be far larger than what it stands for; it must not run under error feedback. Payload: header, ceil(n/8)
/// bytes of signs.
class SignVote final : public Codec {
 public:
  std::string spec() const override { return "sign_vote"; }
  std::string_view name() const override { return "sign_vote"; }
  Traits traits() const override { return {.votes = true}; }
  std::size_t max_bytes(std::size_t n) const override { return wire::kHeaderMax + wire::ceil_div(n, 8); }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace& workspace,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::Writer writer(out);
    writer.header(wire::CodecId::sign_vote, x.size());
    SignInput input(x, nullptr, kBlock);
    const auto check = [&](std::size_t b, BucketSums sums, std::span<const float> v) {
      if (!std::isfinite(sums.first)) input.require_finite(b * kBlock, v.size());
      return SignPair{};
    };
    scan_buckets(Sums::l1, input, kBlock, workspace.threads(), writer.skip(wire::ceil_div(x.size(), 8)),
                 check);
    return writer.size();
  }
};

}  // namespace

std::unique_ptr<const Codec> make_sign_vote(Parameters&) { return std::make_unique<SignVote>(); }

void decode_sign_vote(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  const std::size_t bytes = wire::ceil_div(acc.size(), 8);
  in.expect_left(bytes);
  add_buckets(in.take(bytes), kBlock, acc, threads, [&](std::size_t) { return SignPair{weight, -weight}; });
}

}  // namespace gossamer::compress

#include "codecs.h"
#include "floats.h"
#include "fused_codec.h"

namespace gossamer::compress {
namespace {

/// 16-bit floats (IEEE binary16), rounded to nearest even. Where the largest magnitude is outside the normal
/// range of a half, the vector is divided by a power of two 2^k that brings it into [2¹⁴, 2¹⁵): nothing
/// overflows, and a vector of tiny gradients does not vanish. Contractive: an entry is wrong by at most 2⁻¹¹
/// of itself (2⁻¹⁰ where it is the largest and k ≠ 0) or by 2⁻²⁵·2^k, and the largest entry is not lost.
/// Payload: header, 2 bytes k, n × binary16.
class Fp16 final : public FusedCodec {
 public:
  std::string spec() const override { return "fp16"; }
  std::string_view name() const override { return "fp16"; }
  Traits traits() const override {
    return {.contractive = true, .delta = 1 - 0x1p-22, .promised = 1 - 0x1p-22};
  }
  std::size_t max_bytes(std::size_t n) const override { return float_bytes(FloatFormat::fp16, n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_floats(FloatFormat::fp16, wire::CodecId::fp16, g, state, workspace, out);
  }
};

}  // namespace

std::unique_ptr<const Codec> make_fp16(Parameters&) { return std::make_unique<Fp16>(); }

void decode_fp16(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_floats(FloatFormat::fp16, in, weight, acc, threads);
}

}  // namespace gossamer::compress

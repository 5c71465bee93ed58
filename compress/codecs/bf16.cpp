#include "codecs.h"
#include "floats.h"
#include "fused_codec.h"

namespace gossamer::compress {
namespace {

/// The upper half of a 32-bit float (bfloat16), rounded to nearest even: float's range with 8 significant
/// bits (Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training"). Biased; contractive: an
/// entry of magnitude ≥ 2⁻¹²⁶ is wrong by at most 2⁻⁸ of itself; smaller ones by at most 2⁻¹³⁴, so that a
/// vector of nothing but such numbers may vanish. Payload: header, n × bfloat16.
class Bf16 final : public FusedCodec {
 public:
  std::string spec() const override { return "bf16"; }
  std::string_view name() const override { return "bf16"; }
  Traits traits() const override {
    return {.contractive = true, .delta = 1 - 0x1p-16, .promised = 1 - 0x1p-16};
  }
  std::size_t max_bytes(std::size_t n) const override { return float_bytes(FloatFormat::bf16, n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_floats(FloatFormat::bf16, wire::CodecId::bf16, g, state, workspace, out);
  }
};

}  // namespace

std::unique_ptr<const Codec> make_bf16(Parameters&) { return std::make_unique<Bf16>(); }

void decode_bf16(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_floats(FloatFormat::bf16, in, weight, acc, threads);
}

}  // namespace gossamer::compress

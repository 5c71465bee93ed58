#include "codecs.h"
#include "floats.h"
#include "fused_codec.h"

namespace gossamer::compress {
namespace {

/// 32-bit floats as they are. Payload: header, n × fp32.
class Dense final : public FusedCodec {
 public:
  std::string spec() const override { return "dense"; }
  std::string_view name() const override { return "dense"; }
  Traits traits() const override {
    return {.exact = true, .unbiased = true, .contractive = true, .delta = 1};
  }
  std::size_t max_bytes(std::size_t n) const override { return float_bytes(FloatFormat::fp32, n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_floats(FloatFormat::fp32, wire::CodecId::dense, g, state, workspace, out);
  }
};

}  // namespace

std::unique_ptr<const Codec> make_dense(Parameters&) { return std::make_unique<Dense>(); }

void decode_dense(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_floats(FloatFormat::fp32, in, weight, acc, threads);
}

}  // namespace gossamer::compress

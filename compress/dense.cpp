#include <cstring>

#include "codecs.h"

namespace gossamer::compress {
namespace {

/// 32-bit floats as they are. Payload: header, n × fp32.
class Dense final : public Codec {
 public:
  std::string spec() const override { return "dense"; }
  std::string_view name() const override { return "dense"; }
  Traits traits() const override { return {.exact = true, .unbiased = true, .contractive = true}; }
  std::size_t max_bytes(std::size_t n) const override { return wire::kHeaderMax + n * sizeof(float); }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace&,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::require_finite(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::dense, x.size());
    writer.bytes(x.data(), x.size_bytes());
    return writer.size();
  }
};

}  // namespace

std::unique_ptr<const Codec> make_dense(Parameters&) { return std::make_unique<Dense>(); }

void decode_dense(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  in.expect_left(acc.size_bytes());
  wire::add_f32(in.take(acc.size_bytes()), weight, acc);
}

}  // namespace gossamer::compress

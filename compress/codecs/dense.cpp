#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "codecs.h"
#include "float_kernels_inline.h"
#include "floats.h"
#include "fused_codec.h"
#include "half.h"

namespace gossamer::compress {
namespace {

/// 32-bit floats as they are. Payload: header, n × fp32.
class Dense final : public FusedCodec {
 public:
  std::string spec() const override { return "dense"; }
  std::string_view name() const override { return "dense"; }
  Traits traits() const override {
    return {.exact = true, .unbiased = true, .contractive = true, .delta = 1, .promised = 1};
  }
  std::size_t max_bytes(std::size_t n) const override { return float_bytes(FloatFormat::fp32, n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_floats(FloatFormat::fp32, wire::CodecId::dense, g, state, workspace, out);
  }
};

/// Entries that stay in the first-level cache.
constexpr std::size_t kBlock = 2048;

/// use(begin, size) of all slices of n entries, on any of the threads.
template <class Use>
void for_slices(std::size_t n, Threads* threads, const Use& use) {
  for_each_piece(threads, wire::ceil_div(n, kSlice),
                 [&](std::size_t s, std::size_t) { use(s * kSlice, std::min(kSlice, n - s * kSlice)); });
}

/// to ← what came
void read_floats(const std::byte* came, std::span<float> to) {
  if (!sum_floats(0, nullptr, came, to.size(), std::as_writable_bytes(to).data())) refuse_values();
}

/// Of n values the first that is not finite; n: there is none.
std::size_t first_not_finite(const std::byte* values, std::size_t n) {
  std::size_t i = 0;
  while (i < n && std::isfinite(plain::read_float(FloatFormat::fp32, FloatScale(), values, i))) ++i;
  return i;
}

}  // namespace

std::unique_ptr<const Codec> make_dense(Parameters&) { return std::make_unique<Dense>(); }

void read_dense(wire::Reader& in, std::span<float> acc, Threads* threads) {
  in.expect_left(acc.size_bytes());
  const std::byte* const values = in.take(acc.size_bytes()).data();
  for_slices(acc.size(), threads, [&](std::size_t begin, std::size_t size) {
    read_floats(values + begin * sizeof(float), acc.subspan(begin, size));
  });
}

void read_dense(wire::Reader& in, std::size_t n, const UseEntries& use, Threads* threads) {
  in.expect_left(n * sizeof(float));
  const std::byte* const values = in.take(n * sizeof(float)).data();
  for_slices(n, threads, [&](std::size_t begin, std::size_t size) {
    std::array<float, kBlock> block;
    for (std::size_t at = begin; at < begin + size; at += kBlock) {
      const auto entries = std::span<float>(block).first(std::min(kBlock, begin + size - at));
      read_floats(values + at * sizeof(float), entries);
      use(at, entries);
    }
  });
}

std::size_t write_dense_sum(wire::Reader* in, float factor, std::span<const float> x,
                            std::span<std::byte> out, Threads* threads) {
  const std::size_t n = x.size();
  if (in) in->expect_left(x.size_bytes());
  wire::require_room(out, float_bytes(FloatFormat::fp32, n));
  const std::byte* const came = in ? in->take(x.size_bytes()).data() : nullptr;
  wire::Writer writer(out);
  writer.header(wire::CodecId::dense, n);
  std::byte* const values = writer.skip(x.size_bytes());
  std::atomic<bool> finite = true;
  for_slices(n, threads, [&](std::size_t begin, std::size_t size) {
    const std::size_t at = begin * sizeof(float);
    if (!sum_floats(factor, x.data() + begin, came ? came + at : nullptr, size, values + at)) finite = false;
  });
  if (finite) return writer.size();
  if (came && first_not_finite(came, n) < n) refuse_values();
  const std::size_t i = first_not_finite(values, n);
  wire::refuse_entry(i, n, plain::read_float(FloatFormat::fp32, FloatScale(), values, i));
}

void check_dense(wire::Reader& in, std::size_t n) {
  in.expect_left(n * sizeof(float));
  if (!finite_floats(in.take(n * sizeof(float)).data(), n)) refuse_values();
}

void decode_dense(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_floats(FloatFormat::fp32, in, weight, acc, threads);
}

}  // namespace gossamer::compress

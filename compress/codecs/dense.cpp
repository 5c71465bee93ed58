#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "codecs.h"
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
    return {.exact = true, .unbiased = true, .contractive = true, .delta = 1};
  }
  std::size_t max_bytes(std::size_t n) const override { return float_bytes(FloatFormat::fp32, n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_floats(FloatFormat::fp32, wire::CodecId::dense, g, state, workspace, out);
  }
};

constexpr std::uint32_t kExponent = 0x7f800000;  ///< all of its bits set: NaN or Inf

/// Entries that stay in the first-level cache.
constexpr std::size_t kBlock = 2048;

template <class T>
std::span<T> slice(std::span<T> all, std::size_t s) {
  return all.subspan(s * kSlice, std::min(kSlice, all.size() - s * kSlice));
}
template <class T>
std::span<T> first(std::span<T> piece) {
  return piece.first(std::min(kBlock, piece.size()));
}
template <class T>
std::span<T> rest(std::span<T> piece) {
  return piece.subspan(std::min(kBlock, piece.size()));
}

/// block ← what came
void read_block(const std::byte* came, std::span<float> block) {
  std::fill(block.begin(), block.end(), 0.0f);
  if (!add_floats(FloatFormat::fp32, FloatScale(), came, 1, block.data(), block.size())) refuse_values();
}

}  // namespace

std::unique_ptr<const Codec> make_dense(Parameters&) { return std::make_unique<Dense>(); }

void read_dense(wire::Reader& in, std::span<float> acc, Threads* threads) {
  in.expect_left(acc.size_bytes());
  const std::byte* const values = in.take(acc.size_bytes()).data();
  for_each_piece(threads, wire::ceil_div(acc.size(), kSlice), [&](std::size_t s, std::size_t) {
    for (std::span<float> piece = slice(acc, s); !piece.empty(); piece = rest(piece)) {
      const std::span<float> block = first(piece);
      read_block(values + (block.data() - acc.data()) * sizeof(float), block);
    }
  });
}

void read_dense(wire::Reader& in, std::size_t n, const UseEntries& use, Threads* threads) {
  in.expect_left(n * sizeof(float));
  const std::byte* const values = in.take(n * sizeof(float)).data();
  for_each_piece(threads, wire::ceil_div(n, kSlice), [&](std::size_t s, std::size_t) {
    std::array<float, kBlock> block;
    const std::size_t end = std::min(n, (s + 1) * kSlice);
    for (std::size_t at = s * kSlice; at < end; at += kBlock) {
      const auto entries = std::span<float>(block).first(std::min(kBlock, end - at));
      read_block(values + at * sizeof(float), entries);
      use(at, entries);
    }
  });
}

std::size_t write_dense_sum(wire::Reader* in, float factor, std::span<const float> x,
                            std::span<std::byte> out, Threads* threads) {
  if (in) in->expect_left(x.size_bytes());
  wire::require_room(out, float_bytes(FloatFormat::fp32, x.size()));
  const std::byte* const came = in ? in->take(x.size_bytes()).data() : nullptr;
  wire::Writer writer(out);
  writer.header(wire::CodecId::dense, x.size());
  std::byte* const values = writer.skip(x.size_bytes());
  std::atomic<std::size_t> bad = x.size();
  for_each_piece(threads, wire::ceil_div(x.size(), kSlice), [&](std::size_t s, std::size_t) {
    std::array<float, kBlock> block;
    for (std::span<const float> piece = slice(x, s); !piece.empty(); piece = rest(piece)) {
      const std::span<const float> own = first(piece);
      const auto at = static_cast<std::size_t>(own.data() - x.data());
      const std::span<float> both(block.data(), own.size());
      std::transform(own.begin(), own.end(), both.begin(), [=](float v) { return factor * v + 0.0f; });
      if (came && !add_floats(FloatFormat::fp32, FloatScale(), came + at * sizeof(float), 1, both.data(),
                              both.size()))
        refuse_values();
      const std::size_t found = wire::first_not_finite(both);
      if (found != both.size())
        for (std::size_t first_bad = bad.load();
             at + found < first_bad && !bad.compare_exchange_weak(first_bad, at + found);) {
        }
      std::memcpy(values + at * sizeof(float), both.data(), both.size_bytes());
    }
  });
  if (const std::size_t i = bad.load(); i != x.size()) {
    float value;
    std::memcpy(&value, values + i * sizeof(float), sizeof value);
    wire::refuse_entry(i, x.size(), value);
  }
  return writer.size();
}

void check_dense(wire::Reader& in, std::size_t n) {
  in.expect_left(n * sizeof(float));
  const std::byte* const values = in.take(n * sizeof(float)).data();
  std::uint32_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, values + i * sizeof bits, sizeof bits);
    wrong |= (bits & kExponent) == kExponent ? 1u : 0u;
  }
  if (wrong != 0) refuse_values();
}

void decode_dense(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_floats(FloatFormat::fp32, in, weight, acc, threads);
}

}  // namespace gossamer::compress

#include "modulo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "hash.h"
#include "shared_blocks.h"

namespace gossamer::node {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr double kMostSteps = 0x1p50;
constexpr double kFollow = 255.0 / 256, kLeastScale = 0x1p-10;

/// Uniform in [0, 1) by key and index (the finaliser of SplitMix64).
double uniform(std::uint64_t key, std::size_t index) {
  std::uint64_t z = key + 0x9e3779b97f4a7c15u * (static_cast<std::uint64_t>(index) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 40) * 0x1p-24;
}

class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}
  void put(std::uint32_t value, int bits) {
    word_ |= value << filled_;
    for (filled_ += bits; filled_ >= 8; filled_ -= 8, word_ >>= 8)
      *out_++ = static_cast<std::byte>(word_ & 255);
  }
  void finish() {
    if (filled_ > 0) *out_ = static_cast<std::byte>(word_ & 255);
  }

 private:
  std::byte* out_;
  std::uint32_t word_ = 0;
  int filled_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* in) : in_(in) {}
  std::uint32_t get(int bits) {
    if (filled_ < bits) {
      word_ |= static_cast<std::uint32_t>(*in_++) << filled_;
      filled_ += 8;
    }
    const std::uint32_t value = word_ & ((1u << bits) - 1);
    word_ >>= bits;
    filled_ -= bits;
    return value;
  }

 private:
  const std::byte* in_;
  std::uint32_t word_ = 0;
  int filled_ = 0;
};

std::uint64_t hash_of(std::span<const std::int64_t> cells) { return hash_bytes(std::as_bytes(cells)); }

}  // namespace

std::size_t modulo_payload_bytes(std::size_t entries, int bits) {
  return sizeof(ModuloHeader) + (entries * static_cast<std::size_t>(bits) + 7) / 8;
}

ModuloHeader read_modulo_header(const Payload& payload) {
  ModuloHeader header;
  if (payload->size() >= sizeof header) std::memcpy(&header, payload->data(), sizeof header);
  return header;
}

void Modulo::run(const std::any& command, const SlotAt& at, const PostEvent& post) {
  const auto run_one = [&]<class Command>(const Command& o) {
    if constexpr (std::is_same_v<Command, op::ModuloEncode>)
      post(
          Encoded{o.round, o.parcel, 0, o.range.size, encode(o, at(o.src, o.range), at(o.rounded, o.range))});
    else if (!decode_add(o, at(o.near, o.range), at(o.rounded, o.range), at(o.sum, o.range)))
      post(Encoded{o.round, o.parcel, kModuloOverflow, 0, nullptr});
  };
  [[maybe_unused]] const bool known = visit_command<op::ModuloEncode, op::ModuloDecodeAdd>(command, run_one);
  assert(known);
}

void Modulo::archive(Archive archive) {
  archive.value("next", next_);
  archive.value("scale", scale_);
}

void Modulo::follow(Round round) {
  for (; next_ <= round; ++next_)
    scale_ = std::clamp(rate_(next_), std::max(scale_ * kFollow, kLeastScale), 1.0);
}

double Modulo::step(std::uint64_t doublings) const {
  return std::ldexp(bound_ * scale_, static_cast<int>(doublings) - bits_);
}

std::uint64_t Modulo::key(Round round, ParcelId parcel) const {
  const std::array<std::uint64_t, 2> counter{round, parcel};
  return hash_bytes(std::as_bytes(std::span(counter)), seed_);
}

Payload Modulo::encode(const op::ModuloEncode& o, std::span<const float> x, std::span<float> rounded) {
  assert(x.size() == rounded.size());
  follow(o.round);
  const double s = step(o.doublings);
  const std::uint64_t random = key(o.round, o.parcel);
  const std::size_t size = modulo_payload_bytes(x.size(), bits_);
  const ByteBlock block = take_readable_block(size);
  const auto bytes = block.bytes.first(size);
  BitWriter out(bytes.data() + sizeof(ModuloHeader));
  cells_.resize(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double r = uniform(random, k), at = static_cast<double>(x[k]) / s + r;
    if (!(std::abs(at) < kMostSteps))
      throw Diverged(fmt::format(
          "a parameter became {} in round {}, beyond what exchange.modulo_bound allows", x[k], o.round));
    const double cell = std::floor(at);
    cells_[k] = static_cast<std::int64_t>(cell);
    rounded[k] = static_cast<float>((cell + 0.5 - r) * s);
    out.put(static_cast<std::uint32_t>(cells_[k]) & ((1u << bits_) - 1), bits_);
  }
  out.finish();
  const ModuloHeader header{o.doublings, o.doubles_at, hash_of(cells_)};
  std::memcpy(bytes.data(), &header, sizeof header);
  return {block.owner, bytes};
}

bool Modulo::decode_add(const op::ModuloDecodeAdd& o, std::span<const float> x,
                        std::span<const float> rounded, std::span<float> sum) {
  const ModuloHeader header = read_modulo_header(o.payload);
  if (o.payload->size() != modulo_payload_bytes(x.size(), bits_))
    throw std::runtime_error(fmt::format("found {} bytes of moniqua's code, expected {}", o.payload->size(),
                                         modulo_payload_bytes(x.size(), bits_)));
  if (header.doublings != o.doublings) return false;
  const double s = step(o.doublings), cells = std::ldexp(1.0, bits_);
  const std::uint64_t random = key(o.round, o.parcel);
  BitReader in(o.payload->data() + sizeof header);
  cells_.resize(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double own = static_cast<double>(x[k]) / s + uniform(random, k) - 0.5;
    const double residue = static_cast<double>(in.get(bits_));
    const double up = planted_.is(Bug::residue_read_below) ? 0 : 0.5;  // to the nearest
    const double cell = residue + cells * std::floor((own - residue) / cells + up);
    cells_[k] = std::abs(cell) < kMostSteps ? static_cast<std::int64_t>(cell) : 0;
  }
  if (hash_of(cells_) != header.hash) return false;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto theirs = static_cast<float>((static_cast<double>(cells_[k]) + 0.5 - uniform(random, k)) * s);
    sum[k] += o.weight * (theirs - rounded[k]);
  }
  return true;
}

}  // namespace gossamer::node

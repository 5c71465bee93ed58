#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codecs.h"
#include "index_coding.h"
#include "sparse.h"

namespace gossamer::compress {
namespace {

/// Keeps the entries with |v| ≥ tau, exact values (Strom 2015, "Scalable distributed DNN training using
/// commodity GPU cloud computing", whose ±tau are here the values themselves). Biased. Surely ‖C[v]−v‖∞ <
/// tau, an absolute bound: under error feedback the residual never exceeds tau (Sahu et al. 2021, "Rethinking
/// gradient sparsification as total error minimization"). Not contractive in the sense of Traits: a vector
/// below tau is lost whole. Payload: header, varint count, and where that is not 0: u8 index form, the
/// indices (index_coding.h), count × fp32. Vectors under 2³² entries.
class Threshold final : public SparseCodec {
 public:
  Threshold(double tau, IndexCoding coding) : tau_(tau), cut_(least_float(tau)), coding_(coding) {}

  std::string spec() const override {
    return "threshold:tau=" + to_text(tau_) + ",coding=" + std::string(index_coding_name(coding_));
  }
  std::string_view name() const override { return "threshold"; }
  Traits traits() const override { return {.bounded = true, .sparse = true}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + wire::kVarintMax + 1 + indices_max_bytes(coding_, n, n) + n * sizeof(float);
  }

 private:
  Sent encode_sparse(const Source& v, SelectionState&, RandomKey, Workspace& workspace,
                     std::span<std::byte> out) const override {
    const std::size_t n = v.g.size();
    wire::require_room(out, max_bytes(n));
    wire::require_indexable(n, "threshold");
    const Selected selected = select_reaching(v, magnitude_bits(cut_), workspace);
    wire::Writer writer(out);
    writer.header(wire::CodecId::threshold, n);
    writer.varint(selected.indices.size());
    if (selected.indices.empty()) return {.bytes = writer.size()};
    const IndexPlan plan = plan_indices(coding_, selected.indices, n);
    writer.u8(static_cast<std::uint8_t>(plan.form));
    write_indices(writer, plan, selected.indices, n);
    const std::size_t front = writer.size();
    write_values(writer, ValueForm::fp32, selected.values);
    return {writer.size(), selected.indices, ValueForm::fp32, out.first(writer.size()).subspan(front)};
  }
  /// The least float that is not below tau.
  static float least_float(double tau) {
    const auto near = static_cast<float>(tau);
    return static_cast<double>(near) < tau ? std::nextafter(near, std::numeric_limits<float>::max()) : near;
  }

  double tau_;
  float cut_;
  IndexCoding coding_;
};

}  // namespace

std::unique_ptr<const Codec> make_threshold(Parameters& parameters) {
  const double tau = parameters.real("tau", 0.01, "a number above 0 within float's range", [](double t) {
    return t > 0 && t <= static_cast<double>(std::numeric_limits<float>::max());
  });
  return std::make_unique<Threshold>(tau, index_coding_parameter(parameters));
}

void decode_threshold(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::uint64_t count = in.varint();
  if (count == 0) return;
  if (count > acc.size()) {
    throw PayloadError("payload claims " + std::to_string(count) + " of " + std::to_string(acc.size()) +
                       " entries");
  }
  const unsigned form = in.u8();
  if (count > in.left() / sizeof(float)) throw PayloadError("payload truncated: fewer values than it claims");
  const auto k = static_cast<std::size_t>(count);
  IndexReader indices(in.take(in.left() - k * sizeof(float)), form, k, acc.size());
  std::array<std::uint32_t, IndexReader::kBlock> block;
  for (std::size_t j = 0; j < k; j += block.size()) {
    const auto part = std::span(block).first(std::min(block.size(), k - j));
    indices.read(part);
    for (const std::uint32_t i : part) acc[i] += weight * in.f32();
  }
  indices.finish();
}

}  // namespace gossamer::compress

#include <algorithm>
#include <array>

#include "codecs.h"
#include "index_coding.h"
#include "select_from.h"
#include "sign_buckets.h"
#include "sparse.h"

namespace gossamer::compress {
namespace {

ValueForm form_of(unsigned front) {
  const unsigned f = (front >> 6) | (front >> 5 & 1u) << 2;
  if (f >= kValueForms) throw PayloadError("payload holds an unknown form of values");
  return static_cast<ValueForm>(f);
}

/// The k = max(1, ⌈density·n⌉) entries of largest magnitude; ties go to the lowest index (Aji & Heafield
/// 2017, "Sparse communication for distributed gradient descent"). `select` is how they are found
/// (selection.h): the threshold methods keep between k and 1.5k. `values` is how they are sent
/// (sparse_values.h). Biased.
///
/// Contractive: with δ = k/n where values are fp32. With fp16 and int8 an entry's error is at most the entry
/// itself and that of the largest next to nothing; with sign and two_bit those sent lose no more than they
/// hold but for ‖·‖₁²/k of them. So δ is at least about 1/n, and in practice near k/n times what the form
/// keeps.
///
/// Payload: header, varint k, u8 index form and value form, the indices (index_coding.h), the values.
/// Vectors under 2³² entries.
class TopK final : public SparseCodec {
 public:
  TopK(double density, ValueForm form, Selection selection, IndexCoding coding)
      : density_(density), form_(form), selection_(selection), coding_(coding) {}

  std::string spec() const override {
    return "topk:density=" + to_text(density_) +
           ",values=" + std::string(value_form_names()[static_cast<std::size_t>(form_)]) +
           ",select=" + std::string(selection_names()[static_cast<std::size_t>(selection_)]) +
           ",coding=" + std::string(index_coding_name(coding_));
  }
  std::string_view name() const override { return "topk"; }
  Traits traits() const override {
    const bool coarse = form_ == ValueForm::sign || form_ == ValueForm::two_bit;
    return {
        .contractive = true, .delta = density_ * (coarse ? kEvenSigns : 1), .sparse = true, .largest = true};
  }

  std::size_t max_bytes(std::size_t n) const override {
    const std::size_t most = selection_max(selection_, kept(n), n);
    return wire::kHeaderMax + wire::kVarintMax + 1 + indices_max_bytes(coding_, most, n) +
           value_bytes(form_, most);
  }

 private:
  Sent encode_sparse(const Source& v, SelectionState& selection, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const override {
    const std::size_t n = v.g.size();
    wire::require_room(out, max_bytes(n));
    wire::require_indexable(n, "topk");
    wire::Writer writer(out);
    writer.header(wire::CodecId::topk, n);
    const Selected selected = select_from(selection_, v, kept(n), key, selection, workspace);
    writer.varint(selected.indices.size());
    if (n == 0) return {.bytes = writer.size()};
    const IndexPlan plan = plan_indices(coding_, selected.indices, n);
    writer.u8(static_cast<std::uint8_t>(static_cast<unsigned>(plan.form) | form_bits(form_)));
    write_indices(writer, plan, selected.indices, n);
    const std::size_t front = writer.size();
    write_values(writer, form_, selected.values);
    return {writer.size(), selected.indices, form_, out.first(writer.size()).subspan(front)};
  }

  std::size_t kept(std::size_t n) const { return kept_entries(density_, n); }

  double density_;
  ValueForm form_;
  Selection selection_;
  IndexCoding coding_;
};

}  // namespace

std::unique_ptr<const Codec> make_topk(Parameters& parameters) {
  const double density = parameters.real("density", 0.01, "a number above 0 and at most 1",
                                         [](double d) { return d > 0 && d <= 1; });
  const auto form = static_cast<ValueForm>(parameters.choice("values", value_form_names()));
  const auto selection = static_cast<Selection>(parameters.choice("select", selection_names()));
  return std::make_unique<TopK>(density, form, selection, index_coding_parameter(parameters));
}

void decode_topk(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::size_t n = acc.size();
  const std::uint64_t claimed = in.varint();
  if (claimed > n || (claimed == 0 && n > 0)) {
    throw PayloadError("payload claims " + std::to_string(claimed) + " of " + std::to_string(n) + " entries");
  }
  if (claimed == 0) return;
  const auto k = static_cast<std::size_t>(claimed);
  const unsigned front = in.u8();
  const auto form = form_of(front);
  // A claimed k beyond what is there ends here, before any loop.
  const std::size_t bytes = value_bytes(form, k);
  if (bytes > in.left()) throw PayloadError("payload truncated: fewer values than it claims");
  IndexReader indices(in.take(in.left() - bytes), front % kFrontIndexForms, k, n);
  ValueReader values(in.take(bytes), form, k);
  std::array<std::uint32_t, IndexReader::kBlock> block;
  for (std::size_t j = 0; j < k; j += block.size()) {
    const auto part = std::span(block).first(std::min(block.size(), k - j));
    indices.read(part);
    for (const std::uint32_t i : part) acc[i] += weight * values.next();
  }
  indices.finish();
  values.finish();
}

}  // namespace gossamer::compress

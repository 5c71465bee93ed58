#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

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

/// what(index, value) of each entry of a payload for n, whose header has been read.
template <class What>
void for_each_entry(wire::Reader& in, std::size_t n, const What& what) {
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
    for (const std::uint32_t i : part) what(i, values.next());
  }
  indices.finish();
  values.finish();
}

using Entry = FewEntries::Told;

/// put(entry) of those of a topk payload for n; gives how many they are. 0: it is another codec's, or has
/// more than `most`, or its indices do not ascend.
template <class Put>
std::size_t for_each_ascending(std::span<const std::byte> payload, std::size_t n, std::size_t most,
                               const Put& put) {
  wire::Reader in(payload);
  const wire::Header header = wire::read_header(in);
  if (header.id != static_cast<std::uint8_t>(wire::CodecId::topk) || header.entries != n) return 0;
  std::size_t count = 0;
  std::uint32_t last = 0;
  bool good = true;
  for_each_entry(in, n, [&](std::uint32_t i, float value) {
    good = good && count < most && (count == 0 || last < i);
    if (good) put(Entry{i, value});
    last = i;
    ++count;
  });
  return good ? count : 0;
}

/// The same, into `to`.
std::size_t list_entries(std::span<const std::byte> payload, std::size_t n, std::span<Entry> to) {
  auto next = to.begin();
  return for_each_ascending(payload, n, to.size(), [&](Entry e) { *next++ = e; });
}

/// a and b by index, added where both have one; as many as it returns, into `to`.
std::size_t add(std::span<const Entry> a, std::span<const Entry> b, std::span<Entry> to) {
  std::size_t count = 0;
  for (auto x = a.begin(), y = b.begin(); x != a.end() || y != b.end();) {
    Entry sum{0, 0.0f};
    const bool first = y == b.end() || (x != a.end() && x->index <= y->index);
    const bool second = x == a.end() || (y != b.end() && y->index <= x->index);
    if (first) sum = {x->index, sum.value + x->value}, ++x;
    if (second) sum = {y->index, sum.value + y->value}, ++y;
    to[count++] = sum;
  }
  return count;
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
    return {.contractive = true,
            .delta = density_ * (coarse ? kEvenSigns : 1),
            .promised = coarse ? 0 : density_,
            .sparse = true,
            .largest = true,
            .merges = selects_exactly(selection_)};
  }

  std::size_t max_bytes(std::size_t n) const override {
    const std::size_t most = selection_max(selection_, kept(n), n);
    return wire::kHeaderMax + wire::kVarintMax + 1 + indices_max_bytes(coding_, most, n) +
           value_bytes(form_, most);
  }

  /// Which entries are the largest is told by those of the two payloads, as all others are zero.
  std::optional<std::size_t> encode_sparse_sum(std::span<const std::byte> first,
                                               std::span<const std::byte> second, std::size_t n,
                                               Workspace& workspace, std::span<std::byte> out,
                                               LeftOut& left) const override {
    left.clear();
    if (!selects_exactly(selection_) || n == 0 || n > wire::kIndexedMax) return std::nullopt;
    wire::require_room(out, max_bytes(n));
    const std::size_t k = kept(n), most = 2 * k;  // a few more than k: of a peer of another density
    const auto entries = workspace.records<Entry>(4 * most);
    const auto a = entries.first(most), b = entries.subspan(most, most), sum = entries.subspan(2 * most);
    const std::size_t of_a = list_entries(first, n, a), of_b = list_entries(second, n, b);
    if (of_a == 0 || of_b == 0) return std::nullopt;
    const auto all = sum.first(add(a.first(of_a), b.first(of_b), sum));
    const auto threshold = kth_largest(all, k, workspace);
    if (!threshold) return std::nullopt;

    const auto indices = workspace.words(k);
    const auto values = workspace.floats(k);
    std::size_t above = 0;
    for (const Entry& e : all) above += magnitude_bits(e.value) > *threshold ? 1 : 0;
    std::size_t selected = 0, ties = k - above;
    for (const Entry& e : all) {
      const MagnitudeBits m = magnitude_bits(e.value);
      if (m > *threshold || (m == *threshold && ties > 0)) {
        if (m == *threshold) --ties;
        indices[selected] = e.index, values[selected++] = e.value;
      } else if (e.value != 0) {
        left.emplace_back(e.index, e.value);
      }
    }
    const Sent sent = write({indices, values}, n, out);
    ValueReader decoded(sent.values, sent.form, k);
    for (std::size_t j = 0; j < k; ++j)
      if (const float rest = values[j] - decoded.next(); rest != 0) left.emplace_back(indices[j], rest);
    return sent.bytes;
  }

 private:
  Sent encode_sparse(const Source& v, SelectionState& selection, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const override {
    const std::size_t n = v.g.size();
    wire::require_room(out, max_bytes(n));
    wire::require_indexable(n, "topk");
    return write(select_from(selection_, v, kept(n), key, selection, workspace), n, out);
  }

  Sent write(const Selected& selected, std::size_t n, std::span<std::byte> out) const {
    wire::Writer writer(out);
    writer.header(wire::CodecId::topk, n);
    writer.varint(selected.indices.size());
    if (n == 0) return {.bytes = writer.size()};
    const IndexPlan plan = plan_indices(coding_, selected.indices, n);
    writer.u8(static_cast<std::uint8_t>(static_cast<unsigned>(plan.form) | form_bits(form_)));
    write_indices(writer, plan, selected.indices, n);
    const std::size_t front = writer.size();
    write_values(writer, form_, selected.values);
    return {writer.size(), selected.indices, form_, out.first(writer.size()).subspan(front)};
  }

  /// None: fewer than k are not zero, or one is not finite.
  static std::optional<MagnitudeBits> kth_largest(std::span<const Entry> entries, std::size_t k,
                                                  Workspace& workspace) {
    if (entries.size() < k) return std::nullopt;
    const auto magnitudes = workspace.words(entries.size());
    std::transform(entries.begin(), entries.end(), magnitudes.begin(),
                   [](const Entry& e) { return magnitude_bits(e.value); });
    const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(magnitudes.begin(), kth, magnitudes.end(), std::greater<>());
    if (*kth == 0 || *std::max_element(magnitudes.begin(), kth + 1) >= kInfinityBits) return std::nullopt;
    return *kth;
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

bool add_few(std::span<const WeightedPayload> payloads, std::size_t n, FewEntries& sum) {
  constexpr std::size_t kLeastShare = 16, kBlock = 4096;
  sum.indices.clear(), sum.values.clear();
  std::vector<Entry>& all = sum.told;
  all.clear();
  struct Cursor {
    std::size_t next, end;  ///< of all
    float weight;
  };
  std::vector<Cursor> cursors;
  for (const WeightedPayload& p : payloads) {
    const std::size_t begin = all.size(), most = n / kLeastShare - begin;
    if (for_each_ascending(p.payload, n, most, [&](Entry e) { all.push_back(e); }) == 0) return false;
    cursors.push_back({begin, all.size(), p.weight});
  }
  // a stretch of the vector after the other, in which the payloads add up in order
  std::array<float, kBlock> block{};
  std::array<std::uint64_t, kBlock / 64> set{};
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    for (Cursor& c : cursors)
      for (; c.next < c.end && all[c.next].index < begin + kBlock; ++c.next) {
        const std::size_t i = all[c.next].index - begin;
        block[i] += c.weight * all[c.next].value;
        set[i / 64] |= std::uint64_t{1} << i % 64;
      }
    for (std::size_t w = 0; w < set.size(); ++w)
      for (; set[w] != 0; set[w] &= set[w] - 1) {
        const std::size_t i = 64 * w + static_cast<std::size_t>(std::countr_zero(set[w]));
        sum.indices.push_back(static_cast<std::uint32_t>(begin + i));
        sum.values.push_back(std::exchange(block[i], 0.0f));
      }
  }
  return true;
}

void decode_topk(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  for_each_entry(in, acc.size(), [&](std::uint32_t i, float value) { acc[i] += weight * value; });
}

}  // namespace gossamer::compress

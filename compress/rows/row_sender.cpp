#include <algorithm>
#include <cmath>
#include <string>

#include "key_index.h"
#include "row_payload.h"
#include "row_state.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

constexpr StateMark kSenderMark = {'g', 'r', 's', 1};
constexpr std::size_t kMostWidth = 4096, kLeastUnsent = 16, kMostNumbered = std::size_t{1} << 31;
/// By how much log τ changes in a message that sends none of what it should, or twice as much.
constexpr double kThresholdStep = 0.1;
constexpr std::uint32_t kDrawsOfPart = 2;  ///< streams of random numbers: of its two groups of columns
/// Part of the rows that makes way at a time.
constexpr std::size_t kFlushedPart = 16;
/// Rows that changed by more than so many times the mean are outliers: about 3 % of those sent. One bit each
/// sends the others with an error of about 1 % of the energy; under a scale shared with outliers it was 14 to
/// 86 %, most where peers' labels are skewed, as a key of every sample then changes by a hundred thresholds a
/// round (tests/bench/bench_touched).
constexpr double kOutlier = 2;
constexpr std::size_t kOutlierPart = 16;  ///< part of the rows sent that outliers are at most, being dear
/// By how much more than τ a row changes until its key is sent for the first time: that takes about 60 bits,
/// the number of a known one some 8. Fewer new keys, for as many more of the others, save a twelfth of all
/// bytes where peers' keys differ, for .001 of AUC (tests/bench/bench_touched, Dirichlet, seed 3).
constexpr double kNewKey = 1.2;

void require_rows(bool good, const std::string& what) {
  if (!good) throw CodecError("rows: " + what);
}

float magnitude(const float* row, std::size_t width) {
  float most = 0;
  for (std::size_t k = 0; k < width; ++k) most = std::max(most, std::abs(row[k]));
  return most;
}

}  // namespace

void check_rows_spec(const RowsSpec& spec) {
  require_rows(spec.width >= 1 && spec.width <= kMostWidth,
               "found a width of " + std::to_string(spec.width) + ", expected 1 to 4096");
  require_rows(spec.linear <= spec.width, "found more linear floats than a row has");
  require_rows(spec.density > 0 && spec.density <= 1,
               "found a density of " + std::to_string(spec.density) + ", expected more than 0 and at most 1");
  require_rows(spec.most_unsent >= kLeastUnsent && spec.most_unsent < UINT32_MAX,
               "found room for " + std::to_string(spec.most_unsent) + " unsent rows, expected at least 16");
  require_rows(spec.most_numbered <= kMostNumbered, "expected at most 2^31 numbered keys");
  const auto codec = make_codec(spec.codec);
  const Traits traits = codec->traits();
  if (!traits.exact && (!traits.feedback() || traits.sparse || traits.votes))
    throw CodecError("found codec '" + codec->spec() +
                     "' for rows, expected one whose rest may be kept for later and that sends every entry: "
                     "dense, fp16, bf16, onebit_scaled, qsgd, intq");
}

struct RowSender::Impl {
  explicit Impl(const RowsSpec& s) : spec(s), codec(make_codec(s.codec)), dense(make_codec(kDense)) {}

  const RowsSpec spec;
  std::unique_ptr<const Codec> codec, dense;
  KeyIndex unsent, numbers;
  std::vector<std::uint64_t> keys, numbered;  ///< by row; by number
  std::vector<float> rows;                    ///< e
  std::vector<std::uint64_t> touched;         ///< the message before which; 0: the row is free
  std::vector<std::uint32_t> free, candidates;
  std::uint64_t message = 1;
  double threshold = 0;
  RowCounters counters;
  std::vector<std::uint32_t> chosen, large, outliers;
  RowPart part;

  float* row(std::uint32_t r) { return &rows[r * spec.width]; }

  std::uint32_t make_row(std::uint64_t key) {
    std::uint32_t r;
    if (free.empty()) {
      r = static_cast<std::uint32_t>(keys.size());
      keys.push_back(key);
      touched.push_back(0);
      rows.resize(rows.size() + spec.width);
    } else {
      r = free.back();
      free.pop_back();
      keys[r] = key;
    }
    std::fill_n(row(r), spec.width, 0.0f);
    unsent.insert(key, r);
    return r;
  }

  void drop(std::uint32_t r) {
    unsent.erase(keys[r]);
    touched[r] = 0;
    free.push_back(r);
  }

  void add(std::span<const std::uint64_t> those, std::span<const float> values) {
    for (std::size_t i = 0; i < those.size(); ++i) {
      const auto found = unsent.find(those[i]);
      const std::uint32_t r = found ? *found : make_row(those[i]);
      const float* v = &values[i * spec.width];
      float* e = row(r);
      for (std::size_t k = 0; k < spec.width; ++k) e[k] += v[k];
      if (touched[r] != message) candidates.push_back(r);
      touched[r] = message;
    }
  }

  /// Whether a row that has changed by so much is sent: later where its key is to go in full.
  bool is_due(double changed, std::uint64_t key) const {
    if (changed < threshold) return false;
    return changed / kNewKey >= threshold || numbers.find(key).has_value();
  }
  /// Also that a row was touched and has not changed: others' optimisers count that as its own does.
  bool tells_all() const { return spec.density >= 1 && codec->traits().exact; }
  /// Of the touched rows those that have changed enough.
  void choose() {
    chosen.clear();
    std::vector<float> scores(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) scores[i] = magnitude(row(candidates[i]), spec.width);
    if (threshold == 0 && spec.density < 1 && !scores.empty()) {
      std::vector<float> sorted = scores;
      const auto place = static_cast<std::size_t>((1 - spec.density) * static_cast<double>(sorted.size()));
      const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(place, sorted.size() - 1));
      std::nth_element(sorted.begin(), at, sorted.end());
      threshold = static_cast<double>(*at) / kNewKey;  // all are new
    }
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (scores[i] == 0 && !tells_all())
        drop(candidates[i]);
      else if (is_due(static_cast<double>(scores[i]), keys[candidates[i]]))
        chosen.push_back(candidates[i]);
    const double due = spec.density * static_cast<double>(candidates.size()),
                 excess = (static_cast<double>(chosen.size()) - due) / std::max(1.0, due);
    if (spec.density < 1) threshold *= std::exp(kThresholdStep * std::clamp(excess, -1.0, 1.0));
    counters.touched += candidates.size();
    counters.sent += chosen.size();
    candidates.clear();
  }

  /// The chosen rows by how much they have changed. What many rows have in common, such as a scale, fits each
  /// group, and an outlier spoils it for none.
  void group() {
    large.clear();
    outliers.clear();
    if (codec->traits().exact) return;
    double sum = 0;
    for (const std::uint32_t r : chosen) sum += size(r);
    const double mean = sum / static_cast<double>(chosen.size());
    const std::size_t most = chosen.size() / kOutlierPart + 1;
    take_beyond(kOutlier * mean, outliers);
    keep_largest(most);
    take_beyond(mean, large);
  }
  double size(std::uint32_t r) { return static_cast<double>(magnitude(row(r), spec.width)); }
  /// Moves the chosen rows beyond the bound, in their order.
  void take_beyond(double bound, std::vector<std::uint32_t>& taken) {
    const auto at = std::stable_partition(chosen.begin(), chosen.end(),
                                          [&](std::uint32_t r) { return size(r) <= bound; });
    taken.assign(at, chosen.end());
    chosen.erase(at, chosen.end());
  }
  /// Of the outliers; the others are chosen rows as before.
  void keep_largest(std::size_t most) {
    if (outliers.size() <= most) return;
    const auto at = outliers.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(outliers.begin(), at, outliers.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(size(a), keys[a]) > std::pair(size(b), keys[b]);
    });
    chosen.insert(chosen.end(), at, outliers.end());
    outliers.erase(at, outliers.end());
  }

  /// The rows that have not been touched for longest, where too many are unsent.
  void choose_oldest() {
    chosen.clear();
    if (unsent.size() <= spec.most_unsent) return;
    for (std::uint32_t r = 0; r < keys.size(); ++r)
      if (touched[r] != 0) chosen.push_back(r);
    const std::size_t leave = spec.most_unsent - spec.most_unsent / kFlushedPart;
    const std::size_t count = chosen.size() - leave;
    const auto older = [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(touched[a], keys[a]) < std::pair(touched[b], keys[b]);
    };
    std::nth_element(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(count - 1), chosen.end(),
                     older);
    chosen.resize(count);
  }
  /// What is sent whole: the oldest, and the outliers, which may be among them.
  void choose_whole() {
    choose_oldest();
    chosen.insert(chosen.end(), outliers.begin(), outliers.end());
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    counters.flushed += chosen.size() - outliers.size();
  }

  /// Numbered ones first, each group ascending; values are e.
  void fill_part() {
    part.clear();
    std::vector<std::pair<std::uint32_t, std::uint32_t>> known;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> others;
    for (const std::uint32_t r : chosen)
      if (const auto number = numbers.find(keys[r]))
        known.emplace_back(*number, r);
      else
        others.emplace_back(keys[r], r);
    std::sort(known.begin(), known.end());
    std::sort(others.begin(), others.end());
    chosen.clear();
    for (const auto& [number, r] : known) part.numbers.push_back(number), chosen.push_back(r);
    for (const auto& [key, r] : others) part.keys.push_back(key), chosen.push_back(r);
    for (const std::uint32_t r : chosen) part.values.insert(part.values.end(), row(r), row(r) + spec.width);
    counters.introduced += part.keys.size();
  }

  void send(const Codec& with, RandomKey key, Workspace& workspace, std::vector<std::byte>& out,
            std::vector<std::pair<std::uint64_t, std::size_t>>* sent, std::vector<float>& sent_values) {
    fill_part();
    write_row_part(spec, with, key, workspace, part, out);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const std::uint32_t r = chosen[i];
      float* e = row(r);
      const float* v = &part.values[i * spec.width];
      for (std::size_t k = 0; k < spec.width; ++k) e[k] -= v[k];
      if (sent) {
        sent->emplace_back(keys[r], sent_values.size());
        sent_values.insert(sent_values.end(), v, v + spec.width);
      }
      if (magnitude(e, spec.width) == 0) drop(r);
    }
    give_numbers(spec, part.keys, numbered);
    for (std::size_t n = numbers.size(); n < numbered.size(); ++n)
      numbers.insert(numbered[n], static_cast<std::uint32_t>(n));
  }
};

RowSender::RowSender(const RowsSpec& spec) {
  check_rows_spec(spec);
  impl_ = std::make_unique<Impl>(spec);
}
RowSender::~RowSender() = default;
RowSender::RowSender(RowSender&&) noexcept = default;

void RowSender::add(std::span<const std::uint64_t> keys, std::span<const float> values) {
  if (const std::size_t bad = wire::first_not_finite(values); bad < values.size())
    wire::refuse_entry(bad, values.size(), values[bad]);
  impl_->add(keys, values);
}

std::vector<std::byte> RowSender::encode(RandomKey key, Workspace& workspace, RowChanges* sent) {
  Impl& s = *impl_;
  std::vector<std::byte> out{static_cast<std::byte>(kRowsVersion)};
  std::vector<std::pair<std::uint64_t, std::size_t>> places;
  std::vector<float> values;
  auto* const to = sent ? &places : nullptr;
  s.choose();
  s.group();
  s.send(*s.codec, key, workspace, out, to, values);
  s.chosen.swap(s.large);
  key.layer += kDrawsOfPart;
  s.send(*s.codec, key, workspace, out, to, values);
  s.choose_whole();
  s.send(*s.dense, key, workspace, out, to, values);
  s.counters.bytes += out.size();
  ++s.message;
  if (sent) sort_changes(places, values, s.spec.width, *sent);
  return out;
}

const RowCounters& RowSender::counters() const { return impl_->counters; }

void RowSender::visit(const std::function<void(std::uint64_t, std::span<const float>)>& visitor) const {
  const Impl& s = *impl_;
  for (std::size_t r = 0; r < s.keys.size(); ++r)
    if (s.touched[r] != 0) visitor(s.keys[r], std::span(s.rows).subspan(r * s.spec.width, s.spec.width));
}

// A saved sender: the mark; f64 threshold, u64 message; the counters; the numbered keys; rows as keys,
// when touched, and floats, in the order of their places.
std::vector<std::byte> RowSender::save() const {
  const Impl& s = *impl_;
  StateWriter out(kSenderMark);
  out.put(s.threshold);
  out.put(s.message);
  out.put(s.counters);
  out.put_all(s.numbered);
  std::vector<std::uint64_t> keys, touched;
  std::vector<float> rows;
  visit([&](std::uint64_t key, std::span<const float> e) {
    keys.push_back(key);
    rows.insert(rows.end(), e.begin(), e.end());
  });
  for (const std::uint64_t t : s.touched)
    if (t != 0) touched.push_back(t);
  out.put_all(keys);
  out.put_all(touched);
  out.put_all(rows);
  std::vector<std::uint64_t> candidates;
  for (const std::uint32_t r : s.candidates) candidates.push_back(s.keys[r]);
  out.put_all(candidates);
  return out.take();
}

void RowSender::restore(std::span<const std::byte> saved) {
  StateReader in(saved, kSenderMark);
  auto s = std::make_unique<Impl>(impl_->spec);
  in.get(s->threshold);
  in.get(s->message);
  in.get(s->counters);
  in.get_all(s->numbered);
  std::vector<std::uint64_t> keys, touched, candidates;
  std::vector<float> rows;
  in.get_all(keys);
  in.get_all(touched);
  in.get_all(rows);
  in.get_all(candidates);
  in.finish();
  require_saved(std::isfinite(s->threshold) && s->threshold >= 0 && s->message > 0,
                "its threshold or number is none");
  require_saved(touched.size() == keys.size() && rows.size() == keys.size() * s->spec.width,
                "its rows are of another number or width");
  require_saved(s->numbered.size() <= s->spec.most_numbered && wire::first_not_finite(rows) == rows.size(),
                "it holds too many numbers, or floats that are not finite");
  for (std::size_t n = 0; n < s->numbered.size(); ++n) {
    require_saved(!s->numbers.find(s->numbered[n]), "it numbers a key twice");
    s->numbers.insert(s->numbered[n], static_cast<std::uint32_t>(n));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    require_saved(!s->unsent.find(keys[i]) && touched[i] > 0 && touched[i] <= s->message,
                  "it holds a row twice, or one of a later message");
    const std::uint32_t r = s->make_row(keys[i]);
    s->touched[r] = touched[i];
    std::copy_n(&rows[i * s->spec.width], s->spec.width, s->row(r));
  }
  for (const std::uint64_t key : candidates) {
    const auto r = s->unsent.find(key);
    require_saved(r.has_value(), "it names a row that it has not");
    s->candidates.push_back(*r);
  }
  impl_ = std::move(s);
}

}  // namespace gossamer::compress

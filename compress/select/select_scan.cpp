#include "select_scan.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <string>

#include "select_kernels_inline.h"
#include "select_sample.h"
#include "sums.h"
#include "wire.h"

// Scratch of the calling thread: three areas, each with room for a list and one group more. A pass of one
// thread lists in area 0; lists of several threads stand in area 0 of each and are joined in area 1; area 2
// is for what is made of a list.
namespace gossamer::compress {
namespace {

/// Thrown and caught here.
struct NotFinite {};

constexpr std::size_t kAreas = 3;

/// The rank-th largest magnitude of v: bit by bit the largest that as many reach. No branch on an entry.
MagnitudeBits nth_by_counting(std::span<const float> v, std::size_t rank) {
  MagnitudeBits nth = 0;
  for (MagnitudeBits bit = 1u << 30; bit > 0; bit >>= 1) {
    if (count_reaching(v, nth | bit) >= rank) nth |= bit;
  }
  return nth;
}

constexpr std::size_t kProbe = 1024;

/// The rank-th largest magnitude of v. list has room for all of v and a group.
MagnitudeBits nth_magnitude(std::span<const float> v, std::size_t rank, EntryList list) {
  assert(rank >= 1 && rank <= v.size());
  // Where few are wanted of many: those that reach one of a probe are few as well.
  if (v.size() > 2 * kProbe && rank < v.size() / 8) {
    std::array<float, kProbe> probe;
    for (std::size_t j = 0; j < kProbe; ++j) probe[j] = v[j * (v.size() / kProbe)];
    const double mean = static_cast<double>(rank) * kProbe / static_cast<double>(v.size());
    const auto surely = static_cast<std::size_t>(mean + 3 * std::sqrt(mean) + 2);
    const MagnitudeBits enough = nth_by_counting(probe, std::min(surely + 1, kProbe));
    list.size = 0;
    if (emit_reaching({.g = v}, enough, 0, list).count >= rank) v = {list.values, list.size};
  }
  return nth_by_counting(v, rank);
}

}  // namespace

Scan::Scan(const Source& source, std::size_t room, Workspace& workspace, std::size_t sample)
    : source_(source),
      room_(std::min(room, source.g.size())),
      capacity_(room_ + 2 * kListGroup),
      pieces_(wire::ceil_div(source.g.size(), kSlice)),
      workspace_(workspace) {
  reserve(sample);
}

void Scan::reserve(std::size_t sample) {
  words_ = workspace_.words(std::max(kAreas * capacity_, sample + kListGroup));
  floats_ = workspace_.more_floats(std::max(kAreas * capacity_, 2 * (sample + kListGroup)));
  complete_ = complete_ && sample == 0;
}

EntryList Scan::area(std::size_t index) const {
  return {words_.data() + index * capacity_, floats_.data() + index * capacity_, room_ + kListGroup, 0,
          false};
}

void Scan::work_on(std::size_t index, std::size_t thread, MagnitudeBits threshold, bool sums) {
  const std::size_t start = index * kSlice, count = std::min(kSlice, size() - start);
  const Source part = source_.part(start, count);
  EntryList& list = records_[thread].list;
  Piece& piece = records_[index].piece;
  piece.thread = thread;
  piece.begin = list.size;
  const Emitted emitted =
      emit_reaching(part, threshold, static_cast<std::uint32_t>(start), list, sums ? &piece.sums : nullptr);
  piece.end = list.size;
  piece.count = emitted.count;
  piece.formed = emitted.formed;
  if (emitted.formed < count) throw NotFinite{};
}

std::size_t Scan::run(MagnitudeBits threshold, bool sums) {
  ++passes_;
  Threads* const team = workspace_.threads();
  const std::size_t threads = team == nullptr ? 1 : team->count();
  if (source_.sum != nullptr && pieces_ == 1) refuse_slice();
  records_ = workspace_.records<Record>(std::max(pieces_, threads));
  records_[0].list = area(0);
  for (std::size_t i = 1; i < threads && pieces_ > 1; ++i) {
    Workspace& own = workspace_.of(i);
    records_[i].list = {own.words(capacity_).data(), own.more_floats(capacity_).data(), room_ + kListGroup, 0,
                        false};
  }
  try {
    for_each_piece(team, pieces_,
                   [&](std::size_t index, std::size_t thread) { work_on(index, thread, threshold, sums); });
  } catch (const NotFinite&) {
    refuse();
  }
  if (source_.sum != nullptr) source_ = {.g = {source_.sum, size()}};
  std::size_t count = 0;
  for (const Record& record : records_.first(pieces_)) count += record.piece.count;
  complete_ = count <= room_;
  floor_ = threshold;
  if (complete_) join(count);
  return count;
}

void Scan::join(std::size_t count) {
  list_ = records_[0].list;
  if (list_.size == count) return;
  list_ = area(1);
  for (const Record& record : records_.first(pieces_)) {
    const EntryList& from = records_[record.piece.thread].list;
    const std::size_t listed = record.piece.end - record.piece.begin;
    std::copy_n(from.indices + record.piece.begin, listed, list_.indices + list_.size);
    std::copy_n(from.values + record.piece.begin, listed, list_.values + list_.size);
    list_.size += listed;
  }
}

void Scan::refuse_slice() const {
  if (all_finite(source_)) return;
  std::size_t i = 0;
  while (std::isfinite(source_.at(i))) ++i;
  wire::refuse_entry(i, size(), source_.at(i));
}

void Scan::refuse() {
  // Pieces start in order, so that the first that stopped short holds the first bad entry.
  std::size_t i = 0;
  for (std::size_t p = 0; p < pieces_; ++p) {
    i = p * kSlice + records_[p].piece.formed;
    if (records_[p].piece.formed < std::min(kSlice, size() - p * kSlice)) break;
  }
  while (std::isfinite(source_.at(i))) ++i;
  const float found = source_.at(i);
  if (source_.sum != nullptr) take_back();
  wire::refuse_entry(i, size(), found);
}

void Scan::take_back() {
  for (std::size_t p = 0; p < pieces_; ++p) {
    const Source part = source_.part(p * kSlice, records_[p].piece.formed);
    for (std::size_t i = 0; i < part.g.size(); ++i) {
      part.sum[i] -= part.velocity == nullptr ? part.g[i] : part.velocity[i];
      if (part.velocity == nullptr) continue;
      part.velocity[i] = part.momentum == 0 ? 0 : (part.velocity[i] - part.g[i]) / part.momentum;
    }
  }
}

std::size_t Scan::count(MagnitudeBits threshold) {
  if (!lists(threshold)) return run(threshold, false);
  return count_reaching({list_.values, list_.size}, threshold);
}

Moments Scan::moments(MagnitudeBits threshold) {
  (void)run(threshold, true);
  plain::MomentTree tree;
  for (const Record& record : records_.first(pieces_)) tree.add(record.piece.sums);
  const MomentSums sums = tree.total();
  const auto n = static_cast<double>(size());
  const float largest = std::bit_cast<float>(sums.largest);
  double mean = sums.sum / n, magnitude = sums.l1 / n;
  if (!std::isfinite(sums.l1)) {  // and the sum perhaps
    mean = sum_in_lanes(vector(), [](double v) { return v; }) / n;
    magnitude = sum_in_lanes(vector(), [](double v) { return std::fabs(v); }) / n;
  }
  return moments_of(mean, magnitude, sums.l2_squared, size(), largest);
}

MagnitudeBits Scan::sampled_threshold(double wanted, bool surely, double weight, std::uint64_t draw) {
  const Sample plan = plan_sample(size(), wanted, surely, weight);
  if (plan.runs == 0) return 0;
  const std::size_t sample = plan.entries();
  reserve(sample);
  for (std::size_t j = 0; j < plan.runs; ++j) {
    const std::size_t start = start_of_run(size(), plan.runs, draw, j);
    for (std::size_t i = 0; i < kSampleRun; ++i) floats_[j * kSampleRun + i] = source_.at(start + i);
  }
  if (plan.rank == 0) return 0;
  const EntryList scratch{words_.data(), floats_.data() + sample + kListGroup, sample + kListGroup, 0, false};
  return nth_magnitude(floats_.first(sample), plan.rank, scratch);
}

Cut Scan::cut_in_list(std::size_t k) {
  const std::span<const float> values(list_.values, list_.size);
  const MagnitudeBits kth = nth_magnitude(values, k, area(2));
  return {kth, k - count_reaching(values, kth + 1)};
}

Selected Scan::take(Cut cut) {
  assert(lists(cut.threshold));
  std::size_t size = 0;
  for (std::size_t j = 0; j < list_.size; ++j) {
    const MagnitudeBits m = magnitude_bits(list_.values[j]);
    list_.indices[size] = list_.indices[j];
    list_.values[size] = list_.values[j];
    const bool tie = m == cut.threshold && cut.ties > 0;
    cut.ties -= tie ? 1 : 0;
    size += m > cut.threshold || tie ? 1 : 0;
  }
  list_.size = size;
  return {{list_.indices, size}, {list_.values, size}};
}

Selected Scan::take_with_ties(Cut cut) {
  assert(lists(cut.threshold + 1));
  const EntryList above = list_;
  EntryList ties = area(2), both = area(above.indices == area(0).indices ? 1 : 0);
  (void)emit_equal(vector(), cut.threshold, cut.ties, 0, ties);
  ties.size = std::min(ties.size, cut.ties);
  for (std::size_t a = 0, t = 0; a < above.size || t < ties.size;) {
    const bool from_ties = t < ties.size && (a == above.size || ties.indices[t] < above.indices[a]);
    plain::append(both, from_ties ? ties.indices[t] : above.indices[a],
                  from_ties ? ties.values[t] : above.values[a]);
    ++(from_ties ? t : a);
  }
  return {{both.indices, both.size}, {both.values, both.size}};
}

}  // namespace gossamer::compress

#include "churn_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "method.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kLastViews = 4;
/// Of run.partition_timeout: clocks may be fast.
constexpr double kShareWaited = 0.85;
constexpr double kMeanError = 1e-5, kWeightError = 0.02;

}  // namespace

void ChurnSides::take_most(Held& all, const Held& more) {
  for (const auto& [start, rounds] : more) all[start] = std::max(all[start], rounds);
}

ChurnSides::ChurnSides(const Prepared& prepared, Findings& findings)
    : prepared_(prepared),
      findings_(findings),
      one_side_(prepared.job.run.on_partition != "continue" ||
                begins_alike(find_method(prepared.job.exchange.method))),
      under_way_(rounds_under_way(prepared.job)),
      processes_(prepared.job.peers.size()) {}

bool ChurnSides::Side::has(const Start& start) const {
  for (std::size_t k = 0; k < places.size(); ++k)
    if (places[k] == start.first && starts[k] == start.second) return true;
  return false;
}

void ChurnSides::on_start(PeerId peer, std::uint64_t start) {
  processes_[peer] = {};
  processes_[peer].start = start;
}

void ChurnSides::on_enter(PeerId peer, const ViewObserver::Entry& entry, const std::vector<PeerId>& places) {
  Process& process = processes_[peer];
  std::weak_ptr<Side>& known = sides_[{entry.view.id(), entry.view.attempt}];
  std::shared_ptr<Side> side = known.lock();
  if (!side) {
    known = side = std::make_shared<Side>();
    side->places = places;
    side->share = entry.share;
    const double each = entry.prepared.total_samples > 0 ? static_cast<double>(prepared_.job.peers.size()) /
                                                               static_cast<double>(places.size())
                                                         : 1;
    side->rounds_per_share = each * static_cast<double>(entry.prepared.rounds);
    for (const Seat& seat : entry.view.seats) side->starts.push_back(seat.start);
  }
  process.side = side;
  process.left_side = false;
  if (entry.view.seats.front().start == 0) return;  // the first: nobody brings anything
  // what a newcomer has is of the moment at which it fetched it
  side->guessed |= process.left.empty();
  for (const PeerId p : places) {  // its model has theirs, too, and they may not come to enter the view
    const Process& other = processes_[p];
    if (other.left.empty() || other.left.back().side == side) continue;
    if (p != peer && other.left.back().side != other.side) continue;  // it has gone on since
    take_most(side->held, other.left.back().side->left);
    side->guessed |= other.left.back().side->guessed;
  }
}

void ChurnSides::on_round(PeerId peer) {
  Process& process = processes_[peer];
  if (process.side->began < 0) begin(*process.side);
  process.trained = process.side;
  process.last_round = findings_.time;
}

void ChurnSides::begin(Side& side) {
  side.began = findings_.time;
  double last = 0;
  for (std::size_t k = 0; k < side.places.size(); ++k) {
    const Process& p = processes_[side.places[k]];
    if (side.starts[k] == 0) side.starts[k] = p.start;  // of the first view, before which not all are known
    if (p.start != side.starts[k] || !p.trained) continue;
    last = std::max(last, p.last_round);
    side.before.insert(p.trained);
  }
  side.waited = side.began - last;
  if (one_side_) check_others(side);
  for (const auto& before : side.before) before->before.clear();  // no further back than that
}

/// Of two that come from one view, none of whose members has ended.
void ChurnSides::check_others(const Side& side) {
  const double timeout = kShareWaited * prepared_.job.run.partition_timeout;
  for (const Process& process : processes_) {
    const Side* other = process.trained.get();
    if (process.gone || process.left_side || !other || process.side != process.trained || other == &side)
      continue;
    if (side.waited >= timeout || other->waited >= timeout) continue;
    const bool apart = std::none_of(side.places.begin(), side.places.end(), [&](PeerId p) {
      return std::count(other->places.begin(), other->places.end(), p) > 0;
    });
    for (const auto& before : side.before) {
      bool all_live = true;
      for (std::size_t k = 0; k < before->places.size(); ++k)
        all_live &=
            !processes_[before->places[k]].gone && processes_[before->places[k]].start == before->starts[k];
      if (apart && all_live && other->before.contains(before))
        findings_.report("sides",
                         fmt::format("{} peers and {} others go on at the same time, {:.2f} and {:.2f} s "
                                     "after they parted; run.partition_timeout is {:g} s",
                                     side.places.size(), other->places.size(), side.waited, other->waited,
                                     prepared_.job.run.partition_timeout));
    }
  }
}

void ChurnSides::on_leave(PeerId peer, double share, std::span<const float> parameters) {
  Process& process = processes_[peer];
  Side& side = *process.side;
  const auto rounds =
      static_cast<std::uint64_t>(std::llround(side.rounds_per_share * std::max(0.0, share - side.share)));
  Held held = side.held;
  for (std::size_t k = 0; k < side.places.size(); ++k) held[{side.places[k], side.starts[k]}] += rounds;
  take_most(side.left, held);
  process.left_side = true;
  process.left.push_back({process.side, {parameters.begin(), parameters.end()}});
  if (process.left.size() > kLastViews) process.left.pop_front();
  process.merges.clear();
}

void ChurnSides::on_merge(PeerId peer, const std::vector<std::pair<PeerId, double>>& weights) {
  processes_[peer].merges = weights;
}

bool ChurnSides::check_merged(PeerId peer, std::span<const float> parameters) {
  Process& process = processes_[peer];
  if (process.merges.empty()) return false;
  ++merged_;
  if (!is_mean(peer, parameters))
    findings_.report("merge",
                     fmt::format("{} goes on from another model than the mean of what {} sides had, by "
                                 "the samples that each has seen",
                                 prepared_.job.peers[peer].name, process.merges.size()));
  process.merges.clear();
  return true;
}

/// Several of them: the checker does not know in which order they parted.
bool ChurnSides::is_mean(PeerId peer, std::span<const float> parameters) const {
  const Process& process = processes_[peer];
  double sum = 0;
  for (const auto& [from, weight] : process.merges) sum += weight;
  if (std::abs(sum - 1) > kMeanError || process.left.empty()) return false;
  if (process.merges.size() > 2) return true;
  const Left& own = process.left.back();
  const double weight = process.merges[1].second;
  return std::any_of(
      processes_[process.merges[1].first].left.begin(), processes_[process.merges[1].first].left.end(),
      [&](const Left& other) {
        const auto [least, most] = weights_of(peer, own.side->left, other.side->left);
        const bool known = !own.side->guessed && !other.side->guessed;
        if (known && (weight < least - kWeightError || weight > most + kWeightError)) return false;
        for (std::size_t k = 0; k < parameters.size(); ++k) {
          const double mean = (1 - weight) * static_cast<double>(own.parameters[k]) +
                              weight * static_cast<double>(other.parameters[k]);
          if (std::abs(static_cast<double>(parameters[k]) - mean) > kMeanError * (1 + std::abs(mean)))
            return false;
        }
        return true;
      });
}

/// What each has taken in since they parted is known but for what was under way when they left; and starts
/// that are not of the view that begins may count.
std::pair<double, double> ChurnSides::weights_of(PeerId peer, const Held& own, const Held& other) const {
  const Side& side = *processes_[peer].side;
  const auto slack = static_cast<double>(under_way_);
  double most_ours = 0, least_ours = 0, most_theirs = 0, least_theirs = 0;
  const auto count = [&](double more, bool of_view, double& least, double& most) {
    if (of_view && more - slack > slack) least += more - slack;
    if (more > 0) most += more + slack;
  };
  std::set<Start> starts;
  for (const Held* held : {&own, &other})
    for (const auto& [start, rounds] : *held) starts.insert(start);
  for (const Start& start : starts) {
    const auto of = [&](const Held& held) {
      return held.contains(start) ? static_cast<double>(held.at(start)) : 0.0;
    };
    const double more = of(own) - of(other);
    count(more, side.has(start), least_ours, most_ours);
    count(-more, side.has(start), least_theirs, most_theirs);
  }
  const auto share = [](double theirs, double ours) { return theirs > 0 ? theirs / (theirs + ours) : 0; };
  return {share(least_theirs, most_ours), share(most_theirs, least_ours)};
}

}  // namespace gossamer::node

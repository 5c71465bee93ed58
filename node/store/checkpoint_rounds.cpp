#include "checkpoint_rounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace gossamer::node {
namespace {

struct FigureSense {
  std::string_view name;
  bool higher;  ///< is better
};
/// By how much they say of a model.
constexpr std::array kSenses{FigureSense{"accuracy", true}, FigureSense{"auc", true},
                             FigureSense{"loss", false}, FigureSense{"log_loss", false}};

bool judged(const optim::Figures& figures) {
  return std::ranges::any_of(kSenses, [&](const FigureSense& sense) {
    const auto value = optim::find_figure(figures, sense.name);
    return value && !std::isnan(*value);
  });
}

}  // namespace

std::vector<CompleteRound> complete_rounds(std::span<const CheckpointEntry> entries,
                                           std::span<const std::string> but) {
  std::map<std::pair<Round, std::uint64_t>, std::map<std::string, const CheckpointEntry*>> found;
  for (const CheckpointEntry& entry : entries)
    found[{entry.head.round, entry.head.run}].emplace(entry.head.peer, &entry);
  std::vector<CompleteRound> complete;
  for (const auto& [key, by_peer] : found) {
    const std::vector<std::string>& peers = by_peer.begin()->second->head.peers;
    CompleteRound round{key.first, key.second, {}};
    std::size_t left_out = 0;
    for (const std::string& peer : peers)
      if (std::find(but.begin(), but.end(), peer) != but.end())
        ++left_out;
      else if (const auto at = by_peer.find(peer); at != by_peer.end() && at->second->head.peers == peers)
        round.entries.push_back(*at->second);
    if (!round.entries.empty() && round.entries.size() + left_out == peers.size())
      complete.push_back(std::move(round));
  }
  return complete;
}

bool better(const optim::Figures& a, const optim::Figures& b) {
  for (const auto& [name, higher] : kSenses) {
    const auto x = optim::find_figure(a, name), y = optim::find_figure(b, name);
    if (x && y) return higher ? *x > *y : *x < *y;
  }
  return false;
}

optim::Figures mean_figures(std::span<const CheckpointEntry> entries) {
  std::map<std::string, std::pair<double, double>> sums;  // and how many
  for (const CheckpointEntry& entry : entries)
    for (const optim::Figure& figure : entry.head.figures) {
      sums[figure.name].first += figure.value;
      sums[figure.name].second += 1;
    }
  optim::Figures mean;
  for (const auto& [name, sum] : sums) mean.push_back({name, sum.first / sum.second});
  return mean;
}

std::optional<std::size_t> best_of(std::span<const CompleteRound> rounds) {
  std::optional<std::size_t> best;
  optim::Figures best_figures;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    optim::Figures figures = mean_figures(rounds[i].entries);
    if (!judged(figures) || (best && better(best_figures, figures))) continue;
    best = i;
    best_figures = std::move(figures);
  }
  return best;
}

std::vector<Round> superfluous(const std::vector<Round>& rounds, std::optional<Round> common,
                               std::size_t keep, std::optional<Round> best) {
  std::set<Round> kept;
  std::size_t common_kept = 0, later_kept = 0;
  for (auto at = rounds.rbegin(); at != rounds.rend(); ++at) {
    std::size_t& count = common && *at <= *common ? common_kept : later_kept;
    if (count < keep) {
      kept.insert(*at);
      ++count;
    }
  }
  if (best) kept.insert(*best);
  std::vector<Round> result;
  std::ranges::copy_if(rounds, std::back_inserter(result), [&](Round r) { return !kept.contains(r); });
  return result;
}

}  // namespace gossamer::node

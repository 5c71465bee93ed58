#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "gossamer/optim/data.h"
#include "names.h"
#include "splits.h"

namespace gossamer::optim {
namespace {

using Factory = std::unique_ptr<Deal> (*)(SplitInput);
constexpr std::array<Row<Factory>, 4> kSplits{{
    {{"local_shuffle", "a fixed shard per peer, shuffled each epoch"}, make_local_shuffle},
    {{"with_replacement", "every row drawn from the whole set"}, make_with_replacement},
    {{"global_shuffle", "reshuffled across the peers each epoch"}, make_global_shuffle},
    {{"dirichlet", "dirichlet:ALPHA, shards with label skew; the smaller ALPHA > 0, the more skew"},
     make_dirichlet},
}};
constexpr auto kHelp = help_of(kSplits);

struct Parsed {
  Factory make;
  double alpha;
};

/// "name" or "dirichlet:alpha".
Parsed parse(std::string_view kind) {
  const std::size_t colon = kind.find(':');
  const auto& row = find_row(kSplits, "data split", kind.substr(0, colon));
  const bool has_argument = colon != std::string_view::npos;
  if (row.make != make_dirichlet) {
    if (has_argument)
      throw OptimError("data split: found \"" + std::string(kind) + "\", expected \"" + row.entry.name +
                       "\" without an argument");
    return {row.make, 0};
  }
  const std::string_view text = has_argument ? kind.substr(colon + 1) : std::string_view();
  double alpha = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  const bool number = has_argument && error == std::errc() && end == text.data() + text.size();
  if (!number || !std::isfinite(alpha) || alpha < 1e-6 || alpha > 1e9)
    throw OptimError("data split: found \"" + std::string(kind) +
                     "\", expected \"dirichlet:ALPHA\" with ALPHA from 1e-6 to 1e9, e.g. dirichlet:0.3");
  return {row.make, alpha};
}

/// The peers are those that the rows were dealt to at first.
bool at_home(const SplitSpec& spec) {
  if (spec.homes.empty()) return true;
  assert(spec.names.size() == spec.batches.size());
  return std::equal(spec.names.begin(), spec.names.end(), spec.homes.begin(), spec.homes.end(),
                    [](const std::string& name, const RowHome& home) { return name == home.name; });
}

void look_for_homes(const SplitSpec& spec, SplitInput& in) {
  std::vector<RowHome> peers;
  for (std::size_t p = 0; p < spec.names.size(); ++p) peers.push_back({spec.names[p], spec.batches[p]});
  const auto among = std::make_shared<Rendezvous>(spec.seed, spec.homes, peers);
  for (std::size_t p = 0; p < peers.size(); ++p) {
    const std::size_t home = among->home_of(p);
    const bool beyond = home == among->homes();
    if (beyond && spec.stays) refuse_to_stay(peers[p].name);
    in.ids.push_back(beyond ? hash_name(peers[p].name) : home);
  }
  in.among = among;
  in.stays = spec.stays;
}

}  // namespace

std::size_t SplitInput::total_batch() const {
  return std::accumulate(batches.begin(), batches.end(), std::size_t{0});
}

std::size_t SplitInput::steps_per_epoch() const { return std::max<std::size_t>(1, rows / total_batch()); }

SplitInput SplitInput::at_home() const {
  SplitInput home{seed, among->home_batches(), data, alpha};
  return home;
}

void refuse_to_stay(const std::string& name) {
  throw OptimError(
      "data split: found peer \"" + name +
      "\", which no rows were dealt to, and rows that are private; expected peers that have some");
}

std::span<const NamedHelp> split_table() { return kHelp; }

void check_split(std::string_view kind, bool stays) {
  const Parsed parsed = parse(kind);
  if (stays && parsed.make != make_local_shuffle && parsed.make != make_dirichlet)
    throw OptimError("data split: found \"" + std::string(kind) +
                     "\", by which all rows are everybody's, and rows that are private; expected "
                     "\"local_shuffle\" or \"dirichlet:ALPHA\"");
}

Split::Split(const SplitSpec& spec, std::shared_ptr<const Dataset> data) {
  check_split(spec.kind, spec.stays);
  assert(data != nullptr);
  if (std::find(spec.batches.begin(), spec.batches.end(), std::size_t{0}) != spec.batches.end())
    throw OptimError("data split: found a peer with a batch of 0 rows, expected at least 1");
  const std::size_t most = std::max(spec.batches.size(), spec.homes.size());
  if (data->rows() < most)
    throw OptimError("data split: found " + std::to_string(data->rows()) + " rows for " +
                     std::to_string(most) + " peers, expected at least one row per peer");
  const Parsed parsed = parse(spec.kind);
  SplitInput in{spec.seed, spec.batches, std::move(data), parsed.alpha};
  if (!at_home(spec)) look_for_homes(spec, in);
  deal_ = parsed.make(std::move(in));
}
Split::~Split() = default;
Split::Split(Split&&) noexcept = default;

std::unique_ptr<Sampler> Split::sampler(std::size_t peer) const { return deal_->sampler(peer); }
std::unique_ptr<Sampler> Split::sampler(std::size_t peer, std::uint64_t first_step, RowsLeft left) const {
  auto sampler = deal_->sampler(peer);
  sampler->go_on(first_step, std::move(left));
  return sampler;
}

std::unique_ptr<Sampler> make_sampler(const SplitSpec& spec, std::shared_ptr<const Dataset> data,
                                      std::size_t peer) {
  return Split(spec, std::move(data)).sampler(peer);
}

}  // namespace gossamer::optim

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

}  // namespace

std::size_t SplitInput::total_batch() const {
  return std::accumulate(batches.begin(), batches.end(), std::size_t{0});
}

std::size_t SplitInput::steps_per_epoch() const {
  return std::max<std::size_t>(1, data->rows() / total_batch());
}

std::span<const NamedHelp> split_table() { return kHelp; }

void check_split(std::string_view kind) { parse(kind); }

Split::Split(const SplitSpec& spec, std::shared_ptr<const Dataset> data) {
  const Parsed parsed = parse(spec.kind);
  assert(data != nullptr);
  if (std::find(spec.batches.begin(), spec.batches.end(), std::size_t{0}) != spec.batches.end())
    throw OptimError("data split: found a peer with a batch of 0 rows, expected at least 1");
  if (data->rows() < spec.batches.size())
    throw OptimError("data split: found " + std::to_string(data->rows()) + " rows for " +
                     std::to_string(spec.batches.size()) + " peers, expected at least one row per peer");
  deal_ = parsed.make({spec.seed, spec.batches, std::move(data), parsed.alpha});
}
Split::~Split() = default;
Split::Split(Split&&) noexcept = default;

std::unique_ptr<Sampler> Split::sampler(std::size_t peer) const { return deal_->sampler(peer); }

std::unique_ptr<Sampler> make_sampler(const SplitSpec& spec, std::shared_ptr<const Dataset> data,
                                      std::size_t peer) {
  return Split(spec, std::move(data)).sampler(peer);
}

}  // namespace gossamer::optim

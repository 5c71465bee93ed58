#include "rate_features.h"

#include <algorithm>
#include <cmath>

namespace gossamer::optim {
namespace {

constexpr std::uint64_t kNeverShown = rate_key(0);  ///< rates themselves are not observed

float log_odds(float rate) { return std::log(rate / (1 - rate)); }

}  // namespace

void RateFeatures::add(const Table& table, const SparseBatch& from, SparseBatch& batch) {
  float all = 0, unseen = 0;
  table.click_rates(std::span(&kBiasKey, 1), std::span(&all, 1));
  table.click_rates(std::span(&kNeverShown, 1), std::span(&unseen, 1));
  rates_.resize(from.keys().size());
  table.click_rates(from.keys(), rates_);
  for (float& rate : rates_) rate = rate == unseen ? 0.0f : log_odds(rate) - log_odds(all);
  batch.clear(from.has_bias());
  for (std::size_t b = 0; b < from.size(); ++b) {
    keys_.clear();
    fields_.clear();
    values_.clear();
    const std::uint32_t begin = from.begins()[b], end = from.begins()[b + 1];
    for (std::uint32_t e = begin; e < end; ++e) {
      keys_.push_back(from.keys()[from.index()[e]]);
      fields_.push_back(from.fields()[e]);
      values_.push_back(from.values()[e]);
    }
    present_ = fields_;  // numbers of fields may be millions, but not of a sample's
    std::sort(present_.begin(), present_.end());
    present_.erase(std::unique(present_.begin(), present_.end()), present_.end());
    sums_.assign(present_.size(), 0.0f);
    counts_.assign(present_.size(), 0.0f);
    for (std::uint32_t e = begin; e < end; ++e) {
      const auto at = std::lower_bound(present_.begin(), present_.end(), from.fields()[e]) - present_.begin();
      sums_[static_cast<std::size_t>(at)] += rates_[from.index()[e]];
      ++counts_[static_cast<std::size_t>(at)];
    }
    for (std::size_t f = 0; f < present_.size(); ++f) {
      keys_.push_back(rate_key(present_[f]));
      fields_.push_back(present_[f]);
      values_.push_back(sums_[f] / counts_[f]);
    }
    batch.add({keys_, fields_, values_, from.labels()[b], from.hashes()[b], from.positions()[b]});
  }
}

void RateFeatures::observe(Table& table, const SparseBatch& batch) {
  keys_.clear();
  clicked_.clear();
  for (std::size_t b = 0; b < batch.size(); ++b) {
    keys_.push_back(kBiasKey);
    clicked_.push_back(batch.labels()[b]);
    for (std::uint32_t e = batch.begins()[b]; e < batch.begins()[b + 1]; ++e) {
      keys_.push_back(batch.keys()[batch.index()[e]]);
      clicked_.push_back(batch.labels()[b]);
    }
  }
  table.observe(keys_, clicked_);
}

}  // namespace gossamer::optim

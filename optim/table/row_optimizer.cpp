#include "row_optimizer.h"

#include <algorithm>
#include <array>
#include <string>

#include "names.h"

namespace gossamer::optim {
namespace {

constexpr std::array<RowOptimizerPart, 4> kRowOptimizers{{
    {{"ftrl", "FTRL-proximal: rates per weight, exact zeros by l1", 2, "learning_rate, beta, l1, l2"},
     make_row_ftrl,
     false},
    {{"adagrad", "n += g², w -= rate·g/(√n + epsilon)", 2, "learning_rate, epsilon"}, make_row_adagrad},
    {{"sgd", "w -= rate·g", 1, "learning_rate"}, make_row_sgd},
    {{"adam", "lazy: a row's moments move when it has a gradient", 3, "learning_rate, beta1, beta2, epsilon"},
     make_row_adam,
     true,
     true},
}};
static_assert(std::all_of(kRowOptimizers.begin(), kRowOptimizers.end(),
                          [](const RowOptimizerPart& part) { return part.info.floats <= kMostColumns; }));
constexpr auto kRowOptimizerInfos = [] {
  std::array<RowOptimizerInfo, kRowOptimizers.size()> infos{};
  for (std::size_t i = 0; i < infos.size(); ++i) infos[i] = kRowOptimizers[i].info;
  return infos;
}();

}  // namespace

std::span<const RowOptimizerInfo> row_optimizer_table() { return kRowOptimizerInfos; }

const RowOptimizerPart& find_row_optimizer(const std::string& name) {
  std::array<NamedHelp, kRowOptimizers.size()> known{};
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (name == kRowOptimizers[i].info.name) return kRowOptimizers[i];
    known[i] = {kRowOptimizers[i].info.name, kRowOptimizers[i].info.help};
  }
  throw_unknown("table optimizer", name, known);
}

void WeightsInFront::start(float* row, std::span<const float> weights) const {
  std::fill(std::copy(weights.begin(), weights.end(), row), row + floats_ * weights.size(), 0.0f);
}

void WeightsInFront::read(const float* row, std::span<float> weights) const {
  std::copy_n(row, weights.size(), weights.data());
}

void WeightsInFront::add(float* row, std::span<const float> deltas) const {
  for (std::size_t i = 0; i < deltas.size(); ++i) row[i] += deltas[i];
}

}  // namespace gossamer::optim

#pragma once
// CodecSchedule tells which codec a layer goes through in a round.
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data_plane.h"
#include "gossamer/compress/codec.h"
#include "gossamer/compress/feedback.h"
#include "gossamer/node/exchange_settings.h"

namespace gossamer::node {

/// The job's codec, with another density where a layer has its own and in the epochs of the warm-up; dense
/// in the first exchange.dense_rounds, and for layers that are a state or too small to gain by it. Payloads
/// describe themselves, so that only the sender needs to know. Immutable; peers may share it.
class CodecSchedule {
 public:
  CodecSchedule(const ExchangeSettings& exchange, const std::vector<optim::Layer>& layers,
                std::uint64_t rounds_per_epoch);
  const compress::Codec& at(Round round, std::size_t layer) const;
  /// Whether at gives the dense codec in every round, the layer being a state or too small.
  bool always_dense(std::size_t layer) const { return small_[layer]; }
  /// Each codec that at or dense may give.
  std::vector<const compress::Codec*> all() const;
  /// What goes dense whatever the layer.
  const compress::Codec& dense() const { return *dense_; }

 private:
  double density(std::uint64_t epoch, double settled) const;
  void add(double density);

  std::unique_ptr<const compress::Codec> codec_, dense_;
  std::optional<std::vector<double>> warmup_;  ///< empty optional: a quarter each epoch
  std::uint64_t rounds_per_epoch_, dense_rounds_;
  std::vector<bool> small_;      ///< by layer: goes dense
  std::vector<double> settled_;  ///< by layer: density after the warm-up; empty where the codec has none
  std::map<double, std::unique_ptr<const compress::Codec>> by_density_;
};

/// Density in a canonical spec of topk or randk; none where the codec has no density.
std::optional<double> density_of(const std::string& spec);

}  // namespace gossamer::node

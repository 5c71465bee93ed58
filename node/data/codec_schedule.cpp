#include "codec_schedule.h"

#include <algorithm>
#include <cassert>

#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::string_view kDensity = "density=";

}  // namespace

std::optional<double> density_of(const std::string& spec) {
  const std::size_t at = spec.find(kDensity);
  if (at == std::string::npos) return std::nullopt;
  return std::stod(spec.substr(at + kDensity.size()));
}

CodecSchedule::CodecSchedule(const ExchangeSettings& exchange, const std::vector<optim::Layer>& layers,
                             std::uint64_t rounds_per_epoch)
    : codec_(compress::make_codec(exchange.codec)),
      dense_(compress::make_codec(compress::kDense)),
      warmup_(exchange.density_warmup),
      rounds_per_epoch_(rounds_per_epoch),
      dense_rounds_(exchange.dense_rounds) {
  assert(rounds_per_epoch > 0);
  std::vector<compress::LayerDensity> rules;
  for (const auto& [name, density] : exchange.layer_density) rules.push_back({name, 0, density});
  const auto shared = density_of(codec_->spec());
  for (const optim::Layer& l : layers) {
    small_.push_back(l.state || compress::stays_dense(*codec_, l.size, exchange.dense_below));
    if (!shared) continue;
    const double settled = compress::density_of_layer(rules, l.name, l.size, *shared);
    settled_.push_back(settled);
    add(settled);
    const std::size_t listed = warmup_ ? warmup_->size() : 0;
    for (std::uint64_t epoch = 0; epoch < listed || density(epoch, settled) > settled; ++epoch)
      add(density(epoch, settled));
  }
}

const compress::Codec& CodecSchedule::at(Round round, std::size_t layer) const {
  if (round < dense_rounds_ || small_[layer]) return *dense_;
  if (settled_.empty()) return *codec_;
  return *by_density_.at(density(round / rounds_per_epoch_, settled_[layer]));
}

std::vector<const compress::Codec*> CodecSchedule::all() const {
  std::vector<const compress::Codec*> codecs{dense_.get()};
  if (settled_.empty()) codecs.push_back(codec_.get());
  for (const auto& [density, codec] : by_density_) codecs.push_back(codec.get());
  return codecs;
}

double CodecSchedule::density(std::uint64_t epoch, double settled) const {
  if (!warmup_) return compress::warm_up_density(epoch, settled);
  return epoch < warmup_->size() ? std::max((*warmup_)[epoch], settled) : settled;
}

void CodecSchedule::add(double density) {
  std::string spec = codec_->spec();
  const std::size_t begin = spec.find(kDensity) + kDensity.size();
  spec.replace(begin, std::min(spec.find(',', begin), spec.size()) - begin, number_text(density));
  by_density_[density] = compress::make_codec(spec);
}

}  // namespace gossamer::node

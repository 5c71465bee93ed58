#include "shapes.h"

#include <map>

namespace gossamer::node {

std::vector<std::shared_ptr<const Shape>> shapes_of(const Prepared& p) {
  const Job& job = p.job;
  std::vector<std::shared_ptr<const Shape>> shapes;
  if (!job.heterogeneous()) return shapes;
  std::map<std::vector<std::size_t>, std::shared_ptr<const Shape>> made;
  for (const auto& peer : job.peers) {
    auto& shape = made[job.hidden_of(peer)];
    if (!shape) {
      Shape s{job.model, {}, {}, {}};
      s.model.hidden = job.hidden_of(peer);
      const auto objective = optim::make_model(s.model);
      s.layers = objective->layers();
      AlignedFloats initial(objective->buffer_size());
      objective->initialise(job.run.seed, initial);
      s.initial = std::move(initial);
      shape = std::make_shared<const Shape>(std::move(s));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

std::vector<std::shared_ptr<const Shape>> with_codecs(const Prepared& p) {
  std::map<const Shape*, std::shared_ptr<const Shape>> made;
  std::vector<std::shared_ptr<const Shape>> shapes;
  for (const auto& old : p.shapes) {
    auto& shape = made[old.get()];
    if (!shape) {
      Shape s = *old;
      s.codecs = std::make_shared<const CodecSchedule>(p.job.exchange, s.layers, p.rounds_per_epoch);
      shape = std::make_shared<const Shape>(std::move(s));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

SharedList<SharedList<Parcel>> parcels_by_peer(const Prepared& p) {
  std::map<const Shape*, SharedList<Parcel>> made;
  std::vector<SharedList<Parcel>> all;
  for (const auto& shape : p.shapes) {
    SharedList<Parcel>& parcels = made[shape.get()];
    if (parcels.empty()) parcels = make_parcels(shape->layers, p.job.exchange.parcel);
    all.push_back(parcels);
  }
  return all;
}

}  // namespace gossamer::node

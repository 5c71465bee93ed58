// Rings and orders by local search.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gossamer/topology/placement.h"

namespace gossamer::topology {
namespace {

/// A tour and what its edges cost, raised to a power so that the dearest weigh more and more.
class Tour {
 public:
  Tour(const LinkTable& links, double bytes) : peers_(links.peers()), cost_(peers_ * peers_) {
    for (PeerId a = 0; a < peers_; ++a)
      for (PeerId b = 0; b < peers_; ++b)
        if (a != b) cost_[a * peers_ + b] = links.seconds(a, b, bytes);
    powered_ = cost_;
  }

  void start(PeerId first) {  // nearest neighbour
    order_.assign(1, first);
    std::vector<bool> used(peers_, false);
    used[first] = true;
    while (order_.size() < peers_) {
      PeerId best = 0;
      double least = INFINITY;
      for (PeerId p = 0; p < peers_; ++p)
        if (const double c = cost_[order_.back() * peers_ + p]; !used[p] && c < least) {
          least = c;
          best = p;
        }
      used[best] = true;
      order_.push_back(best);
    }
  }

  void set_power(double power) {
    const double unit = std::max(dearest(), 1e-300);
    std::transform(cost_.begin(), cost_.end(), powered_.begin(),
                   [&](double c) { return std::pow(c / unit, power); });
  }

  void improve() {
    for (bool better = true; better;) {
      better = false;
      for (std::size_t i = 0; i + 1 < peers_; ++i)
        for (std::size_t j = i + 1; j < peers_; ++j) better = reverse(i, j) || better;
      for (std::size_t length = 1; length <= 3 && length + 2 < peers_; ++length)
        for (std::size_t i = 0; i < peers_; ++i) better = move(i, length) || better;
    }
  }

  double dearest() const {
    double most = 0;
    for (std::size_t i = 0; i < peers_; ++i)
      most = std::max(most, cost_[order_[i] * peers_ + order_[(i + 1) % peers_]]);
    return most;
  }
  double sum() const {
    double total = 0;
    for (std::size_t i = 0; i < peers_; ++i) total += cost_[order_[i] * peers_ + order_[(i + 1) % peers_]];
    return total;
  }
  const Order& order() const { return order_; }

 private:
  static constexpr double kGain = 1e-9;  ///< of an edge of unit cost: less is rounding

  double edge(std::size_t i, std::size_t j) const {  // between places, which wrap around
    return powered_[order_[i % peers_] * peers_ + order_[j % peers_]];
  }

  /// 2-opt: the places i … j the other way round.
  bool reverse(std::size_t i, std::size_t j) {
    if (i == 0 && j + 1 == peers_) return false;
    const std::size_t before = (i + peers_ - 1) % peers_, after = (j + 1) % peers_;
    if (edge(before, j) + edge(i, after) > edge(before, i) + edge(j, after) - kGain) return false;
    std::reverse(order_.begin() + static_cast<std::ptrdiff_t>(i),
                 order_.begin() + static_cast<std::ptrdiff_t>(j) + 1);
    return true;
  }

  /// Or-opt: the `length` peers from place i on, between two others, either way round.
  bool move(std::size_t i, std::size_t length) {
    std::rotate(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(i), order_.end());
    const std::size_t last = length - 1;  // the segment is places 0 … last now
    const double taken_out =
        edge(peers_ - 1, 0) + edge(last, last + 1) - edge(peers_ - 1, last + 1);  // saved by that
    for (std::size_t k = last + 1; k + 1 < peers_; ++k) {
      const double gap = edge(k, k + 1);
      const bool turned = edge(k, last) + edge(0, k + 1) < edge(k, 0) + edge(last, k + 1);
      const double put_in =
          turned ? edge(k, last) + edge(0, k + 1) - gap : edge(k, 0) + edge(last, k + 1) - gap;
      if (put_in > taken_out - kGain) continue;
      const auto segment_end = order_.begin() + static_cast<std::ptrdiff_t>(length);
      if (turned) std::reverse(order_.begin(), segment_end);
      std::rotate(order_.begin(), segment_end, order_.begin() + static_cast<std::ptrdiff_t>(k) + 1);
      return true;
    }
    return false;
  }

  std::size_t peers_;
  std::vector<double> cost_, powered_;
  Order order_;
};

}  // namespace

Order cheap_ring(const LinkTable& links, double bytes) {
  constexpr std::size_t kMostStarts = 8;
  Tour tour(links, bytes);
  Order best;
  std::pair<double, double> least{INFINITY, INFINITY};
  for (PeerId first = 0; first < std::min(links.peers(), kMostStarts); ++first) {
    tour.start(first);
    for (const double power : {1.0, 2.0, 4.0, 8.0, 16.0, 64.0}) {
      tour.set_power(power);
      tour.improve();
      if (const std::pair cost{tour.dearest(), tour.sum()}; cost < least) {
        least = cost;
        best = tour.order();
      }
    }
  }
  std::rotate(best.begin(), std::find(best.begin(), best.end(), PeerId{0}), best.end());
  return best;
}

Order place(std::span<const Order> starts, const std::function<double(const Order&)>& cost,
            std::size_t most) {
  Order best;
  double least = INFINITY;
  std::size_t asked = 0;
  for (std::size_t s = 0; s < starts.size(); ++s) {
    Order order = starts[s];
    const std::size_t limit = most * (s + 1) / starts.size();  // what earlier starts left is for later ones
    double now = cost(order);
    ++asked;
    for (bool better = true; better && asked < limit;) {
      better = false;
      for (std::size_t i = 0; i + 1 < order.size(); ++i)
        for (std::size_t j = i + 1; j < order.size() && asked < limit; ++j) {
          std::swap(order[i], order[j]);
          const double c = cost(order);
          ++asked;
          better = better || c < now * (1 - 1e-9);
          if (c < now * (1 - 1e-9))
            now = c;
          else
            std::swap(order[i], order[j]);
        }
    }
    if (now < least) {
      least = now;
      best = order;
    }
  }
  return best;
}

}  // namespace gossamer::topology

#pragma once
// A full reduce by itself: exchanges and replicas of all peers without workers, links or time; what is sent
// arrives in a drawn order, but for that of each link. Gradients are the caller's, so that sums of small
// integers are exact.
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "plan.h"
#include "sim_job.h"

namespace gossamer::node::test {

/// g of a peer in a round, entry by entry (padding stays 0).
using GradientAt = std::function<float(PeerId, Round, std::size_t)>;

/// Drawn once for all by peer, round and entry.
inline GradientAt normal() {
  return [](PeerId p, Round t, std::size_t i) {
    std::mt19937_64 random(p * 7919 + t * 104729 + i);
    random.discard(3);
    return static_cast<float>(std::normal_distribution<double>()(random));
  };
}
/// Rows that each peer takes a step.
inline std::vector<std::size_t> different_batches(std::size_t peers) {
  std::vector<std::size_t> b;
  for (std::size_t p = 0; p < peers; ++p) b.push_back(3 + 5 * p % 7);
  return b;
}

/// One layer of n entries, its gradient given and not computed.
class GivenGradient final : public optim::Objective {
 public:
  GivenGradient(std::size_t n, PeerId peer, GradientAt at) : n_(n), peer_(peer), at_(std::move(at)) {
    add_layer("x", {{"x", {n}, 0}});
  }
  void initialise(std::uint64_t, std::span<float> x) const override { std::fill(x.begin(), x.end(), 0.0f); }
  optim::StepResult gradient(std::span<float>, const optim::BatchKey&, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    std::fill(g.begin(), g.end(), 0.0f);
    for (std::size_t i = 0; i < n_; ++i) g[i] = at_(peer_, round_, i);
    ++round_;
    on_layer(0);
    return {};
  }
  optim::Figures evaluate(std::span<const float>) override { return {}; }

 private:
  std::size_t n_;
  PeerId peer_;
  GradientAt at_;
  Round round_ = 0;
};

/// Runs a job's exchange method on gradients of n entries from x = 0 with learning rate 1, so that x is minus
/// the sum of the results.
class ReduceLab {
 public:
  ReduceLab(const Job& job, std::size_t n, const GradientAt& at, std::uint64_t seed = 1)
      : prepared_(prepare(job)), n_(n), random_(seed), mail_(job.peers.size() * (job.peers.size() + 1)) {
    const GivenGradient objective(n, 0, {});
    prepared_.layers = objective.layers();
    prepared_.initial = AlignedFloats(objective.buffer_size(), 0.0f);
    make_plan(prepared_);
    for (PeerId p = 0; p < job.peers.size(); ++p) peers_.push_back(std::make_unique<Peer>(*this, p, at));
  }

  /// One round of all peers.
  void round() {
    for (auto& peer : peers_) peer->begin(round_);
    while (auto* queue = drawn()) {
      const auto event = std::move(queue->front());
      queue->pop_front();
      event();
    }
    for (auto& peer : peers_) peer->finished();
    ++round_;
  }
  std::vector<float> x(PeerId peer) const {
    const auto all = peers_[peer]->replica().parameters();
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n_)};
  }
  std::vector<float> unsent(PeerId peer, int feedback = 0) const {
    auto e = peers_[peer]->replica().unsent(feedback);
    e.resize(n_);
    return e;
  }
  std::size_t peers() const { return peers_.size(); }
  double share(PeerId peer) const { return peers_[0]->plan().share[peer]; }
  bool identical() const {
    for (PeerId p = 1; p < peers(); ++p)
      if (!Run::same_bits(x(p), x(0))) return false;
    return true;
  }
  std::size_t messages() const { return messages_; }

 private:
  using Queue = std::deque<std::function<void()>>;

  class Peer final : public ExchangeHost {
   public:
    Peer(ReduceLab& lab, PeerId self, const GradientAt& at)
        : lab_(lab),
          plan_(worker_spec(lab.prepared_, self, 1, 0).plan),
          exchange_(make_exchange(*this)),
          replica_(make_replica(lab.prepared_, self, std::make_unique<GivenGradient>(lab.n_, self, at))) {}

    void begin(Round round) {
      unmixed_ = plan_.parcels.size();
      Gradient gradient{round, {}};
      exchange_->begin_round(gradient);
      for (ParcelId p = 0; p < plan_.parcels.size(); ++p)
        gradient.on_ready.push_back(exchange_->on_ready(round, p));
      replica_.run(
          gradient, [this](DataEvent e) { post(std::move(e)); }, [] {});
    }
    void finished() const {
      if (unmixed_ != 0) throw std::runtime_error("a round stalled");
    }
    Replica& replica() { return replica_; }

    const Plan& plan() const override { return plan_; }
    void submit(Op op) override {
      replica_.run(op, [this](DataEvent e) { post(std::move(e)); });
    }
    void send(PeerId to, Message message) override {
      ++lab_.messages_;
      lab_.mail_[(plan_.self + 1) * lab_.peers() + to].push_back(
          [this, to, m = std::move(message)] { lab_.peers_[to]->exchange_->on_message(plan_.self, m); });
    }
    void consumed(PeerId, const Message&) override {}
    bool can_send(PeerId, ParcelId) const override { return true; }
    void mixed(ParcelId, std::optional<Round>) override { --unmixed_; }
    void saw_staleness(Round) override {}

   private:
    void post(DataEvent event) {
      lab_.mail_[plan_.self].push_back([this, e = std::move(event)] {
        if (const auto* ready = std::get_if<ParcelReady>(&e))
          exchange_->on_parcel_ready(ready->round, ready->parcel);
        if (const auto* encoded = std::get_if<Encoded>(&e)) exchange_->on_encoded(*encoded);
      });
    }
    ReduceLab& lab_;
    Plan plan_;
    std::unique_ptr<Exchange> exchange_;
    Replica replica_;
    std::size_t unmixed_ = 0;
  };

  /// One of the queues that hold something; null where none does.
  Queue* drawn() {
    std::vector<Queue*> full;
    for (Queue& q : mail_)
      if (!q.empty()) full.push_back(&q);
    return full.empty() ? nullptr : full[random_() % full.size()];
  }

  Prepared prepared_;
  std::size_t n_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Queue> mail_;  ///< of each replica's answers, then of each link; in order within
  Round round_ = 0;
  std::size_t messages_ = 0;
};

}  // namespace gossamer::node::test

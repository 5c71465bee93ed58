#include "gossip_lab.h"
#include "plan.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace gossamer::node::test {
namespace {

constexpr std::size_t kEntries = 512, kRows = 2;
constexpr double kHopeless = 1e6;

/// A method on a replica, told apart from a worker by what it lacks: links, time, gradients.
class Peer final : public ExchangeHost {
 public:
  struct Sent {
    PeerId from, to;
    Message message;
  };
  Peer(const Prepared& prepared, PeerId self, const std::shared_ptr<optim::Model>& model,
       std::vector<Sent>& sent)
      : plan_(worker_spec(prepared, self, 1, 1).plan),
        sent_(sent),
        exchange_(make_exchange(*this)),
        replica_(make_replica(prepared, self, make_objective(prepared, self, model))) {}

  const Plan& plan() const override { return plan_; }
  void submit(Op op) override {
    replica_.run(op, [this](DataEvent e) {
      if (const auto* encoded = std::get_if<Encoded>(&e)) exchange_->on_encoded(*encoded);
    });
  }
  void send(PeerId to, Message message) override { sent_.push_back({plan_.self, to, std::move(message)}); }
  void consumed(PeerId, const Message&) override {}
  bool can_send(PeerId, ParcelId) const override { return true; }
  void mixed(ParcelId, std::optional<Round>) override { ++mixed_; }
  void saw_staleness(Round) override {}

  /// The round's step u is what `g` adds to; none: 0.
  void step(Round round, const Payload& u) {
    Gradient gradient{round, {}};
    exchange_->begin_round(gradient);
    mixed_ = 0;
    for (ParcelId p = 0; p < plan_.parcels.size(); ++p) {
      std::vector<Op> ops = exchange_->on_ready(round, p);
      if (const auto* both = ops.empty() ? nullptr : std::get_if<op::StepEncode>(&ops.front()))
        ops = {op::Step{both->update}, Op(op::Encode(both->encode))};
      for (Op& o : ops) {
        const bool moves = std::holds_alternative<op::Step>(o);
        if (!moves && !std::holds_alternative<op::Update>(o)) {
          submit(std::move(o));
          continue;
        }
        submit(op::Combine{plan_.parcels[p].range, kGradient, 0, {}});
        if (u) submit(op::DecodeAdd{plan_.parcels[p].range, kGradient, 1, u});
        if (moves) submit(op::Combine{plan_.parcels[p].range, kParameters, 1, {{-1.0f, kGradient}}});
      }
      exchange_->on_parcel_ready(round, p);
    }
  }
  void take(PeerId from, Message message) { exchange_->on_message(from, std::move(message)); }
  bool has_mixed() const { return mixed_ == plan_.parcels.size(); }
  std::span<const float> x() const { return replica_.parameters().first(kEntries); }

 private:
  Plan plan_;
  std::vector<Sent>& sent_;
  std::unique_ptr<Exchange> exchange_;
  Replica replica_;
  std::size_t mixed_ = 0;
};

double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }
double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(uniform(random)));
  return radius * std::cos(6.283185307179586 * uniform(random));
}

std::vector<float> start_of(const std::string& kind, PeerId peer, std::mt19937_64& random) {
  std::vector<float> x(kEntries);
  for (float& v : x) {
    double value = normal(random);
    if (kind == "heavy") value *= std::exp(1.5 * normal(random));
    if (kind == "sparse" && uniform(random) > 0.003) value = 0;
    if (kind == "far" && peer == 0) value *= 30;
    v = static_cast<float>(value);
  }
  return x;
}

Payload dense(const std::vector<float>& v) {
  const auto codec = compress::make_codec("dense");
  compress::Workspace workspace;
  std::vector<std::byte> bytes(codec->max_bytes(v.size()));
  bytes.resize(codec->encode(v, {}, workspace, bytes));
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

Job job_of(const GossipCase& c, double gamma) {
  Settings settings{"model.kind=quadratic",
                    fmt::format("data.features={}", kEntries),
                    fmt::format("data.rows={}", c.peers * kRows),
                    fmt::format("optimizer.batch={}", kRows),
                    fmt::format("peers={}", c.peers),
                    "graph.kind=" + c.graph,
                    "exchange.method=" + c.method,
                    "exchange.codec=" + c.codec};
  if (topology::reads(topology::graph_kind(c.graph), "directed"))
    settings.emplace_back("graph.directed=false");
  if (c.method == "noloco") settings.emplace_back("exchange.local_steps=1");
  if (gamma > 0) settings.push_back(fmt::format("exchange.gamma={}", gamma));
  return small_job(settings);
}

double distance(const std::vector<std::unique_ptr<Peer>>& peers) {
  std::vector<std::span<const float>> models;
  for (const auto& p : peers) models.push_back(p->x());
  return spread_of(models).distance;
}

}  // namespace

std::string GossipCase::name() const {
  return fmt::format("{} | {} of {} | {} | {}", method, graph, peers, codec, start);
}

const std::vector<std::string>& start_kinds() {
  static const std::vector<std::string> all{"normal", "heavy", "sparse", "far"};
  return all;
}

const std::vector<std::string>& gossip_codecs() {
  static const std::vector<std::string> all{
      "dense", "fp16", "bf16",
      // buckets of 32 entries and of the whole vector
      "onebit:bucket=32", "onebit", "onebit:bucket=1048576", "onebit_two:bucket=32",
      "onebit_two:bucket=1048576", "onebit_scaled", "onebit_scaled:bucket=32", "onebit_scaled:bucket=1048576",
      "onebit_scaled:lambda=auto", "onebit_scaled:lambda=0.1,bound=0.999",
      "onebit_scaled:lambda=0.5,bound=0.99", "onebit_scaled:bound=0.1", "qsgd:bits=4,bucket=32",
      "qsgd:bits=4,bucket=1048576", "qsgd:bits=8,bucket=32", "qsgd:bits=8,bucket=1048576",
      "qsgd:bits=4,norm=l2,bucket=32", "qsgd:bits=8,norm=l2,bucket=16128", "intq:bits=2,bucket=32",
      "intq:bits=2,bucket=1048576", "intq:bits=4", "intq:bits=8", "intq:bits=2,rounding=stochastic,bucket=32",
      "intq:bits=2,rounding=stochastic,bucket=1048576", "intq:bits=4,rounding=stochastic",
      "intq:bits=8,rounding=stochastic", "topk:density=0.001", "topk:density=0.01", "topk:density=0.05",
      "topk:density=0.1", "topk:density=0.3", "topk:density=0.7", "topk:density=1",
      "topk:density=0.01,values=fp16", "topk:density=0.01,values=int8", "topk:density=0.01,values=sign",
      "topk:density=0.3,values=sign", "topk:density=1,values=sign", "topk:density=0.01,values=two_bit",
      "topk:density=1,values=two_bit", "topk:density=0.01,select=ldte_bs", "randk:density=0.001",
      "randk:density=0.01", "randk:density=0.05", "randk:density=0.2", "randk:density=0.5",
      "randk:density=0.9", "randk:density=1", "randk:density=0.55,scale=1", "randk:density=0.75,scale=1",
      "randk:density=0.99,scale=1"};
  return all;
}

std::vector<GossipCase> gossip_cases(std::size_t peers, const std::string& start) {
  std::vector<GossipCase> all;
  const auto add = [&](const std::string& method, const std::string& codec) {
    for (const char* graph : {"ring", "full", "star", "exponential"}) {
      const auto& kinds = start_kinds();
      all.push_back(
          {method, graph, codec, peers, start.empty() ? kinds[all.size() * 7 / 4 % kinds.size()] : start});
    }
  };
  for (const char* method : {"choco", "deep_squeeze"})
    for (const std::string& codec : gossip_codecs()) add(method, codec);
  add("noloco", "dense");
  return all;
}

GossipCourse gossip(const GossipCase& c, std::size_t rounds, std::uint64_t seed, double gamma) {
  Prepared prepared = prepare(job_of(c, gamma));
  prepared.initial = AlignedFloats(prepared.initial.size(), 0.0f);
  make_plan(prepared);
  std::vector<Peer::Sent> sent;
  std::vector<std::unique_ptr<Peer>> peers;
  const auto model = std::shared_ptr(make_model(prepared));
  for (PeerId p = 0; p < c.peers; ++p) peers.push_back(std::make_unique<Peer>(prepared, p, model, sent));
  std::mt19937_64 random(seed);
  GossipCourse course{.gamma = prepared.plan->gamma};
  double first = 0;
  {
    std::vector<std::vector<float>> starts;
    for (PeerId p = 0; p < c.peers; ++p) starts.push_back(start_of(c.start, p, random));
    const std::vector<std::span<const float>> views(starts.begin(), starts.end());
    first = spread_of(views).distance;
    // the first step leads there from the common x⁰ = 0
    for (PeerId p = 0; p < c.peers; ++p) {
      for (float& v : starts[p]) v = -v;
      peers[p]->step(0, dense(starts[p]));
    }
  }
  for (Round t = 0;; ++t) {
    for (auto& [from, to, message] : std::exchange(sent, {})) peers[to]->take(from, std::move(message));
    for (const auto& p : peers)
      if (!p->has_mixed()) throw std::runtime_error("a peer still waits in round " + std::to_string(t));
    if (t < 20 || t % 10 == 0 || t + 1 == rounds) {
      course.last = distance(peers) / first;
      course.most = std::max(course.most, course.last);
    }
    if (t + 1 == rounds || !(course.last < kHopeless)) return course;
    for (const auto& p : peers) p->step(t + 1, nullptr);
  }
}

}  // namespace gossamer::node::test

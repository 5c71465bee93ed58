// EC-DNN (Sun, Chen, Bian, Liu 2017, "Ensemble-compression: a new method for parallel training of deep neural
// networks", algorithm 2). Averaging the parameters of models that are not convex need not beat any of them;
// averaging their outputs does. So peers exchange models and never add them up: each keeps its own, and
// learns from what the ensemble of its neighbourhood says of its batches.
//
// Time goes in periods of exchange.local_steps = L rounds (the plan's schedule has a mixing matrix in the
// last round of each, and nobody sends in the others):
//
//   exchange    after the step of the last round, x_i is sent as it is (coded, but without feedback: a code
//               that is off by a few percent predicts nearly the same) and kept; the round ends when the
//               models of all neighbours j of W's row have come, each in its slot of peer j's shape
//   distil      in the next exchange.distill_steps ≤ L rounds, the batch is labelled with
//                   q = Σ_j W_ij softmax(f_j(batch; x_j)),   j = i and its neighbours, x_j as exchanged,
//               and the gradient is that of (1 − s)·CE(labels) + s·CE(q), s = exchange.distill_weight
//   alone       the rest of the period, the plain gradient
//
// What was learned from the ensemble fades in steps alone, so that a run does best to end with a
// distillation: after k·L + distill_steps rounds. Steps alone are needed none the less, for labels that are
// distilled over and over grow ever softer; where s = 1 and all L steps distil, nothing but labels of labels
// is ever learned, and that is refused.
//
// The rows of W are the ensemble's weights: on a regular graph with Metropolis weights all alike. Slot 2
// holds the peer's own model as exchanged ("own"), slot 3 + k that of heard_[k]. As nothing is averaged, the
// peers' hidden sizes may differ; what a neighbour's parcel is of then follows from the job, which all peers
// share. Model scope: a batch can be labelled only by whole models, so all parcels of the round end together.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "message_state.h"
#include "method.h"

namespace gossamer::node {
namespace {

constexpr OwnValue<std::uint64_t> kDistillSteps{"distill_steps", 16};
constexpr OwnValue<double> kDistillWeight{"distill_weight", 0.5};

constexpr Slot kOwn = 2;

/// Who sends to this peer in some round, ascending.
std::vector<PeerId> heard_by(const Plan& plan) {
  std::vector<PeerId> heard;
  for (std::size_t t = 0; t < plan.schedule.period(); ++t)
    for (const auto& e : plan.schedule.at(t).in(plan.self)) heard.push_back(e.peer);
  std::sort(heard.begin(), heard.end());
  heard.erase(std::unique(heard.begin(), heard.end()), heard.end());
  return heard;
}

class Ensemble final : public Exchange {
 public:
  explicit Ensemble(ExchangeHost& host) : host_(host), heard_(heard_by(host.plan())) {}

  void begin_round(Gradient& gradient) override {
    round_ = gradient.round;
    ready_ = 0;
    if (!teachers_.empty() && round_ <= exchanged_ + kDistillSteps.of(host_.plan().exchange))
      gradient.soft = {static_cast<float>(kDistillWeight.of(host_.plan().exchange)), teachers_};
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = host_.plan().parcels[parcel].range;
    const op::Step step = host_.step(r, round);
    const op::Combine keep{r, kOwn, 0, {{1.0f, kParameters}}};
    const op::Encode send{
        .range = r, .src = kParameters, .minus = {}, .apply_to = {}, .round = round, .parcel = parcel};
    const bool hears = !senders().empty(), sends = !weights().out(host_.plan().self).empty();
    if (hears && sends) return {step, keep, send};
    if (hears) return {step, keep};
    if (sends) return {step, send};
    return {step};
  }

  void on_encoded(const Encoded& e) override {
    for (const PeerId to : host_.plan().schedule.at(e.round).out(host_.plan().self))
      host_.send(to, {e.round, e.parcel, e.tag, e.entries, e.payload});
  }

  void on_parcel_ready(Round, ParcelId parcel) override {
    ++ready_;
    if (senders().empty()) return host_.mixed(parcel);
    try_finish();
  }

  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const override {
    const auto& schedule = host_.plan().schedule;
    if (tag != 0) return Verdict::never(Refusal::tag);
    const auto row = schedule.at(round).in(host_.plan().self);
    const bool sends = std::any_of(row.begin(), row.end(), [&](const auto& e) { return e.peer == from; });
    if (!sends || round > round_ + schedule.period() * schedule.peers())
      return Verdict::never(Refusal::round);
    if (round < round_ || has(from, round, parcel)) return Verdict::past();
    return Verdict::now(host_.plan().parcels_of(from)[parcel].range.size);
  }

  void on_message(PeerId from, Message message) override {
    inbox_[from].push_back(std::move(message));
    try_finish();
  }

  std::vector<Awaited> awaits() const override {
    std::vector<Awaited> awaited;
    if (ready_ < host_.plan().parcels.size()) return awaited;
    for (const auto& e : senders())
      for (ParcelId p = 0; p < host_.plan().parcels_of(e.peer).size(); ++p)
        if (!has(e.peer, round_, p)) awaited.push_back({e.peer, round_, p});
    return awaited;
  }

  void archive(Archive archive) override {
    archive.value("round", round_);
    archive.value("exchanged", exchanged_);
    bool exchanged = !teachers_.empty();
    archive.value("has_teachers", exchanged);
    std::vector<std::pair<PeerId, Message>> waiting;
    for (const auto& [from, box] : inbox_)
      for (const Message& m : box) waiting.emplace_back(from, m);
    archive_messages(
        archive.part("inbox"),
        [&](PeerId p) {
          const bool known = std::binary_search(heard_.begin(), heard_.end(), p);
          return known ? host_.plan().parcels_of(p).size() : 0;
        },
        waiting);
    if (!archive.restores()) return;
    teachers_ = exchanged ? teachers_of(exchanged_) : Teachers{};
    inbox_.clear();
    for (auto& [from, message] : waiting) inbox_[from].push_back(std::move(message));
  }

 private:
  using Teachers = std::vector<std::pair<float, Slot>>;
  /// The models of a round's exchange, this peer's first, and their weights.
  Teachers teachers_of(Round round) const {
    const auto& w = host_.plan().schedule.at(round);
    Teachers teachers{{w.self_weight(host_.plan().self), kOwn}};
    for (const auto& e : w.in(host_.plan().self)) teachers.emplace_back(e.weight, slot_of(e.peer));
    return teachers;
  }
  Slot slot_of(PeerId heard) const {
    const auto k = std::lower_bound(heard_.begin(), heard_.end(), heard) - heard_.begin();
    return kOwn + 1 + static_cast<Slot>(k);
  }
  const topology::MixingMatrix& weights() const { return host_.plan().schedule.at(round_); }
  std::span<const topology::Edge> senders() const { return weights().in(host_.plan().self); }

  bool has(PeerId from, Round round, ParcelId parcel) const {
    const auto box = inbox_.find(from);
    return box != inbox_.end() && std::any_of(box->second.begin(), box->second.end(), [&](const Message& m) {
             return m.round == round && m.parcel == parcel;
           });
  }
  /// All parcels of the neighbour's model of this round.
  bool came(PeerId from) const {
    const auto box = inbox_.find(from);
    if (box == inbox_.end()) return false;
    const auto parcels = std::count_if(box->second.begin(), box->second.end(),
                                       [&](const Message& m) { return m.round == round_; });
    return static_cast<std::size_t>(parcels) == host_.plan().parcels_of(from).size();
  }

  void try_finish() {
    const auto row = senders();
    if (row.empty() || ready_ < host_.plan().parcels.size()) return;
    if (!std::all_of(row.begin(), row.end(), [&](const auto& e) { return came(e.peer); })) return;
    for (const auto& e : row) absorb(e.peer, slot_of(e.peer));
    teachers_ = teachers_of(round_);
    exchanged_ = round_;
    ready_ = 0;
    host_.saw_staleness(0);
    for (ParcelId p = 0; p < host_.plan().parcels.size(); ++p) host_.mixed(p);
  }

  /// slot ← the neighbour's model. The labels of the gradient under way were taken before its first layer.
  void absorb(PeerId from, Slot slot) {
    auto& box = inbox_[from];
    for (const Message& m : box) {
      if (m.round > round_) continue;
      host_.consumed(from, m);
      if (m.round < round_) continue;
      const Range r = host_.plan().parcels_of(from)[m.parcel].range;
      host_.submit(op::Combine{r, slot, host_.plan().planted.is(Bug::model_added_to_old) ? 1.0f : 0.0f, {}});
      host_.submit(op::DecodeAdd{r, slot, 1.0f, m.payload});
    }
    std::erase_if(box, [&](const Message& m) { return m.round <= round_; });
  }

  ExchangeHost& host_;
  const std::vector<PeerId> heard_;
  Round round_ = 0, exchanged_ = 0;
  std::size_t ready_ = 0;  ///< parcels of round_ whose own step is done
  Teachers teachers_;
  std::map<PeerId, std::deque<Message>> inbox_;
};

std::string refusal(const ExchangeSettings& exchange) {
  const std::uint64_t steps = kDistillSteps.of(exchange);
  if (steps == local_steps(exchange) && kDistillWeight.of(exchange) == 1)
    return fmt::format(
        "exchange.distill_weight = 1 with exchange.distill_steps = {} of as many steps from one exchange to "
        "the next (exchange.local_steps) leaves no step that learns the data's own labels; use a smaller "
        "weight, or fewer of the steps",
        steps);
  if (steps <= local_steps(exchange)) return {};
  return fmt::format(
      "exchange.distill_steps = {} are more than the {} steps from one exchange to the next "
      "(exchange.local_steps); expected at most as many",
      steps, local_steps(exchange));
}

std::unique_ptr<Exchange> make_ensemble(ExchangeHost& host) { return std::make_unique<Ensemble>(host); }

constexpr double kDrawnDistillSteps[] = {1, 2}, kDrawnDistillWeights[] = {0.3, 0.5, 0.9};
constexpr OwnKey kEnsembleKeys[] = {
    {.value = kDistillSteps,
     .help = "of local_steps, how many learn from the ensemble's labels too",
     .unit = "rounds",
     .low = 1,
     .high = 100000,
     .drawn = kDrawnDistillSteps},
    {.value = kDistillWeight,
     .help = "of the loss against the ensemble's labels; the rest is the data's own",
     .low = 0,
     .high = 1,
     .open_low = true,
     .drawn = kDrawnDistillWeights}};

}  // namespace

constinit const Method kEnsembleMethod{
    .row =
        {"ensemble",
         "models, not averaged, label each peer's batches for exchange.distill_steps steps (EC-DNN); peers' "
         "hidden sizes may differ"},
    .needs =
        {.code = Needs::Code::faithful,
         .may_be_stale = false,
         .keeps_apart = true,
         .heterogeneous = true,
         .classifier = true,
         .reads = "aggregate local_steps dense_below",
         .why_code =
             "neighbours use what they decode as a model, and a coarse code of all parameters predicts "
             "little; use 'dense', 'fp16', 'intq:bits=4' or 'qsgd:bits=8'",
         .why_synchronous =
             "an exchange's models belong to one round; use staleness = 0 and a larger exchange.local_steps"},
    .make = make_ensemble,
    .buffers = [](const Plan& plan) { return Buffers{.slots = 1, .models = heard_by(plan)}; },
    .invariants = {.waits_for = MethodInvariants::WaitsFor::models},
    .idle_rounds = true,
    .refusal = refusal,
    .keys = kEnsembleKeys};

}  // namespace gossamer::node

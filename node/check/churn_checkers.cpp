#include "churn_checkers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "hash.h"
#include "method.h"

namespace gossamer::node {
namespace {

/// Views by which what a peer had when it left one is remembered: others may be that much behind it.
constexpr std::size_t kRemembered = 4;
constexpr std::size_t kCopies = 1024;
constexpr std::size_t kManyEras = 64;

std::uint64_t hash_of(std::span<const float> parameters) { return hash_bytes(std::as_bytes(parameters)); }

Prepared from_there(const ViewObserver::Entry& entry) {
  Prepared p = entry.prepared;
  p.rounds -= entry.rounds_before;
  p.total_samples *= 1 - entry.share;
  return p;
}

}  // namespace

class ChurnCheckers::Era {
 public:
  Era(const Entry& entry, const Job& job)
      : view(entry.view),
        share(entry.share),
        prepared_(from_there(entry)),
        checkers(prepared_, nullptr, first()) {
    const auto names = job.peer_names();
    for (const auto& seat : view.seats)
      places.push_back(static_cast<PeerId>(std::find(names.begin(), names.end(), seat.name) - names.begin()));
  }
  bool first() const { return view.seats.front().start == 0; }
  std::size_t parcels() const { return plan().parcels.size(); }
  const Plan& plan() const { return *prepared_.plan; }

  View view;
  double share;
  std::vector<PeerId> places;               ///< in the job
  std::optional<std::uint64_t> begun_with;  ///< hash of parameters
  std::optional<bool> from_nothing{};       ///< when the first began it, nobody of it had learned anything

 private:
  Prepared prepared_;

 public:
  Checkers checkers;
};

/// What is told of a peer in a view, to the view's checkers and, by the job's numbers, to whoever listens.
class ChurnCheckers::Seat final : public Observer {
 public:
  Seat(ChurnCheckers& all, std::shared_ptr<Era> era, PeerId peer)
      : all_(all), era_(std::move(era)), peer_(peer) {}

  void on_round(PeerId p, Round r) override {
    all_.progressed_ = all_.time();
    all_.processes_[peer_].begun = true;
    all_.sides_.on_round(peer_);
    tell([&](Observer& o, auto place) { o.on_round(place(p), r); });
  }
  void on_send(PeerId p, PeerId to, const Message& m) override {
    ++all_.counts_.messages;
    tell([&](Observer& o, auto place) { o.on_send(place(p), place(to), m); });
  }
  void on_message(PeerId p, PeerId from, const Message& m) override {
    tell([&](Observer& o, auto place) { o.on_message(place(p), place(from), m); });
  }
  void on_used(PeerId p, PeerId from, const Message& m) override {
    tell([&](Observer& o, auto place) { o.on_used(place(p), place(from), m); });
  }
  void on_mixed(PeerId p, Round r, ParcelId parcel) override {
    tell([&](Observer& o, auto place) { o.on_mixed(place(p), r, parcel); });
  }
  void on_end(PeerId p, const std::string& message) override {
    all_.processes_[peer_].gone = true;
    tell([&](Observer& o, auto place) { o.on_end(place(p), message); });
  }
  void on_gradient(PeerId p, const Gradient& g) override {
    tell([&](Observer& o, auto place) { o.on_gradient(place(p), g); });
  }
  void on_op(PeerId p, const Op& op, const DataView& after) override {
    if (const auto* step = std::get_if<op::Combine>(&op); step && step->dst == kParameters)
      ++steps_[step->range.begin];
    tell([&](Observer& o, auto place) { o.on_op(place(p), op, after); });
    if (all_.ledger_ && !all_.first())
      all_.ledger_->on_op({all_.name(peer_), all_.processes_[peer_].start}, op, after);
  }
  void before_encode(PeerId p, const op::Encode& e, std::span<const float> v,
                     const compress::FeedbackState* state) override {
    tell([&](Observer& o, auto place) { o.before_encode(place(p), e, v, state); });
  }
  void after_encode(PeerId p, const op::Encode& e, const compress::FeedbackState* state,
                    const Payload& payload) override {
    tell([&](Observer& o, auto place) { o.after_encode(place(p), e, state, payload); });
  }
  /// Parcels have taken as many steps as each other.
  bool between_rounds() const {
    const auto as_first = [&](const auto& s) { return s.second == steps_.begin()->second; };
    return steps_.empty() ||
           (steps_.size() == era_->parcels() && std::all_of(steps_.begin(), steps_.end(), as_first));
  }

 private:
  template <class Call>
  void tell(const Call& call) {
    if (all_.first()) return;
    if (all_.next_) call(*all_.next_, [&](PeerId p) { return era_->places[p]; });
    call(era_->checkers, [](PeerId p) { return p; });
    if (const auto& found = era_->checkers.first())
      all_.report(found->checker.c_str(), peer_,
                  fmt::format("in a view of {}: {}", fmt::join(era_->view.names(), ", "), found->what));
  }

  ChurnCheckers& all_;
  std::shared_ptr<Era> era_;
  PeerId peer_;
  std::map<std::size_t, std::uint64_t> steps_;  ///< by parcels' first entries: changes of the parameters
};

ChurnCheckers::ChurnCheckers(const Prepared& prepared, Observer* next)
    : prepared_(prepared),
      next_(next),
      frames_(check_frames(prepared, findings_)),
      sides_(prepared, findings_),
      initial_(hash_of(prepared.initial)),
      processes_(prepared.job.peers.size()),
      seats_(prepared.job.peers.size()) {
  if (find_method(prepared.job.exchange.method).invariants.own == MethodInvariants::Own::mass)
    ledger_ = std::make_unique<MassLedger>(findings_, [this](const Incarnation& one) { return gone(one); });
}

ChurnCheckers::~ChurnCheckers() = default;

void ChurnCheckers::report(const char* checker, PeerId peer, const std::string& what) {
  findings_.report(checker, fmt::format("{}: {}", name(peer), what));
}

void ChurnCheckers::on_time(double time) {
  findings_.time = time;
  if (next_) next_->on_time(time);
}
void ChurnCheckers::on_frame(Fate fate, PeerId from, PeerId to, std::span<const std::byte> frame) {
  ++counts_.frames[static_cast<std::size_t>(fate)];
  if (first()) return;
  if (next_) next_->on_frame(fate, from, to, frame);
  frames_->on_frame(fate, from, to, frame);
}
void ChurnCheckers::on_crash(PeerId peer) {
  ++counts_.crashes;
  sides_.on_crash(peer);
  processes_[peer].gone = true;
  if (next_) next_->on_crash(peer);
}

void ChurnCheckers::on_start(PeerId peer, std::uint64_t start) {
  ++counts_.starts;
  processes_[peer] = {};
  processes_[peer].start = start;
  sides_.on_start(peer, start);
}

void ChurnCheckers::check_entry(PeerId peer, const Entry& entry, bool first) {
  Process& process = processes_[peer];
  const Name era{entry.view.id(), entry.view.attempt};
  if (!process.entered.insert(era).second)
    report("views", peer, fmt::format("enters attempt {} at a view for the second time", era.second));
  if (first) return;
  if (entry.view.seats.size() < prepared_.job.least_peers())
    report("views", peer,
           fmt::format("goes on as one of {}; run.min_peers is {}", entry.view.seats.size(),
                       prepared_.job.least_peers()));
  const auto own = std::find_if(entry.view.seats.begin(), entry.view.seats.end(),
                                [&](const auto& seat) { return seat.name == name(peer); });
  if (own == entry.view.seats.end() || own->start != process.start)
    report("views", peer, "enters a view that does not hold it by its present start");
  const double rounding = 1.0 / static_cast<double>(prepared_.rounds) + 1e-9;
  if (process.share && entry.share + rounding < *process.share)
    report("views", peer,
           fmt::format("takes {:.2f} % of the run to be over; it was at {:.2f} % before", 100 * entry.share,
                       100 * *process.share));
}

Observer* ChurnCheckers::on_enter(PeerId peer, const Entry& entry) {
  ++counts_.views;
  const bool first = entry.view.seats.front().start == 0;
  check_entry(peer, entry, first);
  if (eras_.size() > kManyEras) std::erase_if(eras_, [](const auto& e) { return e.second.expired(); });
  std::weak_ptr<Era>& known = eras_[{entry.view.id(), entry.view.attempt}];
  std::shared_ptr<Era> era = known.lock();
  if (!era) known = era = std::make_shared<Era>(entry, prepared_.job);
  if (era->share != entry.share)
    report("views", peer,
           fmt::format("takes {:.4f} % of the run to be over; others of the view {:.4f} %", 100 * entry.share,
                       100 * era->share));
  processes_[peer].era = era;
  sides_.on_enter(peer, entry, era->places);
  processes_[peer].gone = false;
  seats_[peer] = std::make_unique<Seat>(*this, era, peer);
  return seats_[peer].get();
}

void ChurnCheckers::on_begin(PeerId peer, std::span<const float> parameters) {
  ++counts_.begun;
  Process& process = processes_[peer];
  Era& era = *process.era;
  if (sides_.check_merged(peer, parameters)) return;
  const std::uint64_t hash = hash_of(parameters);
  const bool alike = begins_alike(find_method(prepared_.job.exchange.method));
  bool known = false, anybody = false;
  for (std::size_t k = 0; k < era.places.size(); ++k) {
    const auto left = left_.find({era.places[k], era.view.seats[k].start});
    if (left == left_.end()) continue;
    anybody = true;
    known |= std::find(left->second.begin(), left->second.end(), hash) != left->second.end();
  }
  if (!era.from_nothing) era.from_nothing = !anybody;
  known |= *era.from_nothing && hash == initial_;  // whoever is late may find others that have left it again
  known |= std::find(copies_.begin(), copies_.end(), hash) != copies_.end();
  if (prepared_.homogeneous() && !known)
    report("state", peer, "begins a view with parameters that none of its members had brought");
  if (process.learned && !alike && hash != *process.learned)
    report("state", peer, "begins a view with other parameters than it had when it left the last one");
  counts_.fetched += process.learned != std::optional(hash) && anybody;
  if (alike && era.begun_with.value_or(hash) != hash)
    report("state", peer, "begins a view with other bits than another member");
  era.begun_with = hash;
}

bool ChurnCheckers::gone(const Incarnation& one) const {
  const std::vector<std::string> names = prepared_.job.peer_names();
  const auto at = std::find(names.begin(), names.end(), one.name);
  const auto peer = static_cast<PeerId>(at - names.begin());
  const Process& now = processes_.at(peer);
  return now.gone || now.start != one.start || (has_ended && has_ended(peer));
}

/// Of the first era, which all begin in together, as they are now.
std::vector<Incarnation> ChurnCheckers::incarnations(const Era& era) const {
  std::vector<Incarnation> seats = era.view.incarnations();
  for (std::size_t k = 0; k < seats.size(); ++k)
    if (seats[k].start == 0) seats[k].start = processes_[era.places[k]].start;
  return seats;
}

void ChurnCheckers::on_begin_with(PeerId peer, const DataView& view) {
  if (!ledger_ || first()) return;
  const Era& era = *processes_[peer].era;
  const auto seat = std::find(era.places.begin(), era.places.end(), peer) - era.places.begin();
  Plan plan = era.plan();
  plan.self = static_cast<PeerId>(seat);
  ledger_->begin(plan.self, incarnations(era), plan, view);
}

void ChurnCheckers::on_copy(PeerId, std::span<const float> parameters) {
  copies_.push_back(hash_of(parameters));
  if (copies_.size() > kCopies) copies_.pop_front();
}

void ChurnCheckers::on_merge(PeerId peer, const std::vector<std::pair<PeerId, double>>& weights) {
  sides_.on_merge(peer, weights);
}

void ChurnCheckers::on_leave(PeerId peer, double share, std::span<const float> parameters) {
  Process& process = processes_[peer];
  if (process.era->first() && !process.begun) return;
  sides_.on_leave(peer, share, parameters);
  const ExchangeSettings& exchange = prepared_.job.exchange;
  const bool whole_rounds = find_method(exchange.method).invariants.all_alike && !closes_early(exchange);
  if (whole_rounds && !seats_[peer]->between_rounds())
    report("state", peer, "leaves a view with parameters of which a part is a round ahead of the rest");
  process.share = share;
  process.learned = hash_of(parameters);
  auto& left = left_[{peer, process.start}];
  left.push_back(*process.learned);
  if (left.size() > kRemembered) left.pop_front();
  on_copy(peer, parameters);  // which others may fetch before the next view, too, of which it may be none
}

}  // namespace gossamer::node

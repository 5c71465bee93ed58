// How a member goes from one view to the next.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "member.h"
#include "priority.h"
#include "text.h"
#include "view_env.h"

namespace gossamer::node {
namespace {

/// Bytes that may wait for one who asks for pieces.
constexpr std::size_t kMostQueued = std::size_t{16} << 20;
/// Beginnings of one view that fail before the run ends.
constexpr std::uint64_t kMostAttempts = 5;
/// Since a copy of what was learned was wanted last.
constexpr double kKeepServed_s = 10;
constexpr std::size_t kRemembered = 64;
constexpr const char* kOver = "the run was over before this peer could take part again";

}  // namespace

void Member::settle() {
  if (worker_ && worker_->finished() && !over_) worker_ended();
  if (!over_ && swim_ && has_begun()) {
    if (!std::exchange(begun_, true)) begun_since_ = env_.now();
    if (worker_ && worker_->joined()) whole_ = true;
    say_first();
    if (ahead_) fetch_ahead();
    watch_links();
    if (awaits_unheard() && env_.now() >= announced_ + spec_.join_timeout_s) give_up_unheard();
    // each event would have it look at all that is known of all
    const bool runs = worker_ && worker_->joined();
    if ((members_changed_ || !runs || ending_round_ || ending_gradient_) && env_.now() >= look_again_) {
      members_changed_ = !runs;
      look_again_ = env_.now() + pause_between_looks();
      follow_members();
    }
    if (told_to_end_ && (!worker_ || (winding_up_ && step_over()))) {
      end_worker();
      end_between_views();
    }
    if (!over_ && !ahead_) advance();
  } else if (!over_ && spec_.join && env_.now() >= started_ + spec_.join_timeout_s) {
    end(Outcome::lost_peer, fmt::format("no member of the run has taken this peer in within {:g} s "
                                        "(run.join_timeout); the first that was asked is {} at {}",
                                        spec_.join_timeout_s, spec_.join->name, spec_.join->address));
  }
  if (transfer_) look_at_part();
  if (transfer_) ask();
  if (served_ && env_.now() > served_->asked + kKeepServed_s) served_.reset();
  schedule_wake();
}

/// That the first view has begun; by name as soon as all starts are known.
void Member::say_first() {
  if (!past_.empty() || !worker_ || !worker_->joined() || standing_.view != 0) return;
  const std::uint64_t id = all_known() ? current_.id() : 0;
  if (id != 0 || !standing_.begun) say({.begun = true, .whole = true, .view = id});
}

bool Member::all_known() const {
  return std::all_of(current_.seats.begin(), current_.seats.end(),
                     [](const Seat& s) { return s.start != 0; });
}

/// It waits for the first view, and the others have begun without it. Where some announce that view, and
/// others another one, those may wait for this peer as it was before it was started again.
bool Member::left_behind() const {
  bool here = false, elsewhere = false;
  const bool known = all_known(), patient = env_.now() < begun_since_ + kPatience_s;
  if (!known) return !patient;
  const std::uint64_t own = current_.id();
  for (const auto& [name, record] : swim_->members()) {
    const Standing s = standing_from(record.word);
    if (!s.begun || s.view == 0) continue;
    (s.view == own ? here : elsewhere) = true;
  }
  if (here && !elsewhere) return false;
  return (elsewhere && !here) || !patient;
}

/// Of many the news do not end, and each look is at all of them.
double Member::pause_between_looks() const {
  constexpr std::size_t kMany = 64;
  constexpr double kPauseForEach_s = 1e-4;
  const std::size_t members = swim_->members().size();
  return members > kMany ? kPauseForEach_s * static_cast<double>(members) : 0;
}

/// A view that others have ended is no reason to end here. Where it is being left, it was.
void Member::worker_ended() {
  WorkerResult r = worker_->result();
  if (!may_change() || !r.others_gone || !begun_) {
    over_ = true;
    if (swim_ && r.outcome == Outcome::finished) say_done();
    if (swim_) swim_->leave(env_.now());
    return;
  }
  if (winding_up_ || ends_gradient()) return;
  for (const PeerId p : r.gone) gone_.insert(run_.seats[p].name);
  View again = current_;
  if (!planted(Bug::attempt_kept)) ++again.attempt;
  close_view();
  announce(std::move(again));
}

/// Of all names that there are: the same at all members.
std::vector<std::string> Member::order() const {
  std::vector<std::string> names;
  std::set<std::string> others;
  for (const auto& [name, record] : swim_->members()) others.insert(name);
  for (PeerId p = 0; p < spec_.named; ++p) {
    names.push_back(spec_.roster[p].name);
    others.erase(names.back());
  }
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

/// It has trained to the end of the view's run: that it is gone then is no loss.
bool Member::is_done(const std::string& peer) const {
  const auto seat =
      std::find_if(run_.seats.begin(), run_.seats.end(), [&](const Seat& s) { return s.name == peer; });
  return worker_ && !winding_up_ && seat != run_.seats.end() &&
         worker_->states()[static_cast<PeerId>(seat - run_.seats.begin())] == PeerStatus::done;
}

/// All that are there and would take part, and those of the view that have done their part.
View Member::target() const {
  View view;
  const auto& all = swim_->members();
  std::unordered_map<std::string_view, const Seat*> seats;
  for (const Seat& seat : current_.seats) seats.emplace(seat.name, &seat);
  for (const std::string& peer : order()) {
    const auto record = all.find(peer);
    const auto at = seats.find(peer);
    const Seat* seat = at == seats.end() ? nullptr : at->second;
    if (left_out_.names.contains(peer)) continue;
    if (record == all.end() || record->second.start == 0) {
      if (seat && !gone_.contains(peer)) view.seats.push_back(*seat);
      continue;
    }
    const MemberRecord& r = record->second;
    const bool lives = r.status == MemberStatus::alive || r.status == MemberStatus::suspect;
    const bool same = seat && (seat->start == 0 || seat->start == r.start);
    if (peer == name() || (lives && (same || standing_from(r.word).begun)) || (same && is_done(peer)))
      view.seats.push_back({peer, r.start, r.address.empty()});
  }
  view.attempt = attempt_for(view);
  return view;
}

/// At least as many as anyone's; one more than this peer's last for the view, where that is over.
std::uint64_t Member::attempt_for(const View& view) const {
  const std::uint64_t id = view.id();
  const bool running = view.seats == current_.seats;
  std::uint64_t attempt = running ? current_.attempt : 0;
  const auto past = std::find_if(past_.begin(), past_.end(), [&](const auto& p) { return p.first == id; });
  if (!running && past != past_.end()) attempt = past->second + !planted(Bug::attempt_kept);
  for (const auto& [name, record] : swim_->members()) {
    const Standing s = standing_from(record.word);
    if (s.view == id) attempt = std::max(attempt, s.attempt);
  }
  return attempt;
}

void Member::follow_members() {
  if (ahead_) return;
  const bool first = waits_for_all();
  if (first && !left_behind()) return;
  if (!look_who_is_out()) return;
  if (all_are_done()) return end(Outcome::finished, kOver);
  View next = target();
  const std::uint64_t id = next.id();
  const bool waits = (!worker_ || winding_up_) && standing_.view == id && standing_.attempt == next.attempt;
  const bool runs =
      worker_ && !winding_up_ && next.seats == current_.seats && next.attempt == current_.attempt;
  if (runs) ending_gradient_ = false;
  if (runs && std::exchange(ending_round_, false)) worker_->end_after_round(false);
  if (waits || (runs && !first)) return;
  if (runs) ++next.attempt;
  // Who has trained to the end needs no other view, unless those who have not do.
  const auto wanted = [&](const Seat& seat) {
    const auto record = swim_->members().find(seat.name);
    return seat.name != name() && record != swim_->members().end() &&
           standing_from(record->second.word).view == id;
  };
  if (worker_ && worker_->share_done() >= 1 && std::none_of(next.seats.begin(), next.seats.end(), wanted))
    return;
  if (next.seats.size() < spec_.min_peers && !planted(Bug::few_go_on))
    return end(Outcome::lost_peer,
               fmt::format("{} of {} peers are left, and run.min_peers = {} must be there", next.seats.size(),
                           std::max(spec_.named, current_.seats.size()), spec_.min_peers));
  if (spec_.join && current_.seats.empty())  // the others need not end for its sake
    if (const std::string why = env_.why_not(next); !why.empty())
      return end(Outcome::bad_input, "this peer cannot join: " + why);
  if (begin_ahead()) return;
  if (ends_round(next) || ends_gradient()) return;
  if (!wind_up()) close_view();
  announce(std::move(next));
}

void Member::leave(const View& view) {
  std::erase_if(past_, [id = view.id()](const auto& p) { return p.first == id; });
  past_.emplace_back(view.id(), view.attempt);
  if (past_.size() > kRemembered) past_.pop_front();
}

void Member::announce(View view) {
  if (view.seats != current_.seats) {  // those were of another
    failed_attempts_ = 0;
    announced_ = env_.now();
  }
  current_ = std::move(view);
  if (failed_attempts_ > kMostAttempts)
    return end(Outcome::lost_peer, fmt::format("the peers {} did not come together in {} attempts",
                                               fmt::join(current_.names(), ", "), kMostAttempts));
  if (worker_) count_own();
  announced_samples_ = own_samples_;
  look_around();
  say({.begun = true,
       .whole = whole_,
       .view = current_.id(),
       .attempt = current_.attempt,
       .share = whole_ ? share_ : 0,
       .hash = whole_ ? standing_.hash : 0,
       .bytes = whole_ ? standing_.bytes : 0,
       .holds = standing_.holds,
       .base = base_,
       .part = part_share_,
       .last = last_entered_,
       .owed = owed(),
       .trained = trained_of(current_),
       .others = trained_elsewhere(current_)});
}

void Member::say(Standing standing) {
  standing.deaf_to = keys_of_deaf();
  std::vector<std::byte> word = standing.to_bytes();
  standing_ = standing_from(word);  // as the others know it
  swim_->say(std::move(word), env_.now());
}

/// Of all members of the view, by their places; none until there is one, and all have announced it.
std::optional<std::vector<Standing>> Member::standings() const {
  if (current_.seats.empty()) return std::nullopt;
  std::vector<Standing> all;
  for (const Seat& seat : current_.seats) {
    const auto record = swim_->members().find(seat.name);
    if (record == swim_->members().end() || record->second.start != seat.start) return std::nullopt;
    all.push_back(seat.name == name() ? standing_ : standing_from(record->second.word));
    const bool announced = all.back().view == standing_.view && all.back().attempt == standing_.attempt;
    if (!announced && !planted(Bug::opened_early)) return std::nullopt;
  }
  return all;
}

void Member::advance() {
  if (worker_ && !learned_.empty() && worker_->states().all_at_least(PeerStatus::present))
    learned_ = {};  // all have it
  if ((worker_ && !winding_up_) || transfer_ || outside_) return;
  const auto all = standings();
  if (!all || (worker_ && !step_over())) return;
  end_worker();
  const double share = farthest(*all);
  if (share >= 1 || (whole_ && share_ >= 1)) return end(Outcome::finished, whole_ ? "" : kOver);
  const bool begun = std::any_of(all->begin(), all->end(), [](const Standing& s) { return s.whole; });
  if (!spec_.alike && !spec_.own_models && !whole_ && begun) {  // it was not to be had before
    if (!who_have_it().empty()) ahead_.emplace();
    return;
  }
  if (waits_apart(*all) || over_) return;
  if (spec_.alike) fetch(*all, share);
  if (!transfer_ && bring_together(*all)) open(share);
}

/// How far those are that have anything; where peers may be apart, and some are over, the others.
double Member::farthest(const std::vector<Standing>& all) const {
  std::optional<double> share;
  const bool all_over =
      std::none_of(all.begin(), all.end(), [](const Standing& s) { return s.whole && s.share < 1; });
  for (const Standing& s : all)
    if (s.whole && (s.share < 1 || spec_.alike || all_over))
      share = planted(Bug::least_share_taken) ? std::min(share.value_or(1), s.share)
                                              : std::max(share.value_or(0), s.share);
  // What each has told of by itself is more than what one has heard of all.
  for (const Standing& s : all) {
    double together = s.base;
    for (const Standing& other : all) together += s.base == other.base ? other.part : 0;
    if (share && s.whole && s.part > 0 && !planted(Bug::least_share_taken))
      share = std::max(*share, std::min(1.0, together));
  }
  return share.value_or(0);
}

/// Where this peer needs what another has, as all must be alike.
void Member::fetch(const std::vector<Standing>& all, double share) {
  if (spec_.own_models) return;
  std::vector<PeerId> have;
  for (PeerId p = 0; p < all.size(); ++p)
    if (all[p].whole && all[p].share == share) have.push_back(p);
  if (have.empty()) return;  // all begin anew
  const auto fits = std::find_if(have.begin(), have.end(), [&](PeerId p) { return can_be(all[p].bytes); });
  const PeerId from = fits == have.end() ? have.front() : *fits;
  if (whole_ && standing_.hash == all[from].hash) return;
  tell_dropped(all, from);
  if (!can_be(all[from].bytes))
    return end(Outcome::lost_peer, fmt::format("{} offers a state of {}", current_.seats[from].name,
                                               bytes_text(static_cast<double>(all[from].bytes))));
  std::vector<std::string> sources;
  for (const PeerId p : have)
    if (all[p].hash == all[from].hash && can_ask(current_.seats[p].name))
      sources.push_back(current_.seats[p].name);
  if (sources.empty()) sources.push_back(current_.seats[from].name);
  env_.log(fmt::format("taking the state of {} ({}) from {}", current_.seats[from].name,
                       bytes_text(static_cast<double>(all[from].bytes)), fmt::join(sources, ", ")));
  fetched_share_ = share;
  transfer_.emplace(std::move(sources), all[from].hash, all[from].bytes, spec_.swim.planted);
}

void Member::handle(const WantBody& want) {
  const auto to = number(want.from);
  if (!to) return;
  if (want.hash == 0) return offer_to(want.from);
  const std::span<const std::byte> all = on_offer(want.hash);
  if (want.offset >= all.size()) return;
  const auto at = static_cast<std::size_t>(want.offset);
  const std::size_t size = std::min(kPieceBytes, all.size() - at);
  if (env_.queued_bytes(*to) > kMostQueued) return;  // it asks again
  const auto limits = limits_.find(want.from);
  if (limits != limits_.end() &&
      !limits->second.may_have(static_cast<double>(size), static_cast<double>(all.size()), env_.now()))
    return;
  post(*to, PieceBody{want.hash, want.offset, all.subspan(at, size)}, priority::kStates);
}

void Member::handle(const PieceBody& piece) {
  if (ahead_) return take_ahead(piece);
  if (!transfer_ || piece.hash != transfer_->hash() || !transfer_->take(piece.offset, piece.bytes)) return;
  part_came_ = env_.now();
  auto bytes = transfer_->complete() ? transfer_->result() : std::nullopt;
  if (!bytes) return;
  if (!spec_.alike) return take_part(*bytes);
  auto state = state_of(*bytes, "other members");
  transfer_.reset();
  if (!state) return;
  learned_ = std::move(*bytes);
  standing_.hash = piece.hash;  // its givers may go
  standing_.bytes = learned_.size();
  share_ = std::max(share_, fetched_share_);
  kept_ = std::move(*state), whole_ = true;
  if (const auto all = standings()) open(farthest(*all));
}

void Member::ask() {
  for (const Transfer::Ask& ask : transfer_->asks(env_.now()))
    if (const auto peer = number(ask.whom))
      post(*peer, WantBody{transfer_->hash(), ask.offset, name()}, priority::kStates);
}

void Member::open(double share) try {
  share_ = share;
  gone_.clear();
  view_env_->numbers.clear();
  for (const Seat& seat : current_.seats) view_env_->numbers.push_back(*number(seat.name));
  if (const auto all = standings()) current_.former = former(*all);
  WorkerSpec spec = env_.enter_view(current_, share);
  if (spec.total_samples > 0) spec.samples_before = own_samples_ - announced_samples_;
  run_ = current_;
  std::vector<std::string> links;
  for (const PeerId p : spec.membership.links) links.push_back(current_.seats[p].name);
  const bool everyone = links.size() + 1 == current_.seats.size();
  for (const auto& [peer, link] : deaf_to_) links.push_back(peer);
  swim_->links(links, everyone);
  std::uint64_t steps = spec.rounds_before;
  // where nobody waits, a share of the run is so many samples, and fewer members have more of them each
  const double each = spec.total_samples > 0
                          ? static_cast<double>(spec_.named) / static_cast<double>(current_.seats.size())
                          : 1;
  rounds_per_share_ = each * static_cast<double>(spec.rounds + spec.rounds_before);
  if (const auto all = standings()) hold_all_that(*all);
  last_entered_ = current_.id() + current_.attempt;
  worker_ = std::make_unique<Worker>(std::move(spec), *view_env_);
  opened_ = true;
  owed_ = owed_in(kept_);
  if (!kept_.empty() && !planted(Bug::state_not_restored)) {
    Archive::saving(kept_).part("data").value("steps", steps);
    add_passage(kept_, passage());
    worker_->restore_learned(kept_);
    kept_.clear();
  }
  whole_ = true;
  if (planted(Bug::learned_dropped)) learned_ = {};
  tell_view();
  tell_apart();
  if (entered_.empty() || entered_.back().seats != current_.seats) entered_.push_back(current_);
  if (entered_.size() > kRemembered) entered_.erase(entered_.begin() + 1);
  worker_->start();
} catch (const std::runtime_error& error) {  // a method, or a model, that cannot go on with these
  worker_.reset();
  end(Outcome::lost_peer, error.what());
}

}  // namespace gossamer::node

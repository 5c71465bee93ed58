// How a member takes over what others have learned while these go on, and how they give it away.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gossamer/node/errors.h"
#include "member.h"
#include "priority.h"
#include "replica.h"
#include "text.h"
#include "view_env.h"

namespace gossamer::node {
namespace {

/// From one question of what a member has to the next, as it may not have heard of this one yet; and of
/// another member.
constexpr double kAskAgain_s = 0.25, kOfferPatience_s = 5;
/// Without a piece, before another member is asked.
constexpr double kPiecePatience_s = 5;
/// So old a copy is given to one more member.
constexpr double kFresh_s = 5;

}  // namespace

bool Member::can_ask(const std::string& whom) const {
  const auto& all = swim_->members();
  const auto record = all.find(whom);
  const bool dials = record != all.end() && record->second.address.empty();
  return !dials || !all.at(name()).address.empty();
}

/// The members that have what the run has learned, and that this one can ask for it.
std::vector<std::string> Member::who_have_it() const {
  std::vector<std::string> names;
  const std::set<std::string> out = left_out().names;  // what they have is old
  for (const auto& [name, record] : swim_->members()) {
    const bool lives = record.status == MemberStatus::alive && !out.contains(name) && can_ask(name);
    const Standing s = standing_from(record.word);
    if (lives && name != this->name() && s.begun && s.whole) names.push_back(name);
  }
  return names;
}

/// Whether the start of the source that has offered its state is there.
bool Member::source_lives() const {
  const auto record = swim_->members().find(ahead_->source);
  return record != swim_->members().end() && record->second.start == ahead_->start &&
         record->second.status <= MemberStatus::suspect;
}

/// Whether it is done before the next view is announced.
bool Member::begin_ahead() {
  if (whole_ || spec_.alike || spec_.own_models || who_have_it().empty()) return false;
  close_view();
  ahead_.emplace();
  ahead_->tries = static_cast<std::size_t>(*number(name()));  // who come together ask several
  return true;
}

void Member::fetch_ahead() {
  Ahead& a = *ahead_;
  const double now = env_.now();
  if (a.transfer && (now >= a.came + kPiecePatience_s || !source_lives()))
    a.transfer.reset(), a.source.clear();
  if (a.transfer) {
    for (const Transfer::Ask& ask : a.transfer->asks(now))
      if (const auto peer = number(ask.whom))
        post(*peer, WantBody{a.transfer->hash(), ask.offset, name()}, priority::kStates);
    return;
  }
  if (!a.source.empty() && now < a.asked + kAskAgain_s) return;
  const auto all = who_have_it();
  if (all.empty()) return ahead_.reset();
  if (const bool there = std::count(all.begin(), all.end(), a.source) > 0;
      !there || now >= a.chosen + kOfferPatience_s) {
    a.source = all[a.tries++ % all.size()];
    a.chosen = now;
  }
  a.asked = now;
  if (const auto peer = number(a.source)) post(*peer, WantBody{0, 0, name()}, priority::kStates);
}

double Member::ahead_deadline() const {
  if (!ahead_ || over_) return std::numeric_limits<double>::infinity();
  if (ahead_->source.empty()) return env_.now();
  if (ahead_->transfer) return std::min(ahead_->transfer->next_deadline(), ahead_->came + kPiecePatience_s);
  return ahead_->asked + kAskAgain_s;
}

void Member::handle(const OfferBody& offer) {
  if (!ahead_ || ahead_->transfer || offer.from != ahead_->source || !can_be(offer.bytes)) return;
  env_.log(fmt::format("taking the state of {} ({}) while the others go on", offer.from,
                       bytes_text(static_cast<double>(offer.bytes))));
  ahead_->transfer.emplace(std::vector{offer.from}, offer.hash, offer.bytes, spec_.swim.planted);
  ahead_->start = swim_->members().at(offer.from).start;
  ahead_->share = offer.share;
  ahead_->came = env_.now();
}

void Member::take_ahead(const PieceBody& piece) {
  auto& transfer = ahead_->transfer;
  if (!transfer || piece.hash != transfer->hash() || !transfer->take(piece.offset, piece.bytes)) return;
  ahead_->came = env_.now();
  if (!transfer->complete()) return;
  auto bytes = transfer->result();
  if (!bytes) return;
  auto state = state_of(*bytes, ahead_->source);
  if (!state) return transfer.reset(), ahead_->source.clear();
  kept_ = without_own(*state);
  whole_ = true;
  share_ = ahead_->share;
  ahead_.reset();
  if (standing_.view == 0) expect_begun();
  env_.log("the state is here; taking part from the next view on");
}

/// Before it announces its first view: of those that the job names some may be on their way as it was. The
/// others do not wait for them, and neither does this one.
void Member::expect_begun() {
  std::erase_if(current_.seats, [this](const Seat& seat) {
    const auto record = swim_->members().find(seat.name);
    return seat.name != name() &&
           (record == swim_->members().end() || !standing_from(record->second.word).begun);
  });
}

/// What came under the hash that it was offered under; none, and said so, where that is no state of a model.
std::optional<State> Member::state_of(std::span<const std::byte> bytes, const std::string& whose) const {
  try {
    State state = state_from_bytes(bytes);
    take_own(state);  // nobody gives that away
    const std::vector<float> x = parameters_in(state);
    if (std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); })) return state;
    env_.log(fmt::format("the state of {} holds no finite parameters, and is left", whose));
  } catch (const StateError& error) {
    env_.log(fmt::format("the state of {} cannot be read, and is left: {}", whose, error.what()));
  }
  return std::nullopt;
}

// --- what is given away

void Member::offer_to(const std::string& name) {
  if (!whole_) return;
  const double now = env_.now();
  const bool fresh = served_ && now < served_->made + kFresh_s;
  if (!fresh && !kept_.empty()) served_ = {learned_bytes(without_own(kept_)), share_, now, now};
  if (fresh || !kept_.empty()) {
    served_->asked = now;
    const Learned& there = served_->learned;
    return post(*number(name), OfferBody{there.hash, there.bytes->size(), served_->share, this->name()},
                priority::kStates);
  }
  if (!worker_) return;  // which may be waiting for the one that asks
  if (askers_.empty()) env_.data().submit_learned();
  askers_.insert(name);
}

void Member::take_learned(const Learned& learned) {
  served_ = {learned, share_done(), env_.now(), env_.now()};
  for (const std::string& name : askers_)
    if (number(name)) offer_to(name);
  askers_.clear();
}

/// What was offered under that hash; empty where it is not there any more.
std::span<const std::byte> Member::on_offer(std::uint64_t hash) {
  if (served_ && served_->learned.hash == hash) {
    served_->asked = env_.now();
    return *served_->learned.bytes;
  }
  return hash == standing_.hash ? std::span<const std::byte>(learned_) : std::span<const std::byte>();
}

// --- who would take part

void Member::handle(const AskBody& ask) {
  if (ask.initial_at != AskBody::kNothing) return hand_out_initial(ask.initial_at);
  TermsBody terms = spec_.terms;
  terms.from = name();
  terms.min_peers = spec_.min_peers;
  if (!swim_) {
    terms.refusal = fmt::format(
        "nobody can join this run: run.min_peers = {}, so that all of its peers must stay and no others come",
        spec_.min_peers);
  } else if (const auto known = number(ask.from);
             !spec_.only_named.empty() && (!known || *known >= spec_.named)) {
    terms.refusal = spec_.only_named;
  } else if (over_) {
    terms.refusal = "the run is over";
  } else if (const auto record = swim_->members().find(ask.from);
             record != swim_->members().end() && record->second.status == MemberStatus::alive) {
    terms.refusal = fmt::format("a peer of the name '{}' takes part already, at {}", ask.from,
                                record->second.address.empty() ? "no address" : record->second.address);
    terms.taken = true;
  }
  tell(std::move(terms));
}

void Member::hand_out_initial(std::uint64_t at) {
  if (at >= spec_.initial.size()) return;
  const auto piece = spec_.initial.subspan(
      at, std::min<std::size_t>(kInitialPieceBytes, spec_.initial.size() - static_cast<std::size_t>(at)));
  tell({.from = name(),
        .parameters_hash = spec_.terms.parameters_hash,
        .initial_at = at,
        .initial = {piece.begin(), piece.end()}});
}

void Member::tell(TermsBody terms) {
  FrameHeader header;
  header.sender = kNoPeer;
  header.job = spec_.job;
  env_.answer(encode_frame({header, std::move(terms)}));
}

}  // namespace gossamer::node

#include "member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "priority.h"
#include "view_env.h"

namespace gossamer::node {

Member::Member(MemberSpec spec, MemberEnv& env, std::optional<WorkerSpec> first)
    : spec_(std::move(spec)),
      env_(env),
      view_env_(std::make_unique<ViewEnv>(*this)),
      worker_wake_(std::numeric_limits<double>::infinity()) {
  for (PeerId p = 0; p < spec_.roster.size(); ++p) numbers_.emplace(spec_.roster[p].name, p);
  for (PeerId p = 0; first && p < spec_.named; ++p) {
    const Contact& peer = spec_.roster[p];
    current_.seats.push_back({peer.name, p == spec_.self ? spec_.start : 0, peer.address.empty()});
    view_env_->numbers.push_back(p);
  }
  run_ = current_;
  if (first) {
    share_ = first->share_before;
    rounds_ = first->rounds_before;
    rounds_per_share_ = static_cast<double>(first->rounds + first->rounds_before);
  }
  if (may_change()) {
    SwimSpec swim = spec_.swim;
    swim.name = name();
    swim.address = spec_.roster[spec_.self].address;
    swim.start = spec_.start;
    swim_.emplace(swim, static_cast<SwimHost&>(*this), env_.now());
    if (first) {
      std::vector<std::string> links;
      for (const PeerId p : first->membership.links) links.push_back(spec_.roster[p].name);
      swim_->links(links);
    }
  }
  if (first) worker_ = std::make_unique<Worker>(std::move(*first), *view_env_);
}

Member::~Member() = default;

void Member::start() {
  started_ = env_.now();
  if (spec_.join) meet(*spec_.join);
  if (swim_)
    for (const Contact& peer : spec_.join ? std::vector{*spec_.join} : spec_.roster)
      if (peer.name != name()) swim_->contact(peer, env_.now());
  if (worker_) worker_->start();
  settle();
}

// --- what comes in

bool Member::speaks_for(const std::string& speaker, const Frame& frame) const {
  if (frame.header.sender != kNoPeer) {
    const auto& numbers = view_env_->numbers;
    return frame.header.sender < numbers.size() && spec_.roster[numbers[frame.header.sender]].name == speaker;
  }
  return std::visit(
      [&](const auto& body) {
        if constexpr (requires { body.from; })
          return body.from == speaker;  // pieces say nothing of their sender: awaited() asks who it was
        else
          return true;
      },
      frame.body);
}

/// It is dropped. In frames of other views numbers stand for others.
void Member::drop_false(const std::string& speaker, const Frame& frame) {
  ++before_.dropped_frames;
  const bool of_view = worker_ && frame.header.job == worker_->job_id();
  if (frame.header.sender != kNoPeer && !of_view) return;
  if (told_false_.insert(speaker).second)
    env_.log(fmt::format("{} speaks in the name of another peer: such frames are dropped", speaker));
}

bool Member::on_frame(std::span<const std::byte> bytes, const std::string* speaker, const Payload& apart,
                      const Payload& beside) {
  SpeakerLimits* limits = speaker && spec_.limits_speakers ? &limits_[*speaker] : nullptr;
  if (limits && !limits->hears(env_.now())) {
    ++before_.dropped_frames;
    return true;
  }
  const std::uint64_t dropped = dropped_frames();
  auto frame = decode_frame(bytes, beside);
  if (auto* parcel = frame && apart ? std::get_if<ParcelBody>(&frame->body) : nullptr)
    parcel->payload = *apart, parcel->apart = apart;
  if (speaker && frame && !speaks_for(*speaker, *frame) && !planted(Bug::names_believed))
    drop_false(*speaker, *frame);
  else
    take(frame, bytes.size() + apart->size() + beside->size(), speaker, limits);
  if (limits && dropped_frames() > dropped && limits->refused(env_.now()))
    env_.log(fmt::format("{} sends too much that is of no use: it is not heard for {:g} s", *speaker,
                         SpeakerLimits::kNotHeard_s));
  settle();
  return frame.has_value();
}

std::uint64_t Member::dropped_frames() const {
  return before_.dropped_frames + (worker_ ? worker_->dropped_frames() : 0);
}

/// Of what is neither a parcel nor a piece.
bool Member::within(SpeakerLimits& limits, const FrameBody& body) const {
  const double now = env_.now();
  if (std::holds_alternative<ParcelBody>(body) || std::holds_alternative<PieceBody>(body)) return true;
  const auto* want = std::get_if<WantBody>(&body);
  if (want && want->hash != 0) return true;  // as much as there is of the state
  if (const auto* ask = std::get_if<AskBody>(&body); ask && ask->initial_at != AskBody::kNothing)
    return spec_.initial.empty() ||
           limits.may_have(static_cast<double>(kInitialPieceBytes),
                           static_cast<double>(std::max(kInitialPieceBytes, spec_.initial.size())), now);
  const bool asks = want || std::holds_alternative<AskBody>(body) || std::holds_alternative<QueryBody>(body);
  const auto* news = std::get_if<SwimBody>(&body);
  return asks ? limits.may_ask(now)
              : limits.may_tell(news ? static_cast<double>(news->records.size()) : 1, now);
}

/// Of a state nothing is taken but from those who were asked for it.
bool Member::awaited(const FrameBody& body, const std::string* speaker) const {
  if (!speaker || !std::holds_alternative<PieceBody>(body)) return true;
  const auto& transfer = ahead_ ? ahead_->transfer : transfer_;
  return transfer && transfer->comes_from(*speaker);
}

void Member::take(std::optional<Frame>& frame, std::size_t bytes, const std::string* speaker,
                  SpeakerLimits* limits) {
  const bool by_name = frame && frame->header.sender == kNoPeer;
  const bool asks = by_name && (std::holds_alternative<AskBody>(frame->body) ||
                                std::holds_alternative<QueryBody>(frame->body));
  const bool strange = by_name && !asks && (!swim_ || frame->header.job != spec_.job || over_);
  if (strange && swim_ && !over_ && frame->header.job != spec_.job)
    if (const auto* said = std::get_if<SwimBody>(&frame->body); said && number(said->from))
      of_other_runs_.insert(said->from);
  if (strange || (frame && !awaited(frame->body, speaker)) ||
      (frame && limits && !within(*limits, frame->body))) {
    ++before_.dropped_frames;
  } else if (asks && frame->header.version < kOldestWireVersion) {
    const std::uint16_t v = frame->header.version;
    tell({.from = name(),
          .refusal =
              fmt::format("it speaks wire version {}.{}, and this run none before {}.{}; expected peers "
                          "of one version",
                          v >> 8, v & 255, kOldestWireVersion >> 8, kOldestWireVersion & 255)});
  } else if (by_name) {
    if (auto* news = std::get_if<SwimBody>(&frame->body)) leave_out_new(*news, limits);
    std::visit([this](const auto& body) { handle(body); }, frame->body);
  } else if (worker_) {
    worker_->on_frame(frame, bytes);
  }
}

void Member::on_data(const DataEvent& event) {
  if (const auto* learned = std::get_if<Learned>(&event))
    take_learned(*learned);
  else if (worker_)
    worker_->on_data(event);
  settle();
}

void Member::on_timer() {
  const double now = env_.now();
  if (worker_ && (!swim_ || now >= worker_wake_)) worker_->on_timer();
  if (swim_ && !over_) swim_->on_timer(now);
  tell_untold();
  settle();
}

void Member::on_broken(PeerId peer) {
  if (swim_) swim_->on_broken(spec_.roster[peer].name, env_.now());
  const auto& numbers = view_env_->numbers;
  if (const auto at = std::find(numbers.begin(), numbers.end(), peer); worker_ && at != numbers.end())
    worker_->on_broken(static_cast<PeerId>(at - numbers.begin()));
  settle();
}

void Member::on_refused(PeerId peer) {
  if (swim_) swim_->on_refused(spec_.roster[peer].name, env_.now());
  settle();
}

void Member::interrupt() {
  if (over_) return;
  told_to_end_ = true;
  if (swim_ && !worker_ && !has_begun())
    end(Outcome::interrupted, "told to end before a member of the run had taken this peer in");
  if (worker_ && !winding_up_) worker_->interrupt();
  settle();
}

// --- what Swim says and asks

void Member::send(const Contact& to, SwimBody body) {
  if (to.name.empty()) return;
  const auto known = number(to.name);
  post(known ? *known : meet(to), std::move(body), priority::kControl);
}

void Member::post(PeerId to, FrameBody body, std::uint32_t priority) {
  FrameHeader header;
  header.sender = kNoPeer;
  header.job = spec_.job;
  env_.send(to, encode_frame({header, std::move(body)}), priority);
}

void Member::changed(const MemberRecord& now, std::optional<MemberStatus>) {
  members_changed_ = true;
  const Standing said = standing_from(now.word);
  heard_begun_ |= said.begun;
  if (now.name != name() && !said.deaf_to.empty())
    say_deaf_.insert(now.name);
  else
    say_deaf_.erase(now.name);
  const bool lives = now.status == MemberStatus::alive || now.status == MemberStatus::suspect;
  if (lives && now.name != name()) meet({now.name, now.address});
  for (View* view : {&current_, &run_})
    for (Seat& seat : view->seats)
      if (seat.start == 0 && seat.name == now.name) seat.start = now.start;
  if (now.name != name()) tell_change(now);
}

void Member::superseded(std::uint64_t start) {
  const auto ahead = static_cast<double>(start - std::min(start, spec_.start)) * 1e-6;
  end(Outcome::bad_input,
      fmt::format(
          "another process takes part as peer {}, which was started {:.0f} s later by its clock, or this "
          "machine's clock was set back: see which of them lives; where none does, set this clock right, "
          "or take part under another name (--join ADDRESS --name NAME)",
          name(), ahead));
}

// --- what is asked of it

void Member::end(Outcome outcome, std::string message) {
  if (over_) return;
  close_view();
  before_.outcome = outcome;
  before_.message = std::move(message);
  over_ = true;
  swim_->leave(env_.now());
}

bool Member::reachable(PeerId peer) const {
  if (swim_ && begun_) {
    const auto record = swim_->members().find(spec_.roster[peer].name);
    return record != swim_->members().end() &&
           (record->second.status == MemberStatus::alive || record->second.status == MemberStatus::suspect);
  }
  if (!worker_) return false;
  const std::vector<PeerId>& links = worker_->links();  // whose numbers are those of the roster until then
  return std::binary_search(links.begin(), links.end(), peer) && worker_->reachable(peer);
}

double Member::share_done() const { return worker_ && !winding_up_ ? worker_->share_done() : share_; }

WorkerResult Member::result() const {
  if (!worker_) return before_;
  WorkerResult r = worker_->result();
  if (r.outcome == Outcome::lost_peer && !worker_->began() && !of_other_runs_.empty())
    r.message += fmt::format(
        "; {} take part in a run of another job: start this peer with the same job file, "
        "--set, data and --session as these",
        fmt::join(of_other_runs_, ", "));
  for (auto& [peer, counts] : r.refused) peer = view_env_->numbers[peer];
  add_earlier(r, before_);
  return r;
}

void Member::schedule_wake() {
  if (!swim_) return;  // the worker's own are all
  double next = worker_ ? worker_wake_ : std::numeric_limits<double>::infinity();
  if (!over_) next = std::min(next, swim_->next_deadline());
  const bool waits_for_step =
      ((winding_up_ || ending_round_) && !step_over()) || (ending_gradient_ && env_.now() < step_by_);
  if (waits_for_step && !over_) next = std::min(next, step_by_);
  if (transfer_) next = std::min(next, transfer_->next_deadline());
  next = std::min(next, ahead_deadline());
  const auto until = [&](double time) {  // past that it is looked at whenever something comes
    if (env_.now() < time) next = std::min(next, time);
  };
  if (!over_ && !worker_ && standing_.holds) until(*apart_since_ + spec_.apart.wait_s);
  if (spec_.join && !begun_ && !over_) next = std::min(next, started_ + spec_.join_timeout_s);
  if (begun_ && !over_ && awaits_unheard()) next = std::min(next, announced_ + spec_.join_timeout_s);
  if (begun_ && waits_for_all()) until(begun_since_ + kPatience_s);
  if (begun_ && !over_ && members_changed_) until(look_again_);
  env_.wake_at(next);
}

}  // namespace gossamer::node

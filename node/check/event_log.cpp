#include "event_log.h"

#include <fmt/format.h>

#include "frame.h"
#include "link.h"
#include "mass.h"
#include "modulo.h"

namespace gossamer::node {
namespace {

const char* verb(Fate fate) {
  switch (fate) {
    case Fate::sent:
      return "sends";
    case Fate::lost:
      return "the network loses";
    case Fate::cut:
      return "the cut link loses";
    case Fate::held:
      return "the clogged link holds";
    case Fate::copied:
      return "the network copies";
    case Fate::stray:
      return "an earlier start had sent";
    case Fate::forged:
      return "another writes in its name";
    case Fate::garbled:
      return "the network garbles";
    case Fate::posed:
      return "writes in another's name";
    case Fate::arrived:
      return "receives";
    case Fate::late:
      return "has gone and misses";
  }
  return "";
}

std::string text(const FrameHeader& h, const AliveBody&) {
  return fmt::format("a sign of life, received {} used {}", h.received, h.consumed);
}
std::string text(const FrameHeader& h, const PlacesBody&) {
  return fmt::format("where peers run, of epoch {}", h.epoch);
}
std::string text(const FrameHeader&, const SwimBody& b) {
  return fmt::format("from {} of start {} {} records of who is there", b.from, b.from_start,
                     b.records.size());
}
std::string text(const FrameHeader&, const WantBody& b) {
  return fmt::format("{} asks for bytes of a state from {} on", b.from, b.offset);
}
std::string text(const FrameHeader&, const QueryBody&) { return "query"; }
std::string text(const FrameHeader&, const AnswerBody&) { return "status"; }
std::string text(const FrameHeader&, const PieceBody& b) {
  return fmt::format("{} bytes of a state from {} on", b.bytes.size(), b.offset);
}
std::string text(const FrameHeader&, const OfferBody& b) {
  return fmt::format("{} offers a state of {} bytes", b.from, b.bytes);
}
std::string text(const FrameHeader&, const AskBody& b) {
  if (b.initial_at == AskBody::kNothing) return fmt::format("{} asks for the terms of the run", b.from);
  return fmt::format("{} asks for the initial parameters from byte {} on", b.from, b.initial_at);
}
std::string text(const FrameHeader&, const TermsBody& b) {
  return fmt::format("{} tells the terms of the run", b.from);
}
std::string text(const FrameHeader& h, const HelloBody& b) {
  return fmt::format("a hello of epoch {} that has heard epoch {}", h.epoch, b.heard_epoch);
}
std::string text(const FrameHeader& h, const ParcelBody& b) {
  return fmt::format(
      "frame {}: round {} parcel {} tag {} chunk {} of {}, {} bytes; epoch {}, received {} used {}",
      h.sequence, b.round, b.parcel, b.tag, b.chunk + 1, b.chunks, b.payload.size(), h.epoch, h.received,
      h.consumed);
}
std::string text(const Message& m) {
  return fmt::format("round {} parcel {} tag {}, {} bytes, up to frame {}", m.round, m.parcel, m.tag,
                     m.payload->size(), m.sequence);
}

}  // namespace

void EventLog::add(PeerId peer, const std::string& event) {
  if (lines_.size() == most_) lines_.pop_front();
  lines_.push_back(fmt::format("{:12.6f} s  {:<8} {}", time_, names_.at(peer), event));
}

void EventLog::on_frame(Fate fate, PeerId from, PeerId to, std::span<const std::byte> bytes) {
  const auto frame = decode_frame(bytes);
  const std::string what =
      frame ? std::visit([&](const auto& b) { return text(frame->header, b); }, frame->body)
            : fmt::format("{} bytes that are no frame", bytes.size());
  const bool at_receiver = fate == Fate::arrived || fate == Fate::late;
  add(at_receiver ? to : from, fmt::format("{} {} {}: {}", verb(fate), at_receiver ? "from" : "to",
                                           names_.at(at_receiver ? from : to), what));
}
void EventLog::on_round(PeerId peer, Round round) { add(peer, fmt::format("begins round {}", round)); }
void EventLog::on_message(PeerId peer, PeerId from, const Message& m) {
  add(peer, fmt::format("has whole from {}: {}", names_.at(from), text(m)));
}
void EventLog::on_used(PeerId peer, PeerId from, const Message& m) {
  add(peer, fmt::format("uses what came from {}: {}", names_.at(from), text(m)));
}
void EventLog::on_mixed(PeerId peer, Round round, ParcelId parcel) {
  add(peer, fmt::format("has mixed round {} parcel {}", round, parcel));
}
void EventLog::on_end(PeerId peer, const std::string& message) {
  add(peer, message.empty() ? "has finished" : "ends: " + message);
}
void EventLog::on_op(PeerId peer, const Op& op, const DataView&) {
  if (const auto* e = std::get_if<op::Encode>(&op))
    add(peer, fmt::format("encodes slot {} from {} on, {} entries: round {} parcel {} tag {}", e->src,
                          e->range.begin, e->range.size, e->round, e->parcel, e->tag));
  if (const auto* d = std::get_if<op::DecodeAdd>(&op))
    add(peer, fmt::format("adds {} times a payload of {} bytes to slot {} from {} on, {} entries", d->weight,
                          d->payload->size(), d->dst, d->range.begin, d->range.size));
  if (const auto* e = std::get_if<op::Extended>(&op)) {
    visit_command<op::Push>(e->command, [&](const auto& p) {
      add(peer, fmt::format("gives away {} shares of its mass: round {} parcel {}", p.shares.size(), p.round,
                            p.parcel));
    });
    visit_command<op::Absorb>(e->command, [&](const auto& a) {
      add(peer,
          fmt::format("takes mass of parcel {} up to a payload of {} bytes", a.parcel, a.payload->size()));
    });
    visit_command<op::ModuloDecodeAdd>(e->command, [&](const auto& u) {
      add(peer,
          fmt::format("reads residues with weight {}: round {} parcel {}", u.weight, u.round, u.parcel));
    });
  }
  if (const auto* e = std::get_if<op::EncodeRows>(&op))
    add(peer, fmt::format("{} of its rows: round {}", e->send ? "tells" : "tells nothing", e->round));
  if (const auto* r = std::get_if<op::PushRows>(&op))
    add(peer, fmt::format("pushes {}rows of {} messages: round {}", r->own ? "its own rows and " : "",
                          r->received.size(), r->round));
  if (const auto* a = std::get_if<op::Aggregate>(&op))
    add(peer, fmt::format("gives {} vectors to its rule, for slot {}", a->vectors.size(), a->dst));
}

}  // namespace gossamer::node

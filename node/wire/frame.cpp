#include "frame.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "byte_pool.h"
#include "frame_checksum.h"
#include "text.h"
#include "wire.capnp.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kLeastTraversal = 64;
/// Bytes that the fields of a frame take, without blobs.
constexpr std::size_t kMostOfFields = 256;
/// Shorter payloads are copied sooner than they are sent as a part.
constexpr std::size_t kLeastBeside = std::size_t{16} << 10;

/// A blob inside the frame is none of its kind's.
struct Malformed {};

kj::ArrayPtr<const kj::byte> blob(std::span<const std::byte> b) {
  return {reinterpret_cast<const kj::byte*>(b.data()), b.size()};
}
std::span<const std::byte> span_of(capnp::Data::Reader d) {
  return {reinterpret_cast<const std::byte*>(d.begin()), d.size()};
}
template <class T>
T whole(std::optional<T> read) {
  if (!read) throw Malformed{};
  return std::move(*read);
}
PeerStates states(capnp::Data::Reader d) { return whole(PeerStates::from_bytes(span_of(d))); }
Places places(capnp::Data::Reader d) { return whole(Places::from_bytes(span_of(d))); }
std::vector<PeerSamples> samples(capnp::Data::Reader d) { return whole(samples_from_bytes(span_of(d))); }
SaveNews saves(capnp::Data::Reader d) {
  return d.size() == 0 ? SaveNews{} : whole(SaveNews::from_bytes(span_of(d)));
}
Offers offers(capnp::Data::Reader d) {
  return d.size() == 0 ? Offers{} : whole(Offers::from_bytes(span_of(d)));
}
void demand_name(wire::Frame::Reader f) {
  if (f.getSender() != kNoPeer) throw Malformed{};
}
SwimBody swim(wire::Frame::Reader f) {
  demand_name(f);
  SwimBody b = whole(SwimBody::from_bytes(span_of(f.getSwim().getBody())));
  if (!b.take_ended(span_of(f.getSwim().getEnded()))) throw Malformed{};
  return b;
}
std::string text(capnp::Text::Reader t) {
  std::string plain{t.cStr(), t.size()};
  if (!is_plain(plain)) throw Malformed{};
  return plain;
}

AnswerBody answer(wire::Status::Reader s) {
  AnswerBody b{s.getNumber(), whole(StatusBody::from_bytes(span_of(s.getBody())))};
  b.status.waits = text(s.getWaits());
  if (!b.status.waits.empty() && !is_member_address(b.status.waits)) throw Malformed{};
  return b;
}

std::string member_name(capnp::Text::Reader t) {
  std::string name = text(t);
  if (!names_a_peer(name)) throw Malformed{};
  return name;
}
TermsBody terms(wire::Terms::Reader t) {
  const auto initial = span_of(t.getInitial());
  return {.from = member_name(t.getFrom()),
          .refusal = text(t.getRefusal()),
          .taken = t.getTaken(),
          .session = t.getSession(),
          .min_peers = t.getMinPeers(),
          .job_text = text(t.getJobText()),
          .layers = text(t.getLayers()),
          .parameters_hash = t.getParametersHash(),
          .data_hash = t.getDataHash(),
          .access = text(t.getAccess()),
          .initial_at = t.getInitialAt(),
          .initial = {initial.begin(), initial.end()}};
}

void fill(wire::Frame::Builder f, const AliveBody& b) {
  const auto status = b.status.to_bytes();
  const auto fill_saves = [&](auto body) {
    body.setStatus(blob(status));
    if (b.saves) body.setSaves(blob(b.saves.to_bytes()));
    return body;
  };
  if (b.samples.empty()) return void(fill_saves(f.initAlive()));
  fill_saves(f.initProgress()).setSamples(blob(to_bytes(b.samples)));
}
void fill(wire::Frame::Builder f, const PlacesBody& b) {
  auto p = f.initPlaces();
  p.setPlaces(blob(b.places.to_bytes()));
  if (b.offers.asked()) p.setOffers(blob(b.offers.to_bytes()));
}
void fill(wire::Frame::Builder f, const WantBody& b) {
  auto want = f.initWant();
  want.setState(b.hash);
  want.setOffset(b.offset);
  want.setFrom(b.from);
}
void fill(wire::Frame::Builder f, const PieceBody& b) {
  auto piece = f.initPiece();
  piece.setState(b.hash);
  piece.setOffset(b.offset);
  piece.setBytes(blob(b.bytes));
}
void fill(wire::Frame::Builder f, const QueryBody& b) { f.initQuery().setNumber(b.number); }
void fill(wire::Frame::Builder f, const AnswerBody& b) {
  auto status = f.initStatus();
  status.setNumber(b.number);
  status.setBody(blob(b.status.to_bytes()));
  if (!b.status.waits.empty()) status.setWaits(b.status.waits);
}
void fill(wire::Frame::Builder f, const OfferBody& b) {
  auto offer = f.initOffer();
  offer.setState(b.hash);
  offer.setBytes(b.bytes);
  offer.setShare(b.share);
  offer.setFrom(b.from);
}
void fill(wire::Frame::Builder f, const AskBody& b) {
  auto ask = f.initAsk();
  ask.setFrom(b.from);
  ask.setInitialAt(b.initial_at);
}
void fill(wire::Frame::Builder f, const TermsBody& b) {
  auto t = f.initTerms();
  t.setFrom(b.from);
  t.setRefusal(b.refusal);
  t.setTaken(b.taken);
  t.setSession(b.session);
  t.setMinPeers(b.min_peers);
  t.setJobText(b.job_text);
  t.setLayers(b.layers);
  t.setParametersHash(b.parameters_hash);
  t.setDataHash(b.data_hash);
  if (!b.access.empty()) t.setAccess(b.access);
  t.setInitialAt(b.initial_at);
  if (!b.initial.empty()) t.setInitial(blob(b.initial));
}
void fill(wire::Frame::Builder f, const SwimBody& b) {
  auto swim = f.initSwim();
  swim.setBody(blob(b.to_bytes()));
  if (const auto ended = b.ended(); !ended.empty()) swim.setEnded(blob(ended));
}
void fill(wire::Frame::Builder f, const HelloBody& b) {
  auto h = f.initHello();
  h.setOldestVersion(b.oldest_version);
  h.setName(b.name);
  h.setHeardEpoch(b.heard_epoch);
  h.setJobHash(b.job_hash);
  h.setJobText(b.job_text);
  h.setTopologyHash(b.topology_hash);
  h.setLayers(b.layers);
  h.setParametersHash(b.parameters_hash);
  h.setDataHash(b.data_hash);
  h.setStatus(blob(b.status.to_bytes()));
  if (!b.allreduce.empty()) h.setAllreduce(b.allreduce);
}
void fill(wire::Frame::Builder f, const ParcelBody& b, bool elsewhere) {
  auto p = f.initParcel();
  p.setRound(b.round);
  p.setParcel(b.parcel);
  p.setTag(b.tag);
  p.setEntries(b.entries);
  p.setChunk(b.chunk);
  p.setChunks(b.chunks);
  p.setDigest(b.digest);
  if (elsewhere) return;
  // The payload's place is not clear yet, but for what rounds it up to words.
  auto to = p.initPayload(static_cast<capnp::uint>(b.payload.size()));
  if (!b.payload.empty()) std::memcpy(to.begin(), b.payload.data(), b.payload.size());
  const std::size_t beyond = b.payload.size() % sizeof(capnp::word);
  if (beyond > 0) std::memset(to.end(), 0, sizeof(capnp::word) - beyond);
}

Frame read(wire::Frame::Reader f, std::uint64_t payload) {
  Frame out;
  out.header = {f.getVersion(),  f.getSender(),   f.getJob(),     f.getEpoch(),
                f.getSequence(), f.getReceived(), f.getConsumed()};
  switch (f.which()) {
    case wire::Frame::ALIVE:
      out.body = AliveBody{states(f.getAlive().getStatus()), {}, saves(f.getAlive().getSaves())};
      break;
    case wire::Frame::PLACES:
      out.body = PlacesBody{places(f.getPlaces().getPlaces()), offers(f.getPlaces().getOffers())};
      break;
    case wire::Frame::SWIM:
      out.body = swim(f);
      break;
    case wire::Frame::WANT: {
      demand_name(f);
      const auto want = f.getWant();
      out.body = WantBody{want.getState(), want.getOffset(), member_name(want.getFrom())};
      break;
    }
    case wire::Frame::PIECE: {
      demand_name(f);
      const auto piece = f.getPiece();
      out.body = PieceBody{piece.getState(), piece.getOffset(), span_of(piece.getBytes())};
      break;
    }
    case wire::Frame::QUERY:
      demand_name(f);
      out.body = QueryBody{f.getQuery().getNumber()};
      break;
    case wire::Frame::STATUS:
      demand_name(f);
      out.body = answer(f.getStatus());
      break;
    case wire::Frame::OFFER: {
      demand_name(f);
      const auto offer = f.getOffer();
      if (!(offer.getShare() >= 0 && offer.getShare() <= 1)) throw Malformed{};
      out.body =
          OfferBody{offer.getState(), offer.getBytes(), offer.getShare(), member_name(offer.getFrom())};
      break;
    }
    case wire::Frame::ASK:
      demand_name(f);
      out.body = AskBody{member_name(f.getAsk().getFrom()), f.getAsk().getInitialAt()};
      break;
    case wire::Frame::TERMS:
      demand_name(f);
      out.body = terms(f.getTerms());
      break;
    case wire::Frame::PROGRESS:
      out.body = AliveBody{states(f.getProgress().getStatus()), samples(f.getProgress().getSamples()),
                           saves(f.getProgress().getSaves())};
      break;
    case wire::Frame::HELLO: {
      const auto h = f.getHello();
      out.body =
          HelloBody{h.getOldestVersion(), text(h.getName()),     h.getHeardEpoch(),     h.getJobHash(),
                    text(h.getJobText()), h.getTopologyHash(),   text(h.getLayers()),   h.getParametersHash(),
                    h.getDataHash(),      states(h.getStatus()), text(h.getAllreduce())};
      break;
    }
    case wire::Frame::PARCEL: {
      const auto p = f.getParcel();
      const auto d = p.getPayload();
      out.body = ParcelBody{p.getRound(),  p.getParcel(),
                            p.getTag(),    p.getEntries(),
                            p.getChunk(),  p.getChunks(),
                            p.getDigest(), {reinterpret_cast<const std::byte*>(d.begin()), d.size()},
                            payload};
      break;
    }
  }
  return out;
}

/// Words that hold the frame in one segment: its fields, and of each blob its size and some rounding.
/// elsewhere: but for a parcel's payload.
std::size_t first_segment_words(const Frame& frame, bool elsewhere) {
  std::size_t bytes = kMostOfFields;
  if (const auto* p = std::get_if<ParcelBody>(&frame.body); p && !elsewhere) bytes += p->payload.size();
  if (const auto* h = std::get_if<HelloBody>(&frame.body))
    bytes +=
        h->job_text.size() + h->layers.size() + h->allreduce.size() + h->name.size() + h->status.most_bytes();
  if (const auto* a = std::get_if<AliveBody>(&frame.body))
    bytes += a->status.most_bytes() + kMostBytesOfCount * a->samples.size() + a->saves.most_bytes();
  if (const auto* p = std::get_if<PlacesBody>(&frame.body))
    bytes += p->places.to_bytes().size() + p->offers.to_bytes().size();
  if (const auto* s = std::get_if<SwimBody>(&frame.body)) bytes += s->most_bytes();
  if (const auto* a = std::get_if<AnswerBody>(&frame.body)) bytes += a->status.most_bytes();
  if (const auto* w = std::get_if<WantBody>(&frame.body)) bytes += w->from.size();
  if (const auto* p = std::get_if<PieceBody>(&frame.body)) bytes += p->bytes.size();
  if (const auto* o = std::get_if<OfferBody>(&frame.body)) bytes += o->from.size();
  if (const auto* a = std::get_if<AskBody>(&frame.body)) bytes += a->from.size();
  if (const auto* t = std::get_if<TermsBody>(&frame.body))
    bytes += t->from.size() + t->refusal.size() + t->job_text.size() + t->layers.size() + t->access.size() +
             t->initial.size();
  return bytes / sizeof(capnp::word) + 8;
}

}  // namespace

FrameBytes encode_frame(const Frame& frame, bool in_parts) {
  const auto* parcel = std::get_if<ParcelBody>(&frame.body);
  const bool beside = in_parts && parcel && !parcel->apart && parcel->held->size() >= kLeastBeside;
  const bool elsewhere = beside || (parcel && parcel->apart);
  // One segment, built where it is sent from; before it stand the number of segments less one and its words.
  const std::size_t most_words = first_segment_words(frame, elsewhere),
                    most = (1 + most_words) * sizeof(capnp::word);
  const ByteBlock out = take_block(most);
  std::byte* const bytes = out.bytes.data();
  // A message is built in zeros. A parcel's fields stand before its payload, which is written in any case.
  std::memset(bytes, 0, parcel ? std::min(most, kMostOfFields) : most);
  auto* words = reinterpret_cast<capnp::word*>(bytes);
  capnp::FlatMessageBuilder message({words + 1, most_words});
  auto f = message.initRoot<wire::Frame>();
  f.setVersion(frame.header.version);
  f.setSender(frame.header.sender);
  f.setJob(frame.header.job);
  f.setEpoch(frame.header.epoch);
  f.setSequence(frame.header.sequence);
  f.setReceived(frame.header.received);
  f.setConsumed(frame.header.consumed);
  const auto put = [&](const auto& body) {
    if constexpr (std::is_same_v<decltype(body), const ParcelBody&>)
      fill(f, body, elsewhere);
    else
      fill(f, body);
  };
  std::visit(put, frame.body);
  const auto hash = parcel && !parcel->apart ? parcel->hash : std::nullopt;
  f.setChecksum(
      checksum(f.asReader(), hash ? *hash : payload_hash(f.asReader(), beside ? parcel->held : Payload())));
  const auto used = static_cast<std::uint32_t>(message.getSegmentsForOutput()[0].size());
  const std::array<std::uint32_t, 2> table{0, used};
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes, table.data(), sizeof table);
  return {{out.owner, {bytes, (1 + used) * sizeof(capnp::word)}},
          parcel ? parcel->apart : Payload(),
          beside ? parcel->held : Payload()};
}

std::optional<Frame> decode_frame(std::span<const std::byte> bytes, bool checked) {
  return decode_frame(bytes, Payload(), checked);
}

std::optional<Frame> decode_frame(std::span<const std::byte> bytes, const Payload& beside, bool checked) {
  if (bytes.size() < sizeof(capnp::word) || bytes.size() + beside->size() > kMaxFrameBytes ||
      bytes.size() % sizeof(capnp::word) != 0)
    return std::nullopt;
  try {
    capnp::ReaderOptions limits;
    // every part of a frame is read twice; one that points at the same part often is none
    limits.traversalLimitInWords = kLeastTraversal + 4 * bytes.size() / sizeof(capnp::word);
    limits.nestingLimit = 8;
    capnp::FlatArrayMessageReader message(
        {reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / sizeof(capnp::word)}, limits);
    const auto f = message.getRoot<wire::Frame>();
    if (f.which() > wire::Frame::TERMS) return std::nullopt;
    if (beside && (f.which() != wire::Frame::PARCEL || f.getParcel().hasPayload())) return std::nullopt;
    const std::uint64_t payload = payload_hash(f, beside);
    if (checked && checksum(f, payload) != f.getChecksum()) return std::nullopt;
    Frame frame = read(f, payload);
    if (auto* parcel = beside ? &std::get<ParcelBody>(frame.body) : nullptr)
      parcel->payload = *beside, parcel->held = beside;
    return frame;
  } catch (const kj::Exception&) {
    return std::nullopt;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

}  // namespace gossamer::node

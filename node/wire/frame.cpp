#include "frame.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "byte_pool.h"
#include "text.h"
#include "wire.capnp.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kLeastTraversal = 64;
/// Bytes that the fields of a frame take, without blobs.
constexpr std::size_t kMostOfFields = 256;

/// A blob inside the frame is none of its kind's.
struct Malformed {};

template <class Blob>
std::uint64_t hash_blob(const Blob& blob, std::uint64_t seed) {
  return XXH3_64bits_withSeed(blob.begin(), blob.size(), seed);
}

/// Of a parcel's payload; 0 elsewhere.
std::uint64_t payload_hash(wire::Frame::Reader f) {
  return f.which() == wire::Frame::PARCEL ? hash_blob(f.getParcel().getPayload(), 0) : 0;
}

/// Over every field but the checksum itself; scalars first, then the blobs, each seeded by what came before.
/// Of a parcel's payload the hash stands for it, which whoever sends or takes it needs as well.
std::uint64_t checksum(wire::Frame::Reader f, std::uint64_t payload) {
  std::array<std::uint64_t, 14> w{
      f.getVersion(),  f.getSender(),   f.getJob(),      f.getEpoch(),
      f.getSequence(), f.getReceived(), f.getConsumed(), static_cast<std::uint64_t>(f.which())};
  const auto scalars = [&] { return XXH3_64bits(w.data(), sizeof w); };
  switch (f.which()) {
    case wire::Frame::ALIVE:
      return hash_blob(f.getAlive().getSaves(), hash_blob(f.getAlive().getStatus(), scalars()));
    case wire::Frame::HELLO: {
      const auto h = f.getHello();
      w[8] = h.getHeardEpoch(), w[9] = h.getJobHash(), w[10] = h.getTopologyHash();
      w[11] = h.getParametersHash(), w[12] = h.getDataHash() ^ h.getOldestVersion();
      std::uint64_t hash = hash_blob(h.getName(), scalars());
      hash = hash_blob(h.getJobText(), hash);
      hash = hash_blob(h.getLayers(), hash);
      hash = hash_blob(h.getStatus(), hash);
      return h.hasAllreduce() ? hash_blob(h.getAllreduce(), hash) : hash;  // as versions before 1.4 have it
    }
    case wire::Frame::PROGRESS:
      return hash_blob(
          f.getProgress().getSaves(),
          hash_blob(f.getProgress().getSamples(), hash_blob(f.getProgress().getStatus(), scalars())));
    case wire::Frame::PARCEL: {
      const auto p = f.getParcel();
      w[8] = p.getRound(), w[9] = p.getParcel(), w[10] = p.getTag(), w[11] = p.getEntries();
      w[12] = (std::uint64_t{p.getChunk()} << 32) | p.getChunks(), w[13] = p.getDigest();
      return XXH3_64bits_withSeed(&payload, sizeof payload, scalars());
    }
    case wire::Frame::SWIM:
      return hash_blob(f.getSwim().getEnded(), hash_blob(f.getSwim().getBody(), scalars()));
    case wire::Frame::WANT:
      w[8] = f.getWant().getState(), w[9] = f.getWant().getOffset();
      return hash_blob(f.getWant().getFrom(), scalars());
    case wire::Frame::PIECE:
      w[8] = f.getPiece().getState(), w[9] = f.getPiece().getOffset();
      return hash_blob(f.getPiece().getBytes(), scalars());
    case wire::Frame::QUERY:
      w[8] = f.getQuery().getNumber();
      return scalars();
    case wire::Frame::STATUS:
      w[8] = f.getStatus().getNumber();
      return hash_blob(f.getStatus().getWaits(), hash_blob(f.getStatus().getBody(), scalars()));
    case wire::Frame::OFFER:
      w[8] = f.getOffer().getState(), w[9] = f.getOffer().getBytes();
      w[10] = std::bit_cast<std::uint64_t>(f.getOffer().getShare());
      return hash_blob(f.getOffer().getFrom(), scalars());
    case wire::Frame::ASK:
      w[8] =
          ~f.getAsk().getInitialAt();  // 0 where nothing is asked for that versions before 1.10 do not know
      return hash_blob(f.getAsk().getFrom(), scalars());
    case wire::Frame::TERMS: {
      const auto t = f.getTerms();
      w[8] = t.getSession(), w[9] = t.getMinPeers(), w[10] = t.getTaken();
      w[11] = t.getParametersHash(), w[12] = t.getDataHash(), w[13] = t.getInitialAt();
      std::uint64_t hash = hash_blob(t.getFrom(), scalars());
      hash = hash_blob(t.getRefusal(), hash);
      hash = hash_blob(t.getJobText(), hash);
      hash = hash_blob(t.getLayers(), hash);
      if (t.hasAccess()) hash = hash_blob(t.getAccess(), hash);
      return t.hasInitial() ? hash_blob(t.getInitial(), hash) : hash;
    }
    case wire::Frame::PLACES:
      return hash_blob(f.getPlaces().getOffers(), hash_blob(f.getPlaces().getPlaces(), scalars()));
  }
  return 0;
}

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
  if (!is_member_name(name)) throw Malformed{};
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
void fill(wire::Frame::Builder f, const ParcelBody& b) {
  auto p = f.initParcel();
  p.setRound(b.round);
  p.setParcel(b.parcel);
  p.setTag(b.tag);
  p.setEntries(b.entries);
  p.setChunk(b.chunk);
  p.setChunks(b.chunks);
  p.setDigest(b.digest);
  if (b.apart) return;
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
std::size_t first_segment_words(const Frame& frame) {
  std::size_t bytes = kMostOfFields;
  if (const auto* p = std::get_if<ParcelBody>(&frame.body); p && !p->apart) bytes += p->payload.size();
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

FrameBytes encode_frame(const Frame& frame) {
  // One segment, built where it is sent from; before it stand the number of segments less one and its words.
  const std::size_t most_words = first_segment_words(frame), most = (1 + most_words) * sizeof(capnp::word);
  const ByteBlock out = take_block(most);
  std::byte* const bytes = out.bytes.data();
  // A message is built in zeros. A parcel's fields stand before its payload, which is written in any case.
  std::memset(bytes, 0,
              std::holds_alternative<ParcelBody>(frame.body) ? std::min(most, kMostOfFields) : most);
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
  std::visit([&](const auto& body) { fill(f, body); }, frame.body);
  const auto* parcel = std::get_if<ParcelBody>(&frame.body);
  const auto hash = parcel && !parcel->apart ? parcel->hash : std::nullopt;
  f.setChecksum(checksum(f.asReader(), hash ? *hash : payload_hash(f.asReader())));
  const auto used = static_cast<std::uint32_t>(message.getSegmentsForOutput()[0].size());
  const std::array<std::uint32_t, 2> table{0, used};
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes, table.data(), sizeof table);
  return {{out.owner, {bytes, (1 + used) * sizeof(capnp::word)}}, parcel ? parcel->apart : Payload()};
}

std::optional<Frame> decode_frame(std::span<const std::byte> bytes, bool checked) {
  if (bytes.size() < sizeof(capnp::word) || bytes.size() > kMaxFrameBytes ||
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
    const std::uint64_t payload = payload_hash(f);
    if (checked && checksum(f, payload) != f.getChecksum()) return std::nullopt;
    return read(f, payload);
  } catch (const kj::Exception&) {
    return std::nullopt;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

}  // namespace gossamer::node

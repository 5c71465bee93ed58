#include "frame_checksum.h"

#include <array>
#include <bit>

#include "hash.h"

namespace gossamer::node {
namespace {

template <class Blob>
std::uint64_t hash_blob(const Blob& blob, std::uint64_t seed) {
  return hash_bytes({reinterpret_cast<const std::byte*>(blob.begin()), blob.size()}, seed);
}

}  // namespace

std::uint64_t payload_hash(wire::Frame::Reader f, const Payload& beside) {
  if (f.which() != wire::Frame::PARCEL) return 0;
  return beside ? hash_bytes(*beside) : hash_blob(f.getParcel().getPayload(), 0);
}

std::uint64_t checksum(wire::Frame::Reader f, std::uint64_t payload) {
  std::array<std::uint64_t, 14> w{
      f.getVersion(),  f.getSender(),   f.getJob(),      f.getEpoch(),
      f.getSequence(), f.getReceived(), f.getConsumed(), static_cast<std::uint64_t>(f.which())};
  const auto scalars = [&] { return hash_bytes(std::as_bytes(std::span(w))); };
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
      return hash_bytes(std::as_bytes(std::span(&payload, 1)), scalars());
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

}  // namespace gossamer::node

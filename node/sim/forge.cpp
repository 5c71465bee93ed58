#include "forge.h"

#include <algorithm>

#include "attack.h"
#include "gossamer/compress/codec.h"
#include "link.h"
#include "replica_base.h"

namespace gossamer::node {
namespace {

constexpr Round kLongOver = 16;  ///< rounds: no peer that is waited for is so far behind

std::vector<std::byte> encoded(std::string_view codec, std::size_t entries) {
  const auto c = compress::make_codec(codec);
  compress::Workspace workspace;
  std::vector<std::byte> out(c->max_bytes(entries));
  out.resize(c->encode(std::vector<float>(entries, 1.0f), {}, workspace, out));
  return out;
}

/// Of a codec that the payload is not of; of a dense one all but its last byte.
std::vector<std::byte> of_another_codec(std::span<const std::byte> payload, std::size_t entries) {
  std::string_view codec;
  try {
    codec = compress::inspect(payload).codec;
  } catch (const compress::PayloadError&) {
    codec = {};  // a method's own
  }
  // In a round that goes dense the job's codec would be taken, too, and which one that is is not known here.
  if (codec == compress::kDense) return {payload.begin(), payload.end() - 1};
  const auto rows = compress::codec_table();
  for (const auto& row : rows)  // dense would be taken from anyone
    if (row.name != codec && row.name != std::string_view(compress::kDense))
      return encoded(row.name, entries);
  return {};
}

constexpr std::uint64_t kMostForged = std::uint64_t{1} << 16;

/// With another parameter, and a check of its own that says so; empty where the bytes are not a whole state.
std::vector<std::byte> other_state(std::span<const std::byte> bytes, std::mt19937_64& random) try {
  State state = state_from_bytes(bytes);
  std::vector<float> x = parameters_in(state);
  if (x.empty()) return {};
  x[random() % x.size()] += 1;
  Archive::saving(state).floats(kParametersArray, x);
  return to_bytes(state);
} catch (const StateError&) {
  return {};
}

/// Of a state that is another, or has a bit changed.
FrameBytes forged_piece(Frame& frame, PieceBody& piece, std::mt19937_64& random) {
  if (piece.bytes.empty()) return nullptr;
  std::vector<std::byte> bytes = other_state(piece.bytes, random);
  if (bytes.empty()) {
    bytes.assign(piece.bytes.begin(), piece.bytes.end());
    bytes[random() % bytes.size()] ^= std::byte{1};
  }
  piece.bytes = bytes;
  return encode_frame(frame);
}

}  // namespace

FrameBytes forged(const FrameBytes& bytes, Forgery forgery, std::mt19937_64& random) {
  auto frame = decode_frame(*bytes);
  if (auto* piece = frame ? std::get_if<PieceBody>(&frame->body) : nullptr)
    return forged_piece(*frame, *piece, random);
  auto* body = frame ? std::get_if<ParcelBody>(&frame->body) : nullptr;
  if (!body || body->payload.size() < 4 || body->chunks != 1 || body->entries == 0) return nullptr;
  std::vector<std::byte> payload(body->payload.begin(), body->payload.end());
  // Messages of rows may hold many, and do not.
  const auto entries = static_cast<std::size_t>(std::min<std::uint64_t>(body->entries, kMostForged));
  if (forgery == Forgery::earlier_round && body->round < kLongOver) forgery = Forgery::later_round;
  switch (forgery) {
    case Forgery::earlier_round:
      body->round -= kLongOver + random() % (body->round - kLongOver + 1);
      break;
    case Forgery::later_round:
      body->round += (std::uint64_t{1} << 48) + random() % 1000;
      break;
    case Forgery::other_parcel:
      body->parcel += static_cast<ParcelId>(1'000'000 + random() % 1000);
      break;
    case Forgery::other_tag:
      body->tag += static_cast<std::uint32_t>(1'000'000 + random() % 1000);
      break;
    case Forgery::more_entries:
      body->entries += 1 + random() % 3;
      break;
    case Forgery::half:
      body->chunks = 2;
      payload.resize(payload.size() / 2);
      break;
    case Forgery::digest:
      payload.back() ^= std::byte{1};
      break;
    case Forgery::cut_short:
      payload.pop_back();
      break;
    case Forgery::not_finite:
      payload = not_finite_payload(entries);
      break;
    case Forgery::other_codec:
      payload = of_another_codec(payload, entries);
      break;
  }
  if (forgery != Forgery::digest) body->digest = digest_of(payload, body->chunks);
  body->payload = payload;
  body->hash.reset();
  return encode_frame(*frame);
}

FrameBytes in_anothers_name(const FrameBytes& bytes, const std::vector<std::string>& names,
                            std::mt19937_64& random) {
  auto frame = decode_frame(*bytes);
  if (!frame || names.size() < 2) return nullptr;
  const auto turn = static_cast<PeerId>(1 + random() % (names.size() - 1));
  const auto peers = static_cast<PeerId>(names.size());
  if (frame->header.sender != kNoPeer) {
    frame->header.sender = (frame->header.sender + turn) % peers;
    return encode_frame(*frame);
  }
  const bool named = std::visit(
      [&](auto& body) {
        if constexpr (requires { body.from; }) {
          const auto at = std::find(names.begin(), names.end(), std::string(body.from));
          if (at == names.end()) return false;
          body.from = names[(static_cast<std::size_t>(at - names.begin()) + turn) % names.size()];
          return true;
        } else {
          return false;
        }
      },
      frame->body);
  return named ? encode_frame(*frame) : nullptr;
}

FrameBytes stray_of(const FrameBytes& bytes) {
  auto frame = decode_frame(*bytes);
  auto* body = frame ? std::get_if<ParcelBody>(&frame->body) : nullptr;
  if (!body || body->payload.size() < 4) return nullptr;
  std::vector<std::byte> payload(body->payload.begin(), body->payload.end());
  payload.back() ^= std::byte{1};
  body->payload = payload;
  body->hash.reset();
  frame->header.epoch += std::uint64_t{1} << 32;
  return encode_frame(*frame);
}

}  // namespace gossamer::node

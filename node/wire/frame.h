#pragma once
// A Frame is what peers send each other, in memory and as Cap'n Proto bytes (wire.capnp).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ids.h"
#include "offers.h"
#include "peer_states.h"
#include "places.h"
#include "samples.h"
#include "saves.h"
#include "status_body.h"
#include "swim_body.h"

namespace gossamer::node {

constexpr std::uint16_t kWireVersion = 0x010e, kOldestWireVersion = 0x010e;
/// Payload bytes of one frame at most; larger payloads travel in chunks.
/// Small enough that a sign of life gets through between two chunks on a slow link (1 s at 1 Mbit/s).
constexpr std::size_t kChunkBytes = std::size_t{128} << 10;
/// Those up to this size may go as they are, where the link is fast.
constexpr std::size_t kWholeBytes = 4 * kChunkBytes;
/// Bytes of one frame at most; a transport refuses larger ones unread.
constexpr std::size_t kMaxFrameBytes = (std::size_t{1} << 20) + (std::size_t{128} << 10);

/// Of the initial parameters, in one frame at most.
constexpr std::size_t kInitialPieceBytes = std::size_t{512} << 10;
/// The version since which members hand them out.
constexpr std::uint16_t kInitialSince = 0x010a;

struct AliveBody {
  PeerStates status;
  std::vector<PeerSamples> samples{};  ///< peers ascend; none: a frame that any version reads
  SaveNews saves{};                    ///< empty where there are no checkpoints
};

struct HelloBody {
  std::uint16_t oldest_version = kOldestWireVersion;
  std::string name;
  std::uint64_t heard_epoch = 0;
  std::uint64_t job_hash = 0;
  std::string job_text;
  std::uint64_t topology_hash = 0;
  std::string layers;
  std::uint64_t parameters_hash = 0, data_hash = 0;
  PeerStates status;
  /// By name the algorithm of each parcel's dense all-reduce; empty: there is none.
  std::string allreduce{};
};

struct PlacesBody {
  Places places;
  Offers offers{};  ///< nobody's where there are no checkpoints
};

struct ParcelBody {
  Round round = 0;
  ParcelId parcel = 0;
  std::uint32_t tag = 0;
  std::uint64_t entries = 0;
  std::uint32_t chunk = 0, chunks = 1;
  std::uint64_t digest = 0;             ///< of the whole payload: chunks of one message know each other by it
  std::span<const std::byte> payload;   ///< decoded frames: points into the frame's bytes
  std::optional<std::uint64_t> hash{};  ///< of this payload, where it is known; decoded frames: it is
  /// The payload with its owner, where it is known: then it can go, or came, beside the other fields.
  Payload held{};
  /// Where sender and receiver share memory: the payload, which does not stand in the frame then. It is the
  /// message's whole one, and the frame has the numbers of all its chunks.
  Payload apart{};
};

/// For a piece of what another member has learned (member/transfer.h).
struct WantBody {
  std::uint64_t hash = 0;  ///< XXH3 of the whole; 0: for an OfferBody
  std::uint64_t offset = 0;
  std::string from;  ///< name of the sender
};
struct PieceBody {
  std::uint64_t hash = 0, offset = 0;
  std::span<const std::byte> bytes;  ///< decoded frames: points into the frame's bytes
};

/// For how a peer sees its run; of anyone.
struct QueryBody {
  std::uint64_t number = 0;  ///< that the answer repeats
};
struct AnswerBody {
  std::uint64_t number = 0;
  StatusBody status{};
};

/// What the sender has learned, as it can be fetched while it goes on.
struct OfferBody {
  std::uint64_t hash = 0, bytes = 0;
  double share = 0;  ///< of the run that was over
  std::string from;
};

/// For a run's terms, by one who would take part.
struct AskBody {
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::string from;  ///< under that name
  /// From which byte on a piece of the initial parameters is wanted, too.
  std::uint64_t initial_at = kNothing;
};
struct TermsBody {
  std::string from{};     ///< the member that answers
  std::string refusal{};  ///< why the asker may not take part; empty: it may
  bool taken = false;     ///< the refusal is that a member of that name lives
  std::uint64_t session = 0, min_peers = 0;
  std::string job_text{}, layers{};  ///< as in HelloBody
  std::uint64_t parameters_hash = 0, data_hash = 0;
  std::string access{};          ///< who may speak, as keys of a topology file; empty: connections are plain
  std::uint64_t initial_at = 0;  ///< in bytes
  std::vector<std::byte> initial{};
};

struct FrameHeader {
  std::uint16_t version = kWireVersion;
  std::uint32_t sender = 0;
  std::uint64_t job = 0, epoch = 0, sequence = 0, received = 0, consumed = 0;
};

using FrameBody = std::variant<AliveBody, HelloBody, ParcelBody, PlacesBody, SwimBody, WantBody, PieceBody,
                               QueryBody, AnswerBody, OfferBody, AskBody, TermsBody>;

struct Frame {
  FrameHeader header;
  FrameBody body;
};

/// Shared, and never changed after they are made.
struct FrameBytes : Payload {
  using Payload::Payload;
  FrameBytes(Payload own, Payload elsewhere, Payload behind)
      : Payload(std::move(own)), apart(std::move(elsewhere)), beside(std::move(behind)) {}
  Payload apart{};   ///< as of ParcelBody
  Payload beside{};  ///< a parcel's payload, which follows the others as it is; none: it is among them
  std::size_t size() const { return (*this)->size() + apart->size() + beside->size(); }  ///< of all
};

/// in_parts: a large payload that is held may stand beside the others.
FrameBytes encode_frame(const Frame& frame, bool in_parts = false);
/// Empty where the bytes are no frame (malformed, wrong checksum, too large). `bytes` must outlive the result
/// and start at a multiple of 8. checked: false reads frames whose checksum is another one, which whoever
/// means harm computes too.
std::optional<Frame> decode_frame(std::span<const std::byte> bytes, bool checked = true);
/// The same of a frame whose payload came beside it.
std::optional<Frame> decode_frame(std::span<const std::byte> bytes, const Payload& beside,
                                  bool checked = true);

}  // namespace gossamer::node

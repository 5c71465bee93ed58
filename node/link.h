#pragma once
// One direction-pair between two neighbours. Reliable delivery: parcels are numbered, delivered once and in
// order, and resent until they are acknowledged. Best effort: nothing is resent or acknowledged; a message
// that comes whole is delivered, unless a later one of the same parcel and tag was before. The transport
// below may lose, duplicate and reorder (a TCP connection that broke; the simulator).
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "frame.h"
#include "planted.h"

namespace gossamer::node {

/// A whole payload, reassembled from its chunks.
struct Message {
  Round round = 0;
  ParcelId parcel = 0;
  std::uint32_t tag = 0;
  std::uint64_t entries = 0;
  Payload payload;
  std::uint64_t sequence = 0;  ///< of its last chunk; for Link::consume
};

/// Counters of one link; bytes are whole frames, chunk frames of parcels counted apart in data_*.
struct LinkCounters {
  std::uint64_t bytes_out = 0, bytes_in = 0;
  std::uint64_t data_bytes_out = 0,
                data_entries_out = 0;  ///< resent frames included in bytes, not in entries
  std::uint64_t resent = 0, duplicates = 0, reordered = 0, refused = 0;
};

enum class Delivery { reliable, best_effort };

class Link {
 public:
  /// send puts a frame on the wire; the header's sender, job and epoch are filled in by it. priority: as in
  /// Env::send; what is resent goes before messages, and those in order.
  using Send = std::function<std::size_t(Frame, std::uint32_t priority)>;
  Link(Send send, double least_resend_s, Delivery delivery = Delivery::reliable, Planted planted = {})
      : send_(std::move(send)), least_resend_s_(least_resend_s), delivery_(delivery), planted_(planted) {}

  /// Cuts the payload into chunks, numbers and sends them.
  void send(const Message& message, double now);
  /// Whole messages that became deliverable by this frame, in order.
  std::vector<Message> receive(const FrameHeader& header, const ParcelBody& body);
  /// Acknowledgements that any frame carries.
  void acknowledged(const FrameHeader& header, double now);
  void consume(std::uint64_t sequence);  ///< of a message that has been used
  /// Resends what has waited too long; returns when to look again (empty: nothing outstanding). busy: frames
  /// still wait on this side, so that silence says nothing yet.
  std::optional<double> resend_due(double now, bool busy);
  /// The connection below broke: what was under way may be lost, so that patience is short until something is
  /// acknowledged.
  void on_broken() { broken_ = true; }
  /// Marks acknowledgements as carried by a frame that is being sent now.
  FrameHeader stamp(FrameHeader header);
  /// Something was received that the other side does not know of yet.
  bool owes_acknowledgement() const { return sent_received_ != received_ || sent_consumed_ != consumed_; }

  /// Messages of this parcel that were sent and have not been used at the other end, as far as known.
  std::size_t unused(ParcelId parcel) const;
  bool all_received() const { return outstanding_.empty(); }
  LinkCounters& counters() { return counters_; }
  const LinkCounters& counters() const { return counters_; }

 private:
  struct Outstanding {
    std::uint64_t sequence;
    Frame frame;
    Payload payload;  ///< keeps the frame's span alive
    double sent_at;
    bool resent = false;
  };
  struct Early {
    ParcelBody body;
    std::vector<std::byte> payload;
  };
  /// Of one parcel and tag under best effort: the message that is being put together, by its first sequence.
  struct Assembly {
    std::uint64_t first = 0, delivered = 0;
    std::map<std::uint32_t, std::vector<std::byte>> chunks;
  };
  void put(const Outstanding& o, std::uint32_t priority);
  std::vector<Message> receive_newest(const FrameHeader& header, const ParcelBody& body);
  void append(const ParcelBody& body, std::span<const std::byte> payload, std::vector<Message>& out);
  void measure(double round_trip);
  double resend_after() const;
  double overdue_at(const Outstanding& o) const { return std::max(o.sent_at, quiet_since_) + resend_after(); }

  Send send_;
  double least_resend_s_;
  Delivery delivery_;
  std::deque<Outstanding> outstanding_;
  std::uint64_t next_ = 1, peer_received_ = 0, peer_consumed_ = 0;
  double smoothed_ = 0, deviation_ = 0;
  double backoff_ = 1;
  bool broken_ = false;
  double quiet_since_ = 0;  ///< since then nothing left this side and nothing was acknowledged
  std::deque<std::pair<std::uint64_t, ParcelId>> unused_;  ///< last sequence of each message not used yet

  std::uint64_t received_ = 0, consumed_ = 0, sent_received_ = 0, sent_consumed_ = 0;
  std::map<std::uint64_t, Early> early_;
  std::set<std::uint64_t> consumed_ahead_;
  std::vector<std::byte> partial_;
  std::uint32_t next_chunk_ = 0;
  std::map<std::pair<ParcelId, std::uint32_t>, Assembly> assemblies_;
  LinkCounters counters_;
  [[no_unique_address]] Planted planted_;
};

}  // namespace gossamer::node

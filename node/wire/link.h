#pragma once
// A Link is one direction-pair between two neighbours. Reliable delivery: parcels are numbered, delivered
// once and in order, and resent until they are acknowledged. Best effort: nothing is resent or acknowledged;
// a message that comes whole is delivered, unless a later one of the same parcel and tag was before. The
// transport below may lose, duplicate and reorder (a TCP connection that broke; the simulator).
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "frame.h"
#include "intake.h"
#include "message.h"
#include "planted.h"

namespace gossamer::node {

enum class Delivery { reliable, best_effort };

class Link {
 public:
  /// send puts a frame on the wire; the header's sender, job and epoch are filled in by it. priority: as in
  /// Env::send; what is resent goes before messages, and those in order.
  using Send = std::function<std::size_t(Frame, std::uint32_t priority)>;
  /// The payload as the neighbour can read it where it is (ParcelBody::apart); none: it has to be sent.
  using Share = std::function<Payload(const Payload&)>;
  Link(Send send, double least_resend_s, Delivery delivery = Delivery::reliable, Planted planted = {},
       IntakeRules rules = {}, Share share = {})
      : send_(std::move(send)),
        share_(std::move(share)),
        least_resend_s_(least_resend_s),
        delivery_(delivery),
        rules_(std::move(rules)),
        intake_(rules_, counters_, planted),
        planted_(planted) {}
  Link(const Link&) = delete;  // the intake refers to it
  Link& operator=(const Link&) = delete;

  /// Cuts the payload into chunks, numbers and sends them.
  void send(const Message& message, double now);
  /// A parcel's frame; what it makes deliverable is then fetched, a message at a time.
  void receive(const FrameHeader& header, const ParcelBody& body);
  std::optional<Message> next();
  /// Acknowledgements that any frame carries.
  void acknowledged(const FrameHeader& header, double now);
  void consume(std::uint64_t sequence);  ///< of a message that has been used
  /// Resends what has waited too long; returns when to look again (empty: nothing outstanding). busy: frames
  /// still wait on this side, so that silence says nothing yet.
  std::optional<double> resend_due(double now, bool busy);
  /// The connection below broke: what was under way may be lost, so that patience is short until something is
  /// acknowledged.
  void on_broken();
  /// Marks acknowledgements as carried by a frame that is being sent now.
  FrameHeader stamp(FrameHeader header);
  /// Something was received that the other side does not know of yet.
  bool owes_acknowledgement() const {
    return sent_received_ != intake_.received() || sent_consumed_ != intake_.consumed();
  }
  /// Held of what came in and has not been used.
  std::size_t bytes_held() const;

  /// Messages of this parcel that were sent and have not been used at the other end, as far as known.
  std::size_t unused(ParcelId parcel) const;
  bool all_received() const { return outstanding_.empty(); }
  /// Of the payloads of messages that have not been acknowledged whole; links may share a payload.
  std::size_t bytes_outstanding() const { return bytes_outstanding_; }
  /// From now on parcels' frames are refused unread.
  void mute() { muted_ = true; }
  bool muted() const { return muted_; }
  LinkCounters& counters() { return counters_; }
  const LinkCounters& counters() const { return counters_; }

 private:
  struct Outstanding {
    std::uint64_t sequence;
    Frame frame;
    Payload payload;  ///< keeps the frame's span alive
    double sent_at;
    bool resent = false;
    bool lost = false;  ///< perhaps, with the connection: it is sent again soon, once
  };
  /// Of one parcel and tag under best effort: the message that is being put together, by its first sequence.
  struct Assembly {
    std::uint64_t first = 0, delivered = 0, digest = 0;
    std::uint32_t of = 0;                ///< chunks
    std::uint64_t overtaken = 0;         ///< messages in a row, each newer, that came after a later one
    std::uint64_t newest_overtaken = 0;  ///< of these, by its first sequence
    std::map<std::uint32_t, std::vector<std::byte>> chunks;
  };
  void put(const Outstanding& o, std::uint32_t priority);
  void put_whole(const Outstanding& first, Payload apart, std::uint32_t priority);
  bool send_whole_again(Outstanding& first, double now);
  void receive_newest(const FrameHeader& header, const ParcelBody& body);
  void refuse(Refusal why) { ++counters_.refused_by[static_cast<std::size_t>(why)]; }
  void measure(double round_trip);
  void begin_measuring(double now);
  void end_measuring(double now);
  double resend_after() const;
  double lost_overdue_at(const Outstanding& o) const;
  void send_again(Outstanding& o, double now);
  double resend_lost(double now);
  double overdue_at(const Outstanding& o) const { return std::max(o.sent_at, quiet_since_) + resend_after(); }

  Send send_;
  Share share_;
  double least_resend_s_;
  Delivery delivery_;
  std::deque<Outstanding> outstanding_;
  std::size_t bytes_outstanding_ = 0;
  std::size_t lost_ = 0;  ///< of the outstanding ones, so many
  bool muted_ = false;
  std::uint64_t next_ = 1, peer_received_ = 0, peer_consumed_ = 0;
  double smoothed_ = 0, deviation_ = 0;
  double bytes_per_s_ = 0;  ///< acknowledged of late while something was under way; 0: not known yet
  double measured_from_ = 0;
  std::size_t bytes_measured_ = 0;
  double backoff_ = 1;
  double quiet_since_ = 0;  ///< since then nothing left this side and nothing was acknowledged
  std::deque<std::pair<std::uint64_t, ParcelId>> unused_;  ///< last sequence of each message not used yet

  std::uint64_t sent_received_ = 0, sent_consumed_ = 0;
  IntakeRules rules_;
  LinkCounters counters_;
  Intake intake_;
  std::map<std::pair<ParcelId, std::uint32_t>, Assembly> assemblies_;
  std::optional<Message> newest_;  ///< best effort: whole, not fetched yet
  [[no_unique_address]] Planted planted_;
};

}  // namespace gossamer::node

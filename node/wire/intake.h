#pragma once
// Intake is the receiving end of a reliable link: frames become messages, each once and in the order of their
// numbers.
//
// Two that write frames in one neighbour's name may use the same numbers. So a number is not what a message
// is known by: of several that begin at one number ("candidates", told apart by their digests) each is judged
// by itself, and what comes under a number that has been passed is judged as well. A message that the method
// has no use for now is thus in nobody's way: neither does the right one count as its duplicate, nor does
// what follows wait for it.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "byte_pool.h"
#include "frame.h"
#include "message.h"
#include "planted.h"
#include "verdict.h"

namespace gossamer::node {

/// What a link asks of its owner about what comes in; without answers all is welcome.
struct IntakeRules {
  std::function<Verdict(const ParcelBody&)> judge{};  ///< by round, parcel and tag; payload not looked at
  /// Its payload. shared: it stands in the sender's memory, where nothing has befallen what was encoded.
  std::function<bool(const Message&, bool shared)> decodes{};
  /// The method goes by the order of messages, not by their rounds: a gap is not passed for a wrong frame's
  /// sake, or only once so much has come behind it that the right one cannot be on its way.
  bool ordered = false;
  std::size_t most_bytes = std::size_t{64} << 20;  ///< held for this link, beside what is due next
};

/// Chunks that Link::send cuts a payload of that size into.
std::uint32_t chunks_of(std::size_t bytes);
/// Whether the frame's chunk is one as Link::send cuts them: all but the last are full, or there is one.
bool well_cut(const FrameHeader& header, const ParcelBody& body, std::uint64_t entries);
/// Of a message's payload: of its chunks' hashes, or of its one chunk.
std::uint64_t digest_of(std::span<const std::byte> payload, std::uint32_t chunks);
std::uint64_t digest_of_chunks(std::span<const std::uint64_t> hashes);

class Intake {
 public:
  Intake(const IntakeRules& rules, LinkCounters& counters, Planted planted)
      : rules_(rules), counters_(counters), planted_(planted) {}

  void take(const FrameHeader& header, const ParcelBody& body);
  /// The next message that may be delivered now; judged anew, since each may change what another is.
  std::optional<Message> next();
  void consume(std::uint64_t sequence);  ///< of a message that has been used

  std::uint64_t received() const { return received_; }  ///< all up to this number
  std::uint64_t consumed() const { return consumed_; }
  std::size_t received_ahead() const { return ahead_.size(); }
  /// Something came a second time: the other side may not have heard that it came. Asked once.
  bool repeats_acknowledgement() { return std::exchange(repeat_, false); }
  std::size_t bytes() const { return held_; }

 private:
  struct Early {
    std::vector<std::byte> bytes;
    std::uint64_t hash;
  };
  struct Candidate {
    ParcelBody body;    ///< of its first frame that came; without payload
    ByteBlock block{};  ///< holds the first `joined` chunks, and has room for all
    std::uint32_t joined = 0;
    std::size_t length = 0;                   ///< of what was put there
    std::vector<std::uint64_t> hashes{};      ///< of these
    std::map<std::uint32_t, Early> chunks{};  ///< that came before one in front of them
    Payload alone{};                          ///< a chunk that is all, and is kept as it came
    Payload payload{};                        ///< once it is whole
    std::size_t bytes = 0;
    std::uint64_t touched = 0;
  };
  using Candidates = std::multimap<std::uint64_t, Candidate>;  ///< by the number of their first chunk

  void refuse(Refusal why) { ++counters_.refused_by[static_cast<std::size_t>(why)]; }
  void refuse(std::uint64_t sequence, Refusal why, std::uint32_t numbers = 1);
  bool decodes(const ParcelBody& body, const Payload& payload, bool shared) const;
  void duplicate(const FrameHeader& header, const ParcelBody& body);
  void pass(std::uint64_t sequence);
  bool came_before(std::uint64_t first, std::uint64_t digest) const;
  Candidates::iterator find(std::uint64_t first, const ParcelBody& body);
  Candidates::iterator hold(Candidates::iterator at, std::uint64_t first, const ParcelBody& body,
                            std::size_t bytes);
  void drop_oldest(std::uint64_t first);
  bool make_room(std::uint64_t first, std::size_t bytes);
  void erase(Candidates::iterator at);
  static bool has(const Candidate& c, std::uint32_t chunk);
  void put(Candidate& c, const ParcelBody& body);
  static Payload join(Candidate& c);
  bool complete(Candidates::iterator at);
  void mark(std::uint64_t sequence);
  bool pass_next();
  Message deliver(Candidates::iterator at);
  void remember(std::uint64_t first, std::uint64_t digest);

  const IntakeRules& rules_;
  LinkCounters& counters_;
  [[no_unique_address]] Planted planted_;
  Candidates candidates_;
  std::uint64_t next_ = 1;  ///< where the next message begins
  std::uint64_t received_ = 0, consumed_ = 0;
  std::set<std::uint64_t> ahead_;    ///< received, above received_
  std::set<std::uint64_t> passed_;   ///< from next_ on: of no use, and acknowledged
  std::set<std::uint64_t> refused_;  ///< from next_ on: not acknowledged, the right frame may be on its way
  std::set<std::uint64_t> consumed_ahead_;
  std::multimap<std::uint64_t, std::uint64_t> recent_;         ///< delivered of late: first number, digest
  std::unordered_map<std::uint64_t, std::size_t> unconsumed_;  ///< bytes delivered, by last number
  std::vector<Message> again_;                                 ///< planted: to be delivered twice
  std::size_t held_ = 0;
  std::size_t blocks_ = 0;  ///< of candidates that are not whole
  bool repeat_ = false;
  std::uint64_t clock_ = 0;
};

}  // namespace gossamer::node

#pragma once
// ProbeSockets carry the messages of a probe.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probe.h"

namespace gossamer::node {

enum class ProbeKind : std::uint32_t {
  hello,    ///< is there; also while it waits. round: where it is in the tournament; number: 1 asks for one
            ///< back
  ready,    ///< would begin the meeting of `round`
  ping,     ///< number: counts
  pong,     ///< answers a ping of that number
  bulk,     ///< payload, and a number that counts
  taken,    ///< number: bulks that have come
  last,     ///< no more bulks
  there,    ///< a PairMeasure of which `there` holds, for who leads
  measure,  ///< a whole PairMeasure
  told,     ///< number: measures that the sender has led, all of which were sent before
  got,      ///< that many have come
};

struct ProbeMessage {
  std::uint64_t session = 0;  ///< of the topology: others' messages are dropped
  ProbeKind kind = ProbeKind::hello;
  PeerId sender = 0;
  std::uint64_t round = 0, number = 0;
  PairMeasure pair{};
};

class ProbeSockets {
 public:
  /// Listens and connects to all. Throws ConfigError.
  explicit ProbeSockets(const ProbeSpec& spec);
  ~ProbeSockets();

  /// Never blocks; false where the connection takes nothing now. bytes of filler follow the message.
  bool send(PeerId to, const ProbeMessage& message, std::size_t filler = 0);
  /// The next message, waiting for it so long at most.
  std::optional<ProbeMessage> receive(double seconds);
  double now() const;

 private:
  struct Sockets;
  const ProbeSpec& spec_;
  std::uint64_t session_;
  std::unique_ptr<Sockets> sockets_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace gossamer::node

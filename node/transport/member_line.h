#pragma once
// A MemberLine is a connection over which a member of a run is asked before there is a peer here.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "asking.h"

namespace gossamer::node {

class MemberLine {
 public:
  /// name: under which this peer asks. keys: as of ask_for_terms. Throws std::exception where the address
  /// cannot be dialled.
  MemberLine(std::shared_ptr<zmq::context_t> context, MemberAddress member, std::optional<ClientKeys> keys,
             const std::string& name);

  const MemberAddress& member() const { return member_; }
  /// For its terms, or for a piece of the initial parameters; whoever was turned away once is not let in over
  /// that connection, so that it is made anew where nothing was heard for a while.
  void ask(std::uint64_t initial_at = AskBody::kNothing);
  /// Whether it is time to ask again for what was not answered.
  bool silent() const;
  /// What has come; waits for so long.
  std::optional<Terms> hear(std::chrono::milliseconds wait);

 private:
  using Clock = std::chrono::steady_clock;
  void dial();

  std::shared_ptr<zmq::context_t> context_;
  MemberAddress member_;
  std::optional<ClientKeys> keys_;
  std::string name_;
  zmq::socket_t socket_;
  Clock::time_point dialled_{}, asked_{};
  bool fresh_ = true;  ///< nothing was said over the connection
};

}  // namespace gossamer::node

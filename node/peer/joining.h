#pragma once
// Joining is what a peer that takes part in a run under way knows of it: the terms that a member told, and
// where others reach this peer.
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "asking.h"
#include "gossamer/node/peer.h"
#include "member.h"
#include "zmq_env.h"

namespace gossamer::node {

struct Prepared;

class Joining {
 public:
  /// Asks the member. Throws ConfigError where none answers, it refuses, its run is of another job, or others
  /// could not reach this peer.
  Joining(const Job& job, const std::string& name, const Options& options);

  /// By which a program's learner knows this peer.
  PeerId learner_number() const { return number_; }
  std::uint64_t session() const { return terms_.body.session; }
  ZmqSpec sockets() const { return sockets_; }
  /// Where the sockets that were made of it listen.
  void listens_at(const std::string& endpoint);
  /// Throws ConfigError where layers, data or initial parameters are others than the run's; the latter may be
  /// where takes_initial.
  void check(const Prepared& base, bool takes_initial) const;
  /// start: as of Seat.
  MemberSpec member(const Prepared& base, std::uint64_t start) const;

 private:
  [[noreturn]] void refuse(const std::string& why) const;

  std::string join_;
  Contact self_;
  PeerId number_ = 0;
  Terms terms_;
  ZmqSpec sockets_;
};

/// Where that member listens, and its key, where the text or the job says it; join: as of Options. Throws
/// ConfigError where anyone could answer.
MemberAddress member_of(const Job& job, const std::string& join);
/// join: as of Options; the job says with which key the connection is made. Throws ConfigError.
Terms ask_member(const Job& job, const std::string& join, const std::string& name,
                 const std::function<bool()>& stop = {});
/// Sockets of a peer of the job.
ZmqSpec sockets_of(const Job& job, PeerId self);
/// Why a run of the view's members is not possible; empty: it is.
std::string why_not(const Prepared& base, const View& view);
/// The job that a member tells, with overrides of what need not be the same for all, as of load_job. Throws
/// ConfigError.
Job job_of_run(const Terms& terms, std::span<const std::string> overrides);

}  // namespace gossamer::node

#pragma once
// A Peer is one of a job's peers as an object of the program that trains; run_local runs all of them as
// threads of this process, simulate in virtual time. Nothing here touches signals, the allocator, the
// threads of the dense algebra, the standard streams or files, but for those that a job names to be read.
// Everything throws Error (errors.h) alone, but for what the program's own functions throw.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "gossamer/node/errors.h"
#include "gossamer/node/job.h"
#include "gossamer/node/learner.h"
#include "gossamer/node/report.h"

namespace gossamer::node {

/// Called on the thread that runs the peer; they may be empty. What they throw ends the run.
struct Callbacks {
  std::function<void(const Report&)> on_report{};
  std::function<void(const std::string&)> on_log{};
  /// When all have joined: how many peers run on this machine, and how many in this process's allotment of
  /// its cores. Returns the threads that code large parcels; empty: one.
  std::function<std::size_t(std::size_t machine, std::size_t allotment)> on_neighbours{};
  std::function<void(const MemberEvent&)> on_member{};  ///< once the run has begun
  /// Names of those that train together, this one among them: at first, and whenever others do.
  std::function<void(const std::vector<std::string>&)> on_members{};
};

/// What a peer keeps at the end of a round.
struct Snapshot {
  std::uint64_t round = 0;          ///< rounds finished
  std::vector<float> parameters{};  ///< as of Peer::parameters
  std::vector<std::byte> state{};   ///< for Options::state; of this job and peer alone
};

struct Options {
  /// Keeps runs of the same job on the same ports apart: the same for all its peers.
  std::uint64_t session = 0;
  /// A snapshot's, to go on from it. Where all peers go on from snapshots after the same round, a synchronous
  /// run ends with the bits of one that was never interrupted.
  std::vector<std::byte> state{};
  std::size_t threads = 1;  ///< that share the coding of large parcels, until on_neighbours says
  /// A run's folder, from whose checkpoints this one goes on, or, of a run that began from another's and has
  /// none, from that one's; empty: it begins from the start.
  std::string resume{};
  /// tcp://host:port of a member of a run under way, whose members may change (run.min_peers): this peer
  /// takes part in it, by a name that no living member has. Empty: it is one of the job's, and begins with
  /// them.
  std::string join{};
  /// Of a peer that joins and that the job does not name: tcp://host:port, by which others reach it; empty: a
  /// free port of the address from which it reaches the member that it asks; kNoAddress: it can only dial
  /// out.
  std::string address{};
  /// Where initial parameters differ, all take those of the job's first peer, or of the run under way. Else
  /// the run is refused. Not where the job names a file for them.
  bool takes_initial = false;
  /// File that what the peer did, and when, is written to in the end, in the Trace Event Format; empty: none.
  std::string trace{};
  /// Asked a few times a second while a peer that joins waits, as it is made, for the member's answer: true
  /// ends that by Interrupted. May be empty.
  std::function<bool()> stop{};
};
constexpr const char* kNoAddress = "none";

struct Prepared;
struct Resumption;
struct WorkerResult;
class LiveDataPlane;

class Peer {
 public:
  /// Reads the data or asks the learner, and opens the peer's port. name: of the peer in the job, unless it
  /// joins a run; then the run's job must be this one.
  Peer(Job job, const std::string& name, Learner learner = {}, Callbacks callbacks = {},
       Options options = {});
  ~Peer();
  Peer(Peer&&) noexcept;

  /// Before run: the folder where checkpoints go, as run.checkpoint_every and run.keep say; none is made
  /// elsewhere.
  void keep_checkpoints(const std::string& folder);
  /// From where the run goes on, in words; empty: from the start.
  std::string goes_on_from() const;
  /// Joins the others, trains, and serves them until all are done. Once; a request to stop ends it cleanly,
  /// within a fraction of a second or the present gradient. How it ended is in the result: errors of a run
  /// are no exceptions.
  PeerResult run(std::stop_token stop = {});
  /// The same; stop is asked a few times a second, and after every signal.
  PeerResult run(const std::function<bool()>& stop);

  const std::vector<optim::Layer>& layers() const;
  /// The initial ones, and after run the trained ones: floats as layers() says, padding included.
  std::span<const float> parameters() const;
  /// From another thread than run's: waits until the peer has finished that many rounds, or where it has
  /// already the present one, and all that it sent has arrived. It goes on by itself.
  Snapshot snapshot(std::uint64_t after_rounds = 0);
  /// From run's own thread, as in its `stop`: from now on those may speak that this job lets, also over
  /// connections that stand. Throws ConfigError where the job's lists cannot be read, or say nothing while
  /// this peer's job did, or the other way round; the rules then stay as they were.
  void change_access(const Job& job);
  /// "host:port" where it listens.
  const std::string& endpoint() const;
  double seconds() const;  ///< since it was made
  // For the rooms of node/ alone.
  const Prepared& prepared() const;                      ///< of one that joins: as it would be alone
  const std::string& name_of(std::uint32_t peer) const;  ///< by the numbers of details()
  const WorkerResult& details() const;                   ///< after run
  LiveDataPlane* plane() const;                          ///< after run; null: it never began
  const Resumption* resumption() const;                  ///< null: it begins from the start

 private:
  friend std::vector<PeerResult> run_local(Job, Learner, std::function<Callbacks(std::size_t)>,
                                           std::stop_token,
                                           const std::function<void(std::size_t, std::span<const float>)>&);
  struct Impl;
  explicit Peer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// All peers of the job as threads of this process, over its addresses. callbacks: of the peer of that
/// number; may be empty. trained: given each peer's parameters in the end, one after the other.
std::vector<PeerResult> run_local(
    Job job, Learner learner = {}, std::function<Callbacks(std::size_t peer)> callbacks = {},
    std::stop_token stop = {},
    const std::function<void(std::size_t peer, std::span<const float> parameters)>& trained = {});

struct SimulationOptions {
  std::uint64_t seed = 1;   ///< of the network's faults and jitter
  std::size_t threads = 1;  ///< that compute gradients; a learner's take turns on this one
  std::function<void(std::size_t peer, double virtual_seconds, const Report&)> on_report{};
  std::stop_token stop{};
};
struct SimulationResult {
  std::vector<PeerResult> peers;
  std::vector<std::vector<float>> parameters;  ///< by peer, as of Peer::parameters
  double virtual_seconds = 0;                  ///< until the last peer ended
  std::uint64_t digest = 0;                    ///< of all parameters: equal runs, equal digest
};
/// All peers of the job in virtual time on a simulated network ([sim]), deterministically: the same bits as
/// over sockets where the method is synchronous.
SimulationResult simulate(Job job, Learner learner = {}, SimulationOptions options = {});

/// What the job's model, or the learner's, makes of parameters (as of Peer::parameters) on held-out data.
optim::Figures evaluate(Job job, std::span<const float> parameters, Learner learner = {});

}  // namespace gossamer::node

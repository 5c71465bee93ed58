#pragma once
// From where a run goes on: the checkpoints of another one, and what of them fits this job.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

struct Prepared;
struct WorkerSpec;

/// How a run goes on where another one was saved.
enum class Way {
  same_bits,  ///< as if it had never stopped, to the same bits where peers are in step
  all_kept,   ///< with all that was saved, under a job that differs in how long it learns, or how fast
  learned,    ///< with what was learned: parameters, optimiser, position; residuals and estimates begin anew
};

struct Resumption {
  std::filesystem::path folder;  ///< of the checkpoints
  Way way = Way::same_bits;
  std::string differs;                  ///< why it is not to the same bits; empty: it is
  bool same_optimizer = true;           ///< of the same kind
  bool in_step = true;                  ///< staleness 0: else when messages come makes a difference, too
  std::string beside{};                 ///< what else does, that is in no checkpoint; empty: nothing
  std::uint64_t run = 0;                ///< whose they are
  std::uint64_t rounds_then = 0;        ///< run.rounds of that run; 0: it went by epochs
  std::vector<std::string> problems{};  ///< checkpoints that were passed over, and why
  /// Way::learned: of the peers that are taken, one each; all, but of peers that wait for nobody. Else of one
  /// peer all that are whole, or, where no peer was named, of all peers the newest round that is.
  std::vector<CheckpointEntry> entries{};

  std::vector<Round> rounds() const;
  /// "round 120 of runs/mnist-…, to the same bits".
  std::string text() const;
};

/// run: a run's folder, or its checkpoints'; where a run has none, that of the run that it went on from.
/// self: the peer that asks, which may have its own files alone; empty: whoever starts them all. Throws
/// ConfigError where nothing there can be gone on from.
Resumption find_resumption(const std::string& run, const Job& job, const std::string& self);

/// The same run's, to checkpoints that the peer has written there.
Resumption back_to(const std::filesystem::path& folder, const std::vector<Round>& rounds,
                   const std::string& peer);

/// Of a round that the peer offers. kept: where its checkpoints go; in the same folder those of later rounds,
/// of the course that is not gone on with, are removed. Throws StateError.
State load_checkpoint(const Resumption& from, Round round, const std::string& peer,
                      const std::vector<optim::Layer>& layers, const std::filesystem::path& kept);

struct Resumed {
  State state;       ///< for Worker::restore_learned
  Round before = 0;  ///< rounds of this job that the run has done
  double epochs = 0;
};
/// Of Way::learned. The mean of the peers' parameters becomes the initial ones; where this peer has its own
/// alone it begins at these, and the initial ones are the job's.
Resumed learned_from(const Resumption& from, Prepared& prepared, const std::string& self);

/// What the peer has saved there of this very job, whoever took part; ascending.
std::vector<CheckpointHead> earlier_checkpoints(const std::string& folder, const Job& job,
                                                const std::string& self);

/// Whoever goes on and whoever does not, or from elsewhere, are told apart when they meet.
void name_parent(WorkerSpec& spec, const Resumption& from, std::uint64_t session);

}  // namespace gossamer::node

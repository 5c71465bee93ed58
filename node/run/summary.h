#pragma once
// A Summary holds the figures of a finished run, and becomes a table or JSON.
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "losses.h"
#include "setup.h"
#include "worker.h"

namespace gossamer::node {

struct Summary {
  std::string job, method, codec, topology, staleness;
  std::size_t peers = 0;
  bool has_accuracy = true;
  bool has_average = true;  ///< the peers' models are of one shape
  double test_accuracy = 0,
         test_loss = 0;  ///< of the average over peers (model_weights); NaN where there is none
  std::optional<double> peer_accuracy_mean, peer_accuracy_min;  ///< of the peers' own models
  std::optional<double> ensemble_accuracy, ensemble_loss;       ///< of the mean of their probabilities
  std::optional<double> vote_accuracy;                          ///< of the class that most of them predict
  double train_loss = 0;    ///< mean over peers, by rows a step, and the last epoch's steps
  double seconds = 0;       ///< first round's start to last round's end, the slowest peer's
  std::uint64_t steps = 0;  ///< rounds that every peer finished
  std::vector<std::uint64_t> samples_by_peer;  ///< taken in by each
  std::optional<double>
      overshoot;  ///< what all took in beyond the samples that end the run, as a share of these
  double samples_per_second = 0;        ///< all peers together
  double bytes_sent_per_peer = 0;       ///< all frames, mean over peers
  double data_bytes_sent_per_peer = 0;  ///< those of parcels alone
  double bits_per_parameter =
      0;  ///< and message: bits of parcel frames, headers included, per parameter they carry
  /// Of parcel frames, sent by a peer per step and parameter, where all models are of one shape; the second
  /// after exchange.dense_rounds, where there were some.
  std::optional<double> bits_per_step, coded_bits_per_step;
  double consensus_distance = 0;  ///< Σ weight_i ‖x_i − x̄‖² / Σ weight_i; NaN as above
  double staleness_mean = 0, staleness_max = 0;
  /// Of each peer's time from its first round's start to its last one's end, after a gradient stood until
  /// the round was over: what the exchange does not do beside the computing.
  std::vector<double> waited_by_peer;
  std::uint64_t checkpoints = 0;        ///< of the peer that took most
  double checkpoint_pause_s = 0;        ///< for which its training held for them
  std::uint64_t skipped_steps = 0;      ///< of all peers
  std::vector<std::string> muted;       ///< by any of their neighbours; each name once
  std::uint64_t closed_without = 0;     ///< rounds of all peers that took too long, and ended all the same
  std::uint64_t idle_steps = 0;         ///< local steps that slow peers left out
  std::uint64_t held_back = 0;          ///< messages, of all peers
  std::uint64_t queued_bytes_most = 0;  ///< that a peer held for one neighbour
  std::uint64_t dropped_control = 0;    ///< control frames, of all peers
  std::optional<double> virtual_seconds,
      virtual_samples_per_second;     ///< simulated runs; seconds is then the wall's
  optim::Figures figures{};           ///< of models that learn by key, means over peers
  std::vector<Loss> losses;           ///< in the order in which they were noticed
  std::optional<std::string> digest;  ///< 16 hexadecimal digits

  std::uint64_t samples() const {
    return std::accumulate(samples_by_peer.begin(), samples_by_peer.end(), std::uint64_t{0});
  }
};

/// results[i] and parameters[i]: of peer whose[i], or where whose is empty of peer i; own_models: also
/// evaluate each of them and their ensemble, which method ensemble does unasked.
Summary summarise(const Prepared& prepared, std::span<const WorkerResult> results,
                  std::span<const std::span<const float>> parameters, bool own_models,
                  std::span<const PeerId> whose = {});
/// The same of the models that peers have saved, in files; writes their average, where they have one, to
/// model.safetensors in that folder.
Summary summarise_saved(const Prepared& prepared, std::span<const WorkerResult> results,
                        std::span<const std::filesystem::path> models, bool own_models,
                        std::span<const PeerId> whose, const std::filesystem::path& folder);
/// Whether the peers' models are of one shape, so that they have an average.
bool have_average(const Prepared& prepared, std::span<const PeerId> peers);
/// How much each peer's model counts in their average: as in the mean that the run keeps, alike or by samples
/// or throughput (exchange.aggregate).
std::vector<double> model_weights(const Prepared& prepared, std::span<const PeerId> peers);
/// Σ weight_i · parameters_i / Σ weight_i, buffer_size floats, summed in peer order in double precision.
AlignedFloats average(std::span<const std::span<const float>> parameters, std::span<const double> weights);

std::string to_json(const Summary& summary);
/// Reads to_json's text; empty where it is something else.
std::optional<Summary> parse_summary(const std::string& text);
/// One column a run, one row a figure; above them the runs' names, where there are some.
std::string to_table(std::span<const Summary> runs, std::span<const std::string> names = {});

/// A line for the user where models that were so many rounds old, the oldest of a round on average, with no
/// weights of their own for it, may have made the peers' steps count less than half; else empty.
std::string told_of_model_age(const Prepared& prepared, double age);

/// "0", "4" or "unbounded"
std::string staleness_text(const std::optional<std::uint64_t>& staleness);

}  // namespace gossamer::node

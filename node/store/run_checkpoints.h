#pragma once
// Which checkpoints of a run can be gone on from.
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint.h"

namespace gossamer::node {

/// Where a run's folder has checkpoints: in its checkpoints/, or there itself where it is that folder.
std::optional<std::filesystem::path> checkpoints_in(const std::filesystem::path& run);

/// The same; where a run has none, or was killed before each peer had one, of the run that it went on from,
/// as long as there is one that did. asked: what names the folder, for the message, such as "--resume".
/// Throws ConfigError.
std::filesystem::path checkpoints_of(const std::string& run, const std::string& asked);

/// Says in a run's folder which one it went on from; checkpoints_of reads it.
void write_parent(const std::filesystem::path& run, const std::string& parent, Round round, bool same_bits,
                  const std::string& differs);

/// The entries whose files are what their manifests say, by their hashes; of the others why not.
std::vector<CheckpointEntry> whole(const CheckpointFolder& folder, std::span<const CheckpointEntry> entries,
                                   std::vector<std::string>& problems);
/// The newest round that all peers of the run but those have, whole; entries as list gives them, of one run.
std::vector<CheckpointEntry> newest_complete(const CheckpointFolder& folder,
                                             std::span<const CheckpointEntry> entries,
                                             std::vector<std::string>& problems,
                                             std::span<const std::string> but = {});
/// Of each peer the newest that is whole, in the job's order: of peers that save each at its own time.
std::vector<CheckpointEntry> newest_of_each(const CheckpointFolder& folder,
                                            std::span<const CheckpointEntry> entries,
                                            std::vector<std::string>& problems);

/// x ← the mean of their parameters, padding 0.
void read_mean(const CheckpointFolder& folder, std::span<const CheckpointEntry> entries,
               const std::vector<optim::Layer>& layers, std::span<float> x);

/// The parameters that a run has come to: its model, or, where it has not ended, the mean over the peers of
/// its newest checkpoint. Throws ConfigError.
void read_run_parameters(const std::string& run, const std::vector<optim::Layer>& layers, std::span<float> x);

}  // namespace gossamer::node

#include "clicks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "sparse_rows.h"
#include "table_file.h"

namespace gossamer::node {
namespace {

/// Number of a sample that no training comes to.
constexpr std::uint64_t kAfterEndless = std::uint64_t{1} << 40;
/// Of a run over samples that nobody has counted, in epochs.
constexpr std::uint64_t kEpochsOfStream = 10;

bool made_up(const Job& job) { return job.data.format == kPlanted; }

std::uint64_t rows_a_step(const Job& job) {
  std::uint64_t rows = 0;
  for (const PeerEntry& peer : job.peers) rows += peer.batch;
  return rows;
}

/// Label skew of the peers' shares; check_learning let no other split through.
double alpha_of(const Job& job) {
  const std::size_t colon = job.split.find(':');
  return colon == std::string::npos ? 0 : std::stod(job.split.substr(colon + 1));
}

optim::SparseModelSpec model_of(const Job& job) {
  optim::SparseModelSpec spec = job.sparse.model;
  spec.kind = job.model.kind;
  spec.hidden = job.model.hidden;
  spec.fields = job.sparse.samples.fields;
  return spec;
}

/// Whether the model has no place for other fields than those below data.fields.
bool reads_fields(const Job& job) {
  const auto rows = optim::sparse_model_table();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == job.model.kind; });
  return row != rows.end() && row->reads_fields(model_of(job));
}

/// All peers' samples, in the order of the text.
optim::SampleStreamSpec samples_of(const Job& job, const ClickData& data) {
  optim::SampleStreamSpec spec = job.sparse.samples;
  spec.format = job.data.format;
  spec.path = job.data.path;
  spec.label = job.data.label;
  spec.text = job.data.text;
  spec.head = data.head;
  spec.seed = job.data.seed;
  if (reads_fields(job)) spec.most_fields = spec.fields;
  return spec;
}

optim::PlantedSpec planted_of(const Job& job) {
  optim::PlantedSpec spec = job.sparse.planted;
  spec.samples = job.sparse.samples.follow ? 0 : job.data.rows;
  spec.fields = job.sparse.samples.fields;
  spec.seed = job.data.seed;
  return spec;
}

/// They come after the training samples.
optim::PlantedSpec planted_test_of(const Job& job) {
  optim::PlantedSpec spec = planted_of(job);
  spec.first = job.sparse.samples.follow ? kAfterEndless : job.data.rows;
  spec.samples = job.data.test_rows;
  return spec;
}

/// Either kind of specification.
template <class Spec>
Spec shared_out(Spec spec, const Job& job, const ClickData& data, std::size_t peer) {
  spec.peer = peer;
  spec.peers = job.peers.size();
  spec.alpha = alpha_of(job);
  spec.names = job.peer_names();
  spec.homes = data.homes;
  spec.stays = job.private_data;
  return spec;
}

std::function<std::unique_ptr<optim::SampleStream>(std::uint64_t)> training_of(const Job& job,
                                                                               const ClickData& data,
                                                                               std::size_t peer,
                                                                               std::size_t threads) {
  if (made_up(job))
    return [spec = shared_out(planted_of(job), job, data, peer)](std::uint64_t) {
      return optim::open_planted(spec);
    };
  return [spec = shared_out(samples_of(job, data), job, data, peer), threads](std::uint64_t epoch) mutable {
    spec.threads = threads;
    spec.epoch = epoch;
    return optim::open_samples(spec);
  };
}

/// Nobody knows whether a pass over them ends.
bool endless(const Job& job) {
  return job.sparse.samples.follow || !job.sparse.samples.command.empty() || job.data.path == "-";
}

std::function<std::unique_ptr<optim::SampleStream>()> testing_of(const Job& job, const ClickData& data) {
  if (made_up(job)) return [spec = planted_test_of(job)] { return optim::open_planted(spec); };
  optim::SampleStreamSpec spec = samples_of(job, data);
  spec.path = job.data.test_path;
  spec.command = job.sparse.test_command;
  spec.command_key = "data.test_command";
  spec.follow = spec.shuffle = false;
  spec.threads = 0;
  if (spec.path.empty() && spec.command.empty()) return {};
  return [spec] { return optim::open_samples(spec); };
}

/// Whether it is no pipe, nor what a command says, which can be read but once.
bool stays(const std::string& path) {
  std::error_code none;
  const auto kind = std::filesystem::status(path, none).type();
  using Type = std::filesystem::file_type;
  return !path.empty() && path != "-" &&
         (kind == Type::regular || kind == Type::directory || kind == Type::not_found);
}

/// A run that only in the end finds nothing to evaluate on would be in vain. What can be read but once is
/// left to the evaluation.
void check_test(const Job& job, const ClickData& data) {
  const std::string& path = job.data.test_path;
  if (made_up(job) || !stays(path)) return;
  ClickData looked_at = data;
  // what is trained on says first which columns there are, also where it is still to come
  if (!stays(job.data.path) || !optim::note_head(samples_of(job, data)))
    looked_at.head = std::make_shared<optim::SampleHead>();
  optim::SparseBatch batch;
  if (!testing_of(job, looked_at)()->next(1, false, batch) || batch.size() == 0)
    throw ConfigError(fmt::format("{}: {} holds no sample that can be understood; expected at least one",
                                  job.where("data.test_path"), path));
}

void check_there(const Job& job, const char* key, const std::string& path) {
  std::error_code error;
  if (made_up(job) || path.empty() || path == "-") return;
  if (std::filesystem::exists(path, error)) {
    if (path != job.data.path || stays(path)) return;
    throw ConfigError(
        fmt::format("{}: {} is a pipe or device, which can be read but once; expected a file or a "
                    "folder of samples, or data.command = \"cat {}\"",
                    job.where(key), path, path));
  }
  throw ConfigError(fmt::format("{}: {}: {}; expected a file or a folder of samples", job.where(key), path,
                                error ? error.message() : "no such file"));
}

/// A table under a limit that it was saved under may lose a few parts of it; one of which most is lost is not
/// what the run was to begin with.
std::unique_ptr<optim::Table> initial_rows(const std::string& path, const std::string& where,
                                           const optim::TableSpec& spec) {
  auto table = load_table_file(path, &spec);
  const optim::TableStatistics found = table->statistics();
  const std::uint64_t lost = found.no_room + found.evicted_full;
  if (lost > found.rows)
    throw ConfigError(
        fmt::format("{}: {} of the {} rows of {} do not fit into table.memory = {} bytes; "
                    "expected more, or 0 for no limit",
                    where, lost, lost + found.rows, path, spec.memory));
  return table;
}

}  // namespace

void find_initial_rows(Job& job) {
  namespace fs = std::filesystem;
  if (!job.learns_by_key() || job.initial.empty() || !job.sparse.initial.empty()) return;
  const fs::path initial = job.initial;
  std::vector<fs::path> tables;
  if (fs::is_directory(initial)) {
    for (const fs::path& folder : {initial, initial / "peers"}) {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(folder, none))
        if (entry.path().extension() == ".table") tables.push_back(entry.path());
    }
  } else if (const fs::path beside = fs::path(initial).replace_extension(".table"); fs::exists(beside)) {
    tables.push_back(beside);
  }
  if (tables.empty())
    throw ConfigError(
        fmt::format("{}: {} has no table of rows beside its parameters; expected the folder of a run of "
                    "such a model, or table.initial",
                    job.where("model.initial"), job.initial));
  job.sparse.initial = std::min_element(tables.begin(), tables.end())->string();
}

ClickData survey(const Job& job) {
  check_there(job, "data.path", job.data.path);
  check_there(job, "data.test_path", job.data.test_path);
  ClickData data;
  const optim::SampleStreamSpec spec = samples_of(job, data);
  check_test(job, data);
  if (made_up(job) && !endless(job)) data.samples = job.data.rows;
  if (!made_up(job) && !endless(job)) {
    const optim::SampleCensus census = optim::count_lines(spec);
    if (census.lines == 0)
      throw ConfigError(fmt::format("{}: {} holds no samples; expected at least one a peer",
                                    job.where("data.path"), job.data.path));
    data.samples = census.lines;
    data.hash = census.hash;
  }
  return dealt_anew(data, job, {});
}

ClickData dealt_anew(ClickData data, const Job& job, const std::vector<optim::RowHome>& homes) {
  data.homes.clear();
  for (const optim::RowHome& home : homes) data.homes.push_back(home.name);
  std::uint64_t samples = data.samples;  // that those who are there have
  if (job.private_data && !homes.empty()) samples = samples / homes.size() * job.peers.size();
  const std::uint64_t steps =
      data.samples > 0 ? samples / rows_a_step(job) : job.run.rounds / kEpochsOfStream;
  data.steps_per_epoch = std::max<std::uint64_t>(1, steps);
  return data;
}

optim::ClickParts click_parts(const Job& job, const ClickData& data, std::size_t peer, std::size_t threads,
                              std::shared_ptr<optim::DataCourse> course) {
  optim::ClickParts parts;
  parts.model = model_of(job);
  parts.table = job.sparse.table;
  parts.table.seed = job.run.seed;
  if (!job.sparse.initial.empty())
    parts.rows = [path = job.sparse.initial, where = job.where("table.initial")](const auto& spec) {
      return initial_rows(path, where, spec);
    };
  parts.train = training_of(job, data, peer, threads);
  parts.course = std::move(course);
  if (endless(job))
    parts.share_anew = [spec = shared_out(samples_of(job, data), job, data, peer)](
                           optim::SampleStream& stream) { stream.share_anew(spec); };
  parts.test = testing_of(job, data);
  if (made_up(job))
    parts.best_auc = [spec = planted_test_of(job)] {
      return optim::PlantedClicks(spec).best_auc(spec.first, spec.first + spec.samples);
    };
  parts.follows = job.sparse.samples.follow && !made_up(job);
  parts.batch = job.peers[peer].batch;
  parts.steps_per_epoch = data.steps_per_epoch;
  parts.data_hash = data.hash;
  return parts;
}

compress::RowsSpec rows_of(const Job& job, const optim::TableSpec& table) {
  compress::RowsSpec spec;
  spec.width = table.width;
  spec.linear = table.linear;
  spec.codec = job.sparse.codec;
  spec.density = job.sparse.density;
  spec.most_unsent = job.sparse.unsent;
  try {
    compress::check_rows_spec(spec);
  } catch (const compress::CodecError& error) {
    throw ConfigError(fmt::format("{}: {}", job.where("table.codec"), error.what()));
  }
  return spec;
}

}  // namespace gossamer::node

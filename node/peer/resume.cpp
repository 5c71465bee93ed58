#include "resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "checkpoint_rounds.h"
#include "difference.h"
#include "gossamer/node/errors.h"
#include "hash.h"
#include "learned_state.h"
#include "method.h"
#include "replica.h"
#include "run_checkpoints.h"
#include "setup.h"
#include "sparse_rows.h"
#include "text.h"
#include "view_table.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;

/// Keys of a job that say how long it learns, how fast, and what is looked at meanwhile.
constexpr std::array kOfTheCourse{"run.min_peers",       "run.on_partition",     "run.partition_timeout",
                                  "run.silence_timeout", "run.epochs",           "run.rounds",
                                  "run.evaluate_every",  "run.checkpoint_every", "optimizer.learning_rate",
                                  "optimizer.schedule",  "optimizer.step_every", "optimizer.step_factor",
                                  "optimizer.warmup"};

/// What kind of going on the differences between two jobs allow.
Way way_of(const std::vector<KeyDifference>& all) {
  const bool course = std::all_of(all.begin(), all.end(), [](const KeyDifference& d) {
    return std::find(kOfTheCourse.begin(), kOfTheCourse.end(), d.key) != kOfTheCourse.end();
  });
  return all.empty() ? Way::same_bits : course ? Way::all_kept : Way::learned;
}

/// Views raise it where they begin, whoever is in them; where a checkpoint does not stand behind those rounds
/// the first exchange goes coded. True where it was among them.
bool leave_out_dense_rounds(std::vector<KeyDifference>& all, const ExchangeSettings& here) {
  const std::string of_view = std::to_string(std::max(local_steps(here), here.dense_rounds));
  const auto is_of_view = [&](const KeyDifference& d) {
    return d.key == "exchange.dense_rounds" && d.there == of_view;
  };
  return std::erase_if(all, is_of_view) > 0;
}

/// Where peers are reached makes no difference to what they learn.
void leave_out_places(std::vector<KeyDifference>& all) {
  std::erase_if(all, [](const KeyDifference& d) {
    const bool of_peer = d.key.starts_with("peer[");
    return d.key == "peers" || d.key == "base_port" ||
           (of_peer && (d.key.ends_with(".name") || d.key.ends_with(".address") || d.key.ends_with(".bind")));
  });
}

/// What is of a view of other peers, whatever its job says.
void leave_out_others(std::vector<KeyDifference>& all) {
  std::erase_if(all, [](const KeyDifference& d) {
    return d.key == "exchange.dense_rounds" || d.key.starts_with("peer[");
  });
}

/// Who they are is said at once.
void name_peers(std::vector<KeyDifference>& all, const std::vector<std::string>& there,
                const std::vector<std::string>& here) {
  leave_out_places(all);
  if (there == here) return;
  leave_out_others(all);
  all.insert(all.begin(), {.key = "the list of peers", .here = join(here, ", "), .there = join(there, ", ")});
}

std::string words_of(const std::vector<KeyDifference>& all) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> words;
  for (const KeyDifference& d : std::span(all).first(std::min(kMost, all.size())))
    words.push_back(fmt::format("{} was {} and is {}", d.key, shortened(d.there), shortened(d.here)));
  return join(words, ", ") +
         (all.size() > kMost ? fmt::format(" and {} more keys differ", all.size() - kMost) : "");
}

std::string beside_checkpoints(const Job& job, bool later_view) {
  std::vector<std::string> all;
  if (later_view) all.push_back("members had come or gone, and data are dealt as if none had");
  if (!job.learns_by_key()) return join(all, "; ");
  const optim::TableSpec& table = job.sparse.table;
  if (job.sparse.samples.follow && job.data.format != kPlanted)
    all.push_back("data.follow makes batches of what has come by then");
  if (table.admit_after > 1) all.push_back("table.admit_after counts anew");
  if (table.memory > 0) all.push_back("under table.memory rows stand elsewhere, and others go");
  if (table.evict_after > 0 || table.evict_zeros_after > 0)
    all.push_back("old rows are looked for at other steps");
  return join(all, "; ");
}

class Search {
 public:
  Search(const std::string& run, const Job& job, const std::string& self)
      : run_(run), self_(self), folder_(storage_, checkpoints_of(run, "--resume")) {
    found_.folder = folder_.path();
    entries_ = folder_.list(&found_.problems);
    const std::vector<std::string> named = job.peer_names();
    for (const CheckpointEntry& e : entries_)
      for (const std::string& peer : e.head.peers)
        if (std::find(named.begin(), named.end(), peer) == named.end()) guests_.push_back(peer);
    std::sort(guests_.begin(), guests_.end());
    guests_.erase(std::unique(guests_.begin(), guests_.end()), guests_.end());
    keep_one_run();
    std::vector<KeyDifference> all = differences(to_toml(job, true), entries_.back().head.job);
    const bool of_view = leave_out_dense_rounds(all, job.exchange);
    name_peers(all, entries_.back().head.peers, job.peer_names());
    found_.way = way_of(all);
    found_.differs = words_of(all);
    found_.rounds_then = job.run.rounds;
    for (const KeyDifference& d : all)
      if (d.key == "run.rounds") found_.rounds_then = std::strtoull(d.there.c_str(), nullptr, 10);
    found_.same_optimizer = std::none_of(all.begin(), all.end(),
                                         [](const KeyDifference& d) { return d.key == "optimizer.kind"; });
    if (entries_.back().head.learned && found_.way != Way::learned) {
      found_.way = Way::learned;
      found_.differs = "it was saved while it waited for others that it was cut off from";
    }
    found_.in_step = job.exchange.staleness == 0u;
    found_.beside = beside_checkpoints(job, of_view || entries_.back().head.later_view);
    together_ = save_spec(job).together;
    if (!together_ && found_.way != Way::learned) {
      found_.way = Way::learned;
      const std::string why = job.exchange.staleness > 0u
                                  ? fmt::format("its peers may be {} rounds apart", *job.exchange.staleness)
                                  : "its peers wait for nobody";
      found_.differs =
          join(std::vector<std::string>{why, found_.differs}, found_.differs.empty() ? "" : "; ");
    }
  }

  Resumption result() {
    found_.way == Way::learned ? choose_learned() : choose_kept();
    const bool any_own = std::any_of(entries_.begin(), entries_.end(),
                                     [&](const CheckpointEntry& e) { return e.head.peer == self_; });
    if (found_.entries.empty() && !any_own)
      refuse(fmt::format("it holds checkpoints of {}; this is {}", entries_.back().head.peer, self_));
    if (found_.entries.empty()) refuse("none of its checkpoints is whole");
    return found_;
  }

 private:
  /// Of the runs that have a round of all peers here, the one that wrote last; where none has, of all.
  void keep_one_run() {
    if (entries_.empty()) refuse("none of its checkpoints can be read");
    std::set<std::uint64_t> complete;
    for (const CompleteRound& r : complete_rounds(entries_, guests_)) complete.insert(r.run);
    const CheckpointEntry* last = nullptr;
    for (const CheckpointEntry& e : entries_)
      if ((complete.empty() || complete.contains(e.head.run)) && (!last || e.written >= last->written))
        last = &e;
    found_.run = last->head.run;
    std::erase_if(entries_, [run = found_.run](const CheckpointEntry& e) { return e.head.run != run; });
  }
  void choose_kept() {
    if (self_.empty()) {
      found_.entries = newest_complete(folder_, entries_, found_.problems);
      return;
    }
    std::erase_if(entries_, [&](const CheckpointEntry& e) { return e.head.peer != self_; });
    found_.entries = whole(folder_, entries_, found_.problems);
  }
  void choose_learned() {
    if (together_) found_.entries = newest_complete(folder_, entries_, found_.problems);
    if (!found_.entries.empty()) return;
    // those of peers that saved each at its own time; this peer's own alone, where it begins at these
    const std::size_t peers = entries_.back().head.peers.size();
    found_.entries = newest_of_each(folder_, entries_, found_.problems);
    const bool own = found_.entries.size() == 1 && found_.entries.front().head.peer == self_;
    const bool all = found_.entries.size() == peers, several = found_.entries.size() > 1;
    if (all || (!together_ && (several || own)) || (together_ && chose_without_guests())) return;
    refuse(
        fmt::format("{}; all peers then begin at the mean of what they had, and of the {} there are whole "
                    "checkpoints of {} here: copy those of all into one folder",
                    found_.differs, peers, found_.entries.size()));
  }
  /// Who joined the run keeps its checkpoints elsewhere.
  bool chose_without_guests() {
    if (guests_.empty()) return false;
    auto others = newest_complete(folder_, entries_, found_.problems, guests_);
    if (others.empty()) return false;
    found_.entries = std::move(others);
    found_.differs += fmt::format("; what {} learned is not here", join(guests_, ", "));
    return true;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    std::string text = fmt::format("--resume {}: {}", run_, why);
    for (const std::string& problem : found_.problems) text += "; " + problem;
    throw ConfigError(text);
  }

  const std::string& run_;
  const std::string& self_;
  PosixStorage storage_;
  CheckpointFolder folder_;
  std::vector<CheckpointEntry> entries_;
  Resumption found_;
  std::vector<std::string> guests_;  ///< peers that this job does not name
  bool together_ = true;
};

constexpr std::string_view kX = kParametersArray, kOptimizer = "data/optimizer/",
                           kObjective = "data/objective", kSteps = "data/steps";

/// Adds theirs to sums, array by array.
void add_floats(State& sums, const State& theirs) {
  for (auto& [name, array] : sums) {
    if (array.kind != NamedArray::Kind::floats) continue;
    const auto other = theirs.find(name);
    if (other == theirs.end() || other->second.bytes.size() != array.bytes.size()) continue;
    const auto* from = reinterpret_cast<const float*>(other->second.bytes.data());
    auto* to = reinterpret_cast<float*>(array.bytes.data());
    for (std::size_t k = 0; k < array.bytes.size() / sizeof(float); ++k) to[k] += from[k];
  }
}

void scale_floats(State& sums, float factor) {
  for (auto& [name, array] : sums)
    if (array.kind == NamedArray::Kind::floats)
      for (float& v :
           std::span(reinterpret_cast<float*>(array.bytes.data()), array.bytes.size() / sizeof(float)))
        v *= factor;
}

State only_learned(State state) {
  std::erase_if(state, [](const auto& array) {
    const std::string& name = array.first;
    return name != kX && name != kObjective && name != kSteps && !name.starts_with(kOptimizer);
  });
  return state;
}

}  // namespace

std::vector<Round> Resumption::rounds() const {
  std::set<Round> all;
  for (const CheckpointEntry& entry : entries) all.insert(entry.head.round);
  return {all.begin(), all.end()};
}

std::string Resumption::text() const {
  const auto all = rounds();
  const std::string where =
      all.size() == 1
          ? fmt::format("round {} of {}", all.front(), folder.parent_path().string())
          : fmt::format("rounds {} to {} of {}", all.front(), all.back(), folder.parent_path().string());
  switch (way) {
    case Way::same_bits:
      if (in_step && beside.empty()) return where + ", to the same bits";
      return where + ", with all that was saved" +
             (beside.empty() ? "" : "; not to the same bits: " + beside);
    case Way::all_kept:
      return fmt::format("{}, with all that was saved; not to the same bits: {}", where, differs);
    case Way::learned:
      return fmt::format(
          "{}, with parameters, {}; residuals and estimates begin anew, so "
          "that it is not to the same bits: {}",
          where, same_optimizer ? "optimiser and position" : "position and a new optimiser", differs);
  }
  return where;
}

Resumption find_resumption(const std::string& run, const Job& job, const std::string& self) {
  return Search(run, job, self).result();
}

Resumption back_to(const fs::path& folder, const std::vector<Round>& rounds, const std::string& peer) {
  Resumption back;
  back.folder = folder;
  PosixStorage storage;
  const CheckpointFolder all(storage, folder);
  for (const Round round : rounds) back.entries.push_back(all.find(round, peer));
  return back;
}

State load_checkpoint(const Resumption& from, Round round, const std::string& peer,
                      const std::vector<optim::Layer>& layers, const std::filesystem::path& kept) {
  PosixStorage storage;
  CheckpointFolder folder(storage, from.folder);
  for (const CheckpointEntry& entry : from.entries) {
    if (entry.head.round != round || entry.head.peer != peer) continue;
    std::error_code unknown;
    if (std::filesystem::equivalent(kept, folder.path(), unknown))
      for (const CheckpointEntry& later : from.entries)
        if (later.head.round > round) folder.remove(later.head.round, peer);
    return folder.read(entry, layers);
  }
  throw StateError(fmt::format("there is no checkpoint of round {} here", round));
}

Resumed learned_from(const Resumption& from, Prepared& prepared, const std::string& self) {
  if (!prepared.homogeneous())
    throw ConfigError(
        fmt::format("--resume {}: {}; peers with models of their own go on under the same job alone",
                    from.folder.parent_path().string(), from.differs));
  PosixStorage storage;
  const CheckpointFolder folder(storage, from.folder);
  const bool alone = from.entries.size() == 1 && from.entries.front().head.peers.size() > 1;
  const auto own = std::find_if(from.entries.begin(), from.entries.end(),
                                [&](const CheckpointEntry& e) { return e.head.peer == self; });

  State state =
      only_learned(folder.read(own != from.entries.end() ? *own : from.entries.front(), prepared.layers));
  if (!alone) {
    AlignedFloats mean(prepared.initial.size());
    read_mean(folder, from.entries, prepared.layers, mean);
    Archive::saving(state).part("data").floats("slot0", std::span<float>(mean));
    prepared.initial = std::move(mean);
    if (own == from.entries.end()) {  // a new peer takes the mean of the optimisers, too
      const NamedArray x_mean = state.at(std::string(kX));
      for (std::size_t n = 1; n < from.entries.size(); ++n)
        add_floats(state, folder.read(from.entries[n], prepared.layers));
      scale_floats(state, 1.0f / static_cast<float>(from.entries.size()));
      state[std::string(kX)] = x_mean;
    }
  }
  if (!from.same_optimizer) {  // it begins anew
    std::erase_if(state, [](const auto& a) { return a.first.starts_with(kOptimizer); });
    OptimizerState fresh(Archive::saving(state).part("data").part("optimizer"));
    optim::make_optimizer(prepared.job.optimizer, prepared.initial.size())->show(fresh);
  }

  double epochs = 0, share = 0;
  for (const CheckpointEntry& entry : from.entries) {
    epochs += entry.head.epoch / static_cast<double>(from.entries.size());
    share += entry.head.share_done / static_cast<double>(from.entries.size());
  }
  const auto each = static_cast<double>(prepared.rounds_per_epoch);
  const auto then = static_cast<double>(from.rounds_then);
  const bool by_rounds = prepared.job.run.rounds > 0 && then > 0;
  const Round before = static_cast<Round>(std::llround(by_rounds ? share * then : epochs * each));
  if (before >= prepared.rounds)
    throw ConfigError(
        by_rounds
            ? fmt::format("--resume {}: it had done {} rounds, and this job has {}; raise run.rounds",
                          from.folder.parent_path().string(), before, prepared.rounds)
            : fmt::format("--resume {}: it had done {:.4g} epochs, and this job has {:.4g}; raise run.epochs",
                          from.folder.parent_path().string(), epochs,
                          static_cast<double>(prepared.rounds) / each));
  std::uint64_t steps = before;
  Archive::saving(state).part("data").value("steps", steps);
  make_plan(prepared);
  return {std::move(state), before, epochs};
}

std::vector<CheckpointHead> earlier_checkpoints(const std::string& folder, const Job& job,
                                                const std::string& self) {
  PosixStorage storage;
  const CheckpointFolder checkpoints(storage, folder);
  const std::string job_text = to_toml(job, true);
  const auto of_this_job = [&](const CheckpointHead& head) {
    std::vector<KeyDifference> all = differences(job_text, head.job);
    leave_out_places(all);
    leave_out_others(all);
    std::erase_if(all, [](const KeyDifference& d) {  // which a view may have to choose anew
      return d.key.starts_with("graph.") || d.key == "exchange.backup";
    });
    return all.empty();
  };
  std::vector<CheckpointFolder::Place> places;
  try {
    places = checkpoints.places();
  } catch (const StorageError&) {  // who writes there hears of it
  }
  std::vector<CheckpointHead> heads;
  for (const CheckpointFolder::Place& place : places) try {
      if (place.peer != self) continue;
      CheckpointHead head = checkpoints.find(place.round, self).head;
      if (of_this_job(head)) heads.push_back(std::move(head));
    } catch (const StorageError&) {  // who goes on from there hears of these
    } catch (const StateError&) {
    }
  return heads;
}

void name_parent(WorkerSpec& spec, const Resumption& from, std::uint64_t session) {
  HelloBody& hello = spec.membership.hello;
  hello.job_text +=
      fmt::format("{}from = {}\nlearned_alone = {}\n", kResumedTable, from.run, from.way == Way::learned);
  hello.job_hash = hash_text(hello.job_text);
  spec.job_id = hash_bytes(std::as_bytes(std::span(&hello.job_hash, 1)), session);
}

}  // namespace gossamer::node

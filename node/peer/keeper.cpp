#include "keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "checkpoint_rounds.h"
#include "gossamer/optim/finite.h"
#include "replica.h"
#include "text.h"
#include "view_run.h"

namespace gossamer::node {

Keeper::Keeper(KeeperSpec spec, std::function<void(const std::string&)> log)
    : spec_(std::move(spec)),
      log_(std::move(log)),
      writer_(storage_, spec_.folder, spec_.layers),
      rounds_(spec_.rounds),
      evaluator_{spec_.peers.front(), 0},
      run_(spec_.run) {
  const CheckpointHead* best = nullptr;
  for (const CheckpointHead& e : spec_.earlier) {
    earlier_.push_back(e.round);
    if (!e.figures.empty() && (!best || better(e.figures, best->figures))) best = &e;
  }
  if (best) former_bests_.insert(best->round);
}

Keeper::~Keeper() = default;

void Keeper::checkpoint(SharedState state, const SavePoint& point) { write(std::move(state), point, false); }

void Keeper::keep_learned(const Prepared& base, const View& view, Round round, double share,
                          const State& learned) try {
  finish();
  if (std::find(rounds_.begin(), rounds_.end(), round) != rounds_.end()) return;
  const auto run = run_of_view(base, view.names(), true, view.diallers()).prepared;
  const double epochs = static_cast<double>(run->rounds) / static_cast<double>(run->rounds_per_epoch);
  enter(view.names(), to_toml(run->job, true), false, evaluator_);
  write(std::make_shared<State>(learned),
        {.name = round, .run = view.id(), .share_done = share, .epoch = share * epochs}, true);
} catch (const ConfigError& error) {  // those cannot train by themselves
  log_(fmt::format("no checkpoint of round {}: {}", round, error.what()));
}

void Keeper::write(SharedState state, const SavePoint& point, bool learned) {
  const std::vector<std::byte>& x = state->at(kParametersArray).bytes;
  if (!optim::all_finite({reinterpret_cast<const float*>(x.data()), x.size() / sizeof(float)}))
    return log_(fmt::format("no checkpoint of round {}: the parameters are not finite", point.name));
  run_ = spec_.run != 0 ? spec_.run : point.run;
  CheckpointHead head{spec_.peer,  spec_.peers, point.name,    run_,    point.share_done,
                      point.epoch, spec_.job,   point.figures, learned, later_view_};
  if (!point.figures.empty()) figures_[point.name] = point.figures;
  writing_ = true;
  writer_.write(std::move(head), std::move(state));
}

void Keeper::enter(std::vector<std::string> peers, std::string job, bool together, Incarnation evaluator) {
  take(nullptr);
  const bool known = evaluator.start != 0 && evaluator_.start != 0;
  const bool started_anew = known && evaluator.start != evaluator_.start;
  if (told_best_ && (started_anew || evaluator.name != evaluator_.name)) former_bests_.insert(*told_best_);
  evaluator_ = std::move(evaluator);
  spec_.peers = std::move(peers);
  spec_.job = std::move(job);
  spec_.together = together;
  spec_.run = 0;
  later_view_ = true;
  pruned_for_ = {};
  of_former_ = writing_;
}

void Keeper::take(Worker* worker) {
  for (const CheckpointWriter::Written& w : writer_.take()) {
    writing_ = false;
    const bool former = std::exchange(of_former_, false);
    if (!w.error.empty()) {
      log_(fmt::format("no checkpoint of round {}: {}; training goes on{}", w.round, w.error,
                       rounds_.empty() ? "" : fmt::format(", and that of round {} stands", rounds_.back())));
      continue;
    }
    log_(fmt::format("checkpoint of round {}: {} in {:.2f} s", w.round,
                     bytes_text(static_cast<double>(w.bytes)), w.seconds));
    rounds_.push_back(w.round);
    if (!worker || former) continue;
    worker->committed(w.round);
    judge(*worker, w.round);
  }
}

/// The best is the first peer's to say, which evaluates; where peers save each at their own time, every
/// one's. It is one of those that an evaluation came before, since the last checkpoint: figures of others'
/// parameters say nothing.
void Keeper::judge(Worker& worker, Round round) {
  const auto at = figures_.find(round);
  if (at == figures_.end()) return;
  if (!best_ || better(at->second, figures_[*best_])) best_ = round;
  std::erase_if(figures_, [&](const auto& of) { return of.first < round && of.first != *best_; });
  if (spec_.together) worker.judge(*best_, round);
}

/// What a view before knew stands until the present one knows better: peers tell what they save in it alone.
void Keeper::hear(const Worker& worker) {
  if (const auto best = worker.best_saved()) told_best_ = best;
  if (const auto common = worker.saved_by_all()) told_common_ = common;
}

/// Earlier starts' rounds go as this one's do, once others have what this one saved, too; but not those that
/// it did not come to by its first, which are of another course.
void Keeper::prune() {
  const auto best = spec_.together ? told_best_ : best_;
  const auto common = spec_.together ? told_common_ : std::nullopt;
  const std::pair now{common, best};
  std::vector<Round> there;
  if (spec_.together ? common.has_value() : rounds_.size() >= spec_.keep) there = earlier_;
  std::erase_if(there, [&](Round r) { return rounds_.empty() || r >= rounds_.front(); });
  there.insert(there.end(), rounds_.begin(), rounds_.end());
  const bool more = there.size() > spec_.keep;
  if (!more || (now == pruned_for_ && there.size() <= 2 * spec_.keep + 1)) return;
  pruned_for_ = now;
  std::vector<Round> gone = superfluous(there, common, spec_.keep, best);
  std::erase_if(gone, [&](Round r) { return former_bests_.contains(r); });
  if (gone.empty()) return;
  for (std::vector<Round>* rounds : {&earlier_, &rounds_})
    std::erase_if(*rounds, [&](Round r) { return std::binary_search(gone.begin(), gone.end(), r); });
  writer_.remove(spec_.peer, std::move(gone));
}

void Keeper::turn(Worker& worker) {
  const bool was_free = may_checkpoint();
  take(&worker);
  hear(worker);
  prune();
  if (was_free) worker.on_storage();
}

void Keeper::finish() {
  while (writer_.busy()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  take(nullptr);
}

}  // namespace gossamer::node

#include "gossamer/node/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "access.h"
#include "desk.h"
#include "hash.h"
#include "initial.h"
#include "joining.h"
#include "keeper.h"
#include "live_replica.h"
#include "machine.h"
#include "memory_watch.h"
#include "plan.h"
#include "result.h"
#include "resume.h"
#include "setup.h"
#include "starts.h"
#include "text.h"
#include "threaded_data_plane.h"
#include "trace.h"
#include "translate.h"
#include "view_run.h"
#include "zmq_env.h"

namespace gossamer::node {
struct Peer::Impl {
  Impl(std::shared_ptr<const Prepared> all, PeerId number, std::unique_ptr<ZmqEnv> sockets,
       Callbacks callbacks, Options options)
      : prepared(std::move(all)),
        self(number),
        env(std::move(sockets)),
        on(std::move(callbacks)),
        settings(std::move(options)),
        base(prepared) {
    if (!settings.state.empty()) state = state_from_bytes(settings.state);
    connect();
  }

  const std::string& name() const { return prepared->names[self]; }
  void log(const std::string& line) const {
    if (on.on_log) on.on_log(line);
  }

  void connect() {
    course = new_course(prepared->job);
    if (!device) {
      device = choose_device(*prepared, self, !settings.join.empty());
      if (!device->told.empty()) log(device->told);
    }
    replica.reset();  // before there is another one
    replica = make_live_replica(*prepared, self, *device, course, 0, settings.threads);
    if (!settings.trace.empty() && !trace) trace = std::make_shared<Trace>();
    env->trace = trace;
    replica->trace(trace);
    env->on_report = [this](const Report& r) { report(r); };
    env->on_log = on.on_log;
    env->on_member = on.on_member;
    env->on_status = [this](StatusBody& status) { fill(status); };
    if (on.on_neighbours)
      env->on_sharing = [this](const CoreSharing& s) {
        return threads = on.on_neighbours(s.machine, s.allotment);
      };
    env->on_turn = [this](Worker& worker) {
      desk.turn(worker);
      if (keeper) keeper->turn(worker);
    };
    env->on_saved = [this](const SharedState& saved) { desk.saved(*saved); };
    env->on_may_checkpoint = [this] { return keeper && keeper->may_checkpoint(); };
    env->on_checkpoint = [this](SharedState saved, const SavePoint& point) {
      keeper->checkpoint(std::move(saved), point);
    };
    env->on_load = [this](Round round) {
      for (const CheckpointEntry& entry : resumption->entries)
        if (entry.head.round == round) epochs.enter(*prepared, entry.head.share_done, entry.head.epoch);
      return load_checkpoint(*resumption, round, name(), prepared->layers_of(self),
                             keeper ? keeper->folder() : std::filesystem::path());
    };
    env->on_keep_learned = [this](const View& view, Round round, double share, const State& kept) {
      if (keeper && base->job.run.grace > 0) keeper->keep_learned(*base, view, round, share, kept);
    };
    env->on_view = [this](const View& view, double share) { return enter(view, share); };
    env->on_why_not = [this](const View& view) { return why_not(*base, view); };
  }

  /// What this peer is among those.
  std::pair<WorkerSpec, DataPlaneFactory> enter(const View& view, double share) {
    ViewRun run = run_of_view(*base, view.names(), true, view.diallers());
    now = run.prepared = with_former(std::move(run.prepared), view.former);
    if (!run.warning.empty()) log("warning: " + run.warning);
    if (on.on_members) on.on_members(view.names());
    const PeerId seat = find_peer(run.prepared->job, name(), name());
    const std::uint64_t both[] = {settings.session, view.id(), view.attempt};
    WorkerSpec spec = view_worker_spec(*run.prepared, seat, draw_epoch(),
                                       hash_bytes(std::as_bytes(std::span(both))), share);
    spec.epochs_before = epochs.enter(*run.prepared, share);
    set_saves(spec, run.prepared->job, keeper.has_value(), true);
    if (keeper) {  // its checkpoints are of these peers; those before go when these are whole
      const Seat& first = view.seats.front();
      keeper->enter(view.names(), to_toml(run.prepared->job, true), spec.saves.together,
                    {first.name, first.start});
      spec.started = now_by_the_clock();
    }
    const std::uint64_t first = spec.rounds_before;
    return {std::move(spec), [this, run = run.prepared, seat, first]() -> std::unique_ptr<LiveDataPlane> {
              auto next = make_live_replica(*run, seat, *device, course, first, threads,
                                            env->plane().release());  // first: two might have no room
              next->trace(trace);
              return std::make_unique<ThreadedDataPlane>(std::move(next));
            }};
  }

  void fill(StatusBody& status) const {
    const Job& job = now->job;
    status.run = shortened(job.name);
    status.method = job.exchange.method;
    status.codec = shortened(job.exchange.codec);
    status.graph = job.graph.kind;
  }

  void report(const Report& r) {
    if (memory.due(env->now()))
      if (const auto warning = memory.look(env->now(), memory_use())) env->log(*warning);
    if (on.on_report) on.on_report(r);
  }

  WorkerSpec spec() {
    WorkerSpec spec = worker_spec(*prepared, self, draw_epoch(), settings.session);
    spec.place = this_place();
    spec.started = now_by_the_clock();
    const Job& job = prepared->job;
    set_saves(spec, job, keeper.has_value(), job.least_peers() < job.peers.size());
    epochs.enter(*prepared, 0, 0);
    if (!resumption) return spec;
    name_parent(spec, *resumption, settings.session);
    if (learned) {
      spec.rounds_before = learned->before;
      spec.share_before = static_cast<double>(learned->before) / static_cast<double>(spec.rounds);
      spec.rounds -= learned->before;
      spec.epochs_before = epochs.enter(*prepared, spec.share_before, learned->epochs);
    } else {
      spec.offers = resumption->rounds();
      spec.membership.ready = false;
    }
    return spec;
  }

  /// rounds: those that stand there, and belong to what this run goes on with.
  void keep(const std::string& folder, std::vector<Round> rounds = {}) {
    const Job& job = prepared->job;
    const SaveSpec saves = save_spec(job);
    if (!saves.on()) return;
    keeper.emplace(
        KeeperSpec{folder, name(), job.peer_names(), to_toml(job, true),
                   static_cast<std::size_t>(job.run.keep), saves.together, prepared->layers_of(self),
                   std::move(rounds), resumption && !learned ? resumption->run : 0,
                   resumption ? std::vector<CheckpointHead>() : earlier_checkpoints(folder, job, name())},
        [this](const std::string& line) { log(line); });
  }

  void complete(MemberSpec& spec) const {
    spec.keeps_gradient = replica->hands_on_gradients();
    if (settings.takes_initial && may_differ(*base))
      spec.initial = std::as_bytes(std::span<const float>(base->initial));
  }

  PeerResult run(const std::function<bool()>& stop) {
    if (!replica) throw Error(Error::Code::misuse, "a peer runs once; make another one");
    struct Ending {
      Desk& desk;
      ~Ending() { desk.run_ended(); }
    } const ending{desk};
    take_initial(stop);
    run_once(stop);
    if (result.diverged && can_go_back() && !(stop && stop())) {
      const WorkerResult first = result;
      go_back();
      run_once(stop);
      if (result.rounds == 0 && result.outcome != Outcome::finished) result = first;
      if (result.outcome != Outcome::finished)
        result.message += fmt::format("; it had gone back to {}", went_back_to);
    }
    if (trace) trace->write(settings.trace, number_in_job(), name());
    return result_of(result);
  }

  /// Of this peer in the job; behind all of these where that does not name it.
  std::size_t number_in_job() const {
    const std::vector<std::string> names = base->job.peer_names();
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name()) - names.begin());
  }

  /// Where others begin elsewhere.
  void take_initial(const std::function<bool()>& stop) {
    if (!settings.takes_initial || !may_differ(*base)) return;
    const double begin = env->now();
    auto others = initial_of_others(*base, name(), settings.join, stop);
    waited_s = env->now() - begin;
    if (!others || others->floats.empty()) return;
    log(fmt::format("beginning with the initial parameters of {}", others->from));
    base = std::make_shared<const Prepared>(with_initial(*base, std::move(others->floats)));
    prepared = joining ? run_of_view(*base, {name()}).prepared : base;
    now = prepared;
    connect();
  }

  void run_once(const std::function<bool()>& stop) {
    const auto make = [&]() -> std::unique_ptr<LiveDataPlane> {
      return std::make_unique<ThreadedDataPlane>(std::move(replica));
    };
    if (joining) {
      MemberSpec all = joining->member(*base, now_by_the_clock());
      complete(all);
      result = env->run(std::move(all), std::nullopt, make, stop);
      ran = true;
      if (keeper) keeper->finish();
      return;
    }
    if (on.on_members) on.on_members(prepared->job.peer_names());
    const State* from = learned ? &learned->state : state ? &*state : nullptr;
    WorkerSpec first = spec();
    MemberSpec all = member_spec(prepared->job, self, first.started, first);
    all.terms.session = settings.session;
    complete(all);
    // who has waited for others to begin has waited for them to appear
    for (double* timeout : {&all.join_timeout_s, &first.membership.join_timeout_s})
      *timeout = std::max(std::min(*timeout, 1.0), *timeout - waited_s);
    result =
        env->run(std::move(all), std::move(first), make, stop, from, learned ? Kept::learned : Kept::all);
    ran = true;
    if (keeper) keeper->finish();
  }

  /// Once. Those that wait for each other have the same checkpoints, and tell each other which are whole.
  bool can_go_back() const {
    if (!keeper || joining) return false;
    return save_spec(prepared->job).together ? result.checkpoints > 0 : !keeper->rounds().empty();
  }

  /// To the newest checkpoint that all have, or where nobody waits to its own, at half the rate; all peers
  /// do, since all know that one diverged.
  void go_back() {
    auto again = std::make_shared<Prepared>(*prepared);
    again->job.optimizer.learning_rate /= 2;
    again->job.sparse.table.learning_rate /= 2;
    make_plan(*again);
    const bool together = save_spec(prepared->job).together;
    std::vector<Round> rounds = keeper->rounds();
    if (!together) rounds = {rounds.back()};
    Resumption back = back_to(keeper->folder(), rounds, name());
    back.way = together ? Way::all_kept : Way::learned;
    back.differs = "the learning rate is halved";
    back.run = keeper->run();
    back.rounds_then = prepared->job.run.rounds;
    went_back_to = fmt::format(
        "the checkpoint of round {}, and to a rate of {:.4g}", rounds.empty() ? 0 : rounds.back(),
        again->parameters > 0 ? again->job.optimizer.learning_rate : again->job.sparse.table.learning_rate);
    log(fmt::format("{}; going back to {}", result.message, went_back_to));
    learned = together ? std::nullopt : std::optional(learned_from(back, *again, name()));
    prepared = now = std::move(again);
    base = prepared;
    resumption = std::move(back);
    keep(keeper->folder().string(), std::move(rounds));
    ran = false;  // until the other one has
    env.reset();  // its port is free then
    env = std::make_unique<ZmqEnv>(sockets_of(prepared->job, self));
    connect();
  }

  std::shared_ptr<const Prepared> prepared;
  std::shared_ptr<const Prepared> now = prepared;  ///< of the view that is entered last
  PeerId self;
  std::unique_ptr<ZmqEnv> env;
  Callbacks on;
  Options settings;
  std::shared_ptr<const Prepared> base;  ///< of the files; `prepared` but for one that joins
  std::optional<Joining> joining;
  std::optional<State> state;
  std::optional<Resumption> resumption;
  std::optional<Resumed> learned;        ///< of a resumption that is none to the same bits, and begins anew
  std::optional<ChosenDevice> device;    ///< of all views alike
  std::unique_ptr<ReplicaBase> replica;  ///< until run
  std::shared_ptr<optim::DataCourse> course;
  std::optional<Keeper> keeper;
  EpochCount epochs;
  std::shared_ptr<Trace> trace;
  MemoryWatch memory{prepared->job.run.memory};
  Desk desk;
  WorkerResult result;
  std::size_t threads = settings.threads;
  std::string went_back_to;
  double waited_s = 0;  ///< for others' initial parameters
  bool ran = false;
};

Peer::Peer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Peer::Peer(Peer&&) noexcept = default;
Peer::~Peer() = default;

Peer::Peer(Job job, const std::string& name, Learner learner, Callbacks callbacks, Options options)
    : impl_(translated([&] {
        if (!options.join.empty()) {
          Joining joining(job, name, options);
          auto base = std::make_shared<const Prepared>(
              prepare(std::move(job), passed_through(std::move(learner)), joining.learner_number()));
          joining.check(*base, options.takes_initial && may_differ(*base));
          auto env = std::make_unique<ZmqEnv>(joining.sockets());
          joining.listens_at(env->endpoint());
          options.session = joining.session();
          auto impl = std::make_unique<Impl>(run_of_view(*base, {name}).prepared, 0, std::move(env),
                                             std::move(callbacks), std::move(options));
          impl->base = std::move(base);
          impl->joining = std::move(joining);
          return impl;
        }
        const PeerId self = find_peer(job, name, "peer '" + name + "'");
        make_plan(job, self);  // refuses an unsound combination before data is read
        std::optional<Resumption> from;
        if (!options.resume.empty()) from = find_resumption(options.resume, job, name);
        auto env = std::make_unique<ZmqEnv>(sockets_of(job, self));
        auto prepared =
            std::make_shared<Prepared>(prepare(std::move(job), passed_through(std::move(learner)), self));
        std::optional<Resumed> learned;
        if (from && from->way == Way::learned) try {
            learned = learned_from(*from, *prepared, name);
          } catch (const StateError& error) {
            throw ConfigError(
                fmt::format("--resume {}: it does not fit this job: {}", options.resume, error.what()));
          }
        auto impl = std::make_unique<Impl>(std::move(prepared), self, std::move(env), std::move(callbacks),
                                           std::move(options));
        impl->resumption = std::move(from);
        impl->learned = std::move(learned);
        return impl;
      })) {}

void Peer::keep_checkpoints(const std::string& folder) {
  translated([&] { impl_->keep(folder); });
}
const Resumption* Peer::resumption() const { return impl_->resumption ? &*impl_->resumption : nullptr; }
std::string Peer::goes_on_from() const { return impl_->resumption ? impl_->resumption->text() : ""; }

PeerResult Peer::run(std::stop_token stop) {
  return run([stop] { return stop.stop_requested(); });
}
PeerResult Peer::run(const std::function<bool()>& stop) {
  return translated([&] { return impl_->run(stop); });
}
void Peer::change_access(const Job& job) {
  translated([&] {
    refuse_opening(impl_->prepared->job, job);
    if (job.access.locked()) impl_->env->change_access(access_of(job), dialled_keys(job));
  });
}
const std::vector<optim::Layer>& Peer::layers() const { return impl_->prepared->layers_of(impl_->self); }
std::span<const float> Peer::parameters() const try {
  return impl_->ran ? impl_->env->parameters()
                    : std::span<const float>(impl_->prepared->initial_of(impl_->self));
} catch (const std::runtime_error&) {  // of a device that has failed
  return {};
}
const std::string& Peer::endpoint() const {
  static const std::string kNowhere;
  return impl_->env ? impl_->env->endpoint() : kNowhere;
}
double Peer::seconds() const { return impl_->env ? impl_->env->now() : 0; }
const Prepared& Peer::prepared() const { return *impl_->prepared; }
const std::string& Peer::name_of(std::uint32_t peer) const { return impl_->env->name_of(peer); }
const WorkerResult& Peer::details() const { return impl_->result; }
LiveDataPlane* Peer::plane() const {
  return impl_->ran && !impl_->env->plane().released() ? &impl_->env->plane() : nullptr;
}

Snapshot Peer::snapshot(std::uint64_t after_rounds) {
  return translated([&] { return snapshot_of(impl_->desk.ask(after_rounds)); });
}

std::vector<PeerResult> run_local(Job job, Learner learner, std::function<Callbacks(std::size_t)> callbacks,
                                  std::stop_token stop,
                                  const std::function<void(std::size_t, std::span<const float>)>& trained) {
  return translated([&] {
    make_plan(job, 0);
    std::vector<std::unique_ptr<ZmqEnv>> sockets;
    for (PeerId p = 0; p < job.peers.size(); ++p)
      sockets.push_back(std::make_unique<ZmqEnv>(sockets_of(job, p)));
    const auto prepared =
        std::make_shared<const Prepared>(prepare(std::move(job), passed_through(std::move(learner))));
    std::vector<Peer> peers;
    for (PeerId p = 0; p < prepared->job.peers.size(); ++p)
      peers.push_back(Peer(std::make_unique<Peer::Impl>(prepared, p, std::move(sockets[p]),
                                                        callbacks ? callbacks(p) : Callbacks{}, Options{})));
    std::vector<PeerResult> results(peers.size());
    std::vector<std::exception_ptr> thrown(peers.size());
    std::stop_source all;
    const std::stop_callback asked(stop, [&] { all.request_stop(); });
    {
      std::vector<std::jthread> threads;
      for (PeerId p = 0; p < peers.size(); ++p)
        threads.emplace_back([&, p] {
          try {
            results[p] = peers[p].run(all.get_token());
          } catch (...) {
            thrown[p] = std::current_exception();
            all.request_stop();
          }
        });
    }
    for (const auto& error : thrown)
      if (error) std::rethrow_exception(error);
    for (PeerId p = 0; trained && p < peers.size(); ++p)
      if (const auto x = peers[p].parameters(); x.size() == prepared->initial_of(p).size()) trained(p, x);
    return results;
  });
}

}  // namespace gossamer::node

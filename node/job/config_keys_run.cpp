// The keys of a job's [run]: how long, what is told when, what happens to peers that are silent, and what is
// kept for the case that it ends too soon.
#include "config_words.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

std::string check_save_interval(const std::string& text) {
  parse_save_interval(text);
  return text;
}

std::vector<std::string> straggler_names() { return {"wait", "without", "fewer"}; }

std::vector<std::string> partition_names() { return {"continue", "majority", "stop"}; }

template <auto Member>
auto& exchange_of_run(Draft& d, const void*) {
  return d.job.exchange.*Member;
}
template <auto Member>
auto& run(Draft& d, const void*) {
  return d.job.run.*Member;
}
constexpr Key<Draft> kRunKeys[] = {
    {"run.epochs",
     "passes over the data, by all peers together",
     run<&RunSection::epochs>,
     {.unit = "epochs", .range = kPositive}},
    {"run.rounds",
     "instead of epochs, where above 0; staleness unbounded: as many samples as all peers take in so many",
     run<&RunSection::rounds>,
     {.unit = "rounds"}},
    {"run.seed", "seed of all random draws", run<&RunSection::seed>},
    {"run.evaluate_every",
     "between test evaluations by the first peer; 0: at the end only",
     run<&RunSection::evaluate_every>,
     {.unit = "epochs", .range = kNotNegative}},
    {"run.report_every", "time between a peer's reports", run<&RunSection::report_every>, kLocalSeconds},
    {"run.join_timeout", "time to wait for all peers to appear", run<&RunSection::join_timeout>,
     kLocalSeconds},
    {"run.min_peers",
     "peers that must be left for the run to go on when some are lost or leave, at most all; 0: all, it ends "
     "with the first",
     run<&RunSection::min_peers>,
     {.unit = "peers"}},
    {"run.on_partition",
     "what is done where peers are lost that may live on, as the network has fallen apart: continue: gossip "
     "goes "
     "on on all sides; peers that must be alike wait on a side without a majority for run.partition_timeout, "
     "then go on; majority: such a side waits whatever the method, then ends; stop: it ends at once",
     run<&RunSection::on_partition>,
     {.names = partition_names}},
    {"run.partition_timeout",
     "time that a side without a majority waits for the others",
     run<&RunSection::partition_timeout>,
     {.unit = "seconds", .range = kNotNegative, .quantity = Quantity::kSeconds}},
    {"run.restart",
     "times that `gossamer run` starts a peer again that has crashed while others train; 0: never",
     run<&RunSection::restart>,
     {.unit = "times", .scope = Scope::kLocal}},
    {"run.drain_timeout", "time that a finished peer serves the others", run<&RunSection::drain_timeout>,
     kLocalTime},
    {"run.silence_timeout",
     "silence after which a peer counts as lost (3.5: from 1.1 s on where several say so, and peers may be "
     "lost); more where links are so slow that a message fills them for as long (64 KiB at 100 kbit/s: 5 s)",
     run<&RunSection::silence_timeout>,
     {.unit = "seconds", .range = {0.1}, .quantity = Quantity::kSeconds}},
    {"run.stall_timeout",
     "time that a peer waits for others in one round, all alive, before the run ends (never before ten times "
     "the longest round so far); 0: for ever",
     run<&RunSection::stall_timeout>, kLocalTime},
    {"run.straggler",
     "what is done about a peer that takes longer than its neighbours: wait for it; without: rounds go on "
     "with "
     "what came in time, none more than exchange.staleness ahead (dpsgd, broadcast, topk_allgather); fewer: "
     "it "
     "takes fewer of its local_steps",
     exchange_of_run<&ExchangeSettings::straggler>,
     {.names = straggler_names}},
    {"run.straggler_k",
     "longer than the median of the last rounds' times and so many of their median absolute deviations",
     exchange_of_run<&ExchangeSettings::straggler_k>,
     {.range = kNotNegative}},
    {"run.checkpoint_every",
     "rounds, or a time such as \"10min\", after which all peers save what they need to go on (not in "
     "simulations); 0: never",
     run<&RunSection::checkpoint_every>,
     {.check = check_save_interval, .number_too = true}},
    {"run.keep",
     "checkpoints that each peer keeps of those that all have, beside the best; of newer ones as many",
     run<&RunSection::keep>,
     {.range = kAtLeastOne, .scope = Scope::kLocal}},
    {"run.grace",
     "time in which a run that is told to end saves a checkpoint, and a peer that leaves waits for what is "
     "under way; 0: none",
     run<&RunSection::grace>, kLocalTime},
    {"run.skip_limit",
     "steps in a row whose loss or gradient is not finite before the run counts as diverged; 0: any",
     run<&RunSection::skip_limit>,
     {.unit = "steps", .scope = Scope::kLocal}},
    {"run.mute_after",
     "payloads in a neighbour's name that do not decode before it is muted: where rounds wait for it the run "
     "ends, else it goes on without it; 0: never",
     run<&RunSection::mute_after>,
     {.unit = "payloads", .scope = Scope::kLocal}},
    {"run.memory",
     "that a peer may take before a warning says so; 0: what the machine has",
     run<&RunSection::memory>,
     {.unit = "bytes", .range = kNotNegative, .scope = Scope::kLocal, .quantity = Quantity::kBytes}},
    {"run.insecure",
     "true: connections are plain also where other machines reach them, and whoever reaches them may speak "
     "as any peer "
     "(else [access] says who may)",
     run<&RunSection::insecure>,
     {.scope = Scope::kLocal}},
    {"run.shared_memory",
     "large messages to peers of this machine stay in memory that they read (of the same user, in the same "
     "network namespace); false: all go over TCP",
     run<&RunSection::shared_memory>,
     {.scope = Scope::kLocal}},
    {"run.threads",
     "compute threads of a peer; 0: its share of the cores, counting the peers here and CPU limits",
     run<&RunSection::threads>,
     {.range = {0, 4096}, .scope = Scope::kLocal}},
};

}  // namespace

std::span<const Key<Draft>> run_keys() { return kRunKeys; }

}  // namespace gossamer::node::config

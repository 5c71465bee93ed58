// The keys of job files.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>

#include "aggregation.h"
#include "config_words.h"
#include "exchange.h"
#include "gossamer/compress/codec.h"
#include "link_classes.h"
#include "method.h"
#include "sparse_rows.h"

namespace gossamer::node::config {
namespace {

using Words = std::vector<std::string>;

// --- Choices ---

Words model_names() { return names_of(model_rows()); }
Words format_names() {
  Words names = names_of(optim::data_format_table());
  for (const auto& row : sample_rows())
    if (std::find(names.begin(), names.end(), row.name) == names.end()) names.emplace_back(row.name);
  return names;
}
Words split_names() { return names_of(optim::split_table()); }
Words text_coding_names() { return names_of(optim::text_coding_table()); }
Words precision_names() { return {"fp32", "tf32"}; }
Words optimizer_names() { return names_of(optim::optimizer_table()); }
Words schedule_names() { return names_of(optim::rate_schedule_table()); }
Words method_names() { return names_of(method_table()); }
Words delivery_names() { return {"reliable", "best_effort"}; }
Words codec_names() { return names_of(compress::codec_table()); }
Words algorithm_names() { return {"auto", "ring", "halving_doubling"}; }

std::string check_split_name(const std::string& text) {
  optim::check_split(text);
  return text;
}
std::string check_text_coding_name(const std::string& text) {
  optim::check_text_coding(text);
  return text;
}
std::string check_codec(const std::string& text) { return compress::make_codec(text)->spec(); }

// --- The keys ---

template <auto Member>
auto& model(Draft& d, const void*) {
  return d.job.model.*Member;
}
template <auto Member>
auto& data(Draft& d, const void*) {
  return d.job.data.*Member;
}
template <auto Member>
auto& optimizer(Draft& d, const void*) {
  return d.job.optimizer.*Member;
}
template <auto Member>
auto& exchange(Draft& d, const void*) {
  return d.job.exchange.*Member;
}
template <auto Member>
auto& sim(Draft& d, const void*) {
  return d.job.sim.*Member;
}

constexpr Key<Draft> kJobKeys[] = {
    {"topology",
     "the topology file, relative to this one; or its tables stand in the job file",
     draft<&Draft::topology>,
     {.scope = Scope::kInput, .path = Path::kJoined}},

    {"model.kind", "what is trained", model<&optim::ModelSpec::kind>, {.names = model_names}},
    {"model.hidden",
     "mlp: sizes of the hidden layers",
     model<&optim::ModelSpec::hidden>,
     {.unit = "units", .range = kAtLeastOne}},
    {"model.precision",
     "of products of matrices by peers on a CUDA device: tf32 rounds factors to 10 bits of mantissa",
     job<&Job::precision>,
     {.names = precision_names}},
    {"model.file", "python: the file with a class Task", job<&Job::task>, kLocalPath},
    {"model.initial", "safetensors file, or a run's folder, to start from; empty: drawn from run.seed",
     job<&Job::initial>, kLocalPath},

    {"data.format", "how the data is stored", data<&optim::DataSpec::format>, {.names = format_names}},
    {"data.path", "idx: folder; csv: training file; relative to this file", data<&optim::DataSpec::path>,
     kLocalPath},
    {"data.test_path", "csv: test file; empty: a tenth of path's rows, drawn by data.seed, is held out",
     data<&optim::DataSpec::test_path>, kLocalPath},
    {"data.label",
     "csv: label column: first, last, an index from 0 or a header name",
     data<&optim::DataSpec::label>,
     {.number_too = true}},
    {"data.split",
     "how the rows are shared out over the peers",
     job<&Job::split>,
     {.names = split_names, .check = check_split_name}},
    {"data.private",
     "each peer's rows stay its own: of one that is lost nobody trains them until it is back; else others do",
     job<&Job::private_data>},
    {"data.mean", "subtracted from every feature (idx: after byte/255)", data<&optim::DataSpec::mean>},
    {"data.scale", "every feature is divided by it", data<&optim::DataSpec::scale>, {.range = kPositive}},
    {"data.standardize", "csv: each column of numbers has mean 0 and variance 1 over the training rows",
     data<&optim::DataSpec::standardize>},
    {"data.text_as",
     "csv: what becomes of columns of text; hash:N: N features a column",
     data<&optim::DataSpec::text_as>,
     {.names = text_coding_names, .check = check_text_coding_name}},
    {"data.text",
     "csv: columns of text, by index from 0 or header name, \"*\": all; empty: those that begin with text; "
     "it waits for 100 rows for that, or until no more come for 5 s",
     data<&optim::DataSpec::text>},
    {"data.limit",
     "use so many training rows only, drawn by data.seed and kept in order; 0: all",
     data<&optim::DataSpec::limit>,
     {.unit = "rows"}},
    {"data.rows",
     "synthetic: training rows",
     data<&optim::DataSpec::rows>,
     {.unit = "rows", .range = kAtLeastOne}},
    {"data.test_rows",
     "synthetic: test rows",
     data<&optim::DataSpec::test_rows>,
     {.unit = "rows", .range = kAtLeastOne}},
    {"data.features", "synthetic: dimensions", data<&optim::DataSpec::features>, {.range = kAtLeastOne}},
    {"data.classes", "synthetic: Gaussian blobs", data<&optim::DataSpec::classes>, {.range = {2}}},
    {"data.separation",
     "synthetic: standard deviation of the blobs' centres",
     data<&optim::DataSpec::separation>,
     {.range = kNotNegative}},
    {"data.seed", "seed of synthetic data, and of the rows that limit and an empty test_path draw",
     data<&optim::DataSpec::seed>},

    {"optimizer.kind",
     "rule of the local step",
     optimizer<&optim::OptimizerSpec::kind>,
     {.names = optimizer_names}},
    {"optimizer.learning_rate",
     "step size",
     optimizer<&optim::OptimizerSpec::learning_rate>,
     {.range = kPositive}},
    {"optimizer.momentum",
     "momentum, nesterov, quasi_global: decay per step",
     optimizer<&optim::OptimizerSpec::momentum>,
     {.range = kProbability}},
    {"optimizer.beta1",
     "adam: decay of the mean",
     optimizer<&optim::OptimizerSpec::beta1>,
     {.range = kProbability}},
    {"optimizer.beta2",
     "adam: decay of the squares",
     optimizer<&optim::OptimizerSpec::beta2>,
     {.range = kProbability}},
    {"optimizer.epsilon",
     "adam: added to the root",
     optimizer<&optim::OptimizerSpec::epsilon>,
     {.range = kPositiveFloat}},
    {"optimizer.weight_decay",
     "adds weight_decay times x to the gradient (adam: decoupled)",
     optimizer<&optim::OptimizerSpec::weight_decay>,
     {.range = kNotNegative}},
    {"optimizer.schedule",
     "how the rate changes over the run",
     optimizer<&optim::OptimizerSpec::schedule>,
     {.names = schedule_names}},
    {"optimizer.step_every",
     "step: part of the run between drops",
     optimizer<&optim::OptimizerSpec::step_every>,
     {.unit = "of the run", .range = kShare}},
    {"optimizer.step_factor",
     "step: factor at each drop",
     optimizer<&optim::OptimizerSpec::step_factor>,
     {.range = kFraction}},
    {"optimizer.warmup",
     "part of the run with linearly rising rate",
     optimizer<&optim::OptimizerSpec::warmup>,
     {.unit = "of the run", .range = kProbability}},
    {"optimizer.batch",
     "rows per step of a peer that names no batch of its own",
     job<&Job::batch>,
     {.unit = "rows", .range = kAtLeastOne}},

    {"exchange.method",
     "how peers exchange what they learned",
     exchange<&ExchangeSettings::method>,
     {.names = method_names}},
    {"exchange.codec",
     "how parcels are compressed, name:parameter=value (gossamer codec list)",
     exchange<&ExchangeSettings::codec>,
     {.names = codec_names, .check = check_codec}},
    {"exchange.staleness",
     "how far a peer may run ahead of its neighbours; 0: synchronous (with a backup: no bound); unbounded: "
     "nobody "
     "waits, and the samples of all peers together set the rates and end the run",
     exchange<&ExchangeSettings::staleness>,
     {.unit = "rounds", .range = kNotNegative, .word = "unbounded"}},
    {"exchange.backup",
     "dpsgd, broadcast, topk_allgather: neighbours that a round does not wait for; late messages count in "
     "the next",
     exchange<&ExchangeSettings::backup>,
     {.unit = "neighbours"}},
    {"exchange.gamma",
     "choco, deep_squeeze, moniqua, noloco: consensus step; auto: by method, codec and graph",
     exchange<&ExchangeSettings::gamma>,
     {.range = kFraction, .word = "auto"}},
    {"exchange.algorithm",
     "allreduce, dense: the all-reduce algorithm; auto: for each layer the cheaper by the [[link]] tables, "
     "1 Gbit/s and 0.5 ms elsewhere",
     exchange<&ExchangeSettings::algorithm>,
     {.names = algorithm_names}},
    {"exchange.aggregate",
     "weighted by the mixing matrix, by samples or throughput, or a rule that tolerates f Byzantine peers: "
     "krum:f=3 "
     "(gossamer help aggregate)",
     exchange<&ExchangeSettings::aggregate>,
     {.names = aggregate_names, .check = check_aggregate}},
    {"exchange.delivery",
     "of parcels: lost frames are resent, or left to the next message",
     exchange<&ExchangeSettings::delivery>,
     {.names = delivery_names}},
    {"exchange.dense_below",
     "layers of fewer entries go dense under codecs of several bits and sparse ones; 0: none",
     exchange<&ExchangeSettings::dense_below>,
     {.unit = "entries"}},
    {"exchange.dense_rounds",
     "allreduce, broadcast, topk_allgather, choco, deep_squeeze: rounds at the start that go dense whatever "
     "the codec (adam under a 1-bit full reduce needs some)",
     exchange<&ExchangeSettings::dense_rounds>,
     {.unit = "rounds"}},
    {"exchange.local_steps",
     "steps from one exchange to the next; auto: 16 with local_sgd, diloco, noloco, sparse_loco and "
     "ensemble, 1 "
     "with choco, deep_squeeze, moniqua, pairwise and push_sum",
     exchange<&ExchangeSettings::local_steps>,
     {.unit = "rounds", .range = {1, 100000}, .word = "auto"}},
    {"exchange.overlap",
     "dpsgd, choco, deep_squeeze, moniqua: what is sent leaves before the gradient is computed, and is mixed "
     "after it, so that messages travel meanwhile; dpsgd also with staleness",
     exchange<&ExchangeSettings::overlap>},
    {"exchange.outer_rate",
     "rate of the outer step; auto: 0.7, sparse_loco 1",
     exchange<&ExchangeSettings::outer_rate>,
     {.range = kPositive, .word = "auto"}},
    {"exchange.outer_momentum",
     "diloco, noloco: decay of the outer momentum; auto: 0.9; 0.5 with noloco and biased codecs",
     exchange<&ExchangeSettings::outer_momentum>,
     {.range = kProbability, .word = "auto"}},
    {"exchange.fragments",
     "diloco, noloco, sparse_loco: groups of parcels, each exchanged at its own time within local_steps",
     exchange<&ExchangeSettings::fragments>,
     {.unit = "groups", .range = kAtLeastOne}},
    {"exchange.outer_delay",
     "the same: steps that go on before the result of an exchange is used; below local_steps",
     exchange<&ExchangeSettings::outer_delay>,
     {.unit = "rounds"}},
    {"exchange.parcel",
     "largest parcel; larger layers are sliced (by a dense allreduce into at most 131056 a peer)",
     exchange<&ExchangeSettings::parcel>,
     {.unit = "entries", .range = {16}}},

    {"exchange.momentum_correction",
     "sparse gradients: momentum before the selection, cut off where an entry is sent (deep gradient "
     "compression; heterogeneous data leave a bias); 0: none",
     exchange<&ExchangeSettings::momentum_correction>,
     {.range = kProbability}},
    {"exchange.clip",
     "sparse gradients: l2 norm to which a layer's mean gradient is kept, clip/sqrt(P) of it by each peer; "
     "0: "
     "none",
     exchange<&ExchangeSettings::clip>,
     {.range = kNotNegative}},
    {"exchange.density_warmup",
     "topk, randk of gradients: densities of the first epochs; on: 0.25 and a quarter of it each epoch, down "
     "to the codec's",
     exchange<&ExchangeSettings::density_warmup>,
     {.range = kFraction, .word = "on"}},
    {"exchange.layer_density",
     "topk, randk of gradients: layers, or fronts of their names and *, with another density: "
     "[\"fc1=0.001\"]",
     exchange<&ExchangeSettings::layer_density>,
     {.range = kFraction}},

    {"sim.bandwidth",
     "of each link and direction",
     sim<&SimSection::bandwidth>,
     {.unit = "bit/s", .range = kPositive, .scope = Scope::kLocal, .quantity = Quantity::kBandwidth}},
    {"sim.latency", "of each frame", sim<&SimSection::latency>, kLocalTime},
    {"sim.jitter", "uniform, added to the latency", sim<&SimSection::jitter>, kLocalTime},
    {"sim.loss", "probability that a frame is lost", sim<&SimSection::loss>, kLocalProbability},
    {"sim.duplicate", "probability that a frame arrives twice", sim<&SimSection::duplicate>,
     kLocalProbability},
    {"sim.reorder", "probability that a frame is overtaken", sim<&SimSection::reorder>, kLocalProbability},
    {"sim.stray", "probability that a frame of an earlier start of its sender comes before one",
     sim<&SimSection::stray>, kLocalProbability},
    {"sim.garble", "probability that bytes of a frame change on the way", sim<&SimSection::garble>,
     kLocalProbability},
    {"sim.forge", "probability that a forged frame in its sender's name comes before one",
     sim<&SimSection::forge>, kLocalProbability},
    {"sim.pose", "probability that a frame of its sender's in another peer's name comes before one",
     sim<&SimSection::pose>, kLocalProbability},
    {"sim.step_time", "of one gradient at optimizer.batch rows", sim<&SimSection::step_time>, kLocalSeconds},
    {"sim.step_jitter", "of step_time, uniform, up and down", sim<&SimSection::step_jitter>,
     kLocalProbability},
    {"sim.speeds",
     "factors on step_time drawn for each peer, from 1 to speed_spread",
     sim<&SimSection::speeds>,
     {.scope = Scope::kLocal, .names = speed_names}},
    {"sim.speed_spread",
     "uniform, lognormal: the slowest machine's step time against the quickest's",
     sim<&SimSection::speed_spread>,
     {.range = {1, 1e6}, .scope = Scope::kLocal}},
    {"sim.links",
     "class of access that each link's bandwidth and latency are drawn from; equal: bandwidth, latency",
     sim<&SimSection::links>,
     {.scope = Scope::kLocal, .names = link_names}},
    {"sim.day", "after which each peer's sleep comes again", sim<&SimSection::day>, kLocalTime},
    {"sim.night",
     "share of each day that a peer sleeps, each at its own time",
     sim<&SimSection::night>,
     {.unit = "of the day", .range = {0, 1, false, true}, .scope = Scope::kLocal}},
    {"sim.slow",
     "slow peers and their factor on step_time: [\"peer3=10\"]",
     sim<&SimSection::slow>,
     {.range = {1e-3, 1e6}, .scope = Scope::kLocal}},
    {"sim.attackers",
     "Byzantine peers: [\"peer3=noise:100\"]; sign_flip, noise, zero, label_flip, alie, nan",
     sim<&SimSection::attackers>,
     {.scope = Scope::kLocal}},
    {"sim.cut", "fault windows in which frames from one peer to another are lost: [\"peer0>peer1@2s+500ms\"]",
     sim<&SimSection::cut>, kLocalWindow},
    {"sim.clog",
     "fault windows in which frames from one peer to another are held back: [\"peer0>peer1@2s+500ms\"]",
     sim<&SimSection::clog>, kLocalWindow},
    {"sim.pause", "fault windows in which a peer stands still: [\"peer1@2s+500ms\"]", sim<&SimSection::pause>,
     kLocalWindow},
    {"sim.crash",
     "fault windows in which a peer's process is gone; a new one, which knows nothing, takes its place "
     "behind "
     "them: [\"peer1@2s+500ms\"]",
     sim<&SimSection::crash>, kLocalWindow},
    {"sim.clock_skew",
     "share by which each peer's clock is fast or slow, at most; each begins at a time of its own",
     sim<&SimSection::clock_skew>,
     {.range = {0, 0.5}, .scope = Scope::kLocal}},
};

/// A text that lives as long as the table of keys.
const char* kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text)).c_str();
}

Key<Draft> key_of(const Method& method, const OwnKey& own) {
  const auto field = std::visit(
      []<class T>(const OwnValue<T>& value) {
        return Field<Draft>(
            +[](Draft& d, const void* which) -> T& {
              return static_cast<const OwnValue<T>*>(which)->in(d.job.exchange);
            },
            &value);
      },
      own.value);
  return {kept(fmt::format("exchange.{}", own.name())),
          kept(fmt::format("{}: {}", method.row.name, own.help)),
          field,
          {.unit = own.unit, .range = {own.low, own.high, own.open_low, own.open_high}}};
}

std::vector<Key<Draft>> with_own_keys() {
  std::vector<Key<Draft>> keys(std::begin(kJobKeys), std::end(kJobKeys)), own;
  for (const Method* method : methods())
    for (const OwnKey& key : method->keys) own.push_back(key_of(*method, key));
  const auto insert = [&](std::string_view behind, const std::vector<Key<Draft>>& more) {
    const auto last = std::find_if(keys.rbegin(), keys.rend(), [&](const Key<Draft>& key) {
      return std::string_view(key.name).starts_with(behind);
    });
    keys.insert(last.base(), more.begin(), more.end());
  };
  insert("exchange.", own);
  const auto of_run = run_keys();
  insert("exchange.", {of_run.begin(), of_run.end()});
  insert("optimizer.", sparse_keys("table."));
  for (const char* section : {"data.", "model."}) insert(section, sparse_keys(section));
  return keys;
}

}  // namespace

std::span<const Key<Draft>> job_key_table() {
  static const std::vector<Key<Draft>> keys = with_own_keys();
  return keys;
}

}  // namespace gossamer::node::config

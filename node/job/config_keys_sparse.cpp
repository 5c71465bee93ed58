// The keys of models of sparse samples: [table], and what such models add to [model] and [data].
#include <algorithm>
#include <iterator>

#include "config_words.h"
#include "gossamer/compress/rows.h"
#include "sparse_rows.h"

namespace gossamer::node::config {
namespace {

std::vector<std::string> pooling_names() { return {"sum", "concat"}; }
std::vector<std::string> row_optimizer_names() { return names_of(row_optimizer_rows()); }
std::vector<std::string> row_exchange_names() { return names_of(row_exchange_rows()); }
std::string check_row_codec(const std::string& text) {
  compress::check_rows_spec({.codec = text});
  return compress::make_codec(text)->spec();
}

template <auto Member>
auto& sparse(Draft& d, const void*) {
  return d.job.sparse.*Member;
}
template <auto Section, auto Member>
auto& sparse_in(Draft& d, const void*) {
  return d.job.sparse.*Section.*Member;
}
template <auto Member>
constexpr auto model = sparse_in<&SparseSection::model, Member>;
template <auto Member>
constexpr auto samples = sparse_in<&SparseSection::samples, Member>;
template <auto Member>
constexpr auto planted = sparse_in<&SparseSection::planted, Member>;
template <auto Member>
constexpr auto table = sparse_in<&SparseSection::table, Member>;

using optim::PlantedSpec;
using optim::SampleStreamSpec;
using optim::SparseModelSpec;
using optim::TableSpec;

constexpr double kLeastMemory = 1 << 20;

const Key<Draft> kSparseKeys[] = {
    {"model.factors",
     "fm, ffm, dnn, wide_deep, deepfm: length of a key's latent vector",
     model<&SparseModelSpec::factors>,
     {.unit = "floats", .range = {1, 1024}}},
    {"model.pooling",
     "dnn, wide_deep, deepfm: how a sample's vectors become the network's input: their sum, or one place a "
     "field",
     model<&SparseModelSpec::pooling>,
     {.names = pooling_names}},
    {"model.deviation",
     "the same and fm, ffm: of a new key's latent vector, drawn normally with this over sqrt(3): as wide as "
     "evenly from minus to plus this",
     model<&SparseModelSpec::deviation>,
     {.range = kPositive}},

    {"data.command",
     "samples: in place of path, a shell command whose output is read",
     samples<&SampleStreamSpec::command>,
     {.scope = Scope::kLocal}},
    {"data.test_command",
     "samples: the same in place of test_path",
     sparse<&SparseSection::test_command>,
     {.scope = Scope::kLocal}},
    {"data.follow",
     "samples: goes on with what is appended, and with new files of the folder (planted: without end); needs "
     "run.rounds",
     samples<&SampleStreamSpec::follow>},
    {"data.shuffle", "samples: in random order, as far as memory allows; else in the order of the text",
     samples<&SampleStreamSpec::shuffle>},
    {"data.shuffle_rows",
     "samples: drawn from so many; 0: as many as memory holds",
     samples<&SampleStreamSpec::shuffle_rows>,
     {.unit = "rows"}},
    {"data.memory",
     "samples: text and samples that are read ahead take at most this",
     samples<&SampleStreamSpec::memory>,
     {.unit = "bytes", .range = {kLeastMemory}, .scope = Scope::kLocal, .quantity = Quantity::kBytes}},
    {"data.max_bad",
     "samples: lines that cannot be understood, of a peer's share, before it ends the run",
     samples<&SampleStreamSpec::max_bad>,
     {.unit = "lines"}},
    {"data.fields",
     "libffm, vw, csv, planted: fields that keys may belong to (vw without namespaces: hashed to so many)",
     samples<&SampleStreamSpec::fields>,
     {.range = kAtLeastOne}},
    {"data.namespaces", "vw: field i is the i-th of these", samples<&SampleStreamSpec::namespaces>},
    {"data.keys", "planted: keys of each field", planted<&PlantedSpec::keys>, {.range = {1, 0x1p40}}},
    {"data.power",
     "planted: the r-th most frequent key comes as often as r^-power",
     planted<&PlantedSpec::power>,
     {.range = {0, 4}}},
    {"data.pair_factors",
     "planted: rank of what pairs of keys do together",
     planted<&PlantedSpec::factors>,
     {.range = {1, 16}}},
    {"data.linear",
     "planted: standard deviation of a key's own weight",
     planted<&PlantedSpec::linear>,
     {.range = {0, 100}}},
    {"data.pairs",
     "planted: standard deviation of what a pair of keys adds",
     planted<&PlantedSpec::pairs>,
     {.range = {0, 100}}},
    {"data.bias",
     "planted: log odds of a click where nothing else speaks",
     planted<&PlantedSpec::bias>,
     {.range = {-100, 100}}},
    {"data.drift",
     "planted: times that a key is replaced by a new one in a million samples",
     planted<&PlantedSpec::drift>,
     {.range = {0, 1e6}}},

    {"table.optimizer",
     "rule by which rows learn",
     table<&TableSpec::optimizer>,
     {.names = row_optimizer_names}},
    {"table.learning_rate", "step size of rows", table<&TableSpec::learning_rate>, {.range = kPositive}},
    {"table.beta",
     "ftrl: added to the root of the squares",
     table<&TableSpec::beta>,
     {.range = kNotNegative}},
    {"table.l1",
     "ftrl: weights that learn less than this stay 0",
     table<&TableSpec::l1>,
     {.range = kNotNegative}},
    {"table.l2", "ftrl: shrinks weights", table<&TableSpec::l2>, {.range = kNotNegative}},
    {"table.beta1", "adam: decay of the mean", table<&TableSpec::beta1>, {.range = kProbability}},
    {"table.beta2", "adam: decay of the squares", table<&TableSpec::beta2>, {.range = kProbability}},
    {"table.epsilon",
     "adagrad, adam: added to the root",
     table<&TableSpec::epsilon>,
     {.range = kPositiveFloat}},
    {"table.initial", "a table that a run saved, to go on from; empty: no rows",
     sparse<&SparseSection::initial>, kLocalPath},
    {"table.memory",
     "limit that the table holds: where it is near, keys are admitted after more sightings and old rows go; "
     "0: "
     "none",
     table<&TableSpec::memory>,
     {.unit = "bytes", .range = kNotNegative, .quantity = Quantity::kBytes}},
    {"table.admit_after",
     "sightings after which a key gets a row: batches of the peer's own and messages of others (few where "
     "table.density is small); what is learned of it before has no effect",
     table<&TableSpec::admit_after>,
     {.unit = "sightings", .range = {1, 15}}},
    {"table.evict_after",
     "steps after which a row that nobody touched goes; 0: never",
     table<&TableSpec::evict_after>,
     {.unit = "steps", .range = {0, 0x7fffffff}}},
    {"table.evict_zeros_after",
     "the same of rows whose weights are all 0 (ftrl with l1)",
     table<&TableSpec::evict_zeros_after>,
     {.unit = "steps", .range = {0, 0x7fffffff}}},
    {"table.statistics", "rows count shows and clicks, and each field's click rate so far is a feature more",
     table<&TableSpec::statistics>},
    {"table.decay",
     "with statistics: what is left of earlier counts after a show",
     table<&TableSpec::decay>,
     {.range = {0, 1, true}}},
    {"table.exchange",
     "how peers exchange rows",
     sparse<&SparseSection::exchange>,
     {.names = row_exchange_names}},
    {"table.codec",
     "touched: how changes of rows are compressed, but for the few that are far larger than the others and "
     "go exactly (dense and density 1: all exactly)",
     sparse<&SparseSection::codec>,
     {.check = check_row_codec}},
    {"table.density",
     "touched: share of the touched rows that is told of in a round; the rest adds up until it is enough",
     sparse<&SparseSection::density>,
     {.range = kFraction}},
    {"table.unsent",
     "touched: rows with changes that are not told yet, at most; those untouched for longest make way, and "
     "are "
     "told of",
     sparse<&SparseSection::unsent>,
     {.unit = "rows", .range = {16, 1e9}}},
};

}  // namespace

std::vector<Key<Draft>> sparse_keys(std::string_view section) {
  std::vector<Key<Draft>> keys;
  std::copy_if(std::begin(kSparseKeys), std::end(kSparseKeys), std::back_inserter(keys),
               [&](const Key<Draft>& key) { return std::string_view(key.name).starts_with(section); });
  for (Key<Draft>& key : keys) key.rule.of_samples = true;
  return keys;
}

}  // namespace gossamer::node::config

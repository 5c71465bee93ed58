// What touched-key gossip costs and saves: peers with a table each learn planted clicks (logistic regression
// by FTRL) and tell each other of nothing, of all rows that they touch, or of those that have changed enough,
// these exactly or coded; peers' samples alike, or with label skew.
//   bench_touched [keys [samples [seeds [density [codec]]]]]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/compress/rows.h"
#include "gossamer/optim/click_metrics.h"
#include "gossamer/optim/planted_clicks.h"
#include "gossamer/optim/sparse.h"
#include "gossamer/optim/table.h"

using namespace gossamer;

namespace {

constexpr std::size_t kPeers = 4, kBatch = 1024, kFields = 12;
constexpr std::size_t kMostUnsent = 8 << 20;
constexpr std::uint64_t kTestSamples = 100000;

struct Result {
  double auc = 0, loss = 0, best = 0;
  compress::RowCounters counters{};
};

struct Course {
  const char* name;
  bool exchanges;
  compress::RowsSpec rows;
};

Result train(const Course& course, std::uint64_t keys, std::uint64_t samples, std::uint64_t seed,
             double alpha) {
  optim::PlantedSpec planted;
  planted.samples = samples;
  planted.fields = kFields;
  planted.keys = keys / kFields;
  planted.seed = seed;
  planted.peers = kPeers;
  planted.alpha = alpha;
  const auto model = optim::make_sparse_model({.kind = "lr"});
  struct Peer {
    std::unique_ptr<optim::Table> table;
    std::unique_ptr<optim::SampleStream> stream;
    compress::RowSender sender;
    optim::SparseBatch batch;
    std::vector<float> gradients;
    std::vector<std::byte> payload;
    compress::RowChanges changes;
  };
  std::vector<Peer> peers;
  for (std::size_t p = 0; p < kPeers; ++p) {
    planted.peer = p;
    optim::TableSpec table{.optimizer = "ftrl", .learning_rate = 0.1, .l1 = 0.1, .seed = seed};
    peers.push_back({optim::make_table(table),
                     optim::open_planted(planted),
                     compress::RowSender(course.rows),
                     {},
                     {},
                     {},
                     {}});
  }
  compress::Workspace workspace;
  std::vector<float> rows;
  std::vector<std::uint64_t> all_keys;
  std::vector<float> all_gradients;
  for (std::uint64_t round = 0;; ++round) {
    bool any = false;
    for (std::size_t p = 0; p < kPeers; ++p) {
      Peer& peer = peers[p];
      if (!peer.stream->next(kBatch, model->reads_bias(), peer.batch)) {
        peer.batch.clear(false);
        continue;
      }
      any = true;
      rows.resize(peer.batch.keys().size());
      peer.gradients.resize(rows.size());
      peer.table->pull(peer.batch.keys(), rows);
      model->gradient(peer.batch, rows, {}, {peer.gradients, {}, {}}, {});
      peer.sender.add(peer.batch.keys(), peer.gradients);
      if (course.exchanges)
        peer.payload =
            peer.sender.encode({seed, static_cast<std::uint32_t>(p), 0, round}, workspace, &peer.changes);
    }
    if (!any) break;
    for (std::size_t p = 0; p < kPeers; ++p) {
      all_keys.clear();
      all_gradients.clear();
      for (std::size_t from = 0; from < kPeers; ++from) {
        const Peer& o = peers[from];
        if (o.batch.size() == 0 || (from != p && !course.exchanges)) continue;
        const auto keys_of = from == p ? o.batch.keys() : std::span<const std::uint64_t>(o.changes.keys);
        const auto& values = from == p ? o.gradients : o.changes.values;
        all_keys.insert(all_keys.end(), keys_of.begin(), keys_of.end());
        all_gradients.insert(all_gradients.end(), values.begin(), values.end());
      }
      peers[p].table->push(all_keys, all_gradients);
    }
  }
  Result result;
  for (const Peer& peer : peers) {
    const auto& c = peer.sender.counters();
    result.counters.touched += c.touched;
    result.counters.sent += c.sent;
    result.counters.flushed += c.flushed;
    result.counters.introduced += c.introduced;
    result.counters.bytes += c.bytes;
  }
  optim::PlantedSpec test = planted;
  test.first = samples;
  test.samples = kTestSamples;
  test.peer = 0;
  test.peers = 1;
  for (const Peer& peer : peers) {
    optim::ClickMetrics metrics;
    const auto stream = optim::open_planted(test);
    optim::SparseBatch batch;
    std::vector<float> p;
    while (stream->next(1024, model->reads_bias(), batch)) {
      rows.resize(batch.keys().size());
      p.resize(batch.size());
      peer.table->pull(batch.keys(), rows);
      model->predict(batch, rows, {}, p);
      metrics.add(p, batch.labels());
    }
    result.auc += metrics.auc() / kPeers;
    result.loss += metrics.log_loss() / kPeers;
  }
  result.best = optim::PlantedClicks(test).best_auc(samples, samples + kTestSamples);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, double fallback) { return argc > i ? std::atof(argv[i]) : fallback; };
  const auto keys = static_cast<std::uint64_t>(number(1, 1e7)),
             samples = static_cast<std::uint64_t>(number(2, 1e6));
  const auto seeds = static_cast<std::uint64_t>(number(3, 1));
  const double density = number(4, 0.04);
  const std::string codec = argc > 5 ? argv[5] : "onebit_scaled";
  const std::vector<Course> courses{
      {"each for itself", false, {.density = 1}},
      {"all, exactly", true, {.codec = "dense", .density = 1}},
      {"some, exactly", true, {.codec = compress::kDense, .density = density, .most_unsent = kMostUnsent}},
      {"some, coded", true, {.codec = codec, .density = density, .most_unsent = kMostUnsent}},
  };
  std::printf("%llu keys, %llu samples, %zu peers of batch %zu\n", (unsigned long long)keys,
              (unsigned long long)samples, kPeers, kBatch);
  for (const double alpha : {0.0, 0.5})
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
      for (const Course& course : courses) {
        const Result r = train(course, keys, samples, seed, alpha);
        const auto& c = r.counters;
        const double entries = static_cast<double>(c.sent + c.flushed);
        std::printf("%-9s seed %llu  %-16s AUC %.4f (best %.4f) loss %.4f", alpha > 0 ? "dirichlet" : "IID",
                    (unsigned long long)seed, course.name, r.auc, r.best, r.loss);
        if (course.exchanges)
          std::printf(
              "  sent %.2f %% of %.1f M touched, new keys %.1f %%, flushed %llu, %.2f B an entry, saved %.2f "
              "%%",
              100 * entries / static_cast<double>(c.touched), static_cast<double>(c.touched) / 1e6,
              100 * static_cast<double>(c.introduced) / entries, (unsigned long long)c.flushed,
              static_cast<double>(c.bytes) / entries,
              100 - 100 * static_cast<double>(c.bytes) / (12 * static_cast<double>(c.touched)));
        std::printf("\n");
        std::fflush(stdout);
      }
}

// What touched-key gossip costs and saves: peers with a table each learn planted clicks (logistic regression
// by FTRL) and tell each other of nothing, of all rows that they touch, or of those that have changed enough,
// these exactly or coded; peers' samples alike, or with label skew.
//   bench_touched [keys [samples [seeds [density [codec ...]]]]]
// Where codecs are named, only courses that send some of the rows are run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
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
constexpr const char* kExact = "some, exactly";

struct Course {
  std::string name;
  bool exchanges;
  compress::RowsSpec rows;
};

struct Result {
  double auc = 0, loss = 0, best = 0;
  compress::RowCounters counters{};
};

/// What a peer reads, the same in every course.
struct Reader {
  std::unique_ptr<optim::SampleStream> stream;
  optim::SparseBatch batch;
};

/// A peer of a course.
struct Peer {
  std::unique_ptr<optim::Table> table;
  compress::RowSender sender;
  std::vector<float> gradients;
  compress::RowChanges changes;
};

/// The peers of a course.
class Group {
 public:
  Group(const Course& course, optim::SparseModel& model, std::uint64_t seed)
      : exchanges_(course.exchanges), model_(model), seed_(seed) {
    const optim::TableSpec table{.optimizer = "ftrl", .learning_rate = 0.1, .l1 = 0.1, .seed = seed};
    for (std::size_t p = 0; p < kPeers; ++p)
      peers_.push_back({optim::make_table(table), compress::RowSender(course.rows), {}, {}});
  }

  void step(std::span<const Reader> readers, std::uint64_t round) {
    for (std::size_t p = 0; p < kPeers; ++p)
      if (readers[p].batch.size() > 0) tell(readers[p].batch, p, round);
    for (std::size_t p = 0; p < kPeers; ++p) push(readers, p);
  }

  /// Adds up over the peers; of metrics[p] what peer p makes of a test batch.
  void predict(const optim::SparseBatch& batch, std::span<optim::ClickMetrics> metrics) {
    rows_.resize(batch.keys().size());
    std::vector<float> probabilities(batch.size());
    for (std::size_t p = 0; p < kPeers; ++p) {
      peers_[p].table->pull(batch.keys(), rows_);
      model_.predict(batch, rows_, {}, probabilities);
      metrics[p].add(probabilities, batch.labels());
    }
  }

  compress::RowCounters counters() const {
    compress::RowCounters sum{};
    for (const Peer& peer : peers_) {
      const auto& c = peer.sender.counters();
      sum.touched += c.touched;
      sum.sent += c.sent;
      sum.flushed += c.flushed;
      sum.introduced += c.introduced;
      sum.bytes += c.bytes;
    }
    return sum;
  }

 private:
  void tell(const optim::SparseBatch& batch, std::size_t p, std::uint64_t round) {
    Peer& peer = peers_[p];
    rows_.resize(batch.keys().size());
    peer.gradients.resize(rows_.size());
    peer.table->pull(batch.keys(), rows_);
    model_.gradient(batch, rows_, {}, {peer.gradients, {}, {}}, {});
    if (!exchanges_) return;
    peer.sender.add(batch.keys(), peer.gradients);
    peer.sender.encode({seed_, static_cast<std::uint32_t>(p), 0, round}, workspace_, &peer.changes);
  }

  /// Its own gradients whole, of the others what they told.
  void push(std::span<const Reader> readers, std::size_t p) {
    keys_.clear();
    values_.clear();
    const auto append = [&](std::span<const std::uint64_t> keys, std::span<const float> values) {
      keys_.insert(keys_.end(), keys.begin(), keys.end());
      values_.insert(values_.end(), values.begin(), values.end());
    };
    for (std::size_t from = 0; from < kPeers; ++from) {
      const Peer& o = peers_[from];
      if (readers[from].batch.size() == 0) continue;
      if (from == p)
        append(readers[p].batch.keys(), o.gradients);
      else if (exchanges_)
        append(o.changes.keys, o.changes.values);
    }
    peers_[p].table->push(keys_, values_);
  }

  bool exchanges_;
  optim::SparseModel& model_;
  std::uint64_t seed_;
  std::vector<Peer> peers_;
  compress::Workspace workspace_;
  std::vector<float> rows_, values_;
  std::vector<std::uint64_t> keys_;
};

/// Over samples that no peer has seen; AUC and loss are means of the peers'.
std::vector<Result> test(std::span<Group> groups, optim::SparseModel& model,
                         const optim::PlantedSpec& planted) {
  std::vector<std::vector<optim::ClickMetrics>> metrics(groups.size(),
                                                        std::vector<optim::ClickMetrics>(kPeers));
  const auto stream = optim::open_planted(planted);
  optim::SparseBatch batch;
  while (stream->next(kBatch, model.reads_bias(), batch))
    for (std::size_t g = 0; g < groups.size(); ++g) groups[g].predict(batch, metrics[g]);
  std::vector<Result> results(groups.size());
  const double best = optim::PlantedClicks(planted).best_auc(planted.first, planted.first + planted.samples);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    results[g].best = best;
    results[g].counters = groups[g].counters();
    for (const auto& m : metrics[g]) {
      results[g].auc += m.auc() / kPeers;
      results[g].loss += m.log_loss() / kPeers;
    }
  }
  return results;
}

/// All courses side by side, over the same samples.
std::vector<Result> train(std::span<const Course> courses, optim::PlantedSpec planted) {
  const auto model = optim::make_sparse_model({.kind = "lr"});
  std::vector<Group> groups;
  groups.reserve(courses.size());
  for (const Course& course : courses) groups.emplace_back(course, *model, planted.seed);
  std::vector<Reader> readers(kPeers);
  planted.peers = kPeers;
  for (planted.peer = 0; planted.peer < kPeers; ++planted.peer)
    readers[planted.peer].stream = optim::open_planted(planted);
  for (std::uint64_t round = 0;; ++round) {
    bool any = false;
    for (Reader& reader : readers) any |= reader.stream->next(kBatch, model->reads_bias(), reader.batch);
    if (!any) break;
    for (Group& group : groups) group.step(readers, round);
  }
  planted.first = planted.samples;
  planted.samples = kTestSamples;
  planted.peer = 0;
  planted.peers = 1;
  return test(groups, *model, planted);
}

void print(const Course& course, const Result& r, double exact_auc) {
  const auto& c = r.counters;
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  const double entries = number(c.sent + c.flushed), touched = number(c.touched), bytes = number(c.bytes);
  std::printf("%-16s AUC %.5f", course.name.c_str(), r.auc);
  if (exact_auc > 0) std::printf(" (%+.5f)", r.auc - exact_auc);
  std::printf(" (best %.4f) loss %.4f", r.best, r.loss);
  if (course.exchanges)
    std::printf(
        "  sent %.2f %% of %.1f M touched, new keys %.1f %%, flushed %.0f, %.3f B an entry, saved %.3f %%",
        100 * entries / touched, touched / 1e6, 100 * number(c.introduced) / entries, number(c.flushed),
        bytes / entries, 100 - 100 * bytes / (12 * touched));
  std::printf("\n");
  std::fflush(stdout);
}

std::vector<Course> courses_of(double density, std::vector<std::string> codecs) {
  std::vector<Course> courses;
  const auto add_some = [&](const std::string& name, const std::string& codec) {
    courses.push_back({name, true, {.codec = codec, .density = density, .most_unsent = kMostUnsent}});
  };
  if (codecs.empty()) {
    courses.push_back({"each for itself", false, {.density = 1}});
    courses.push_back({"all, exactly", true, {.codec = compress::kDense, .density = 1}});
    codecs.push_back(compress::RowsSpec{}.codec);
  }
  add_some(kExact, compress::kDense);
  for (const std::string& codec : codecs) add_some(codec, codec);
  return courses;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, double fallback) { return argc > i ? std::atof(argv[i]) : fallback; };
  const auto keys = static_cast<std::uint64_t>(number(1, 1e7)),
             samples = static_cast<std::uint64_t>(number(2, 1e6));
  const auto seeds = static_cast<std::uint64_t>(number(3, 1));
  const double density = number(4, compress::RowsSpec{}.density);
  const std::vector<Course> courses = courses_of(density, {argv + std::min(argc, 5), argv + argc});
  std::printf("%llu keys, %llu samples, %zu peers of batch %zu\n", (unsigned long long)keys,
              (unsigned long long)samples, kPeers, kBatch);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (const double alpha : {0.0, 0.5}) {
      const std::vector<Result> results = train(
          courses,
          {.samples = samples, .fields = kFields, .keys = keys / kFields, .seed = seed, .alpha = alpha});
      double exact_auc = 0;  // of the rows that the coded courses are to keep up with
      for (std::size_t i = 0; i < courses.size(); ++i) {
        std::printf("%-9s seed %llu  ", alpha > 0 ? "dirichlet" : "IID", (unsigned long long)seed);
        print(courses[i], results[i], exact_auc);
        if (courses[i].name == kExact) exact_auc = results[i].auc;
      }
    }
}

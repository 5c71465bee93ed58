// Speed of reading and of the sparse models on one core, beside plain loops over std::unordered_map, and what
// logistic regression with FTRL reaches on a9a and w8a. Arguments: the folder of the public data sets
// (../shared/data), without it only what is planted; one part alone: reading, learning, studies.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "file.h"
#include "gossamer/optim/click_metrics.h"
#include "gossamer/optim/click_objective.h"
#include "gossamer/optim/planted_clicks.h"
#include "gossamer/optim/sample_stream.h"
#include "gossamer/optim/sparse.h"
#include "gossamer/optim/table.h"
#include "line_format.h"
#include "plain_sparse.h"
#include "random.h"
#include "text_piece.h"

namespace {

using namespace gossamer::optim;
using test::Ftrl, test::keep, test::Kept, test::PlainLr, test::PlainVectors;
using Clock = std::chrono::steady_clock;

/// Of this process: other load on the machine does not count, only what it does to the caches.
double cpu_seconds(clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// CPU seconds of the fastest of several rounds.
template <class F>
double fastest(int rounds, const F& f) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = cpu_seconds();
    f();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

/// Rows in one array, found through a map of their keys.
class Rows {
 public:
  explicit Rows(SparseModel& model) : model_(model), width_(model.row_width()) {}
  /// The rows of the batch's keys; new ones are made.
  std::span<float> pull(const SparseBatch& batch) {
    places_.resize(batch.keys().size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto [at, is_new] = map_.try_emplace(batch.keys()[i], map_.size());
      places_[i] = at->second;
      if (is_new) {
        w_.resize(w_.size() + width_), z_.resize(w_.size()), n_.resize(w_.size());
        const std::span<float> row = std::span(w_).last(width_);
        model_.initialise_row(1, at->first, row);
        for (std::size_t j = 0; j < width_; ++j) z_[z_.size() - width_ + j] = -row[j] / ftrl.alpha;
      }
    }
    pulled_.resize(places_.size() * width_);
    for (std::size_t i = 0; i < places_.size(); ++i)
      std::copy_n(w_.data() + places_[i] * width_, width_, pulled_.data() + i * width_);
    return pulled_;
  }
  void push(std::span<const float> g) {
    for (std::size_t i = 0; i < places_.size(); ++i)
      for (std::size_t j = 0; j < width_; ++j) {
        const std::size_t at = places_[i] * width_ + j;
        ftrl.update(g[i * width_ + j], w_[at], z_[at], n_[at]);
      }
  }
  Ftrl ftrl;

 private:
  SparseModel& model_;
  std::size_t width_;
  std::unordered_map<std::uint64_t, std::size_t> map_;
  std::vector<float> w_, z_, n_, pulled_;
  std::vector<std::size_t> places_;
};

/// One pass over a stream; progressive metrics.
ClickMetrics learn(SparseModel& model, Rows& rows, SampleStream& stream, std::size_t batch_size) {
  ClickMetrics metrics;
  std::vector<float> g, p;
  for (SparseBatch batch; stream.next(batch_size, true, batch);) {
    const std::span<const float> pulled = rows.pull(batch);
    g.resize(pulled.size()), p.resize(batch.size());
    model.gradient(batch, pulled, {}, {g, {}, p}, {});
    metrics.add(p, batch.labels());
    rows.push(g);
  }
  return metrics;
}

struct Tested {
  double auc, log_loss;
};
Tested test(SparseModel& model, Rows& rows, SampleStream& stream) {
  std::vector<float> all, labels;
  for (SparseBatch batch; stream.next(1000, true, batch);) {
    std::vector<float> p(batch.size());
    model.predict(batch, rows.pull(batch), {}, p);
    all.insert(all.end(), p.begin(), p.end());
    labels.insert(labels.end(), batch.labels().begin(), batch.labels().end());
  }
  ClickMetrics metrics;
  metrics.add(all, labels);
  return {auc(all, labels), metrics.log_loss()};
}

std::string unpacked(const std::string& path) {
  InputFile file(path);
  std::string text, block(1U << 20, '\0');
  while (const std::size_t got = file.read({reinterpret_cast<std::uint8_t*>(block.data()), block.size()}))
    text.append(block, 0, got);
  return text;
}

/// M rows/s of all of learning, the table's part included, beside a plain loop that makes the same steps.
template <class Plain>
void bench_learning(const char* data_name, const Kept& data, const SparseModelSpec& spec,
                    const char* optimizer, std::size_t batch_size, const Plain& plain) {
  const auto model = make_sparse_model(spec);
  // Rows learn from the sum over a batch: at the usual rate SGD would run away, and numbers be none.
  const bool sgd = std::string_view(optimizer) == "sgd";
  const auto table = make_table({.width = model->row_width(),
                                 .optimizer = optimizer,
                                 .learning_rate = sgd ? 0.1 / static_cast<double>(batch_size) : 0.1,
                                 .initial_scale = spec.deviation,
                                 .versions = false});
  SparseBatch batch;
  PulledRows pulled;
  std::vector<float> rows, g, p;
  enum Part { build, pull, gradient, push, parts };
  std::vector<double> best(parts, 1e9);
  double all = 1e9, theirs = 1e9;
  std::size_t keys = 0;
  for (int round = 0; round < 6; ++round) {  // the first makes the rows; rivals take turns
    std::vector<double> spent(parts, 0.0);
    const auto timed = [&](Part part, const auto& f) {
      const double start = cpu_seconds();
      f();
      spent[part] += cpu_seconds() - start;
    };
    keys = 0;
    for (std::size_t first = 0; first < data.size(); first += batch_size) {
      const std::size_t end = std::min(data.size(), first + batch_size);
      timed(build, [&] {
        batch.clear(true);
        for (std::size_t b = first; b < end; ++b) batch.add(data.at(b));
      });
      timed(pull, [&] {
        rows.resize(batch.keys().size() * model->row_width()), g.resize(rows.size()), p.resize(batch.size());
        table->pull_to_learn(batch.keys(), rows, pulled);
      });
      timed(gradient, [&] { model->gradient(batch, rows, {}, {g, {}, p}, {}); });
      timed(push, [&] { table->push_pulled(pulled, g); });
      keys += batch.keys().size();
    }
    for (std::size_t i = 0; i < parts; ++i) best[i] = std::min(best[i], spent[i]);
    all = std::min(all, spent[build] + spent[pull] + spent[gradient] + spent[push]);
    theirs = std::min(theirs, fastest(1, plain));
  }
  const auto n = static_cast<double>(data.size());
  std::printf(
      "%-8s %-4s k=%zu %-5s batches of %5zu (%4.1f keys a row): ns a row: batch %5.0f  pull %5.0f  gradient "
      "%5.0f  push %5.0f; M rows/s %6.2f, plain loop %5.2f: %.1f x\n",
      data_name, spec.kind.c_str(), spec.factors, optimizer, batch_size, static_cast<double>(keys) / n,
      1e9 * best[build] / n, 1e9 * best[pull] / n, 1e9 * best[gradient] / n, 1e9 * best[push] / n,
      n / all / 1e6, n / theirs / 1e6, theirs / all);
  std::fflush(stdout);
}

void bench_learning(const char* name, const Kept& data, std::uint32_t fields) {
  for (const std::size_t batch : {1000, 10000}) {
    PlainLr lr;
    bench_learning(name, data, {.kind = "lr"}, "ftrl", batch, [&] { lr.pass(data); });
    PlainVectors fm(8, 1);
    bench_learning(name, data, {.kind = "fm", .factors = 8}, "sgd", batch, [&] { fm.fm(data); });
    PlainVectors ffm(4, fields);
    bench_learning(name, data, {.kind = "ffm", .factors = 4, .fields = fields}, "sgd", batch,
                   [&] { ffm.ffm(data); });
  }
}

void bench_parser(const char* name, const std::string& text) {
  const auto format = make_line_format({});
  const TextPiece piece = test::piece_of(text);
  const auto parse = [&](std::size_t peers) {
    SampleBlock block(piece.line_breaks + 1, format->most_entries(piece), false);
    SampleStreamSpec sharing;
    sharing.peers = peers;
    format->parse(piece, SampleShare(sharing), block);
  };
  const auto told = [&](const char* how, double seconds) {
    std::printf("parser alone, %-16s %-16s  %6.0f MB/s  %6.2f M rows/s\n", name, how,
                static_cast<double>(text.size()) / seconds / 1e6,
                static_cast<double>(piece.line_breaks) / seconds / 1e6);
  };
  told("", fastest(9, [&] { parse(1); }));
  told("share of 4 peers", fastest(9, [&] { parse(4); }));
  constexpr int kThreads = 2, kTimes = 20;
  double passed = 1e9;
  for (int round = 0; round < 9; ++round) {
    const auto start = Clock::now();
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < kTimes; ++i) parse(1);
      });
    threads.clear();
    passed = std::min(passed, since(start) / (kThreads * kTimes));
  }
  told("2 threads", passed);
}

/// Of all its threads' time, and of the time that passed.
void bench_stream(const std::string& path, std::size_t threads, bool shuffle) {
  SparseBatch batch;
  StreamCounters counters;
  double passed = 1e9;
  const double seconds = fastest(5, [&] {
    const auto start = Clock::now();
    const auto stream = open_samples({.path = path, .threads = threads, .shuffle = shuffle});
    while (stream->next(1000, true, batch)) {
    }
    counters = stream->counters();
    passed = std::min(passed, since(start));
  });
  const auto rows = static_cast<double>(counters.samples) / 1e6,
             mb = static_cast<double>(counters.text_bytes) / 1e6;
  std::printf(
      "stream of batches, %zu threads%s  %5.0f MB, %5.2f M rows per CPU second; passed: %5.2f M rows/s; "
      "memory %.0f MB\n",
      threads, shuffle ? ", shuffled" : "", mb / seconds, rows / seconds, rows / passed,
      static_cast<double>(counters.peak_memory) / 1e6);
}

/// What LR learns on one core, as a peer's objective does, while other threads read: of that thread alone.
void bench_consumption(const char* name, const std::string& path, bool shuffle) {
  ClickParts parts;
  parts.batch = 1000;
  parts.train = [&](std::uint64_t epoch) {
    return open_samples({.path = path, .threads = 1, .shuffle = shuffle, .epoch = epoch});
  };
  const auto learner = make_click_objective(std::move(parts));
  constexpr int kEpochs = 4, kSteps = 590;
  double best = 1e9;
  std::uint64_t rows = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch, rows = 0) {
    const double start = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int step = 0; step < kSteps; ++step) rows += learner->gradient({}, {}, {}, {}).rows;
    best = std::min(best, (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - start) / static_cast<double>(rows));
  }
  std::printf("LR with FTRL learns from batches of 1000%s%s  %6.2f M rows/s of its core\n", name,
              shuffle ? ", shuffled" : "", 1e-6 / best);
}

void bench_reading(const std::string& folder, const std::string& a9a) {
  bench_parser("a9a,", a9a);
  std::string hashed, valued;
  for (std::uint64_t row = 0; row < 30000; ++row, hashed += "\n", valued += "\n")
    for (std::uint64_t e = 0; e < 15; ++e) {
      hashed += e ? " " + std::to_string(bits(row, e) % 100000000) + ":1" : row % 3 ? "0" : "1";
      valued +=
          e ? " " + std::to_string(7 * e + bits(row, e) % 7) + ":0." + std::to_string(bits(e, row) % 10000)
          : row % 3 ? "0"
                    : "1";
    }
  bench_parser("hashed indices,", hashed);
  bench_parser("other values,", valued);
  const auto repeated = [&](const char* name, const std::string& text) {
    const std::string path = folder + "/" + name;
    std::ofstream out(path, std::ios::binary);
    for (int i = 0; i < 20; ++i) out << text;
    return path;
  };
  const std::string path = repeated("a9a-repeated", a9a), other = repeated("other-values", valued);
  for (const std::size_t threads : {0, 1, 2}) {
    bench_stream(path, threads, false);
    bench_stream(path, threads, true);
  }
  for (const bool shuffle : {false, true}) bench_consumption("", path, shuffle);
  bench_consumption(", other values", other, false);
}

void study_a9a(const std::string& data) {
  const auto model = make_sparse_model({.kind = "lr"});
  for (const std::size_t batch : {1, 10, 100}) {
    Rows rows(*model);
    ClickMetrics progressive;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const auto train = open_samples({.path = data + "/libsvm-a9a/a9a.gz", .epoch = epoch});
      progressive = learn(*model, rows, *train, batch);
      const Tested tested = test(*model, rows, *open_samples({.path = data + "/libsvm-a9a/a9a.t.gz"}));
      std::printf(
          "a9a LR FTRL, batches of %3zu, epoch %zu: progressive AUC %.4f log loss %.4f; a9a.t AUC %.4f log "
          "loss %.4f\n",
          batch, static_cast<std::size_t>(epoch + 1), progressive.auc(), progressive.log_loss(), tested.auc,
          tested.log_loss);
    }
  }
}

/// Every fifth row is for testing, as its README says.
void study_w8a(const std::string& data, const std::string& folder) {
  const std::string text = unpacked(data + "/libsvm-w8a/w8a.gz");
  std::ofstream train(folder + "/w8a"), held_out(folder + "/w8a.t");
  for (std::size_t begin = 0, row = 1; begin < text.size(); ++row) {
    const std::size_t end = std::min(text.size(), text.find('\n', begin) + 1);
    (row % 5 == 0 ? held_out : train) << text.substr(begin, end - begin);
    begin = end;
  }
  train.close(), held_out.close();
  const auto model = make_sparse_model({.kind = "lr"});
  for (const std::size_t buffer : {4000, 0}) {
    std::vector<double> aucs;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
      Rows rows(*model);
      rows.ftrl.alpha = 0.3f;
      learn(*model, rows, *open_samples({.path = folder + "/w8a", .shuffle_rows = buffer, .seed = seed}), 1);
      aucs.push_back(test(*model, rows, *open_samples({.path = folder + "/w8a.t"})).auc);
    }
    std::sort(aucs.begin(), aucs.end());
    std::printf("w8a LR FTRL, one pass, %s: AUC %.4f (median of 5 seeds, %.4f to %.4f)\n",
                buffer ? "buffer of 4000 rows" : "fully shuffled", aucs[2], aucs[0], aucs[4]);
  }
}

/// FM and FFM against LR where the planted interactions are known.
void study_planted() {
  PlantedSpec spec{.samples = 400000, .keys = 300};
  PlantedSpec later = spec;
  later.first = spec.samples, later.samples = 50000;
  for (const char* kind : {"lr", "fm", "ffm"}) {
    const auto model = make_sparse_model({.kind = kind, .factors = 4, .fields = spec.fields});
    Rows rows(*model);
    for (int epoch = 0; epoch < 2; ++epoch) learn(*model, rows, *open_planted(spec), 100);
    const Tested tested = test(*model, rows, *open_planted(later));
    std::printf("planted %-3s  AUC %.4f log loss %.4f\n", kind, tested.auc, tested.log_loss);
  }
  std::printf("planted best AUC %.4f\n",
              PlantedClicks(spec).best_auc(later.first, later.first + later.samples));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string data = argc > 1 ? argv[1] : "", only = argc > 2 ? argv[2] : "";
  const auto wants = [&](const char* part) { return only.empty() || only == part; };
  std::string folder = (std::filesystem::temp_directory_path() / "bench-sparse-XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  const std::string packed = data + "/libsvm-a9a/a9a.gz";
  const bool there = std::filesystem::exists(packed);
  if (!there) std::printf("no public data sets at \"%s\"\n", data.c_str());
  const Kept a9a = there ? keep(*open_samples({.path = packed})) : Kept{};
  const Kept planted = keep(*open_planted({.samples = 100000, .keys = 100000}));
  if (there && wants("reading")) bench_reading(folder, unpacked(packed));
  if (wants("learning")) {
    if (there) bench_learning("a9a", a9a, 1);
    bench_learning("planted", planted, 12);
    bench_learning("millions", keep(*open_planted({.samples = 1000000, .keys = 10000000})), 12);
  }
  if (wants("learning"))
    std::printf(
        "not run here, rows/s as measured elsewhere (2026-11): Vowpal Wabbit LR 1.41 M on 1.5 cores, xLearn "
        "LR 2.5 "
        "M, libffm FFM 4.8 M small rows; liblinear: tests/studies/click_linear\n");
  if (there && wants("studies")) {
    study_a9a(data);
    study_w8a(data, folder);
  }
  if (wants("studies")) study_planted();
  std::filesystem::remove_all(folder);
  return 0;
}

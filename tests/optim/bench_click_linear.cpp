// Trains logistic regression (FTRL, rows in a table) on a file of samples and predicts another one's; what
// tests/studies/click_linear holds beside liblinear. Standard output has one line: rows, CPU seconds of the
// whole training, and CPU seconds that reading and batching the same samples alone take. Each on one thread.
//   bench_click_linear TRAIN TEST PROBABILITIES EPOCHS BATCH RATE
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "gossamer/optim/sample_stream.h"
#include "gossamer/optim/sparse.h"
#include "gossamer/optim/table.h"

namespace {

using namespace gossamer::optim;

struct Study {
  std::string train, test;
  std::uint64_t epochs;
  std::size_t batch;
  double rate;
};

/// Of this process, which has one thread: other load on the machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Hands every batch of all epochs to `use`; CPU seconds.
template <class F>
double pass(const Study& study, const F& use) {
  const double start = cpu_seconds();
  SparseBatch batch;
  for (std::uint64_t epoch = 0; epoch < study.epochs; ++epoch) {
    const auto stream = open_samples({.path = study.train, .threads = 0, .epoch = epoch});
    while (stream->next(study.batch, true, batch)) use(batch);
  }
  return cpu_seconds() - start;
}

std::vector<float> predictions(const Study& study, SparseModel& model, const Table& table) {
  std::vector<float> all, rows, p;
  const auto stream = open_samples({.path = study.test, .threads = 0, .shuffle = false});
  for (SparseBatch batch; stream->next(1000, true, batch);) {
    rows.resize(batch.keys().size()), p.resize(batch.size());
    table.pull(batch.keys(), rows);
    model.predict(batch, rows, {}, p);
    all.insert(all.end(), p.begin(), p.end());
  }
  return all;
}

void run(const Study& study, const std::string& out) {
  const auto model = make_sparse_model({.kind = "lr"});
  const auto table = make_table({.width = 1, .linear = 1, .learning_rate = study.rate, .versions = false});
  std::vector<float> rows, g;
  const double trained = pass(study, [&](const SparseBatch& batch) {
    rows.resize(batch.keys().size()), g.resize(rows.size());
    table->pull(batch.keys(), rows);
    model->gradient(batch, rows, {}, {g, {}, {}}, {});
    table->push(batch.keys(), g);
  });
  std::size_t samples = 0;
  const double read = pass(study, [&](const SparseBatch& batch) { samples += batch.size(); });
  std::printf("%zu %.6f %.6f\n", samples / study.epochs, trained, read);
  std::ofstream file(out);
  file.precision(9);
  for (const float p : predictions(study, *model, *table)) file << p << '\n';
  if (!file.flush()) throw OptimError(out + ": cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "bench_click_linear TRAIN TEST PROBABILITIES EPOCHS BATCH RATE\n");
    return 2;
  }
  try {
    run({argv[1], argv[2], std::strtoull(argv[4], nullptr, 10), std::strtoull(argv[5], nullptr, 10),
         std::strtod(argv[6], nullptr)},
        argv[3]);
  } catch (const OptimError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

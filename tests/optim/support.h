#pragma once
// What several tests of optim need: aligned buffers, batches, temporary directories, a plain training loop.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "gossamer/optim/data.h"
#include "gossamer/optim/model.h"
#include "gossamer/optim/optimizer.h"
#include "gossamer_test/catch.h"
#include "scratch.h"

namespace gossamer::optim::test {

/// Whether the action throws an OptimError that takes `found` for a misspelt one of several names, `name`
/// among them.
template <class Action>
bool offers(Action&& action, const std::string& found, const std::string& name) {
  try {
    action();
  } catch (const OptimError& error) {
    return error.found == found &&
           std::find(error.names.begin(), error.names.end(), name) != error.names.end();
  }
  return false;
}

/// A zeroed parameter or gradient buffer of an objective.
class Buffer {
 public:
  explicit Buffer(const Model& objective) : Buffer(objective.buffer_size()) {}
  explicit Buffer(std::size_t n) : span_(memory_.need(n)) { std::fill(span_.begin(), span_.end(), 0.0f); }
  std::span<float> span() { return span_; }
  float& operator[](std::size_t i) { return span_[i]; }
  std::vector<float> copy() const { return {span_.begin(), span_.end()}; }

 private:
  Scratch<float> memory_;
  std::span<float> span_;
};

/// A batch that owns its rows: the first `size` rows of a data set.
struct OwnedBatch {
  OwnedBatch(const Dataset& data, std::size_t size) : x(size * data.features()), labels(size) {
    std::vector<std::uint32_t> rows(size);
    std::iota(rows.begin(), rows.end(), 0U);
    data.gather(rows, x);
    for (std::size_t i = 0; i < size; ++i) labels[i] = data.label(i);
    batch = {size, data.features(), x, labels};
  }
  std::vector<float> x;
  std::vector<std::int32_t> labels;
  Batch batch;
};

inline Data blobs(std::size_t rows, std::size_t features, std::size_t classes, std::uint64_t seed = 1) {
  DataSpec spec;
  spec.rows = rows;
  spec.test_rows = 512;
  spec.features = features;
  spec.classes = classes;
  spec.seed = seed;
  return load_data(spec);
}

inline std::unique_ptr<Model> objective_for(const std::string& kind, const Dataset& data,
                                            std::vector<std::size_t> hidden = {7, 5}) {
  return make_model({kind, std::move(hidden), data.features(), data.classes()});
}

/// FNV-1a over the bits of the values: equal only for equal bits.
inline std::uint64_t bit_hash(std::span<const float> values) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001B3ULL;
  }
  return hash;
}

/// x after `steps` steps of one peer.
inline void train(Model& objective, std::span<float> x, const OptimizerSpec& spec,
                  const std::shared_ptr<const Dataset>& data, std::size_t batch, std::uint64_t steps) {
  const auto optimizer = make_optimizer(spec, objective.buffer_size());
  BatchStream stream(data, make_sampler({"local_shuffle", 1, {batch}}, data, 0), batch, 0, false);
  Buffer g(objective);
  for (std::uint64_t t = 0; t < steps; ++t)
    objective.gradient(x, stream.next(), g.span(), [&](std::size_t l) {
      const Layer& layer = objective.layers()[l];
      const std::span<float> xl = x.subspan(layer.offset, layer.size),
                             gl = g.span().subspan(layer.offset, layer.size);
      optimizer->step(static_cast<double>(t), layer.offset, xl, gl, gl);
      for (std::size_t i = 0; i < layer.size; ++i) xl[i] -= gl[i];
    });
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "gossamer-optim-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline void write_plain(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline void write_gz(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, content.data(), static_cast<unsigned>(content.size())) ==
          static_cast<int>(content.size()));
  gzclose(file);
}

/// The message of the OptimError that f throws; empty where it throws none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const OptimError& error) {
    return error.what();
  }
  return {};
}

/// What loading this text as the training and the test file gives; `spec.label` etc. may be set before.
inline Data load_csv_text(const std::string& train, const std::string& test, DataSpec spec = {}) {
  const TemporaryDirectory dir;
  spec.format = "csv";
  spec.path = dir.file("train.csv");
  write_plain(spec.path, train);
  if (!test.empty()) {
    spec.test_path = dir.file("test.csv");
    write_plain(spec.test_path, test);
  }
  return load_data(spec);
}

/// The error without the directory: "train.csv:2:3: …".
inline std::string csv_error(const std::string& train, const std::string& test, const DataSpec& spec = {}) {
  const std::string message = message_of([&] { load_csv_text(train, test, spec); });
  const std::size_t name = std::min(message.find("train.csv"), message.find("test.csv"));
  return name == std::string::npos ? message : message.substr(name);
}

inline std::vector<float> row_of(const Dataset& data, std::uint32_t row) {
  std::vector<float> x(data.features());
  data.gather({&row, 1}, x);
  return x;
}

inline bool starts_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

}  // namespace gossamer::optim::test

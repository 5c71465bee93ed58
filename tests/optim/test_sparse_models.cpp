// Each model against its formula written down plainly in double precision, and its gradients against finite
// differences.
#include <cmath>
#include <random>
#include <set>

#include "gossamer/optim/sparse.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

/// Samples with few keys, keys that occur twice, real values, and one sample without any.
SparseBatch random_batch(bool bias, std::size_t samples, std::size_t most, std::uint32_t fields,
                         std::uint64_t seed) {
  std::mt19937_64 random(seed);
  SparseBatch batch;
  batch.clear(bias);
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> of_keys;
  std::vector<float> values;
  for (std::size_t b = 0; b < samples; ++b) {
    keys.clear(), of_keys.clear(), values.clear();
    for (std::size_t e = b == 3 ? 0 : 1 + random() % most; e > 0; --e) {
      keys.push_back(random() % 20);
      of_keys.push_back(static_cast<std::uint32_t>(random() % fields));
      values.push_back(e % 3 == 0 ? 1.0f : static_cast<float>(random() % 1000) / 500.0f - 1.0f);
    }
    batch.add({keys, of_keys, values, static_cast<float>(random() % 2), random(), b});
  }
  return batch;
}

std::vector<float> random_rows(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.4f);
  std::vector<float> rows(n);
  for (float& v : rows) v = normal(random);
  return rows;
}

/// z without the deep part, straight from the formulas: every pair of entries.
double plain_z(const SparseModelSpec& spec, const SparseBatch& batch, std::span<const float> rows,
               std::size_t width, std::size_t b) {
  const bool linear = spec.kind != "dnn", pairs = spec.kind == "fm" || spec.kind == "deepfm";
  const bool by_field = spec.kind == "ffm";
  double z = linear ? static_cast<double>(rows[0]) : 0;
  for (std::size_t i = batch.begins()[b]; i < batch.begins()[b + 1]; ++i) {
    const float* of_i = rows.data() + batch.index()[i] * width;
    const auto x = static_cast<double>(batch.values()[i]);
    if (linear) z += static_cast<double>(of_i[0]) * x;
    for (std::size_t j = i + 1; (pairs || by_field) && j < batch.begins()[b + 1]; ++j) {
      const float* of_j = rows.data() + batch.index()[j] * width;
      const std::size_t at_i = by_field ? batch.fields()[j] * spec.factors : 0,
                        at_j = by_field ? batch.fields()[i] * spec.factors : 0;
      for (std::size_t f = 0; f < spec.factors; ++f)
        z += static_cast<double>(of_i[1 + at_i + f]) * static_cast<double>(of_j[1 + at_j + f]) * x *
             static_cast<double>(batch.values()[j]);
    }
  }
  return z;
}

double plain_loss(const SparseModelSpec& spec, const SparseBatch& batch, std::span<const float> rows,
                  std::size_t width) {
  double sum = 0;
  for (std::size_t b = 0; b < batch.size(); ++b) {
    const double z = plain_z(spec, batch, rows, width, b);
    sum += std::log1p(std::exp(batch.labels()[b] > 0 ? -z : z));
  }
  return sum / static_cast<double>(batch.size());
}

struct Learnt {
  std::vector<float> rows, dense, probabilities;
  double loss;
};
Learnt learn(SparseModel& model, const SparseBatch& batch, std::span<const float> rows,
             std::span<const float> x, const OnLayer& on_layer = {}) {
  Learnt out{std::vector<float>(rows.size(), 9.0f), std::vector<float>(x.size(), 9.0f),
             std::vector<float>(batch.size()), 0};
  out.loss = model.gradient(batch, rows, x, {out.rows, out.dense, out.probabilities}, on_layer);
  return out;
}

bool has_no_dense(const SparseModelSpec& spec) {
  return spec.kind == "lr" || spec.kind == "fm" || spec.kind == "ffm";
}

/// Every factor's kernel of its own, and one that has none.
std::vector<SparseModelSpec> all_specs() {
  std::vector<SparseModelSpec> specs;
  for (const SparseModelRow& row : sparse_model_table())
    for (const std::size_t factors : {3, 4, 8, 12, 16})
      for (const char* pooling : {"sum", "concat"})
        specs.push_back(
            {.kind = row.name, .factors = factors, .fields = 4, .hidden = {6, 5}, .pooling = pooling});
  return specs;
}

}  // namespace

TEST_CASE("a sparse batch lists every key once") {
  SparseBatch batch;
  for (const bool bias : {true, false}) {
    batch.clear(bias);
    std::vector<std::uint64_t> keys;
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < 5000; ++i) keys.push_back(random() % 3000 * 0x9E3779B97F4A7C15ULL);
    const std::vector<float> values(keys.size(), 1.0f);
    for (std::size_t i = 0; i < keys.size(); i += 10)
      batch.add({std::span(keys).subspan(i, 10), {}, std::span(values).first(10), 1, i, i});
    REQUIRE(batch.size() == 500);
    REQUIRE(batch.entries() == 5000);
    CHECK(batch.begins()[500] == 5000);
    CHECK(batch.positions()[7] == 70);
    for (std::size_t e = 0; e < keys.size(); ++e) REQUIRE(batch.keys()[batch.index()[e]] == keys[e]);
    CHECK((batch.keys()[0] == kBiasKey) == bias);
    CHECK(std::set<std::uint64_t>(batch.keys().begin(), batch.keys().end()).size() == batch.keys().size());
  }
}

TEST_CASE("sparse models without a dense part give the loss and the gradient of their formulas") {
  for (const SparseModelSpec& spec : all_specs()) {
    if (!has_no_dense(spec)) continue;
    INFO(spec.kind << " k=" << spec.factors);
    const auto model = make_sparse_model(spec);
    for (const std::size_t most : {3, 9, 60}) {  // ffm sums by pair in short samples, by field in long ones
      const SparseBatch batch = random_batch(true, 30, most, 4, most);
      const std::size_t width = model->row_width();
      std::vector<float> rows = random_rows(batch.keys().size() * width, 2);
      if (most == 60)
        for (float& v : rows) v *= 0.1f;
      const Learnt learnt = learn(*model, batch, rows, {});
      CHECK(learnt.loss == Approx(plain_loss(spec, batch, rows, width)).epsilon(2e-5));
      std::vector<float> probabilities(batch.size());
      model->predict(batch, rows, {}, probabilities);
      CHECK(probabilities == learnt.probabilities);
      for (std::size_t b = 0; b < batch.size(); ++b)
        REQUIRE(static_cast<double>(probabilities[b]) ==
                Approx(1 / (1 + std::exp(-plain_z(spec, batch, rows, width, b)))).margin(2e-5));
      for (std::size_t i = 0; i < rows.size(); i += 1 + rows.size() / 300) {
        const float kept = rows[i], step = 1e-2f;
        rows[i] = kept + step;
        const float above = rows[i];
        const double up = plain_loss(spec, batch, rows, width);
        rows[i] = kept - step;
        const double down = plain_loss(spec, batch, rows, width);
        const double slope = (up - down) / static_cast<double>(above - rows[i]) * 30;
        rows[i] = kept;
        REQUIRE(static_cast<double>(learnt.rows[i]) == Approx(slope).margin(2e-3).epsilon(2e-3));
      }
    }
  }
}

TEST_CASE("gradients of sparse models with a dense part are those of finite differences") {
  for (const SparseModelSpec& spec : all_specs()) {
    if (has_no_dense(spec)) continue;
    INFO(spec.kind << " k=" << spec.factors << " " << spec.pooling);
    const auto model = make_sparse_model(spec);
    const SparseBatch batch = random_batch(model->reads_bias(), 20, 6, 4, 5);
    std::vector<float> rows = random_rows(batch.keys().size() * model->row_width(), 6);
    Buffer x(model->buffer_size());
    model->initialise(7, x.span());
    REQUIRE(model->layers().size() == 3);
    // With biases of 0 the sample without keys would stand on the ReLUs' kinks.
    for (const Layer& layer : model->layers())
      for (std::size_t i = 0; i < layer.size; ++i)
        x[layer.offset + i] += 0.1f * static_cast<float>(1 + i % 3);
    std::vector<std::size_t> order;
    const Learnt learnt = learn(*model, batch, rows, x.span(), [&](std::size_t l) { order.push_back(l); });
    CHECK(order == std::vector<std::size_t>{2, 1, 0});
    const auto slope = [&](float& v) {
      const float kept = v, step = 2e-3f;
      v = kept + step;
      const double up = learn(*model, batch, rows, x.span()).loss;
      v = kept - step;
      const double down = learn(*model, batch, rows, x.span()).loss;
      v = kept;
      return (up - down) / (2 * static_cast<double>(step));
    };
    std::size_t far = 0, looked_at = 0;  // a step across a ReLU's kink is no error
    const auto compare = [&](float& v, float gradient, double scale) {
      ++looked_at;
      if (std::abs(slope(v) * scale - static_cast<double>(gradient)) > 4e-4 * scale + 2e-3) ++far;
    };
    for (std::size_t i = 0; i < rows.size(); i += 1 + rows.size() / 60) compare(rows[i], learnt.rows[i], 20);
    for (const Layer& layer : model->layers())
      for (std::size_t i = 0; i < layer.size; i += 3)
        compare(x[layer.offset + i], learnt.dense[layer.offset + i], 1);
    CHECK(far * 12 < looked_at);
    for (std::size_t i = model->layers()[0].size; i < model->layers()[1].offset; ++i)
      CHECK(learnt.dense[i] == 0.0f);
  }
}

TEST_CASE("new rows depend on seed and key alone; weights start at zero") {
  const auto model = make_sparse_model({.kind = "fm", .factors = 400, .deviation = 0.1});
  std::vector<float> a(401), b(401), c(401);
  model->initialise_row(1, 5, a);
  model->initialise_row(1, 5, b);
  CHECK(a == b);
  model->initialise_row(1, 6, b);
  model->initialise_row(2, 5, c);
  CHECK(a != b);
  CHECK(a != c);
  CHECK(a[0] == 0.0f);
  double squares = 0;
  for (const float v : a) squares += static_cast<double>(v * v);
  CHECK(std::sqrt(squares / 400) == Approx(0.1).epsilon(0.1));
  model->initialise_row(1, kBiasKey, a);
  CHECK(a == std::vector<float>(401));
}

TEST_CASE("sparse models refuse what they cannot be") {
  const auto error = [](SparseModelSpec spec) { return message_of([&] { make_sparse_model(spec); }); };
  CHECK(offers([] { make_sparse_model({.kind = "fmm"}); }, "fmm", "ffm"));
  CHECK(offers([] { make_sparse_model({.kind = "dnn", .pooling = "summ"}); }, "summ", "sum"));
  CHECK(error({.kind = "fm", .factors = 0}) == "sparse model factors: found 0, expected 1 to 1024");
  CHECK(error({.kind = "lr", .factors = 0}).empty());
  CHECK(error({.kind = "ffm", .fields = 70000}) == "sparse model fields: found 70000, expected 1 to 65536");
  CHECK(error({.kind = "ffm", .factors = 1024, .fields = 65536}) ==
        "sparse model fields times factors: found 67108864, expected 1 to 4194304");
  CHECK(error({.kind = "deepfm", .hidden = {0}}).find("a layer of 0 units") != std::string::npos);
  const auto ffm = make_sparse_model({.kind = "ffm", .factors = 2, .fields = 3});
  const SparseBatch batch = random_batch(true, 20, 6, 9, 5);
  const std::vector<float> rows(batch.keys().size() * ffm->row_width());
  std::vector<float> p(batch.size());
  CHECK(message_of([&] { ffm->predict(batch, rows, {}, p); }) ==
        "sparse model ffm: found field 8 in the data, expected at most 2; set fields to at least 9");
}

}  // namespace gossamer::optim::test

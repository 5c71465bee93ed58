// What holds for every row of the tables of objectives, optimisers, rate schedules, data formats and
// aggregation rules: what a part says of itself is what it does.
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "gossamer/optim/aggregate.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using Numbers = std::vector<float>;

/// The steps of one parameter for these gradients, at these places in parameter space.
Numbers steps_of(const OptimizerSpec& spec, const Numbers& gradients, const Numbers& x) {
  const auto optimizer = make_optimizer(spec, 16);
  Numbers steps;
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    float u = 0;
    optimizer->step(static_cast<double>(t), 0, {&x[t], 1}, {&gradients[t], 1}, {&u, 1});
    steps.push_back(u);
  }
  return steps;
}
Numbers steps_of(const OptimizerSpec& spec, const Numbers& gradients) {
  return steps_of(spec, gradients, Numbers(gradients.size(), 2.0f));
}

double sum(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0,
                         [](double s, float x) { return s + static_cast<double>(x); });
}

/// The gradients, and so many zeros that every velocity has died away.
Numbers then_none(Numbers gradients) {
  gradients.resize(400, 0.0f);
  return gradients;
}

void check_rows(std::span<const NamedHelp> table) {
  std::set<std::string> names;
  REQUIRE(!table.empty());
  for (const NamedHelp& row : table) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(std::string(row.help).size() > 5);
    CHECK(std::string(row.help).find('\n') == std::string::npos);
  }
}

template <class Spec>
using Changes = std::map<std::string, std::function<void(Spec&)>>;

/// Of every key that some row names there is a change, and it makes a difference to the rows that read it
/// alone.
template <class Spec>
void check_keys(std::span<const NamedHelp> table, const Changes<Spec>& changes,
                const std::function<Spec(const std::string&)>& spec_of,
                const std::function<std::uint64_t(const Spec&)>& result) {
  std::size_t named = 0;
  for (const auto& [key, change] : changes)
    for (const NamedHelp& row : table) {
      INFO(row.name << " and the key " << key);
      Spec changed = spec_of(row.name);
      change(changed);
      CHECK((result(changed) != result(spec_of(row.name))) == reads(table, row.name, key));
    }
  for (const NamedHelp& row : table) {
    const std::string keys = row.reads;
    for (std::size_t at = 0; at < keys.size();) {
      const std::size_t end = std::min(keys.find(' ', at), keys.size());
      CHECK(changes.contains(keys.substr(at, end - at)));
      ++named;
      at = end + 1;
    }
  }
  CHECK(named > 0);
}

}  // namespace

TEST_CASE("every objective, optimiser, schedule and data format has a name of its own and a line of help") {
  check_rows(model_table());
  check_rows(optimizer_table());
  check_rows(rate_schedule_table());
  check_rows(data_format_table());
}

TEST_CASE("a key that no row names is read by all, and one that some name by these alone") {
  CHECK(reads(optimizer_table(), "sgd", "learning_rate"));
  CHECK(reads(optimizer_table(), "adam", "beta1"));
  CHECK_FALSE(reads(optimizer_table(), "sgd", "beta1"));
  CHECK_FALSE(reads(optimizer_table(), "adam", "momentum"));
  CHECK_FALSE(reads(optimizer_table(), "adamw", "learning_rate"));  // there is no such row
}

TEST_CASE("unknown kinds have no traits") {
  CHECK(offers([] { model_traits("mpl"); }, "mpl", "mlp"));
  CHECK(offers([] { optimizer_traits("adma"); }, "adma", "adam"));
  CHECK(offers([] { data_format_traits("cvs"); }, "cvs", "csv"));
  CHECK(offers([] { is_constant_rate("cosin"); }, "cosin", "cosine"));
}

TEST_CASE("classifiers have classes and predict them, hidden layers have sizes") {
  const Data data = blobs(32, 6, 3);
  const OwnedBatch owned(*data.train, 4);
  for (const NamedHelp& row : model_table()) {
    INFO(row.name);
    const ModelTraits& traits = model_traits(row.name);
    const auto objective = objective_for(row.name, *data.train, {5});
    CHECK((objective->classes() > 0) == traits.classifier);
    Buffer x(*objective);
    std::vector<float> probabilities(4 * 3);
    const auto predict = [&] { objective->predict(x.span(), owned.batch, probabilities); };
    if (traits.classifier)
      CHECK_NOTHROW(predict());
    else
      CHECK_THROWS_AS(predict(), OptimError);
    CHECK(objective->evaluate(x.span(), owned.batch).has_accuracy == traits.classifier);
    const auto without_classes = [&] { make_model({row.name, {5}, 6, 0}); };
    CHECK(message_of(without_classes).empty() == !traits.classifier);
    const bool differs = objective_for(row.name, *data.train, {7})->parameters() != objective->parameters();
    CHECK(differs == traits.hidden);
    CHECK(differs == reads(model_table(), row.name, "hidden"));
  }
}

TEST_CASE("optimisers keep what they say that they keep") {
  for (const NamedHelp& row : optimizer_table()) {
    INFO(row.name);
    const OptimizerTraits& traits = optimizer_traits(row.name);
    const OptimizerSpec spec{.kind = row.name, .learning_rate = 0.1, .momentum = 0.5};
    const float after_some = steps_of(spec, {1, -3, 0.5f, 2}, {2, 1.5f, 1, 1}).back();
    const float at_once = steps_of(spec, {2}, {1}).back();
    CHECK((after_some != at_once) == traits.keeps_state);
    const Numbers gradients{1, -3, 0.5f, 2};
    const bool same = steps_of(spec, gradients, {2, 2, 2, 2}) == steps_of(spec, gradients, {2, 1, 4, 3});
    CHECK(same == traits.of_gradients_alone);
    CHECK(velocity_decay(spec).has_value() == traits.of_gradients_alone);
    if (velocity_decay(spec)) CHECK((*velocity_decay(spec) > 0) == traits.keeps_state);
  }
}

TEST_CASE("steps follow the size of gradients but where second moments are learned") {
  for (const NamedHelp& row : optimizer_table()) {
    INFO(row.name);
    const OptimizerSpec spec{.kind = row.name, .learning_rate = 0.1};
    const double once = sum(steps_of(spec, {1, 1, 1})), doubled = sum(steps_of(spec, {2, 2, 2}));
    CHECK(doubled / once == Approx(optimizer_traits(row.name).adapts_by_second_moment ? 1 : 2).epsilon(1e-3));
  }
}

TEST_CASE("gradients that come in other rounds add up to the same where an optimiser says so") {
  for (const NamedHelp& row : optimizer_table()) {
    INFO(row.name);
    const OptimizerSpec spec{.kind = row.name, .learning_rate = 0.1, .momentum = 0.5};
    const double in_turn = sum(steps_of(spec, then_none({1, 5, -2})));
    const double together = sum(steps_of(spec, then_none({0, 6, -2})));
    if (optimizer_traits(row.name).adds_up)
      CHECK(together == Approx(in_turn).epsilon(1e-5));
    else if (optimizer_traits(row.name).of_gradients_alone)
      CHECK(together != Approx(in_turn).epsilon(1e-5));
  }
}

TEST_CASE("optimisers and schedules read the keys that they name, and no others of these") {
  const auto result = [](const OptimizerSpec& spec) {
    return bit_hash(steps_of(spec, {1, -3, 0.5f, 2}, {2, 1, 4, 3}));
  };
  check_keys<OptimizerSpec>(
      optimizer_table(),
      {{"momentum", [](OptimizerSpec& s) { s.momentum = 0.3; }},
       {"beta1", [](OptimizerSpec& s) { s.beta1 = 0.3; }},
       {"beta2", [](OptimizerSpec& s) { s.beta2 = 0.3; }},
       {"epsilon", [](OptimizerSpec& s) { s.epsilon = 0.3; }}},
      [](const std::string& kind) { return OptimizerSpec{.kind = kind}; }, result);
  check_keys<OptimizerSpec>(
      rate_schedule_table(),
      {{"step_every", [](OptimizerSpec& s) { s.step_every = 0.25; }},
       {"step_factor", [](OptimizerSpec& s) { s.step_factor = 0.3; }}},
      [](const std::string& schedule) {
        return OptimizerSpec{.schedule = schedule, .step_every = 0.5, .total_steps = 4};
      },
      result);
}

TEST_CASE("a rate is constant where its schedule says so") {
  for (const NamedHelp& row : rate_schedule_table()) {
    INFO(row.name);
    const OptimizerSpec spec{.schedule = row.name, .step_every = 0.5, .total_steps = 100};
    CHECK((learning_rate(spec, 0) == learning_rate(spec, 99)) == is_constant_rate(row.name));
  }
}

TEST_CASE("a data format that needs a path refuses an empty one, and others load without") {
  for (const NamedHelp& row : data_format_table()) {
    INFO(row.name);
    const DataFormatTraits& traits = data_format_traits(row.name);
    DataSpec spec;
    spec.format = row.name;
    const std::string said = message_of([&] { load_data(spec); });
    CHECK(said.empty() == !traits.needs_path);
    if (traits.needs_path) CHECK(said.find(std::string(row.name) + ": found no path") != std::string::npos);
    CHECK(reads(data_format_table(), row.name, "path") == traits.needs_path);
    CHECK(traits.synthetic == !traits.needs_path);
  }
}

TEST_CASE("data formats read the keys that they name, and no others of these") {
  const TemporaryDirectory folder;
  std::string rows;
  for (int r = 0; r < 40; ++r)
    rows += std::to_string(r) + ",1,t" + std::to_string(r % 3) + "," + std::to_string(r % 4) + "\n";
  write_plain(folder.file("a.csv"), rows);
  write_plain(folder.file("b.csv"), "7,1,t1,1\n" + rows);
  const auto big_endian = [](std::uint32_t n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
                       static_cast<char>(n)};
  };
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(folder.file(name));
    for (const char* part : {"train", "t10k"}) {
      write_plain(folder.file(name) + "/" + part + "-labels-idx1-ubyte",
                  big_endian(0x801) + big_endian(2) + std::string("\0\1", 2));
      write_plain(folder.file(name) + "/" + part + "-images-idx3-ubyte",
                  big_endian(0x803) + big_endian(2) + big_endian(1) + big_endian(1) + "q" + name);
    }
  }
  const auto ending = [](const std::string& format) { return format == "csv" ? ".csv" : ""; };
  const Changes<DataSpec> changes{
      {"path", [&](DataSpec& s) { s.path = folder.file(std::string("b") + ending(s.format)); }},
      {"test_path", [&](DataSpec& s) { s.test_path = folder.file("b.csv"); }},
      {"label", [](DataSpec& s) { s.label = "first"; }},
      {"standardize", [](DataSpec& s) { s.standardize = true; }},
      {"text_as", [](DataSpec& s) { s.text_as = "onehot"; }},
      {"text",
       [](DataSpec& s) {
         s.text = {"1", "2"};
       }},
      {"mean", [](DataSpec& s) { s.mean = 0.5; }},
      {"scale", [](DataSpec& s) { s.scale = 3; }},
      {"limit", [](DataSpec& s) { s.limit = 1; }},
      {"seed",
       [](DataSpec& s) {
         s.seed = 9;
         if (s.format == "idx") s.limit = 1;  // which it draws
       }},
      {"rows", [](DataSpec& s) { s.rows = 9; }},
      {"test_rows", [](DataSpec& s) { s.test_rows = 9; }},
      {"features", [](DataSpec& s) { s.features = 9; }},
      {"classes", [](DataSpec& s) { s.classes = 9; }},
      {"separation", [](DataSpec& s) { s.separation = 9; }}};
  check_keys<DataSpec>(
      data_format_table(), changes,
      [&](const std::string& format) {
        DataSpec spec;
        spec.format = format;
        spec.path = folder.file(std::string("a") + ending(format));
        spec.text_as = "hash:5";
        return spec;
      },
      [](const DataSpec& spec) {
        const Data data = load_data(spec);
        return data.train->hash() ^ (3 * data.test->hash());
      });
}

TEST_CASE("aggregation rules count signs, or stay near the own vector, where they say so") {
  const std::vector<Numbers> vectors{{1, -2}, {3, 0.5f}, {0.25f, -4}, {2, 1.5f}, {1.25f, 9}};
  const std::vector<std::span<const float>> seen(vectors.begin(), vectors.end());
  const Numbers weights(vectors.size(), 0.2f);
  const auto value = [&](const char* rule, std::size_t self) {
    Numbers out(2);
    make_aggregator(rule, vectors.size())->aggregate({seen, weights, self}, out);
    return out;
  };
  for (const NamedHelp& row : aggregator_table()) {
    INFO(row.name);
    const AggregatorInfo info = describe_aggregator(row.name);
    const Numbers own = value(row.name, 0);
    const bool signs =
        std::all_of(own.begin(), own.end(), [](float x) { return std::abs(x) <= 1 && x == std::round(x); });
    CHECK(signs == info.of_signs);
    CHECK((own != value(row.name, 4)) == info.around_own);
  }
}

}  // namespace gossamer::optim::test

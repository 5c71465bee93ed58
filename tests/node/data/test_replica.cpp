#include "replica.h"

#include "aggregation.h"

#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr Slot kA = 2, kB = 3;

/// A replica with two slots beside x and g, and what it posted.
struct Fixture {
  explicit Fixture(const Settings& settings = {}, const Buffers& buffers = {.slots = 2})
      : prepared(prepare(small_job(settings))),
        replica(make_replica(prepared, 0, make_objective(prepared, 0), 1, {}, buffers)),
        whole{0, prepared.initial.size()} {}

  void run(const Op& op) {
    replica.run(op, [this](DataEvent e) { posted.push_back(std::move(e)); });
  }
  void run(const Gradient& gradient) {
    replica.run(
        gradient, [this](DataEvent e) { posted.push_back(std::move(e)); }, [this] { ++layers; });
  }
  Payload dense(Range range, Slot slot) {
    run(op::Encode{
        .range = range, .src = slot, .minus = {}, .apply_to = {}, .exact = true, .round = 0, .parcel = 0});
    return std::get<Encoded>(posted.back()).payload;
  }
  float at(Slot slot, std::size_t i) const { return replica.slot(slot)[i]; }

  Prepared prepared;
  Replica replica;
  Range whole;
  std::vector<DataEvent> posted;
  int layers = 0;
};

std::string error_of(Fixture& f, const Op& op) {
  try {
    f.run(op);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("slots start as copies of the initial parameters and the gradient as zero") {
  Fixture f;
  CHECK(Run::same_bits(f.replica.parameters(), f.prepared.initial));
  CHECK(Run::same_bits(f.replica.slot(kB), f.prepared.initial));
  for (const float g : f.replica.slot(kGradient)) CHECK(g == 0);
}

TEST_CASE("combine scales and adds its terms in order within the range") {
  Fixture f;
  const float x = f.at(kParameters, 17), outside = f.at(kA, 16);
  f.run(op::Combine{{17, 3}, kA, 0.5f, {{2.0f, kParameters}, {-1.0f, kB}}});
  CHECK(f.at(kA, 17) == (0.5f * x + 2.0f * x) - 1.0f * x);
  CHECK(f.at(kA, 16) == outside);
  CHECK(f.at(kA, 20) == f.prepared.initial[20]);
  f.run(op::Combine{f.whole, kA, 0, {}});
  for (const float v : f.replica.slot(kA)) CHECK(v == 0);
  // 1 + 1e8 − 1e8 depends on the order
  f.run(op::Combine{{0, 1}, kA, 0, {}});
  f.run(op::Combine{{0, 1}, kA, 1, {{1.0f, kB}, {1e12f, kB}, {-1e12f, kB}}});
  const float b = f.at(kB, 0);
  CHECK(f.at(kA, 0) == (b + 1e12f * b) + -1e12f * b);
}

TEST_CASE("zero times what is not finite is zero") {
  Fixture f;
  f.run(op::Combine{{0, 1}, kA, 1, {{3e38f, kB}, {3e38f, kB}, {3e38f, kB}, {3e38f, kB}}});
  f.run(op::Combine{{0, 1}, kA, 1e30f, {}});
  f.run(op::Combine{{0, 1}, kA, 1e30f, {}});
  REQUIRE_FALSE(std::isfinite(f.at(kA, 0)));
  f.run(op::Combine{{0, 1}, kA, 0, {}});
  CHECK(f.at(kA, 0) == 0);
}

TEST_CASE("encode answers with its tag and decode adds with a weight") {
  Fixture f;
  f.run(op::Combine{f.whole, kA, 0, {}});
  const Payload payload = f.dense({0, 32}, kParameters);
  f.run(op::DecodeAdd{{0, 32}, kA, 0.5f, payload});
  for (std::size_t i = 0; i < 32; ++i) CHECK(f.at(kA, i) == 0.5f * f.at(kParameters, i));
  CHECK(f.at(kA, 32) == 0);

  f.run(op::Encode{
      .range = {16, 16}, .src = kParameters, .minus = {}, .apply_to = {}, .round = 7, .parcel = 0, .tag = 9});
  const auto& e = std::get<Encoded>(f.posted.back());
  CHECK(e.round == 7);
  CHECK(e.parcel == 0);
  CHECK(e.tag == 9);
  CHECK(e.entries == 16);
  CHECK(compress::inspect(*e.payload).codec == "onebit_scaled");
}

TEST_CASE("encode of a difference is applied as the receiver decodes it") {
  Fixture f;
  f.run(op::Combine{f.whole, kB, 0, {}});
  f.run(op::Combine{f.whole, kA, 0, {}});
  f.run(
      op::Encode{.range = f.whole, .src = kParameters, .minus = kA, .apply_to = kA, .round = 0, .parcel = 0});
  f.run(op::DecodeAdd{f.whole, kB, 1, std::get<Encoded>(f.posted.back()).payload});
  CHECK(Run::same_bits(f.replica.slot(kA), f.replica.slot(kB)));
  CHECK(largest_difference(f.replica.slot(kA), f.replica.parameters()) > 0);
}

TEST_CASE("feedback keeps what was not sent for each number and range apart") {
  Fixture f({"exchange.codec=topk:density=0.1"});
  const auto encode = [&](int number, Range range) {
    f.run(op::Encode{.range = range,
                     .src = kParameters,
                     .minus = {},
                     .apply_to = {},
                     .feedback = number,
                     .round = 0,
                     .parcel = 0});
    return std::get<Encoded>(f.posted.back()).payload;
  };
  const Range first{0, 16}, second{16, 16}, empty{16, 0};
  const auto once = encode(0, first);
  CHECK((encode(1, first) == once));
  CHECK((encode(0, first) != once));
  encode(0, empty);  // begins where another range begins
  encode(0, second);
  encode(0, empty);
}

TEST_CASE("a gradient runs each layer's ops and then says that it is ready") {
  Fixture f({"model.kind=mlp", "exchange.parcel=64"});
  const auto parcels = make_parcels(f.prepared.layers, 64);
  REQUIRE(parcels.size() > 2);
  Gradient gradient{5, {}};
  for (ParcelId p = 0; p < parcels.size(); ++p)
    gradient.on_ready.push_back({op::Update{parcels[p].range, 5, 5},
                                 op::Combine{parcels[p].range, kParameters, 1, {{-1.0f, kGradient}}},
                                 op::Encode{.range = parcels[p].range,
                                            .src = kParameters,
                                            .minus = {},
                                            .apply_to = {},
                                            .round = 5,
                                            .parcel = p}});
  f.run(gradient);
  REQUIRE(f.posted.size() == 2 * parcels.size() + 1);
  for (std::size_t k = 0; k < parcels.size(); ++k) {
    const auto parcel = static_cast<ParcelId>(parcels.size() - 1 - k);  // last layer first
    CHECK(std::get<Encoded>(f.posted[2 * k]).parcel == parcel);
    CHECK(std::get<ParcelReady>(f.posted[2 * k + 1]).parcel == parcel);
  }
  const auto& done = std::get<GradientDone>(f.posted.back());
  CHECK(done.round == 5);
  CHECK(done.rows == 8);
  CHECK(done.loss > 0);
  CHECK(f.layers == static_cast<int>(f.prepared.layers.size()));
  CHECK(largest_difference(f.replica.parameters(), f.prepared.initial) > 0);
}

TEST_CASE("a gradient by which no step was taken goes along to the next view") {
  const Buffers keeps{.slots = 2, .keeps_gradient = true};
  Fixture before({}, keeps), after({}, keeps), others({}, keeps), plain;
  const std::vector<Op> halved{op::Combine{before.whole, kA, 0, {{0.5f, kGradient}}}};
  for (Fixture* const f : {&before, &plain}) f->run(Gradient{3, {halved}});
  before.run(op::Combine{before.whole, kA, 3, {}});  // a sum that came to nothing
  const State state = before.replica.save_for_next_view({});
  REQUIRE(has_own_gradient(state));
  CHECK_FALSE(has_own_gradient(before.replica.save_for_next_view({}, false)));
  CHECK_FALSE(has_own_gradient(before.replica.save_learned()));
  CHECK_FALSE(has_own_gradient(plain.replica.save_for_next_view({})));

  after.replica.restore(state, Kept::learned);
  CHECK(after.replica.has_gradient());
  after.run(Gradient{9, {halved}});
  CHECK(Run::same_bits(after.replica.slot(kGradient), plain.replica.slot(kGradient)));
  CHECK(Run::same_bits(after.replica.slot(kA), plain.replica.slot(kA)));
  const auto &taken_up = std::get<GradientDone>(after.posted.back()),
             &computed = std::get<GradientDone>(plain.posted.back());
  CHECK(std::get<ParcelReady>(after.posted.front()).round == 9);
  CHECK(taken_up.round == 9);
  CHECK(taken_up.loss == computed.loss);
  CHECK(taken_up.rows == 0);  // they were counted
  CHECK(after.layers == plain.layers);
  CHECK(has_own_gradient(after.replica.save_for_next_view({})));  // still no step
  const std::uint64_t learned = learned_bytes(after.replica.save_learned()).hash;
  after.run(op::Update{after.whole, 9, 9, kA});
  CHECK_FALSE(has_own_gradient(after.replica.save_for_next_view({})));
  after.run(Gradient{10, {halved}});
  CHECK(std::get<GradientDone>(after.posted.back()).rows == 8);

  others.replica.restore(without_own(state), Kept::learned);
  CHECK_FALSE(others.replica.has_gradient());
  others.run(Gradient{9, {halved}});
  CHECK(std::get<GradientDone>(others.posted.back()).rows == 8);
  CHECK(learned == learned_bytes(others.replica.save_learned()).hash);  // by which peers compare themselves
}

TEST_CASE("evaluation covers the test set") {
  Fixture f;
  f.replica.evaluate(3, [&](DataEvent e) { f.posted.push_back(std::move(e)); });
  const auto& e = std::get<Evaluated>(f.posted.back());
  CHECK(e.round == 3);
  const auto plain = optim::evaluate(*make_model(f.prepared), f.prepared.initial, *f.prepared.data.test);
  CHECK(plain.rows == 32);
  CHECK(optim::find_figure(e.test, "loss") == plain.loss());
  CHECK(optim::find_figure(e.test, "accuracy") == plain.accuracy());
}

TEST_CASE("a diverged run says where") {
  Fixture f;
  f.run(op::Combine{f.whole, kParameters, 1e30f, {}});
  f.run(op::Combine{f.whole, kParameters, 1e30f, {}});
  const op::Encode encode{
      .range = f.whole, .src = kParameters, .minus = {}, .apply_to = {}, .round = 4, .parcel = 0};
  const std::string encoding = error_of(f, encode);
  CHECK(says(encoding, "in round 4"));
}

TEST_CASE("a gradient that is not finite is zero, and its own step leaves parameters and optimiser alone") {
  for (const char* optimizer : {"momentum", "adam", "quasi_global"}) {
    Fixture f({std::string("optimizer.kind=") + optimizer, "exchange.codec=intq:bits=4"});
    const op::Update step{f.whole, 4, 4};
    f.run(Gradient{3, {{step}}});
    CHECK_FALSE(std::get<GradientDone>(f.posted.back()).skipped);
    const State before = f.replica.save();
    f.run(op::Combine{f.whole, kParameters, 1e30f, {}});
    f.run(op::Combine{f.whole, kParameters, 1e30f, {}});
    f.run(Gradient{4, {{step}}});
    CHECK(std::get<GradientDone>(f.posted.back()).skipped);
    for (const float g : f.replica.slot(kGradient)) CHECK(g == 0);
    const State after = f.replica.save();
    for (const auto& [name, value] : before)
      if (name.starts_with("data/optimizer/")) CHECK(after.at(name) == value);
  }
}

TEST_CASE("after a sum over peers a step is taken whatever the own gradient was") {
  Fixture f({"optimizer.kind=momentum", "optimizer.momentum=0.5"});
  f.run(Gradient{3, {{op::Update{f.whole, 3, 3}}}});
  const std::vector<float> u(f.replica.slot(kGradient).begin(), f.replica.slot(kGradient).end());
  f.run(op::Combine{f.whole, kParameters, 1e30f, {}});
  f.run(op::Combine{f.whole, kParameters, 1e30f, {}});
  f.run(Gradient{4, std::vector<std::vector<Op>>(1)});
  f.run(op::Combine{f.whole, kParameters, 0, {{1.0f, kA}}});
  f.run(op::Update{f.whole, 4, 4});
  for (std::size_t i = 0; i < u.size(); ++i) CHECK(f.at(kGradient, i) == 0.5f * u[i]);
}

TEST_CASE("a payload that does not fit is refused") {
  Fixture f;
  const Payload payload = f.dense({0, 16}, kParameters);
  CHECK(says(error_of(f, op::DecodeAdd{{0, 32}, kA, 1, payload}), "holds 16 entries, expected 32"));
  const auto garbage = std::make_shared<const std::vector<std::byte>>(20, std::byte{1});
  CHECK(says(error_of(f, op::DecodeAdd{{0, 16}, kA, 1, garbage}), "not a payload"));
}

TEST_CASE("aggregate puts the rule's value over payloads and the own vector in place, on all its ranges") {
  Fixture f({"exchange.method=dpsgd", "exchange.codec=dense", "exchange.aggregate=median"});
  const std::vector<Range> ranges{{0, 3}, {16, 2}};
  const auto told = [&](float value) {
    std::vector<Payload> payloads;
    for (const Range r : ranges) {
      f.run(op::Combine{r, kB, 0, {}});
      f.run(op::Combine{r, kB, 1, {{value, kA}}});
      payloads.push_back(f.dense(r, kB));
    }
    return payloads;
  };
  f.run(op::Combine{f.whole, kA, 0, {{1.0f, kParameters}}});
  const float x = f.at(kA, 1), y = f.at(kA, 17), beside = f.at(kParameters, 3);
  REQUIRE(x != 0);
  f.run(op::Aggregate{ranges, kParameters, {told(5), {}, told(3)}, {0.25f, 0.5f, 0.25f}, 1});
  CHECK(f.at(kParameters, 1) == 3 * x);  // of 5x, x, 3x
  CHECK(f.at(kParameters, 17) == 3 * y);
  CHECK(f.at(kParameters, 3) == beside);
}

TEST_CASE("aggregate leaves out what does not decode, or is not finite, and bears one less") {
  Fixture f({"exchange.method=dpsgd", "exchange.codec=dense", "exchange.aggregate=trimmed_mean:f=1",
             "graph.kind=full"});
  const Range r{0, 4};
  const Payload right = f.dense(r, kA);
  auto truncated = std::make_shared<std::vector<std::byte>>(right->begin(), right->end());
  truncated->pop_back();
  auto infinite = std::make_shared<std::vector<std::byte>>(right->begin(), right->end());
  const float bad = INFINITY;
  std::memcpy(infinite->data() + infinite->size() - sizeof bad, &bad, sizeof bad);
  for (const Payload& wrong : {Payload(truncated), Payload(infinite)}) {
    f.run(op::Combine{r, kParameters, 0, {{1.0f, kA}}});
    f.run(op::Aggregate{{r}, kParameters, {{right}, {wrong}, {}}, equal_weights(3), 2});
    for (std::size_t i = 0; i < r.size; ++i) CHECK(f.at(kParameters, i) == f.at(kA, i));
  }
}

TEST_CASE("commands that do several things at once leave what the simple ones leave") {
  for (const bool alone : {false, true}) {
    Fixture fused, simple;
    const auto both = [&](const Op& op) {
      fused.run(op);
      const std::vector<Op> ops = op::in_simple_ones(op);
      CHECK_FALSE(ops.empty());
      for (const Op& o : ops) simple.run(o);
    };
    const Range r{0, 33};
    const Payload payload = fused.dense(r, kParameters);
    both(op::Decode{r, kA, payload});
    CHECK(Run::same_bits(fused.replica.slot(kA), simple.replica.slot(kA)));
    both(op::PassOn{r, kParameters, 0.3f, kB, alone ? Payload() : payload, 5, 0, 7});
    const auto &made = std::get<Encoded>(fused.posted.back()),
               &expected = std::get<Encoded>(simple.posted.back());
    CHECK(std::equal(made.payload->begin(), made.payload->end(), expected.payload->begin(),
                     expected.payload->end()));
    CHECK(made.round == 5);
    CHECK(made.tag == 7);
    CHECK(made.entries == 33);
  }
  for (const char* codec : {"onebit_scaled", "topk:density=0.2"}) {
    Fixture fused({std::string("exchange.codec=") + codec}), simple({std::string("exchange.codec=") + codec});
    const auto both = [&](const Op& op) {
      const std::vector<Op> ops = op::in_simple_ones(op);
      fused.run(op);
      for (const Op& o : ops.empty() ? std::vector<Op>{op} : ops) simple.run(o);
    };
    const Range r = fused.whole;
    for (int round = 0; round < 3; ++round) {
      both(op::Combine{r, kGradient, 0, {{0.5f, kA}, {0.1f, kB}}});
      both(op::Step{{r, 1, 1}});
      CHECK(Run::same_bits(fused.replica.parameters(), simple.replica.parameters()));
      for (const auto told : {std::optional<Slot>(), std::optional<Slot>(kB)}) {
        both(op::Combine{r, kGradient, 0, {{0.2f, kA}}});
        both(op::StepEncode{{r, 1, 1},
                            {.range = r,
                             .src = kParameters,
                             .minus = told,
                             .apply_to = told,
                             .feedback = told ? -1 : 0,
                             .round = 1,
                             .parcel = 0}});
        CHECK(std::get<Encoded>(fused.posted.back()).payload ==
              std::get<Encoded>(simple.posted.back()).payload);
        CHECK(Run::same_bits(fused.replica.parameters(), simple.replica.parameters()));
        CHECK(Run::same_bits(fused.replica.slot(kB), simple.replica.slot(kB)));
      }
      both(op::Encode{.range = r, .src = kParameters, .minus = {}, .apply_to = {}, .round = 1, .parcel = 0});
      const Payload payload = std::get<Encoded>(fused.posted.back()).payload;
      both(op::Mix{
          r, kA, {{0.5f, payload}, {-0.25f, payload}}, {r, kParameters, 1, {{0.3f, kA}, {-1.0f, kB}}}});
      CHECK(Run::same_bits(fused.replica.slot(kA), simple.replica.slot(kA)));
      CHECK(Run::same_bits(fused.replica.parameters(), simple.replica.parameters()));
    }
  }
  for (const char* codec :
       {"topk:density=0.2", "topk:density=0.1,values=int8", "topk:density=0.2,select=sampled"}) {
    Fixture fused({std::string("exchange.codec=") + codec}), simple({std::string("exchange.codec=") + codec});
    const Range r = fused.whole;
    const auto both = [&](const Op& op) {
      fused.run(op);
      simple.run(op);
    };
    std::vector<Payload> payloads;
    for (const Slot s : {kA, kB}) {
      both(op::Combine{r, s, 1, {{0.3f + static_cast<float>(s), kParameters}}});
      both(op::Encode{
          .range = r, .src = s, .minus = {}, .apply_to = {}, .feedback = 0, .round = 1, .parcel = 0});
      payloads.push_back(std::get<Encoded>(fused.posted.back()).payload);
    }
    const op::Merge merge{r, kGradient, payloads[0], payloads[1], 0, 1, 0};
    fused.run(merge);
    for (const Op& o : op::in_simple_ones(merge)) simple.run(o);
    CHECK(std::get<Encoded>(fused.posted.back()).payload == std::get<Encoded>(simple.posted.back()).payload);
    CHECK(fused.replica.unsent(0) == simple.replica.unsent(0));
  }
  for (const char* optimizer : {"sgd", "momentum"}) {
    const Settings settings{"exchange.codec=topk:density=0.02", std::string("optimizer.kind=") + optimizer};
    Fixture fused(settings), simple(settings);
    const Range r = fused.whole;
    const auto both = [&](const Op& op, const std::vector<Op>& ops) {
      fused.run(op);
      for (const Op& o : ops) simple.run(o);
    };
    for (Round round = 0; round < 3; ++round) {
      op::StepBySum step{{r, round, 1}, {}};
      for (const Slot s : {kA, kB}) {
        const Op change = op::Combine{r, s, 1, {{0.3f + static_cast<float>(s), kParameters}}};
        both(change, {change});
        const Op tell = op::Encode{
            .range = r, .src = s, .minus = {}, .apply_to = {}, .feedback = 0, .round = 1, .parcel = 0};
        both(tell, {tell});
        step.payloads.emplace_back(0.25f, std::get<Encoded>(fused.posted.back()).payload);
        both(step, op::in_simple_ones(step));
        CHECK(Run::same_bits(fused.replica.parameters(), simple.replica.parameters()));
      }
      step.payloads.emplace_back(0.5f, fused.dense(r, kA));
      both(step, op::in_simple_ones(step));
      CHECK(Run::same_bits(fused.replica.parameters(), simple.replica.parameters()));
    }
  }
  for (const optim::NamedHelp& row : optim::optimizer_table()) {
    const Settings kind{std::string("optimizer.kind=") + row.name, "exchange.codec=intq:bits=4"};
    Fixture fused(kind), simple(kind);
    const Range front{0, 5}, back{5, fused.whole.size - 5}, mid{5, 7}, end{12, fused.whole.size - 12};
    for (Round round = 0; round < 3; ++round) {
      const auto of = [&](Range r) { return std::pair(r, fused.dense(r, kA)); };
      const op::StepByParts step{
          {{{front, round, 1, kB}, {of(front)}}, {{back, round, 1, kB}, {of(end), of(mid)}}}};
      fused.run(step);
      for (const Op& o : op::in_simple_ones(step)) simple.run(o);
      CHECK(Run::same_bits(fused.replica.parameters(), simple.replica.parameters()));
    }
  }
  CHECK(op::in_simple_ones(op::Measure{0}).empty());
}

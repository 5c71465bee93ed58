// A device's replica beside the host's: the same commands on the same floats. Runs on a device, and on the
// emulated one.
#include <limits>

#include "aggregation.h"
#include "device_order.h"
#include "replica_pair.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using compress::test::order_device;

namespace {

const std::vector<std::string> kCodecs{"dense",       "fp16",     "onebit_scaled",   "onebit",
                                       "qsgd:bits=4", "terngrad", "topk:density=0.1"};

}  // namespace

TEST_CASE("a device's replica codes, decodes and combines to the host's bits") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  for (const std::string& codec : kCodecs) {
    INFO(codec);
    const int feedback = compress::make_codec(codec)->traits().feedback() ? 0 : -1;
    Pair pair({"model.kind=mlp"}, {.slots = 2}, codec);
    for (Round round = 0; round < 6; ++round) {
      order_device(round);
      pair.run(op::Combine{pair.whole, kA, 0.7f, {{0.4f, kParameters}, {-0.3f, kB}}});
      op::Encode difference = encode(pair.whole, kA, round, feedback);
      difference.minus = kB;
      difference.apply_to = kB;
      pair.run(difference);
      pair.require_same_payload();
      pair.require_same_slot(kB);
      pair.run(op::DecodeAdd{pair.whole, kA, -0.25f, std::get<Encoded>(pair.of_host.back()).payload});
      pair.require_same_slot(kA);
      pair.run(encode({16, 33}, kA, round));
      pair.require_same_payload();
      op::Encode exact = encode(pair.whole, kB, round);
      exact.exact = true;
      exact.tag = 9;
      pair.run(exact);
      pair.require_same_payload();
      op::Encode left = encode(pair.whole, kA, round);
      left.add_error_to = 2;
      pair.run(left);
      pair.require_same_payload();
      if (feedback == 0) {
        pair.run(encode(pair.whole, kB, round, 2));
        pair.require_same_payload();
        op::Encode velocity = encode(pair.whole, kA, round, 1);
        velocity.momentum = 0.5f;
        pair.run(velocity);
        pair.require_same_payload();
      }
      if (round == 2) pair.device.restore(pair.host.save());
      if (round == 4) pair.host.restore(pair.device.save());
    }
    CHECK(pair.device.copied() == 0);
    CHECK(pair.device.decoded_on_host() == 0);
  }
}

TEST_CASE("payloads whose parameters are not this peer's are decoded on the host, to the same bits") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  Pair pair({"model.kind=mlp"}, {.slots = 2}, "topk:density=0.1");
  pair.run(op::Combine{{0, 40}, kA, 0, {}});
  pair.run(op::Combine{{0, 40}, kA, -1, {}});  // zeros below zero
  for (const std::string codec :
       {"topk:density=0.3", "topk:density=0.5,select=sampled", "qsgd:bits=8", "onebit"}) {
    INFO(codec);
    const auto other = compress::make_codec(codec);
    compress::Workspace workspace;
    std::vector<std::byte> bytes(other->max_bytes(pair.whole.size));
    bytes.resize(other->encode(pair.host.slot(kB), {}, workspace, bytes));
    const std::uint64_t before = pair.device.decoded_on_host();
    pair.run(op::DecodeAdd{pair.whole, kA, 0.7f, std::make_shared<const std::vector<std::byte>>(bytes)});
    pair.require_same_slot(kA);
    CHECK(pair.device.decoded_on_host() == before + bytes.size());
  }
}

TEST_CASE("a device's replica stands idle as the host's does") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  Pair pair({"optimizer.kind=momentum"});
  pair.run(pair.stepping(0));
  Gradient idle = pair.stepping(1);
  idle.idle = true;
  const std::vector<float> before = pair.device.slot(kParameters);
  pair.run(idle);
  CHECK(std::get<GradientDone>(pair.of_device.back()).idle);
  CHECK(pair.of_device.size() == pair.of_host.size());
  CHECK(Run::same_bits(pair.device.slot(kParameters), before));
}

TEST_CASE("a device's replica learns as the host's does, step for step") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  for (const std::string kind : {"softmax", "mlp"})
    for (const std::string optimizer : {"sgd", "momentum", "adam"}) {
      INFO(kind << ", " << optimizer);
      Pair pair({"model.kind=" + kind, "optimizer.kind=" + optimizer, "optimizer.learning_rate=0.05"});
      const Round rounds = kind == "mlp" && optimizer == "momentum" ? 100 : 12;
      for (Round round = 0; round < rounds; ++round) {
        order_device(round);
        pair.run(pair.stepping(round));
        const auto& here = std::get<GradientDone>(pair.of_host.back());
        const auto& there = std::get<GradientDone>(pair.of_device.back());
        CHECK(there.loss == Approx(here.loss).epsilon(1e-4));
        CHECK(there.rows == here.rows);
        CHECK_FALSE(there.skipped);
        REQUIRE(pair.of_device.size() == pair.of_host.size());
      }
      CHECK(pair.distance(kParameters) < 1e-4);
      const auto post_host = [&](DataEvent e) { pair.of_host.push_back(std::move(e)); };
      const auto post_device = [&](DataEvent e) { pair.of_device.push_back(std::move(e)); };
      pair.host.evaluate(rounds, post_host);
      pair.device.evaluate(rounds, post_device);
      const optim::Figures here = std::get<Evaluated>(pair.of_host.back()).test,
                           there = std::get<Evaluated>(pair.of_device.back()).test;
      CHECK(*optim::find_figure(there, "loss") == Approx(*optim::find_figure(here, "loss")).epsilon(1e-4));
      CHECK(*optim::find_figure(there, "accuracy") == *optim::find_figure(here, "accuracy"));
    }
}

TEST_CASE("either replica goes on from what the other saved") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  Pair pair({"model.kind=mlp", "optimizer.kind=momentum"});
  for (Round round = 0; round < 3; ++round) pair.run(pair.stepping(round));
  pair.device.restore(pair.host.save());
  CHECK(pair.device.save_learned() == pair.host.save_learned());
  pair.run(pair.stepping(3));
  CHECK(pair.distance(kParameters) < 1e-5);
  pair.host.restore(pair.device.save(), Kept::learned);
  CHECK(pair.device.save_learned() == pair.host.save_learned());
  CHECK(Run::same_bits(pair.host.slot(kB), pair.host.parameters()));
}

TEST_CASE("a parcel's gradient on a device that is not finite counts as zero") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  Pair pair;
  pair.run(op::Combine{{0, 1}, kParameters, 0, {{std::numeric_limits<float>::infinity(), kA}}});
  const std::vector<float> before = pair.device.slot(kParameters);
  pair.run(pair.stepping(0));
  CHECK(std::get<GradientDone>(pair.of_device.back()).skipped);
  CHECK(Run::same_bits(pair.device.slot(kParameters), before));
  for (const float g : pair.device.slot(kGradient)) CHECK(g == 0);
  CHECK_THROWS_AS(pair.device.run(encode(pair.whole, kParameters, 1), [](DataEvent) {}), Diverged);
  pair.device.run(op::Combine{pair.whole, kGradient, 1, {{1.0f, kParameters}}}, [](DataEvent) {});
  CHECK_THROWS_AS(pair.device.run(op::Clip{pair.whole, 1.0}, [](DataEvent) {}), Diverged);
}

TEST_CASE("gradients are clipped and norms measured on a device") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  Pair pair;
  pair.run(op::Combine{pair.whole, kGradient, 0, {{3.0f, kParameters}}});
  pair.run(op::Clip{pair.whole, 0.5});
  CHECK(pair.distance(kGradient) < 1e-7);
  pair.run(op::Measure{4});
  CHECK(std::get<Measured>(pair.of_device.back()).norm ==
        Approx(std::get<Measured>(pair.of_host.back()).norm).epsilon(1e-9));
  CHECK(std::get<Measured>(pair.of_device.back()).round == 4);
}

namespace {

/// Doubles a range of a slot.
class Doubling final : public Extension {
 public:
  explicit Doubling(Slot slot) : slot_(slot) {}
  void run(const std::any& command, const SlotAt& at, const PostEvent&) override {
    for (float& x : at(slot_, std::any_cast<Range>(command))) x *= 2;
  }
  void archive(Archive) override {}

 private:
  Slot slot_;
};

Buffers doubling(Slot slot) {
  return {.slots = 2,
          .extension = [slot](const ExtensionInputs&) { return std::make_unique<Doubling>(slot); }};
}

}  // namespace

TEST_CASE("what knows host memory alone works on copies of a device's, which are counted") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  Pair pair({"exchange.method=dpsgd", "exchange.codec=dense", "exchange.aggregate=median"}, doubling(kA));
  pair.run(op::Extended{Range{3, 7}});
  pair.require_same_slot(kA);
  constexpr std::uint64_t kThere = 2 * sizeof(float);  // and back
  CHECK(pair.device.copied() == 7 * kThere);

  std::vector<std::vector<Payload>> vectors;
  for (const Slot s : {kParameters, kA, kB}) {
    pair.run(op::encode_exactly(pair.whole, s, 0, 0));
    vectors.push_back({std::get<Encoded>(pair.of_host.back()).payload});
  }
  pair.run(op::Aggregate{
      .ranges = {pair.whole}, .dst = kParameters, .vectors = vectors, .weights = {1, 1, 1}, .self = 0});
  pair.require_same_slot(kParameters);
  CHECK(pair.device.copied() == (7 + pair.whole.size) * kThere);
}

TEST_CASE("whatever the order of a device's streams and blocks, the bits are the same") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  std::vector<float> first;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    INFO("order " << seed);
    Pair pair({"model.kind=mlp", "model.hidden=[16, 8]", "optimizer.kind=momentum"}, doubling(kGradient),
              "onebit_scaled");
    order_device(seed);
    const auto post = [](DataEvent) {};
    for (Round round = 0; round < 5; ++round) {
      Gradient gradient = pair.stepping(round);
      for (ParcelId p = 0; p < gradient.on_ready.size(); ++p) {
        op::Encode difference = encode(pair.prepared.plan->parcels[p].range, kParameters, round);
        difference.parcel = p;
        difference.minus = difference.apply_to = kA;
        gradient.on_ready[p].insert(gradient.on_ready[p].begin(), op::Extended{difference.range});
        gradient.on_ready[p].push_back(difference);
        gradient.on_ready[p].push_back(
            op::Combine{difference.range, kParameters, 1, {{0.1f, kA}, {-0.1f, kB}}});
      }
      pair.device.run(gradient, post, [] {});
      pair.device.run(op::Combine{pair.whole, kB, 0.5f, {{0.5f, kParameters}, {0.01f, kGradient}}}, post);
      if (round % 2 == 1) pair.device.evaluate(round, post);
    }
    std::vector<float> all;
    for (const Slot s : {kParameters, kA, kB}) {
      const std::vector<float> slot = pair.device.slot(s);
      all.insert(all.end(), slot.begin(), slot.end());
    }
    if (first.empty()) first = all;
    REQUIRE(Run::same_bits(all, first));
  }
}

TEST_CASE("over the bus go payloads, batches and a few words for each parcel") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  const auto over_bus = [] { return compress::cuda::bytes_over_bus() + optim::cuda::bytes_over_bus(); };
  for (const std::string codec : {"onebit_scaled", "topk:density=0.1", "dense"}) {
    INFO(codec);
    Pair pair({"model.kind=mlp", "model.hidden=[64]"}, {.slots = 2}, codec);
    std::uint64_t payloads = 0, parcels = 0, batches = 0;
    std::vector<Payload> made;
    const auto post = [&](DataEvent e) {
      if (const auto* encoded = std::get_if<Encoded>(&e)) made.push_back(encoded->payload);
    };
    std::uint64_t before = 0;
    constexpr Round kRounds = 30, kWarm = 2;
    for (Round round = 0; round < kRounds + kWarm; ++round) {
      if (round == kWarm) before = over_bus(), payloads = parcels = batches = 0;
      Gradient gradient = pair.stepping(round);
      for (ParcelId p = 0; p < gradient.on_ready.size(); ++p) {
        op::Encode difference = encode(pair.prepared.plan->parcels[p].range, kParameters, round);
        difference.parcel = p;
        difference.minus = difference.apply_to = kA;
        gradient.on_ready[p].push_back(difference);
      }
      pair.device.run(gradient, post, [] {});
      for (ParcelId p = 0; p < gradient.on_ready.size(); ++p) {
        // in the order of layers, the last first
        const Payload& payload = made[made.size() - 1 - p];
        pair.device.run(op::DecodeAdd{pair.prepared.plan->parcels[p].range, kB, 1.0f, payload}, post);
        payloads += 2 * payload->size();
        parcels += 2;
      }
      batches += pair.prepared.job.peers[0].batch * (pair.prepared.job.model.features + 1) * sizeof(float);
    }
    CHECK(static_cast<double>(over_bus() - before) <=
          1.02 * static_cast<double>(payloads + batches + 64 * parcels));
  }
}

TEST_CASE("a gradient that is given up on a device leaves nothing under way") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    INFO("order " << seed);
    Pair pair({"model.kind=mlp", "model.hidden=[16, 8]"});
    order_device(seed);
    const auto post = [](DataEvent) {};
    for (Round round = 0; round < 4; ++round) {
      struct GivenUp {};
      CHECK_THROWS_AS(pair.device.run(pair.stepping(round), post, [] { throw GivenUp{}; }), GivenUp);
      pair.device.run(op::Combine{pair.whole, kGradient, 0, {}}, post);
      pair.device.run(op::Combine{pair.whole, kA, 0, {{1, kGradient}}}, post);
      REQUIRE(Run::same_bits(pair.device.slot(kA), std::vector<float>(pair.whole.size, 0.0f)));
      REQUIRE(Run::same_bits(pair.device.slot(kGradient), std::vector<float>(pair.whole.size, 0.0f)));
    }
  }
}

// Commands as they are drawn, on a device's replica and on the host's: after each one all slots, and what it
// answers, are the same to the bit; and either goes on from the other's state.
#include <array>
#include <random>

#include "device_order.h"
#include "replica_pair.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using compress::test::order_device;

namespace {

constexpr Slot kScratch = 4;

class DrawnCommands {
 public:
  DrawnCommands(const Settings& settings, const std::string& codec, std::uint64_t seed)
      : pair_(settings, {.slots = 2, .scratch = 1}, codec), random_(seed) {
    pair_.run(op::Combine{pair_.whole, kB, 0.5f, {{0.2f, kParameters}}});
    traits_ = compress::make_codec(codec)->traits();
    merges_ = codec.starts_with("topk");
  }

  void run_one() {
    static constexpr std::array kinds{
        &DrawnCommands::step,          &DrawnCommands::step_of_scratch, &DrawnCommands::step_encode,
        &DrawnCommands::step_by_sum,   &DrawnCommands::step_by_parts,   &DrawnCommands::mix,
        &DrawnCommands::mix_with_more, &DrawnCommands::decode,          &DrawnCommands::pass_on,
        &DrawnCommands::merge,         &DrawnCommands::idle_gradient,   &DrawnCommands::encode_feedback};
    parcel_ = static_cast<ParcelId>(draw(parcels().size()));
    range_ = parcels()[parcel_].range;
    set_gradient();
    const std::size_t kind = draw(kinds.size());
    INFO("round " << round_ << ", command " << kind << " of parcel " << parcel_);
    (this->*kinds[kind])();
    for (const Slot s : {kParameters, kA, kB}) pair_.require_same_slot(s);
    require_same_answers();
    keep_small();
    ++round_;
  }
  void swap_states() {
    pair_.device.restore(pair_.host.save());
    pair_.host.restore(pair_.device.save());
    CHECK(pair_.host.save_learned() == pair_.device.save_learned());
  }
  std::size_t decoded_on_host() const { return pair_.device.decoded_on_host(); }

 private:
  using Weighted = std::vector<std::pair<float, Payload>>;

  std::size_t draw(std::size_t n) { return random_() % n; }
  float real() { return std::uniform_real_distribution<float>(-1, 1)(random_); }
  const SharedList<Parcel>& parcels() const { return pair_.prepared.plan->parcels; }

  op::Update update(Range r, Slot s = kGradient) const { return {r, round_, static_cast<double>(round_), s}; }
  Payload exact(Range r, Slot s, ParcelId p) {
    pair_.run(op::encode_exactly(r, s, round_, p));
    return std::get<Encoded>(pair_.of_host.back()).payload;
  }
  op::Encode encoding(Slot s, int feedback = -1) const {
    op::Encode o = encode(range_, s, round_, feedback);
    o.parcel = parcel_;
    return o;
  }
  Payload coded(Slot s) {
    pair_.run(encoding(s));
    return std::get<Encoded>(pair_.of_host.back()).payload;
  }
  Payload either() {
    const Slot s = draw(2) != 0 ? kParameters : kB;
    return draw(4) == 0 ? exact(range_, s, parcel_) : coded(s);
  }
  Weighted up_to_three() {
    Weighted all(draw(4));
    for (auto& [weight, payload] : all) {
      payload = either();
      weight = draw(4) == 0 ? 1.0f : real();
    }
    return all;
  }
  op::Encode difference_to(Slot estimate) const {
    op::Encode o = encoding(kParameters);
    o.minus = o.apply_to = estimate;
    return o;
  }
  op::Mix mixing() { return {range_, kA, up_to_three(), {range_, kParameters, 1, {{real(), kA}}}}; }

  void step() { pair_.run(op::Step{update(range_)}); }
  void step_of_scratch() {
    pair_.run(op::Combine{range_, kScratch, 0, {{1.0f, kGradient}}});
    pair_.run(op::Step{update(range_, kScratch)});
  }
  void step_encode() { pair_.run(op::StepEncode{update(range_), difference_to(kA)}); }
  void step_by_sum() {
    Weighted payloads = up_to_three();
    pair_.run(op::StepBySum{update(range_), std::move(payloads)});
  }
  void step_by_parts() {
    op::StepByParts o;
    for (ParcelId p = 0; p < parcels().size(); ++p) {
      const Range whole = parcels()[p].range;
      const std::size_t count = 1 + draw(5);
      op::Parts parts;
      for (std::size_t i = 0; i < count; ++i) {
        const Range part = slice_of(whole, i, count);
        parts.emplace_back(part, exact(part, draw(2) != 0 ? kParameters : kB, p));
      }
      o.steps.emplace_back(update(whole, kScratch), std::move(parts));
    }
    pair_.run(o);
  }
  void mix() { pair_.run(mixing()); }
  void mix_with_more() {
    op::Mix o = mixing();
    o.step = update(range_);
    if (draw(2) != 0) o.encode = difference_to(kB);
    pair_.run(o);
  }
  void decode() {
    Payload payload = either();
    pair_.run(op::Decode{range_, kA, std::move(payload)});
  }
  void pass_on() {
    const std::size_t count = 1 + draw(40);
    const Range part = slice_of(range_, draw(count), count);  // none in many
    Payload came = draw(3) != 0 ? exact(part, kB, parcel_) : Payload();
    pair_.run(op::PassOn{part, kParameters, real(), kScratch, std::move(came), round_, parcel_, 5});
  }
  void merge() {
    if (!merges_) return;
    const Payload a = coded(kParameters), b = coded(kB);
    pair_.run(op::Merge{range_, kScratch, a, b, draw(2) != 0 ? 2 : -1, round_, parcel_});
  }
  /// Nothing is computed, and nothing stepped by.
  void idle_gradient() {
    pair_.run(
        Gradient{.round = round_, .on_ready = std::vector<std::vector<Op>>(parcels().size()), .idle = true});
    mix_with_more();
  }
  void encode_feedback() {
    if (!traits_.feedback()) return;
    op::Encode o = encoding(draw(2) != 0 ? kParameters : kB, draw(2) != 0 ? 0 : 2);
    if (draw(3) == 0) {
      o.feedback = 1;
      o.momentum = 0.5f;
    }
    if (draw(3) == 0) o.apply_to = kA;
    pair_.run(o);
  }

  /// A real one differs in its last bits.
  void set_gradient() {
    const float a = real(), b = real();
    pair_.run(op::Combine{pair_.whole, kGradient, 0, {{a, kParameters}, {b, kB}}});
  }
  void keep_small() {
    pair_.run(op::Combine{pair_.whole, kParameters, 0.5f, {{0.1f, kB}}});
    pair_.run(op::Combine{pair_.whole, kA, 0.5f, {}});
    pair_.run(op::Combine{pair_.whole, kB, 0.5f, {{0.2f, kParameters}}});
    pair_.run(op::Combine{pair_.whole, kScratch, 0, {}});
  }
  void require_same_answers() {
    REQUIRE(pair_.of_host.size() == pair_.of_device.size());
    for (std::size_t i = 0; i < pair_.of_host.size(); ++i)
      if (const auto* here = std::get_if<Encoded>(&pair_.of_host[i]))
        REQUIRE(std::get<Encoded>(pair_.of_device[i]).payload == here->payload);
    pair_.of_host.clear();
    pair_.of_device.clear();
  }

  Pair pair_;
  std::mt19937_64 random_;
  compress::Traits traits_;
  bool merges_ = false;
  Round round_ = 0;
  ParcelId parcel_ = 0;
  Range range_{};
};

}  // namespace

TEST_CASE("drawn commands give on a device what they give on the host") {
  if (!has_device()) GOSSAMER_SKIP("a replica on a device: no CUDA device here");
  const std::vector<std::string> optimizers{"sgd", "momentum", "nesterov", "adam", "quasi_global"};
  std::mt19937_64 random(11);
  for (const std::string codec : {"dense", "fp16", "bf16", "onebit_scaled", "onebit", "qsgd:bits=4", "intq",
                                  "terngrad", "topk:density=0.02", "topk:density=0.05,values=fp16"})
    for (const std::string& optimizer : optimizers) {
      Settings settings{
          "exchange.method=choco", "exchange.codec=qsgd:bits=4,norm=max", "model.kind=mlp",
          "model.hidden=[16, 8]",  "optimizer.kind=" + optimizer,         "optimizer.learning_rate=0.05"};
      if (random() % 2 != 0) settings.push_back("optimizer.weight_decay=0.01");
      if (random() % 2 != 0) settings.push_back("exchange.local_steps=3");
      const std::uint64_t seed = random();
      INFO(codec << ", " << optimizer << ", seed " << seed);
      order_device(seed);
      DrawnCommands commands(settings, codec, seed);
      for (int n = 0; n < 24; ++n) {
        commands.run_one();
        if (n % 8 == 7) commands.swap_states();
      }
      CHECK(commands.decoded_on_host() == 0);
    }
}

// The replica on a thread of its own must do what it does at once in the simulator.
#include <poll.h>

#include <chrono>
#include <deque>

#include "gossamer_test/catch.h"
#include "sim_job.h"
#include "threaded_data_plane.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr Slot kA = 2, kB = 3;

std::unique_ptr<Replica> replica_of(const Prepared& prepared, std::size_t slots = 2) {
  return std::make_unique<Replica>(
      make_replica(prepared, 0, make_objective(prepared, 0), 1, {}, Buffers{.slots = slots}));
}

/// The events up to the count-th.
std::vector<DataEvent> wait_for(ThreadedDataPlane& plane, std::size_t count) {
  std::vector<DataEvent> events;
  while (events.size() < count) {
    pollfd fd{plane.event_fd(), POLLIN, 0};
    if (::poll(&fd, 1, 20'000) != 1) throw std::runtime_error("no event within 20 s");
    for (DataEvent& e : plane.take_events()) events.push_back(std::move(e));
  }
  return events;
}

/// Ops whose order shows in the result.
std::vector<Op> tangled_ops(Range whole) {
  std::vector<Op> ops;
  for (int k = 0; k < 300; ++k) {
    const float f = 0.25f + 0.001f * static_cast<float>(k);
    ops.push_back(op::Combine{whole, kA, 0.9f, {{f, kParameters}, {-0.1f, kB}}});
    ops.push_back(op::Combine{whole, kB, 0.8f, {{0.3f, kA}}});
    ops.push_back(op::Combine{whole, kParameters, 1, {{0.01f, kB}, {-0.01f, kA}}});
  }
  return ops;
}

/// Peers of one run on this thread, each with a compute thread; frames go from hand to hand.
class Room {
 public:
  explicit Room(const Prepared& prepared) {
    for (PeerId p = 0; p < prepared.job.peers.size(); ++p)
      peers_.push_back(std::make_unique<Peer>(*this, prepared, p));
  }
  void run() {
    for (auto& p : peers_) p->worker.start();
    while (!finished()) {
      if (now() > 60) throw std::runtime_error("the run takes longer than a minute");
      bool idle = true;
      for (auto& p : peers_) idle = p->step() && idle;
      if (idle) wait();
    }
    for (auto& p : peers_) p->plane.finish();
  }
  std::span<const float> parameters(PeerId p) { return peers_[p]->plane.parameters(); }
  Outcome outcome(PeerId p) const { return peers_[p]->worker.result().outcome; }

 private:
  struct Peer final : Env {
    Peer(Room& r, const Prepared& prepared, PeerId self)
        : room(r),
          worker(worker_spec(prepared, self, self + 1, 0), *this),
          plane(std::make_unique<Replica>(make_replica(prepared, self, make_objective(prepared, self)))) {}

    double now() const override { return room.now(); }
    void wake_at(double time) override { wake = time; }
    void send(PeerId to, FrameBytes frame, std::uint32_t) override {
      room.peers_[to]->inbox.push_back(std::move(frame));
    }
    std::size_t backlog(PeerId) const override { return 0; }
    DataPlane& data() override { return plane; }
    void report(const Report&) override {}
    void log(const std::string&) override {}

    /// Handles what waits; true where nothing did.
    bool step() {
      const auto events = plane.take_events();
      for (const DataEvent& e : events) worker.on_data(e);
      const std::size_t frames = inbox.size();
      for (; !inbox.empty(); inbox.pop_front())
        worker.on_frame(decode_frame(*inbox.front()), inbox.front()->size());
      if (now() >= wake) worker.on_timer();
      return events.empty() && frames == 0;
    }

    Room& room;
    double wake = 0;
    std::deque<FrameBytes> inbox;
    Worker worker;
    ThreadedDataPlane plane;
  };

  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  bool finished() const {
    return std::all_of(peers_.begin(), peers_.end(), [](const auto& p) { return p->worker.finished(); });
  }
  void wait() {
    std::vector<pollfd> fds;
    for (auto& p : peers_) fds.push_back({p->plane.event_fd(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), 1);
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace

TEST_CASE("a thread runs ops in the order in which they came") {
  const Prepared prepared = prepare(small_job({}));
  const Range whole{0, prepared.initial.size()};
  const auto inline_replica = replica_of(prepared);
  auto replica = replica_of(prepared);
  const Replica& threaded = *replica;
  ThreadedDataPlane plane(std::move(replica));
  for (const Op& op : tangled_ops(whole)) {
    inline_replica->run(op, [](DataEvent) {});
    plane.submit(op);
  }
  plane.finish();  // all of them are still run
  for (const Slot slot : {kParameters, kA, kB})
    CHECK(Run::same_bits(threaded.slot(slot), inline_replica->slot(slot)));
}

TEST_CASE("a thread answers with the same events and the same bits") {
  const Prepared prepared =
      prepare(small_job({"model.kind=mlp", "exchange.parcel=64", "optimizer.kind=adam"}));
  const auto parcels = make_parcels(prepared.layers, 64);
  const auto inline_replica = replica_of(prepared);
  ThreadedDataPlane plane(replica_of(prepared));
  for (Round t = 0; t < 20; ++t) {
    Gradient gradient{t, {}};
    for (ParcelId p = 0; p < parcels.size(); ++p)
      gradient.on_ready.push_back({op::Update{parcels[p].range, t, static_cast<double>(t)},
                                   op::Combine{parcels[p].range, kParameters, 1, {{-1.0f, kGradient}}},
                                   op::Encode{.range = parcels[p].range,
                                              .src = kParameters,
                                              .minus = kA,
                                              .apply_to = kA,
                                              .round = t,
                                              .parcel = p}});
    std::vector<DataEvent> expected;
    inline_replica->run(
        gradient, [&](DataEvent e) { expected.push_back(std::move(e)); }, [] {});
    plane.submit(gradient);
    const auto events = wait_for(plane, expected.size());
    REQUIRE(events.size() == expected.size());
    for (std::size_t k = 0; k < events.size(); ++k) {
      REQUIRE(events[k].index() == expected[k].index());
      if (const auto* e = std::get_if<Encoded>(&events[k]))
        CHECK((e->payload == std::get<Encoded>(expected[k]).payload));
      if (const auto* e = std::get_if<GradientDone>(&events[k]))
        CHECK(e->loss == std::get<GradientDone>(expected[k]).loss);
    }
  }
  plane.finish();
  CHECK(Run::same_bits(plane.parameters(), inline_replica->parameters()));
}

TEST_CASE("a step that a mix takes waits for its parcel's gradient, which is told before it stands") {
  const Prepared prepared =
      prepare(small_job({"model.kind=mlp", "exchange.parcel=64", "exchange.codec=onebit_scaled"}));
  const auto parcels = make_parcels(prepared.layers, 64);
  REQUIRE(parcels.size() > 2);
  const auto inline_replica = replica_of(prepared);
  ThreadedDataPlane plane(replica_of(prepared));
  const Gradient first{0, std::vector<std::vector<Op>>(parcels.size())};
  plane.submit(first);  // how long it takes decides what is told when
  wait_for(plane, parcels.size() + 1);
  inline_replica->run(
      first, [](const DataEvent&) {}, [] {});
  constexpr Round kRounds = 30;
  for (Round t = 1; t < kRounds; ++t) {
    std::vector<Op> mixes;
    for (ParcelId p = 0; p < parcels.size(); ++p) {
      const Range range = parcels[p].range;
      Payload told;
      inline_replica->run(op::encode_exactly(range, kParameters, t, 0),
                          [&](DataEvent e) { told = std::get<Encoded>(std::move(e)).payload; });
      mixes.push_back(op::Mix{
          .range = range,
          .dst = kA,
          .payloads = {{0.5f, told}},
          .then = {range, kParameters, 1, {{-0.1f, kA}}},
          .step = op::Update{range, t, static_cast<double>(t)},
          .encode = op::Encode{
              .range = range, .src = kParameters, .minus = kB, .apply_to = kB, .round = t + 1, .parcel = p}});
    }
    if (t % 2 == 1) std::reverse(mixes.begin(), mixes.end());
    const bool is_last = t + 1 == kRounds;  // its gradients are not finite, and no step is taken
    for (Op& mix : mixes)
      if (is_last) std::get<op::Mix>(mix).encode.reset();
    for (int k = 0; is_last && k < 2; ++k) {
      const op::Combine huge{{0, prepared.initial.size()}, kParameters, 1e30f, {}};
      plane.submit(huge);
      inline_replica->run(huge, [](const DataEvent&) {});
    }
    const Gradient gradient{
        .round = t, .on_ready = std::vector<std::vector<Op>>(parcels.size()), .steps_in_mix = true};
    plane.submit(gradient);
    auto events = wait_for(plane, parcels.size());
    for (const Op& mix : mixes) plane.submit(mix);
    const std::size_t answers = is_last ? 0 : parcels.size();
    if (const std::size_t all = parcels.size() + 1 + answers; events.size() < all)
      for (DataEvent& e : wait_for(plane, all - events.size())) events.push_back(std::move(e));
    for (ParcelId p = 0; p < parcels.size(); ++p) CHECK(std::get<ParcelReady>(events[p]).parcel == p);
    std::map<ParcelId, Payload> expected, told;
    GradientDone done{}, seen{};
    inline_replica->run(
        gradient,
        [&](const DataEvent& e) {
          if (const auto* d = std::get_if<GradientDone>(&e)) done = *d;
        },
        [] {});
    for (const Op& mix : mixes)
      inline_replica->run(mix, [&](DataEvent e) {
        Encoded& encoded = std::get<Encoded>(e);
        expected[encoded.parcel] = std::move(encoded.payload);
      });
    for (DataEvent& e : events) {
      if (auto* encoded = std::get_if<Encoded>(&e)) told[encoded->parcel] = std::move(encoded->payload);
      if (const auto* d = std::get_if<GradientDone>(&e)) seen = *d;
    }
    CHECK(seen.skipped == is_last);
    CHECK(seen.skipped == done.skipped);
    if (!done.skipped) CHECK(seen.loss == done.loss);
    CHECK(told.size() == answers);
    CHECK((told == expected));
  }
  plane.finish();
  CHECK(Run::same_bits(plane.parameters(), inline_replica->parameters()));
}

TEST_CASE("of a gradient that is given up no step is taken but of parcels whose own stood") {
  const Prepared prepared = prepare(small_job({"model.kind=mlp", "model.hidden=[300,300]"}));
  const auto parcels = make_parcels(prepared.layers, prepared.job.exchange.parcel);
  const Gradient gradient{
      .round = 0, .on_ready = std::vector<std::vector<Op>>(parcels.size()), .steps_in_mix = true};
  const auto mix = [](const Parcel& p) {
    return op::Mix{.range = p.range,
                   .dst = kA,
                   .payloads = {},
                   .then = {p.range, kParameters, 1, {{-0.1f, kA}}},
                   .step = op::Update{p.range, 0, 0}};
  };
  const auto stepped = replica_of(prepared);
  for (int k = 0; k < 2; ++k)
    stepped->run(
        gradient, [](const DataEvent&) {}, [] {});
  for (const Parcel& p : parcels) stepped->run(mix(p), [](const DataEvent&) {});
  for (int k = 0; k < 30; ++k) {
    ThreadedDataPlane plane(replica_of(prepared));
    plane.submit(gradient);  // the first one may be long: parcels are told as they stand
    CHECK(std::get<ParcelReady>(wait_for(plane, parcels.size() + 1).front()).parcel == parcels.size() - 1);
    plane.submit(gradient);
    wait_for(plane, 1);
    for (const Parcel& p : parcels) plane.submit(mix(p));
    plane.finish();
    for (const auto& [layer, range, state, dense] : parcels) {
      const auto x = plane.parameters().subspan(range.begin, range.size);
      const std::span<const float> before = prepared.initial, after = stepped->parameters();
      CHECK((Run::same_bits(x, before.subspan(range.begin, range.size)) ||
             Run::same_bits(x, after.subspan(range.begin, range.size))));
    }
  }
}

TEST_CASE("evaluations are answered in turn") {
  const Prepared prepared = prepare(small_job({}));
  ThreadedDataPlane plane(replica_of(prepared));
  plane.submit(Gradient{0, std::vector<std::vector<Op>>(1)});
  plane.submit_evaluation(7);
  const auto events = wait_for(plane, 3);
  CHECK(std::holds_alternative<ParcelReady>(events[0]));
  CHECK(std::holds_alternative<GradientDone>(events[1]));
  CHECK(std::get<Evaluated>(events[2]).round == 7);
}

TEST_CASE("a snapshot is what was computed so far, and goes on in another data plane") {
  const Prepared prepared = prepare(small_job({"optimizer.kind=adam"}));
  const Gradient gradient{
      0,
      {{op::Update{{0, prepared.initial.size()}, 0, 0},
        op::Combine{{0, prepared.initial.size()}, kParameters, 1, {{-1.0f, kGradient}}}}}};
  ThreadedDataPlane first(replica_of(prepared)), second(replica_of(prepared));
  first.submit(gradient);
  first.submit_snapshot(3);
  const auto saved = std::get<Saved>(wait_for(first, 3).back());
  CHECK(saved.round == 3);
  second.restore(*saved.state, Kept::all);
  for (ThreadedDataPlane* plane : {&first, &second}) {
    plane->submit(gradient);
    wait_for(*plane, 2);
    plane->finish();
  }
  CHECK(Run::same_bits(first.parameters(), second.parameters()));
  CHECK_FALSE(Run::same_bits(first.parameters(), prepared.initial));
}

TEST_CASE("the memory of a snapshot is used again when nobody reads it any more") {
  const Prepared prepared = prepare(small_job({}));
  ThreadedDataPlane plane(replica_of(prepared));
  const auto snapshot = [&] {
    plane.submit_snapshot(0);
    return std::get<Saved>(wait_for(plane, 1).back()).state;
  };
  const auto memory = [](const SharedState& state) { return state->at(kParametersArray).bytes.data(); };
  SharedState state = snapshot();
  const std::byte* const first = memory(state);
  const State kept = *state;
  (*state)["control/round"] = {};
  state.reset();
  state = snapshot();
  CHECK(memory(state) == first);
  CHECK(*state == kept);  // what the snapshot before had beside is gone
  const SharedState held = state;
  state = snapshot();
  CHECK(memory(state) != first);
  CHECK(*state == *held);
}

TEST_CASE("what goes wrong on the thread arrives as an event") {
  const Prepared prepared = prepare(small_job({}));
  {
    ThreadedDataPlane plane(replica_of(prepared));
    const auto garbage = std::make_shared<const std::vector<std::byte>>(20, std::byte{1});
    plane.submit(op::DecodeAdd{{0, 16}, kA, 1, garbage});
    CHECK(says(std::get<Failed>(wait_for(plane, 1)[0]).what, "not a payload"));
    plane.submit(op::Combine{{0, 16}, kA, 0, {}});
    plane.finish();  // nothing waits for an answer that cannot come
  }
  ThreadedDataPlane plane(replica_of(prepared));
  for (int k = 0; k < 2; ++k) plane.submit(op::Combine{{0, prepared.initial.size()}, kParameters, 1e30f, {}});
  plane.submit(Gradient{0, std::vector<std::vector<Op>>(1)});
  CHECK(std::get<GradientDone>(wait_for(plane, 2).back()).skipped);
  plane.submit(
      op::Encode{.range = {0, 16}, .src = kParameters, .minus = {}, .apply_to = {}, .round = 0, .parcel = 0});
  const auto failed = std::get<Failed>(wait_for(plane, 1).back());
  CHECK(failed.diverged);
  CHECK(says(failed.what, "in round 0"));
}

TEST_CASE("a thread that has nothing to do ends at once") {
  const Prepared prepared = prepare(small_job({}));
  for (int k = 0; k < 50; ++k) ThreadedDataPlane plane(replica_of(prepared));
  ThreadedDataPlane plane(replica_of(prepared));
  plane.submit(Gradient{0, std::vector<std::vector<Op>>(1)});
  plane.finish();
  plane.finish();
  CHECK(plane.take_events().size() <= 2);
}

TEST_CASE("peers with threads learn the same bits as simulated ones") {
  const std::vector<Settings> methods{
      {"exchange.method=choco", "exchange.codec=onebit_scaled"},
      {"exchange.method=choco", "exchange.codec=qsgd:bits=4,norm=max", "graph.kind=star"},
      {"exchange.method=choco", "exchange.codec=onebit_scaled", "exchange.overlap=true"},
      {"exchange.method=choco", "exchange.codec=topk:density=0.2", "exchange.overlap=true",
       "exchange.local_steps=3"},
      {"exchange.method=dpsgd", "exchange.codec=dense"},
      {"exchange.method=dpsgd", "exchange.codec=dense", "exchange.overlap=true"},
      {"exchange.method=allreduce", "exchange.codec=dense"},
      {"exchange.method=allreduce", "exchange.codec=onebit_scaled", "graph.kind=full"},
  };
  for (const Settings& method : methods) {
    Run simulated(
        small_job(method + Settings{"model.kind=mlp", "exchange.parcel=32", "optimizer.kind=momentum"}));
    REQUIRE(simulated.go().all(Outcome::finished));
    Room room(simulated.prepared);
    room.run();
    INFO(method[0] << " " << method[1]);
    for (PeerId p = 0; p < 4; ++p) {
      CHECK(room.outcome(p) == Outcome::finished);
      CHECK(Run::same_bits(room.parameters(p), simulated.simulation.parameters(p)));
    }
  }
}

TEST_CASE("peers with threads finish without a bound on staleness") {
  for (const char* method : {"choco", "dpsgd"}) {
    const Prepared prepared =
        prepare(small_job({std::string("exchange.method=") + method, "exchange.codec=dense", "run.rounds=100",
                           "exchange.staleness=unbounded"}));
    Room room(prepared);
    room.run();
    for (PeerId p = 0; p < 4; ++p) CHECK(room.outcome(p) == Outcome::finished);
  }
}

TEST_CASE("a data plane that has let go of its floats is there, and holds nothing") {
  const Prepared prepared = prepare(small_job({}));
  for (const bool ended : {false, true}) {
    ThreadedDataPlane plane(replica_of(prepared));
    plane.submit(op::Combine{{0, prepared.initial.size()}, kA, 0.5f, {}});
    if (ended) plane.finish();
    CHECK_FALSE(plane.released());
    CHECK_FALSE(plane.parameters().empty());
    plane.release();
    CHECK(plane.released());
    CHECK(plane.parameters().empty());
    CHECK(plane.take_events().empty());
    plane.finish();
  }
}

// Frames that a faulty or hostile member writes in a neighbour's name: refused, counted, and in nobody's way.
#include "exchange.h"
#include "forge.h"
#include "gossamer_test/catch.h"
#include "link.h"
#include "sim_job.h"
#include "simulation.h"
#include "swarm.h"

using namespace gossamer::node;

namespace {

FrameHeader numbered(std::uint64_t sequence) {
  FrameHeader header;
  header.sequence = sequence;
  return header;
}

/// A receiving link on whose rounds the test decides.
struct Receiver {
  explicit Receiver(std::function<Verdict(const ParcelBody&)> judge, std::size_t most_bytes = 1 << 20)
      : link([](const Frame&, std::uint32_t) { return std::size_t{0}; }, 1, Delivery::reliable, {},
             {std::move(judge), [](const Message& m, bool) { return m.payload->front() != std::byte{0xff}; },
              false, most_bytes}) {}

  /// Rounds of the messages that the frame made deliverable.
  std::vector<Round> give(std::uint64_t sequence, Round round, std::byte content = {},
                          std::uint32_t chunk = 0, std::uint32_t chunks = 1, std::size_t bytes = 4) {
    std::vector<std::byte> whole;
    for (std::uint32_t c = 0; c < chunks; ++c)
      whole.insert(whole.end(), c + 1 < chunks ? kChunkBytes : bytes, content);
    const std::span<const std::byte> all(whole);
    const auto part = all.subspan(chunk * kChunkBytes, chunk + 1 < chunks ? kChunkBytes : bytes);
    link.receive(numbered(sequence),
                 {round, 0, 0, whole.size(), chunk, chunks, digest_of(whole, chunks), part});
    std::vector<Round> rounds;
    while (const auto m = link.next()) {
      rounds.push_back(m->round);
      due = m->round + 1;
      link.consume(m->sequence);
    }
    return rounds;
  }
  std::uint64_t refused(Refusal why) const {
    return link.counters().refused_by[static_cast<std::size_t>(why)];
  }

  Round due = 0;
  Link link;
};

using Rounds = std::vector<Round>;

struct Forgeries final : Observer {
  void on_frame(Fate fate, PeerId, PeerId, std::span<const std::byte>) override {
    forged += fate == Fate::forged;
  }
  std::uint64_t forged = 0;
};

}  // namespace

TEST_CASE(
    "a refused frame has not come: the right one of its number is taken, and what follows does not wait") {
  Receiver r([&](const ParcelBody& b) {
    return b.round > 100 ? Verdict::never(Refusal::round) : Verdict::now(b.entries);
  });
  CHECK(r.give(1, 500) == Rounds{});
  CHECK(r.link.stamp({}).received == 0);
  CHECK(r.give(1, 0) == Rounds{0});
  CHECK(r.link.stamp({}).received == 1);
  CHECK(r.give(2, 501) == Rounds{});  // and the right one is late
  CHECK(r.give(3, 2) == Rounds{2});
  CHECK(r.give(2, 1) == Rounds{1});
  CHECK(r.link.stamp({}).received == 3);
  CHECK(r.give(4, 3, std::byte{0xff}) == Rounds{});  // does not decode
  CHECK(r.give(4, 3) == Rounds{3});
  CHECK(r.refused(Refusal::round) == 2);
  CHECK(r.refused(Refusal::payload) == 1);
}

TEST_CASE("a number that another message has taken still brings its own") {
  Receiver* own = nullptr;
  Receiver r([&](const ParcelBody& b) {
    if (b.round < own->due) return Verdict::past();
    return b.round == own->due ? Verdict::now(b.entries) : Verdict::later(b.entries);
  });
  own = &r;
  CHECK(r.give(1, 1, std::byte{1}) == Rounds{});  // a round early, under the number of round 0
  CHECK(r.give(1, 0) == Rounds{0, 1});
  CHECK(r.give(2, 1) == Rounds{});  // what came in its name was taken for it
  CHECK(r.give(3, 2) == Rounds{2});
  CHECK(r.give(4, 3, std::byte{1}, 0, 2) == Rounds{});  // half a message
  CHECK(r.give(4, 3) == Rounds{3});
  CHECK(r.give(5, 4) == Rounds{4});
  CHECK(r.give(5, 4) == Rounds{});
  CHECK(r.link.counters().duplicates >= 1);
}

TEST_CASE(
    "a message of a round that is over is refused under a coming number, acknowledged when it is repeated") {
  Receiver* own = nullptr;
  Receiver r([&](const ParcelBody& b) {
    if (b.round < own->due) return Verdict::past();
    return b.round == own->due ? Verdict::now(b.entries) : Verdict::later(b.entries);
  });
  own = &r;
  CHECK(r.give(1, 0) == Rounds{0});
  CHECK(r.give(2, 0, std::byte{1}) == Rounds{});
  CHECK(r.link.stamp({}).received == 1);
  CHECK(r.refused(Refusal::round) == 1);
  CHECK(r.give(2, 1) == Rounds{1});
  CHECK(r.link.stamp({}).received == 2);
  CHECK(r.give(4, 3) == Rounds{});
  CHECK(r.give(3, 3) == Rounds{});  // a round early, in its neighbour's name and with the same bytes
  CHECK(r.give(3, 2) == Rounds{2, 3});
  CHECK(r.link.stamp({}).received == 4);
  CHECK(r.give(5, 3, std::byte{1}) == Rounds{});  // that of a neighbour in whose name another came before
  CHECK(r.give(5, 3, std::byte{1}) == Rounds{});
  CHECK(r.link.stamp({}).received == 5);
  CHECK(r.refused(Refusal::round) == 2);
}

TEST_CASE("what a link holds is bounded, and what is due has room") {
  constexpr std::size_t kMost = 8 * kChunkBytes;
  Receiver r([&](const ParcelBody& b) { return Verdict::now(b.entries); }, kMost);
  for (std::uint64_t n = 2; n < 500; ++n) r.give(n, n - 1, {}, 0, 1, kChunkBytes / 2);
  for (std::uint64_t n = 2; n < 500; ++n) r.give(1000 + 3 * n, n, std::byte{1}, 0, 2);
  CHECK(r.link.bytes_held() <= kMost + kChunkBytes);
  CHECK(r.refused(Refusal::memory) > 400);
  for (int k = 0; k < 400; ++k) r.give(1, 0, static_cast<std::byte>(k), 0, 2);  // halves of what is due
  CHECK(r.link.bytes_held() <= kMost + 10 * kChunkBytes);
  CHECK(r.give(1, 0, {}, 0, 1, 16).size() >= 1);
  for (std::uint64_t n = 2; n < 500; ++n) r.give(n, n - 1, {}, 0, 1, kChunkBytes / 2);
  CHECK(r.due == 499);
}

TEST_CASE("the second half of one of many messages under a number finds the first") {
  Receiver r([&](const ParcelBody& b) { return Verdict::now(b.entries); });
  for (int k = 0; k < 8; ++k) CHECK(r.give(1, 0, static_cast<std::byte>(k), 0, 2) == Rounds{});
  CHECK(r.give(2, 0, std::byte{0}, 1, 2) == Rounds{0});
  CHECK(r.link.counters().refused() == 0);
}

TEST_CASE("every method refuses forged frames, counts them and learns the same") {
  for (const auto& method : method_table()) {
    for (const char* staleness : {"0", "1", "\"unbounded\""}) {
      auto job = test::sound_job(method.name, staleness, {"run.rounds=60", "run.mute_after=0"});
      if (!job || std::string(method.name) == "none") continue;
      INFO(method.name << " staleness " << staleness << " codec " << job->exchange.codec);
      const SimResult calm = Simulation(prepare(*job), {}).run();
      job->sim.forge = 1;
      Forgeries seen;
      const SimResult forged = Simulation(prepare(*job), {}, &seen).run();
      RefusalCounts counts{};
      std::uint64_t all = 0;
      for (const WorkerResult& p : forged.peers) {
        CHECK(p.outcome == Outcome::finished);
        for (const auto& [from, refused] : p.refused)
          for (std::size_t why = 0; why < counts.size(); ++why)
            counts[why] += refused[why], all += refused[why];
      }
      CHECK(all <= seen.forged);  // some come after the end
      CHECK(static_cast<double>(all) > 0.9 * static_cast<double>(seen.forged));
      if (all < 100) continue;  // enough of every kind
      for (const Refusal why :
           {Refusal::round, Refusal::parcel, Refusal::entries, Refusal::digest, Refusal::payload}) {
        INFO(kRefusals[static_cast<std::size_t>(why)]);
        CHECK(counts[static_cast<std::size_t>(why)] > 0);
      }
      if (std::string(staleness) == "0") CHECK(forged.digest == calm.digest);
    }
  }
}

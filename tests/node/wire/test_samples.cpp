// What a peer knows of everyone's samples, against the plain list that it stands for.
#include <numeric>
#include <random>

#include "gossamer_test/catch.h"
#include "samples.h"

using namespace gossamer::node;

namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

}  // namespace

TEST_CASE("counts merge by maximum in any order, and never fall") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t peers = 1 + random() % 60;
    const auto self = static_cast<gossamer::topology::PeerId>(random() % peers);
    Samples mine(peers, self, 1e6);
    std::vector<std::uint64_t> list(peers, 0), told(peers, 0);
    for (int message = 0; message < 20; ++message) {
      std::vector<PeerSamples> theirs;
      bool higher = false;
      for (std::size_t p = random() % 4; p < peers + 3; p += 1 + random() % 5) {
        theirs.push_back({static_cast<gossamer::topology::PeerId>(p), random() % 1000});
        if (p >= peers || p == self) continue;  // nobody knows better than the peer itself
        higher |= theirs.back().samples > list[p];
        list[p] = std::max(list[p], theirs.back().samples);
      }
      CHECK(mine.merge(theirs) == higher);
      CHECK_FALSE(mine.merge(theirs));
      list[self] = std::max(list[self], static_cast<std::uint64_t>(50 * message));
      mine.count(50 * static_cast<std::uint64_t>(message));
      for (const auto& [peer, samples] : mine.take_news()) told[peer] = samples;
    }
    CHECK(mine.take_news().empty());
    const double sum = static_cast<double>(std::accumulate(list.begin(), list.end(), std::uint64_t{0}));
    CHECK(mine.share() == sum / 1e6);
    for (std::size_t p = 0; p < peers; ++p)
      if (p != self) CHECK(told[p] == list[p]);  // all that was learned is told on
    for (const auto& [peer, samples] : mine.all()) list[peer] -= samples;
    CHECK(std::all_of(list.begin(), list.end(), [](std::uint64_t rest) { return rest == 0; }));
  }
}

TEST_CASE("a run is complete when all peers together have taken in the samples") {
  Samples s(3, 0, 30);
  s.count(10);
  CHECK_FALSE(s.merge({}));
  CHECK(s.merge(std::vector<PeerSamples>{{1, 19}}));
  CHECK_FALSE(s.complete());
  CHECK(s.merge(std::vector<PeerSamples>{{2, 1}}));
  CHECK(s.complete());
  CHECK(s.merge(std::vector<PeerSamples>{{2, 31}}));
  CHECK(s.share() == 2);
}

TEST_CASE("a peer tells of itself in steps of a share of what is left, and of every step near the end") {
  constexpr std::uint64_t kBatch = 8, kSteps = 100'000;
  Samples alone(1, 0, static_cast<double>(kBatch * kSteps));
  std::uint64_t told = 0, late = 0;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    const bool tells = alone.count(step * kBatch);
    told += tells;
    if (step > kSteps - 200) late += tells;
  }
  CHECK(late == 200);
  CHECK(told < 2000);
  Samples slow(100, 0, 1e6);  // a hundred peers, the others of which are nearly done
  slow.merge(std::vector<PeerSamples>{{1, 990'000}});
  CHECK(slow.count(1));
}

TEST_CASE("counts come back from their bytes, and a thousand take few") {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<PeerSamples> counts;
    for (std::uint64_t p = random() % 3; counts.size() < trial % 40u;
         p += 1 + (random() % (1U << (trial % 20))))
      counts.push_back({static_cast<gossamer::topology::PeerId>(p), random() >> (17 + random() % 47)});
    const auto bytes = to_bytes(counts);
    CHECK(bytes.size() <= kMostBytesOfCount * counts.size());
    CHECK(samples_from_bytes(bytes) == counts);
    for (std::size_t n = 1; n < bytes.size(); ++n)
      if (const auto front = samples_from_bytes(std::span(bytes).first(n)))
        CHECK(std::equal(front->begin(), front->end(), counts.begin()));
  }
  std::vector<PeerSamples> all;
  for (std::uint32_t p = 0; p < 1000; ++p) all.push_back({p, 100'000 + p});
  CHECK(to_bytes(all).size() == 4000);
}

TEST_CASE("bytes that are no counts are refused") {
  CHECK(samples_from_bytes({})->empty());
  CHECK(samples_from_bytes(bytes_of({0, 3})) == std::vector<PeerSamples>{{0, 3}});
  CHECK(samples_from_bytes(bytes_of({2, 3, 0, 4})) == std::vector<PeerSamples>{{2, 3}, {3, 4}});
  CHECK_FALSE(samples_from_bytes(bytes_of({1})));
  CHECK_FALSE(samples_from_bytes(bytes_of({0, 0x80})));
  CHECK_FALSE(samples_from_bytes(bytes_of({0x80})));
  CHECK_FALSE(samples_from_bytes(bytes_of({0xff, 0xff, 0xff, 0xff, 0x1f, 0})));        // peer 2³³ − 1
  CHECK_FALSE(samples_from_bytes(bytes_of({0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0})));  // one more than can be
  CHECK_FALSE(
      samples_from_bytes(bytes_of({0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})));  // 2⁴⁹ − 1 samples
  CHECK_FALSE(
      samples_from_bytes(bytes_of({0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0})));
  std::mt19937 random(5);
  std::size_t read = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::vector<std::byte> bytes(random() % 24);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    const auto counts = samples_from_bytes(bytes);
    if (!counts) continue;
    ++read;
    for (std::size_t k = 1; k < counts->size(); ++k) REQUIRE((*counts)[k].peer > (*counts)[k - 1].peer);
  }
  CHECK(read > 0);
}

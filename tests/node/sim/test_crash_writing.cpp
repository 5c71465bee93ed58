// The power fails while checkpoints are written, and disks are full: what was committed stays, what was not
// is nothing, and its space comes back.
#include <fmt/format.h>

#include <map>
#include <random>
#include <set>

#include "checkpoint.h"
#include "checkpoint_rounds.h"
#include "gossamer_test/catch.h"
#include "simulated_storage.h"
#include "states.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr const char* kRoot = "/run/checkpoints";
constexpr std::size_t kKeep = 2;
const std::vector<std::string> kPeers{"ann", "bob"};
using Key = std::pair<Round, std::string>;

/// Two peers that write round after round, keep two each, and sometimes write one again.
struct Course {
  explicit Course(std::uint64_t seed) : seed_(seed), random_(seed) {}

  State state(Round round, const std::string& peer, int version) const {
    return state_of(layers, seed_ + 1000 * round + 7 * static_cast<std::uint64_t>(version) + (peer == "ann"),
                    2000);
  }

  void write(CheckpointFolder& folder, Round round, const std::string& peer) {
    const Key key{round, peer};
    committed.erase(key);  // until it is written again
    attempted = key;
    const State what = state(round, peer, ++versions[key]);
    folder.write(head_of(peer, round), layers, what);
    committed[key] = what;
    attempted.reset();
    peer_rounds[peer].insert(round);
  }

  void prune(CheckpointFolder& folder, const std::string& peer) {
    const std::set<Round>& all = peer_rounds[peer];
    for (const Round round : superfluous({all.begin(), all.end()}, std::nullopt, kKeep, std::nullopt)) {
      committed.erase({round, peer});
      removed.insert({round, peer});
      folder.remove(round, peer);
      peer_rounds[peer].erase(round);
    }
  }

  void run(CheckpointFolder& folder, Round from, Round to) {
    for (Round round = from; round <= to; ++round)
      for (const std::string& peer : kPeers) {
        write(folder, round, peer);
        if (random_() % 8 == 0) write(folder, round, peer);
        prune(folder, peer);
      }
  }

  std::vector<optim::Layer> layers = layers_of(2000);
  std::map<Key, State> committed;
  std::map<Key, int> versions;
  std::optional<Key> attempted;
  std::set<Key> removed;
  std::map<std::string, std::set<Round>> peer_rounds;

 private:
  std::uint64_t seed_;
  std::mt19937_64 random_;
};

/// What can be read is what was written, and all that was committed can be read.
void check_contents(const CheckpointFolder& folder, const Course& course) {
  std::set<Key> whole;
  for (const CheckpointEntry& entry : folder.list()) {
    const Key key{entry.head.round, entry.head.peer};
    REQUIRE(folder.damage(entry) == "");  // where a manifest stands, all does
    whole.insert(key);
    const State state = folder.read(entry, course.layers);
    if (const auto at = course.committed.find(key); at != course.committed.end()) {
      REQUIRE(state == at->second);
      continue;
    }
    bool one_of_its_versions = false;  // under way or being removed when the power failed
    for (int version = 1; version <= course.versions.at(key); ++version)
      one_of_its_versions |= state == course.state(key.first, key.second, version);
    REQUIRE(one_of_its_versions);
  }
  for (const auto& entry : course.committed) REQUIRE(whole.contains(entry.first));
}

/// Nothing stands on the disk but what the manifests speak of.
void check_space(const SimulatedStorage& storage, const CheckpointFolder& folder) {
  REQUIRE(folder.leftovers().empty());
  std::uint64_t bytes = 0;
  for (const CheckpointEntry& entry : folder.list()) bytes += entry.bytes() + to_json(entry).size();
  REQUIRE(storage.used() == bytes);
}

void start_again(CheckpointFolder& folder, Course& course) {
  for (const std::string& peer : kPeers) folder.sweep(peer);
  for (const CheckpointFolder::Place& place : folder.places())
    if (!course.committed.contains({place.round, place.peer})) folder.remove(place.round, place.peer);
}

std::uint64_t operations_of(std::uint64_t seed, Round rounds) {
  SimulatedStorage storage(seed);
  CheckpointFolder folder(storage, kRoot);
  Course(seed).run(folder, 1, rounds);
  return storage.counts().operations;
}

}  // namespace

TEST_CASE("whenever the power fails, what was committed is whole and the rest is nothing") {
  constexpr std::uint64_t kCrashes = 1500;
  constexpr Round kRounds = 6;
  std::mt19937_64 random(11);
  SimulatedStorage::Counts total;
  std::uint64_t committed = 0, half = 0;
  constexpr std::uint64_t kCourses = 50;
  std::vector<std::uint64_t> operations;
  for (std::uint64_t seed = 0; seed < kCourses; ++seed) operations.push_back(operations_of(seed, kRounds));
  for (std::uint64_t n = 0; n < kCrashes; ++n) {
    const std::uint64_t seed = n % kCourses;
    const std::uint64_t at = 1 + random() % operations[seed];
    CAPTURE(n, seed, at);
    SimulatedStorage storage(n);
    Course course(seed);
    storage.crash_after(at);
    {
      CheckpointFolder folder(storage, kRoot);
      REQUIRE_THROWS_AS(course.run(folder, 1, kRounds), PowerFailure);
      REQUIRE_THROWS_AS(folder.list(), PowerFailure);
    }
    storage.restart();
    CheckpointFolder folder(storage, kRoot);
    check_contents(folder, course);
    committed += course.committed.size();
    half += !folder.leftovers().empty();
    start_again(folder, course);
    check_space(storage, folder);
    course.run(folder, kRounds + 1, kRounds + 2);
    check_contents(folder, course);
    check_space(storage, folder);
    total.lost_names += storage.counts().lost_names;
    total.torn_files += storage.counts().torn_files;
    total.crashes += storage.counts().crashes;
  }
  CHECK(total.crashes == kCrashes);
  CHECK(committed > kCrashes);
  CHECK(half > kCrashes / 10);
  CHECK(total.lost_names > kCrashes / 2);
  CHECK(total.torn_files > kCrashes / 20);
  WARN(
      fmt::format("{} crashes, {} committed checkpoints read back, {} left something to sweep, {} names "
                  "lost, {} files torn",
                  total.crashes, committed, half, total.lost_names, total.torn_files));
}

TEST_CASE("the power may fail again while it is swept, and again") {
  std::mt19937_64 random(12);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    SimulatedStorage storage(seed);
    Course course(seed);
    Round round = 1;
    for (int crash = 0; crash < 6; ++crash) {
      storage.crash_after(20 + random() % 120);
      CheckpointFolder folder(storage, kRoot);
      try {
        if (crash > 0) start_again(folder, course);
        for (; round < 1000; ++round) course.run(folder, round, round);
      } catch (const PowerFailure&) {
      }
      REQUIRE(storage.crashed());
      storage.restart();
      CheckpointFolder after(storage, kRoot);
      check_contents(after, course);
      ++round;
    }
  }
}

TEST_CASE("an operation that fails costs one checkpoint at most, and no space") {
  const std::uint64_t all = operations_of(1, 4);
  std::uint64_t failed = 0;
  for (std::uint64_t at = 1; at <= all; ++at) {
    CAPTURE(at);
    SimulatedStorage storage(at);
    CheckpointFolder folder(storage, kRoot);
    Course course(1);
    storage.fail(at, "an error of the disk");
    try {
      course.run(folder, 1, 4);
    } catch (const StorageError& error) {
      REQUIRE_THAT(error.what(), ContainsSubstring("an error of the disk"));
      ++failed;
      const bool writing = course.attempted.has_value();
      check_contents(folder, course);
      if (writing &&
          !folder.leftovers().empty())  // of one that could not be removed before it is written again
        REQUIRE(course.versions[*course.attempted] > 0);
    }
    start_again(folder, course);
    check_space(storage, folder);
    course.run(folder, 5, 6);
    check_contents(folder, course);
    check_space(storage, folder);
  }
  CHECK(failed > all * 3 / 4);  // what cannot be created is tried again
}

TEST_CASE("a disk that is full at any byte loses none of the former ones, and gets its space back") {
  std::mt19937_64 random(13);
  SimulatedStorage plain(1);
  {
    CheckpointFolder folder(plain, kRoot);
    Course(1).run(folder, 1, 2);
  }
  const std::uint64_t two_rounds = plain.used();
  for (int n = 0; n < 400; ++n) {
    SimulatedStorage storage(static_cast<std::uint64_t>(n));
    CheckpointFolder folder(storage, kRoot);
    Course course(1);
    course.run(folder, 1, 2);
    const std::uint64_t before = storage.used();
    const std::uint64_t left = random() % (two_rounds / 2);
    CAPTURE(n, left);
    storage.limit(before + left);
    std::string said;
    try {
      for (Round round = 3;; ++round)
        for (const std::string& peer : kPeers) course.write(folder, round, peer);
    } catch (const StorageError& error) {
      said = error.what();
    }
    REQUIRE_THAT(said, ContainsSubstring("no space left"));
    REQUIRE(storage.counts().full == 1);
    check_contents(folder, course);
    check_space(storage, folder);
    storage.limit(std::nullopt);
    course.run(folder, 4, 5);
    check_contents(folder, course);
  }
}

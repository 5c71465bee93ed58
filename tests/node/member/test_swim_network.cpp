// Swims among each other: what they come to know, how soon, and what it costs.
#include <set>

#include "gossamer_test/catch.h"
#include "swim_network.h"

using namespace gossamer::node;

namespace {

#ifdef GOSSAMER_SANITIZED
constexpr std::uint64_t kSeeds = 40, kFewSeeds = 3;
#else
constexpr std::uint64_t kSeeds = 200, kFewSeeds = 10;
#endif

/// Counts who was ever declared dead by whom.
void count_deaths(Network& net, int& deaths) {
  net.on_changed = [&](const auto&, const MemberRecord& r, auto before) {
    deaths += r.status == MemberStatus::dead && before != MemberStatus::dead;
  };
}

/// Loss, copies, delays, partitions, kills, restarts and slow members for 14 s; then peace.
struct Storm {
  explicit Storm(std::uint64_t seed, Planted planted = {}) : net(seed) {
    net.spec.planted = planted;
    const auto n = static_cast<std::size_t>(net.draw(2, 13));
    net.by_address = net.draw(0, 1) < 0.5;
    net.latency = net.draw(0.0001, 0.05);
    net.jitter = net.draw(0, 0.1);
    net.loss = net.draw(0, 0.3);
    net.duplication = net.draw(0, 0.2);
    net.on_changed = [this](const std::string& who, const MemberRecord& r, auto) {
      auto& newest = starts_seen[{who, net.hosts.at(who)->start, r.name}];
      if (r.start < newest) found = who + " takes an old start of " + r.name;
      newest = r.start;
    };
    for (std::size_t k = 0; k < n; ++k) net.at(net.draw(0, 3), [this, k] { start(k); });
    net.cut = [this](const auto& a, const auto& b) {
      return net.now < kPeace_s && (side & 1U << (std::stoul(a.substr(1)) % 32) ? 1 : 0) !=
                                       (side & 1U << (std::stoul(b.substr(1)) % 32) ? 1 : 0);
    };
    for (double t = 6; t < kPeace_s; t += net.draw(0.2, 2)) net.at(t, [this, n] { misfortune(n); });
    net.at(kPeace_s, [this] {
      net.loss = net.duplication = 0;
      for (auto& [name, h] : net.hosts) h->slow_s = 0;
    });
  }
  void start(std::size_t k) {
    const auto all = net.living();  // whoever knew one contact alone would be lost with it
    net.start(Network::name_of(k));
    for (const auto& via : all) net.introduce(Network::name_of(k), via);
  }
  void misfortune(std::size_t n) {
    const std::size_t k = net.random() % n;
    const auto h = net.hosts.find(Network::name_of(k));
    if (h == net.hosts.end()) return;
    Network::Host& member = *h->second;
    const double what = net.draw(0, 1);
    if (what < 0.15 && net.living().size() > 2)
      member.stopped = true;
    else if (what < 0.5 && net.living().size() > 1) {
      member.stopped = true;  // its connections break, as far as that is noticed
      for (auto& [name, other] : net.hosts)
        if (!other->stopped && net.draw(0, 1) < 0.5)
          other->swim->on_broken(member.name, net.now), net.wake(*other);
      start(k);
    } else if (what < 0.6)
      member.slow_s = net.draw(0, 0.5);
    else if (what < 0.7)
      side = static_cast<unsigned>(net.random());
    else if (what < 0.8)
      side = 0;
    else if (!member.stopped) {
      member.swim->say({static_cast<std::byte>(net.random()), static_cast<std::byte>(k)}, net.now);
      net.wake(member);
    }
  }
  /// What went wrong; empty where nothing did.
  std::string go() {
    while (net.now < kPeace_s + 90 && found.empty()) {
      net.until(net.now + 1);
      if (net.order > 300'000) found = "they never come to rest";
    }
    return found.empty() ? net.differences() : found;
  }

  static constexpr double kPeace_s = 20;
  Network net;
  unsigned side = 0;
  std::string found;
  std::map<std::tuple<std::string, std::uint64_t, std::string>, std::uint64_t> starts_seen;
};

double killed(std::uint64_t seed, std::size_t n) {
  Network net(seed);
  net.start_all(n);
  net.until(5 + net.draw(0, 1));
  REQUIRE(net.differences().empty());
  const double at = net.now;
  const std::string who = Network::name_of(net.random() % n);
  net.kill(who);
  net.until(at + 10);
  return net.last_to_know(who) - at;
}

}  // namespace

TEST_CASE("after any faults all members know the same") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    CHECK(Storm(seed).go() == "");
  }
}

TEST_CASE("planted faults of the membership are found") {
  if (!kPlantable) return;
  for (const Bug bug : kMemberBugs) {
    bool found = false;
    for (std::uint64_t seed = 0; seed < 300 && !found; ++seed) found = !Storm(seed, bug).go().empty();
    CAPTURE(static_cast<int>(bug));
    CHECK(found);
  }
}

TEST_CASE("a killed member is soon dead for all others") {
  double last = 0, sum = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const double took = killed(seed, 8);
    CAPTURE(seed);
    CHECK(took <= 1.5);
    last = std::max(last, took);
    sum += took;
  }
  WARN("killed of 8: dead for all after " << sum / kSeeds << " s on average, at most " << last << " s");
  CHECK(killed(1, 2) <= 4);  // nobody else can confirm it
  CHECK(killed(1, 3) <= 2);
}

TEST_CASE("slow members and lost frames kill nobody") {
  for (std::uint64_t seed = 0; seed < kFewSeeds; ++seed) {
    for (const bool slow : {true, false}) {
      for (const std::size_t n : {2U, 8U}) {
        if (n == 2 && !slow) continue;  // nobody to ask for a second way
        Network net(seed);
        int deaths = 0;
        count_deaths(net, deaths);
        net.loss = slow ? 0 : 0.1;
        net.start_all(n);
        if (slow) net.host(n - 1).slow_s = 0.4;
        net.until(600);
        CAPTURE(seed, slow, n);
        CHECK(deaths == 0);
      }
    }
  }
}

TEST_CASE("of a member that nothing listens for any more all know at once") {
  for (const std::size_t n : {2U, 8U, 9U}) {
    Network net(n);
    net.start_all(n);
    net.until(5);
    net.kill("m1");
    net.swim(0).on_refused("m1", net.now);
    net.wake(net.host(0));
    net.until(5.05);
    CHECK(net.last_to_know("m1") <= 5 + 0.01 + 2 * (net.latency + net.jitter));
  }
}

TEST_CASE("broken connections are as good as failed probes") {
  double last = 0;
  for (std::uint64_t seed = 0; seed < kFewSeeds; ++seed) {
    Network net(seed);
    net.start_all(8);
    net.until(5);
    net.kill("m1");
    for (const std::size_t k : {0U, 2U, 3U, 5U}) net.swim(k).on_broken("m1", net.now), net.wake(net.host(k));
    net.until(10);
    last = std::max(last, net.last_to_know("m1") - 5);

    int deaths = 0;
    count_deaths(net, deaths);
    for (const std::size_t k : {0U, 2U, 3U, 5U}) net.swim(k).on_broken("m7", net.now), net.wake(net.host(k));
    net.until(10.1);
    CHECK(net.swim(4).members().at("m7").refuted > 0);  // it lives, and says so
    net.until(20);
    CHECK(deaths == 0);
    CHECK(net.host(0).swim->members().at("m7").status == MemberStatus::alive);
  }
  CHECK(last <= 0.6);
}

TEST_CASE("who was cut off comes back under the same start") {
  for (const double cut_s : {6.0, 60.0}) {
    Network net(7);
    net.start_all(8);
    net.until(5);
    bool cut = true;
    net.cut = [&](const auto& a, const auto& b) { return cut && (a < "m3") != (b < "m3"); };
    net.until(5 + cut_s);
    CHECK(net.swim(0).alive() == std::vector<std::string>{"m0", "m1", "m2"});
    CHECK(net.swim(5).alive().size() == 5);
    cut = false;
    net.until(net.now + 40);
    CHECK(net.differences().empty());
    CHECK(net.swim(0).members().at("m5").start == 1);
    CHECK(net.swim(0).members().at("m5").refuted > 0);
  }
}

TEST_CASE("two runs that are told of each other become one") {
  Network net(3);
  for (const char* name : {"m0", "m1", "m2", "m5", "m6", "m7"})
    net.start(name, std::string(name) < "m3" ? "m0" : "m5");
  net.until(20);
  CHECK(net.swim(0).alive().size() == 3);
  net.swim(1).contact({"", "at m6"}, net.now);
  net.wake(net.host(1));
  net.until(20.5);
  CHECK(net.differences().empty());
}

TEST_CASE("a process that stands still for a while declares nobody dead") {
  for (std::uint64_t seed = 0; seed < kFewSeeds; ++seed) {
    for (const double stands_s : {0.7, 5.0}) {
      Network net(seed);
      net.start_all(8);
      net.until(5);
      int wrong = 0;
      net.on_changed = [&](const auto&, const MemberRecord& r, auto) {
        wrong += r.status == MemberStatus::dead && (r.name != "m3" || stands_s < 1);
      };
      for (int k = 0; k < 10; ++k) {
        for (const char* suspect : {"m1", "m6"}) net.swim(3).on_broken(suspect, net.now);
        net.host(3).frozen_until = net.now + stands_s;
        net.wake(net.host(3));
        net.until(net.now + stands_s + net.draw(3, 4));
        CAPTURE(seed, stands_s, k);
        CHECK(net.differences() == "");
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("members that can only dial out are members like others") {
  for (const std::size_t n : {3U, 8U, 40U}) {
    Network net(n);
    net.dials_only = [](const std::string& name) { return std::stoul(name.substr(1)) % 3 == 1; };
    int deaths = 0;
    count_deaths(net, deaths);
    net.start_all(n);
    net.until(60);
    CAPTURE(n);
    CHECK(net.differences() == "");
    CHECK(deaths == 0);
    net.kill("m1");
    net.until(65);
    CHECK(net.last_to_know("m1") < 63);
  }
}

/// All know each other, and all but the first so many can only dial out.
void start_dialling(Network& net, std::size_t hubs, std::size_t n) {
  net.dials_only = [hubs](const std::string& name) { return std::stoul(name.substr(1)) >= hubs; };
  net.start_all(n);
  net.until(30);
}

TEST_CASE("what members that can only dial out say is soon known to all") {
  for (const std::size_t n : {6U, 9U, 20U, 43U}) {
    Network net(n);
    start_dialling(net, 3, n);
    CAPTURE(n);
    CHECK(net.differences() == "");
    for (std::size_t k = 3; k < n; ++k) net.swim(k).say({std::byte(k)}, net.now), net.wake(net.host(k));
    net.until(30.5);
    CHECK(net.differences() == "");
  }
}

TEST_CASE("members that can only dial out miss each other when all whom they dial have gone") {
  for (const std::size_t n : {5U, 16U}) {
    Network net(n);
    start_dialling(net, 2, n);
    CAPTURE(n);
    REQUIRE(net.differences() == "");
    for (const char* hub : {"m0", "m1"}) net.kill(hub);
    net.until(120);
    for (std::size_t k = 2; k < n; ++k) CHECK(net.swim(k).alive().size() == 1);
  }
}

TEST_CASE("many members find each other, hear soon of all, and are calm") {
  constexpr std::size_t n = 256;
  Network net(5);
  net.latency = 0.005, net.jitter = 0.01;
  for (std::size_t k = 0; k < n; ++k)
    net.at(0.02 * static_cast<double>(k),
           [&net, k] { net.start(Network::name_of(k), k == 0 ? "" : Network::name_of(net.random() % k)); });
  net.until(5.2);
  double joined = kSeeds;
  while (!net.differences().empty() && net.now < 60) net.until(net.now + 0.1);
  joined = net.now;
  CHECK(net.differences().empty());
  CHECK(joined < 10);
  net.until(joined + 8);

  std::set<std::pair<std::string, std::string>> pairs;
  for (std::size_t k = 0; k < n; ++k) {
    CHECK(net.swim(k).targets().size() == net.spec.most_targets);
    for (const auto& t : net.swim(k).targets()) pairs.insert(std::minmax(Network::name_of(k), t));
  }
  std::map<std::string, std::size_t> connections;
  for (const auto& [a, b] : pairs) ++connections[a], ++connections[b];
  std::size_t most_connections = 0;
  for (const auto& [name, count] : connections) most_connections = std::max(most_connections, count);
  CHECK(connections.size() == n);

  for (auto& [name, h] : net.hosts) h->frames = h->bytes = 0;
  net.until(net.now + 10);
  double frames = 0, most_frames = 0, bytes = 0;
  for (const auto& [name, h] : net.hosts) {
    frames += h->frames / 10 / n, bytes += h->bytes / 10 / n;
    most_frames = std::max(most_frames, h->frames / 10);
  }
  CHECK(most_frames <= 4 / net.spec.probe_every_s);

  std::size_t heard = 1;
  double all_at = 0;
  const double said_at = net.now;
  net.on_changed = [&](const auto&, const MemberRecord& r, auto) {
    if (r.name == "m17" && r.word_version == 1 && ++heard == n) all_at = net.now;
  };
  net.swim(17).say({std::byte{1}}, net.now);
  net.wake(net.host(17));
  net.until(said_at + 2);
  CHECK(heard == n);
  CHECK(all_at - said_at < 1);

  const double killed_at = net.now;
  net.kill("m99");
  net.until(killed_at + 10);
  const double dead_after = net.last_to_know("m99") - killed_at;
  CHECK(dead_after < 8);
  CHECK(net.differences().empty());
  WARN("256 members: all know all " << joined - 5.1 << " s after the last came; " << frames
                                    << " frames/s each, at most " << most_frames << ", " << bytes
                                    << " bytes/s; connections at most " << most_connections
                                    << "; a word reaches all in " << all_at - said_at << " s, a death in "
                                    << dead_after << " s");
}

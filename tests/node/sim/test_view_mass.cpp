// Push-sum's mass where members come and go: it belongs to pairs of incarnations and outlives views, so that
// a partition that heals loses nothing, to the last unit.
#include <fmt/format.h>

#include <set>

#include "churn_checkers.h"
#include "frozen.h"
#include "gossamer_test/catch.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

/// A run of push_sum with faults, held to the ledger of mass_ledger.h.
struct MassRun {
  MassRun(const Job& job, SimFaults faults, std::uint64_t seed = 1)
      : prepared(prepare(job)),
        checkers(prepared, &steps),
        simulation(prepared, with(std::move(faults), seed), &checkers) {
    simulation.on_view = [this](PeerId p, double, const View& view, double) {
      sizes[p].insert(view.seats.size());
    };
    simulation.on_log = [this](PeerId p, double time, const std::string& line) {
      log += fmt::format("{:.3f} peer{}: {}\n", time, p, line);
    };
    std::size_t asked = 0;
    result = simulation.run([&] { return ++asked > Run::kMostQuestions || checkers.first().has_value(); });
  }
  SimFaults with(SimFaults faults, std::uint64_t seed) {
    faults.views = faults.breaks = true;
    faults.seed = seed;
    faults.view_observer = &checkers;
    return faults;
  }
  const Mass& mass(PeerId p) const { return dynamic_cast<const Mass&>(*simulation.extension(p)); }
  /// Σ over peers of what of(mass) says.
  template <class Of>
  std::vector<std::uint64_t> sum(const Of& of) const {
    std::vector<std::uint64_t> total;
    for (PeerId p = 0; p < result.peers.size(); ++p) {
      const auto one = of(mass(p));
      total.resize(one.size(), 0);
      for (std::size_t k = 0; k < one.size(); ++k) total[k] += one[k];
    }
    return total;
  }
  /// P·x⁰ less all steps, then P for each parcel's weight.
  std::vector<std::uint64_t> expected() const {
    const std::uint64_t peers = result.peers.size();
    std::vector<std::uint64_t> all;
    for (std::size_t k = 0; k < prepared.initial.size(); ++k)
      all.push_back(peers * static_cast<std::uint64_t>(
                                std::llrint(static_cast<double>(prepared.initial[k]) * kMassOne)) -
                    steps.units_of(k));
    all.insert(all.end(), prepared.plan->parcels.size(), peers * static_cast<std::uint64_t>(kMassOne));
    return all;
  }
  bool finished() const {
    return std::all_of(result.peers.begin(), result.peers.end(),
                       [](const WorkerResult& r) { return r.outcome == Outcome::finished; });
  }
  std::string found() const {
    return checkers.first() ? checkers.first()->checker + ": " + checkers.first()->what : "";
  }

  Prepared prepared;
  StepsTaken steps;
  ChurnCheckers checkers;
  Simulation simulation;
  std::map<PeerId, std::set<std::size_t>> sizes;
  std::string log;
  SimResult result;
};

/// Half of the peers hear nothing of the other half, from the time on, for so long.
Settings parted(std::size_t peers, const std::string& when) {
  std::string cuts;
  for (std::size_t a = 0; a < peers / 2; ++a)
    for (std::size_t b = peers / 2; b < peers; ++b)
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
        cuts += fmt::format("{}\"peer{}>peer{}@{}\"", cuts.empty() ? "" : ", ", from, to, when);
  return {"sim.cut=[" + cuts + "]"};
}

Job job_of(const std::string& graph, const Settings& more) {
  return small_job(Settings{"exchange.method=push_sum", "exchange.codec=dense", "peers=8", "run.min_peers=1",
                            "graph.kind=" + graph} +
                   more);
}

std::vector<std::uint64_t> held(const Mass& mass) { return {mass.sum(0).begin(), mass.sum(0).end()}; }

}  // namespace

TEST_CASE("a partition that heals loses no unit of push-sum's mass") {
  const Settings apart = parted(8, "1s+6s");
  for (const char* graph : {"full", "ring", "exponential", "one_peer_exponential"}) {
    INFO(graph);
    MassRun run(job_of(graph, apart + Settings{"run.rounds=1500"}), {});
    INFO(run.log);
    INFO(run.found());
    CHECK_FALSE(run.checkers.first());
    REQUIRE(run.finished());
    for (PeerId p = 0; p < 8; ++p) CHECK((run.sizes[p].contains(4) && run.sizes[p].contains(8)));
    CHECK(run.checkers.ledger()->counts().written_off == 0);
    CHECK(run.checkers.ledger()->counts().carried > 0);
    CHECK(run.sum([](const Mass& m) { return m.balance(); }) == run.expected());
    CHECK(run.sum(held) == run.expected());  // all waits for all: nothing is under way at the end
  }
}

TEST_CASE("a partition that heals loses nothing where nobody waits and messages are lost") {
  const Settings apart = parted(8, "1s+6s");
  const Settings lossy{"exchange.delivery=best_effort", "exchange.staleness=unbounded", "sim.loss=0.1",
                       "sim.reorder=0.1", "run.rounds=1500"};
  for (const char* graph : {"full", "ring"}) {
    INFO(graph);
    MassRun run(job_of(graph, apart + lossy), {});
    INFO(run.log);
    INFO(run.found());
    CHECK_FALSE(run.checkers.first());
    REQUIRE(run.finished());
    CHECK(run.sum([](const Mass& m) { return m.balance(); }) == run.expected());
    CHECK(run.sum(held).back() > 4 * static_cast<std::uint64_t>(kMassOne));
  }
}

TEST_CASE("what former neighbours were owed arrives when a view without their link begins") {
  // a ring closes over a peer that is gone and opens again when it is back: its neighbours are linked and are
  // not
  MassRun run(job_of("ring", {"run.rounds=1500", "sim.crash=[\"peer3@1s+1s\", \"peer6@2s+500ms\"]"}), {});
  INFO(run.log);
  INFO(run.found());
  CHECK_FALSE(run.checkers.first());
  CHECK(run.finished());
  CHECK(run.checkers.ledger()->counts().owed > 0);
  CHECK(run.checkers.ledger()->counts().written_off > 0);
  double weight = 0;
  for (PeerId p = 0; p < 8; ++p)
    weight += static_cast<double>(static_cast<std::int64_t>(held(run.mass(p)).back())) / kMassOne;
  CHECK(weight > 6.5);
  CHECK(weight <= 8);
}

namespace {

constexpr std::uint64_t kOne = static_cast<std::uint64_t>(kMassOne);

/// Of one parameter: neighbours 1 and 2, of whom it hears, too.
Mass mass_of(float x) {
  return Mass(std::vector<float>{x}, 1, {{1, true}, {2, true}, {1, false}, {2, false}});
}

State own_of(Mass& mass, const std::vector<Incarnation>& seats) {
  State state;
  mass.save_own(Archive::saving(state), seats);
  return state;
}

void give(Mass& mass, std::uint32_t sum, float share) {
  std::vector<float> nothing{0};
  mass.push({{0, 1}, 0, 0, {{sum, share}}, 0}, nothing);
}

}  // namespace

TEST_CASE("mass goes from one view to the next by incarnation") {
  const Incarnation self{"a", 1}, b{"b", 2}, c{"c", 3}, later{"c", 4};
  Mass mass = mass_of(2), other = mass_of(5);
  give(mass, 1, 0.5f);
  give(mass, 2, 0.5f);
  give(other, 1, 0.5f);
  mass.absorb({{0, 1}, 0, 4, other.payload(1, {0, 1}, 0)});
  const auto balance = mass.balance();
  CHECK(balance == Mass::Units{2 * kOne, kOne});
  const State state = own_of(mass, {self, b, c});
  const auto next = [&](const std::vector<Incarnation>& seats, const std::vector<Incarnation>& least) {
    Mass m = mass_of(7);  // whatever it begins with
    m.restore_own(Archive::restoring(state), {seats, least});
    CHECK(m.balance() == balance);
    CHECK(std::ranges::equal(m.sum(0), mass.sum(0)));
    return m;
  };
  {
    const Mass same = next({self, c, b}, {self, b, c});  // by other numbers
    CHECK(std::ranges::equal(same.sum(1), mass.sum(2)));
    CHECK(std::ranges::equal(same.sum(2), mass.sum(1)));
    CHECK(std::ranges::equal(same.sum(3), mass.sum(4)));
    CHECK(same.aside().empty());
  }
  {
    const Mass away = next({self, b, {"d", 9}}, {self, b, c, {"d", 9}});  // c may come back
    CHECK(std::ranges::equal(away.sum(1), mass.sum(1)));
    CHECK(away.sum(2)[0] == 0);
    REQUIRE(away.aside().size() == 1);
    CHECK(away.aside().at(c).owed);
    CHECK(away.written_off().empty());
  }
  for (const auto& least :
       {std::vector{self, b, later}, std::vector{self, b}}) {  // it cannot, or is forgotten
    const Mass gone = next({self, b, later}, least);
    CHECK(gone.sum(2)[0] == 0);
    CHECK(gone.aside().empty());
    CHECK(gone.written_off()[0] == mass.sum(2)[0] - mass.sum(4)[0]);
  }
}

TEST_CASE("a sum that was sent again and again unchanged is owed no more") {
  const std::vector<Incarnation> seats{{"a", 1}, {"b", 2}, {"c", 3}};
  Mass mass = mass_of(2);
  const auto owed = [&] {
    State state;
    mass.save_own(Archive::saving(state).part("data").part("own"), seats);
    return owed_in(state);
  };
  CHECK(owed().empty());
  give(mass, 1, 0.5f);
  CHECK(owed() == std::vector{seats[1]});
  for (std::size_t times = 0; times < kTimesTold; ++times) give(mass, 1, 0);
  CHECK(owed().empty());
}

TEST_CASE("what is a peer's own is in no state that others have, and may be missing") {
  const std::vector<Incarnation> seats{{"a", 1}, {"b", 2}, {"c", 3}};
  Mass mass = mass_of(2);
  give(mass, 1, 0.5f);
  State state;
  std::uint64_t steps = 3;
  Archive::saving(state).part("data").value("steps", steps);
  mass.save_own(Archive::saving(state).part("data").part("own"), seats);
  CHECK(has_own(state));
  const State others = without_own(state);
  CHECK(others.size() == 1);
  CHECK_FALSE(has_own(others));
  CHECK(owed_in(others).empty());
  State unchanged = others;
  add_passage(unchanged, {seats, seats});
  CHECK(unchanged == others);
}

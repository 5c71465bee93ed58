// What whole runs of small jobs come to, and what they send, as it was when guard.txt was written:
// for every method, codec and staleness that is sound. Whoever moves code changes none of it; whoever changes
// an algorithm writes the file anew (`test_guard "[.write]"`) and says why. Quadratic objectives, since their
// floats are the same on every machine; so without ensemble, which learns labels.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <optional>

#include "frame.h"
#include "gossamer_test/catch.h"
#include "hash.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr std::array kCodecs{"dense",
                             "fp16",
                             "bf16",
                             "intq:bits=4",
                             "onebit",
                             "onebit_two",
                             "onebit_scaled",
                             "terngrad",
                             "sign_vote",
                             "qsgd:bits=4",
                             "qsgd:levels=5,coding=elias",
                             "topk:density=0.2",
                             "randk:density=0.2",
                             "threshold:tau=0.01"};

/// All that is sent, whatever the order of sending.
class Payloads final : public Observer {
 public:
  void on_send(PeerId from, PeerId to, const Message& m) override {
    const std::array<std::uint64_t, 5> ids{from, to, m.round, m.parcel, m.tag};
    sum_ += hash_bytes(*m.payload, hash_bytes(std::as_bytes(std::span(ids))));
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

/// Frames take the same time whatever is in them.
Settings guarded(std::string_view method, std::string_view codec, std::string_view staleness,
                 std::string_view graph, std::string_view optimizer) {
  const auto set = [](const char* key, std::string_view value) {
    return std::string(key) + "=" + std::string(value);
  };
  return {set("exchange.method", method),
          set("exchange.codec", codec),
          set("exchange.staleness", staleness),
          set("graph.kind", graph),
          set("optimizer.kind", optimizer),
          "model.kind=quadratic",
          "data.features=200",
          "data.rows=64",
          "optimizer.momentum=0.5",
          "optimizer.learning_rate=0.05",
          "run.rounds=24",
          "sim.bandwidth=1e15",
          "sim.latency=0.001",
          "sim.step_time=0.003",
          "sim.step_jitter=0.5"};
}

struct Course {
  std::string graph, optimizer;
  Prepared prepared;
};

/// On the first graph, and by the first optimiser, that the program accepts.
std::optional<Course> sound_course(std::string_view method, std::string_view codec,
                                   std::string_view staleness) {
  for (const char* optimizer : {"momentum", "sgd"})
    for (const char* graph : {"full", "ring", "star"}) try {
        return Course{graph, optimizer,
                      prepare(small_job(guarded(method, codec, staleness, graph, optimizer)))};
      } catch (const ConfigError&) {
      }
  return std::nullopt;
}

/// By "method codec staleness graph optimizer": digest of all parameters, and hash of all payloads.
std::map<std::string, std::string> courses() {
  std::map<std::string, std::string> all;
  for (const auto& method : method_table())
    for (const char* codec : kCodecs)
      for (const char* staleness : {"0", "2", "\"unbounded\""}) {
        const auto course = sound_course(method.name, codec, staleness);
        if (!course) continue;
        Payloads payloads;
        const SimResult result = Simulation(course->prepared, {}, &payloads).run();
        all[fmt::format("{} {} {} {} {}", method.name, codec, staleness, course->graph, course->optimizer)] =
            fmt::format("{:016x} {:016x}", result.digest, payloads.sum());
      }
  return all;
}

}  // namespace

TEST_CASE("runs come to what they came to, by the bytes that they sent") {
  std::map<std::string, std::string> expected;
  std::ifstream in(GOSSAMER_GUARD);
  REQUIRE(in);
  for (std::string line; std::getline(in, line);)
    if (const auto equals = line.find(" = "); line[0] != '#' && equals != std::string::npos)
      expected[line.substr(0, equals)] = line.substr(equals + 3);
  const auto all = courses();
  for (const auto& [name, course] : expected) {
    INFO(name);
    CHECK((all.contains(name) ? all.at(name) : "refused") == course);
  }
  CHECK(all.size() == expected.size());
}

TEST_CASE("writes what runs come to", "[.write]") {
  std::ofstream out(GOSSAMER_GUARD);
  out << "# method codec staleness graph optimizer = digest of all peers' parameters, hash of all payloads; "
         "by "
         "test_guard \"[write]\"\n";
  for (const auto& [name, course] : courses()) out << name << " = " << course << "\n";
  CHECK(out.flush());
}

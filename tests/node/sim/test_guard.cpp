// What whole runs of small jobs come to, and what they send, as it was when guard.txt was written:
// for every method, codec and staleness that is sound. Whoever moves code changes none of it; whoever changes
// an algorithm writes the file anew (`test_guard "[.write]"`) and says why. Quadratic objectives, since their
// floats are the same on every machine; so without ensemble, which learns labels.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <optional>

#include "courses.h"
#include "frame.h"
#include "gossamer_test/catch.h"
#include "hash.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

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
  for (const auto& [name, course] : all) {
    INFO(name << " is new: write the file anew");
    CHECK(expected.contains(name));
  }
}

TEST_CASE("writes what runs come to", "[.write]") {
  std::ofstream out(GOSSAMER_GUARD);
  out << "# method codec staleness graph optimizer = digest of all peers' parameters, hash of all payloads; "
         "by "
         "test_guard \"[write]\"\n";
  for (const auto& [name, course] : courses()) out << name << " = " << course << "\n";
  CHECK(out.flush());
}

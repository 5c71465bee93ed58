// What one peer may cost another.
#include <algorithm>

#include "gossamer_test/catch.h"
#include "member.h"

using namespace gossamer::node;

namespace {

/// The world of a member that only listens.
struct Listener final : MemberEnv {
  double t = 0;
  std::vector<std::string> lines;
  std::vector<std::string> names{"host", "me"};
  std::size_t events = 0;

  double now() const override { return t; }
  void wake_at(double) override {}
  void send(PeerId, FrameBytes, std::uint32_t) override {}
  std::size_t backlog(PeerId) const override { return 0; }
  DataPlane& data() override { throw std::logic_error("no view begins here"); }
  void report(const Report&) override {}
  void log(const std::string& line) override { lines.push_back(line); }
  void met(PeerId peer, const Contact& contact) override {
    names.resize(std::max<std::size_t>(names.size(), peer + 1));
    names[peer] = contact.name;
  }
  State leave_view(const View&) override { return {}; }
  WorkerSpec enter_view(const View&, double) override { throw std::logic_error("no view begins here"); }
  void member_changed(const MemberEvent&) override { ++events; }
  auto told(const std::string& part) const {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& l) { return l.find(part) != std::string::npos; });
  }
};

struct Joining {
  explicit Joining(bool proved = true) {
    MemberSpec spec;
    spec.roster = {{"host", "tcp://host:1"}, {"me", "tcp://me:1"}};
    spec.named = 1, spec.self = 1, spec.start = 10, spec.job = 7;
    spec.limits_speakers = proved;
    spec.join = spec.roster.front();
    member.emplace(std::move(spec), env, std::nullopt);
    member->start();
  }
  void hears(const std::string& from, std::vector<MemberRecord> records) {
    const Frame frame{{.sender = kNoPeer, .job = 7},
                      SwimBody{SwimBody::Kind::news, 0, from, 1, "me", std::move(records)}};
    const FrameBytes bytes = encode_frame(frame);
    REQUIRE(member->on_frame(*bytes, &from));
  }
  /// 60 names in each of so many frames.
  void hears_of(const std::string& from, const std::string& prefix, int frames,
                MemberStatus status = MemberStatus::alive) {
    for (int f = 0; f < frames; ++f) {
      std::vector<MemberRecord> records;
      for (int k = 0; k < 60; ++k) {
        records.push_back({prefix + std::to_string(60 * f + k), "", 1});
        records.back().status = status;
      }
      hears(from, std::move(records));
    }
  }
  Listener env;
  std::optional<Member> member;
};

}  // namespace

TEST_CASE("an allowance is given so much at once, and so much a second after that") {
  Allowance a(10, 2);
  for (int k = 0; k < 10; ++k) CHECK(a.take(1, 5));
  CHECK_FALSE(a.take(1, 5));
  CHECK_FALSE(a.take(1, 5.4));
  CHECK(a.take(1, 5.5));
  CHECK_FALSE(a.take(11, 100));
  CHECK(a.take(10, 100));
  CHECK_FALSE(a.take(1, 99));  // a clock that goes back gives nothing
}

TEST_CASE("who sends nothing of use is not heard for a while, and then again") {
  SpeakerLimits limits;
  int refused = 0;
  while (!limits.refused(1)) REQUIRE(++refused < 100000);
  CHECK(refused > 1000);
  CHECK_FALSE(limits.hears(1.1));
  CHECK(limits.hears(1 + SpeakerLimits::kNotHeard_s));
  SpeakerLimits slow;  // some frames of old views at each change
  for (int second = 0; second < 1000; ++second)
    for (int k = 0; k < 400; ++k) REQUIRE_FALSE(slow.refused(second));
}

TEST_CASE("questions and copies of the state have bounds of their own") {
  SpeakerLimits limits;
  int answers = 0, copies = 0;
  while (limits.may_ask(1)) REQUIRE(++answers < 100000);
  CHECK(answers >= 50);
  while (limits.may_have(1000, 1000, 1)) REQUIRE(++copies < 1000);
  CHECK(copies >= 4);
  CHECK(limits.may_tell(1, 1));
  CHECK(limits.may_name(true, 1));
  CHECK(limits.hears(1));
  CHECK(limits.may_ask(2));
}

TEST_CASE("one speaker brings so many new members at once and others bring the rest") {
  Joining a;
  a.env.t = 20;
  a.hears_of("mallory", "g", 100);
  CHECK(a.env.names.size() > 60);
  CHECK(a.env.names.size() < 100);
  CHECK(a.env.told("mallory tells of more peers that are new here") == 1);
  a.hears_of("host", "g", 10);  // those that are known cost nothing
  CHECK(a.env.names.size() > 120);
  a.hears("newcomer", {{"newcomer", "", 1}});
  CHECK(a.env.names.back() == "newcomer");
  a.hears("mallory", {{"host", "tcp://host:1", 1}});  // the job's are no news
  CHECK(a.member->status().members.front().standing == StatusBody::Standing::alive);
}

TEST_CASE("of all members only so many are known and those that are gone make room") {
  Joining lives(false), gone(false);
  lives.hears_of("host", "g", 75);
  CHECK(lives.env.names.size() > 4000);
  CHECK(lives.env.names.size() < 4200);
  gone.hears_of("host", "dead", 75, MemberStatus::dead);
  gone.hears_of("host", "g", 1);
  CHECK(gone.env.names.size() == 2 + 60);
}

TEST_CASE("changes of members are told one by one until they are too many") {
  Joining a;
  const auto word = Standing{.begun = true}.to_bytes();
  for (std::uint64_t start = 1; start <= 100; ++start) {
    std::vector<MemberRecord> records;
    for (int k = 0; k < 60; ++k) records.push_back({"ghost" + std::to_string(k), "", start, 0, {}, 1, word});
    a.hears("host", std::move(records));
  }
  CHECK(a.env.told("peer ghost") == 50);
  CHECK(a.env.events > 4000);
  a.env.t = 20;
  a.member->on_timer();
  CHECK(a.env.told("more changes of members are left out") == 1);
  CHECK(a.env.lines.size() < 70);
}

TEST_CASE("who is told to end before anybody has taken it in ends") {
  Joining a;
  a.member->interrupt();
  CHECK(a.member->finished());
  CHECK(a.member->result().outcome == Outcome::interrupted);
}

// What one Swim makes of what it is told, case by case.
#include <algorithm>

#include "gossamer_test/catch.h"
#include "hash.h"
#include "lone_swim.h"

using namespace gossamer::node;
using Kind = SwimBody::Kind;
using Status = MemberStatus;

TEST_CASE("of two records of a member the later one stands") {
  const auto later = [](const MemberRecord& a, const MemberRecord& b) {
    MemberRecord ours = a;
    return bool(take_newer(ours, b, {})) && ours == b;
  };
  const auto r = [](std::uint64_t start, Status s, std::uint32_t refuted) {
    return record("p", start, s, refuted);
  };
  // each overrides those before it, and none of those behind it
  const std::vector<MemberRecord> order{
      r(1, Status::alive, 0),   r(1, Status::suspect, 0), r(1, Status::dead, 0), r(1, Status::alive, 1),
      r(1, Status::suspect, 1), r(1, Status::dead, 1),    r(1, Status::left, 0), r(2, Status::alive, 0),
      r(2, Status::suspect, 0), r(3, Status::dead, 0),    r(4, Status::alive, 0)};
  for (std::size_t a = 0; a < order.size(); ++a)
    for (std::size_t b = 0; b < order.size(); ++b) {
      CAPTURE(a, b);
      CHECK(later(order[a], order[b]) == (a < b));
    }
}

TEST_CASE("what is known does not depend on the order of the news") {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<MemberRecord> news(6);
    for (auto& n : news) {
      n = record("p", random() % 2, static_cast<Status>(random() % 4),
                 static_cast<std::uint32_t>(random() % 3));
      n.word_version = static_cast<std::uint32_t>(random() % 3);
      n.word = {static_cast<std::byte>(n.word_version), static_cast<std::byte>(n.start)};
      if (n.status == Status::suspect) n.doubted_by = {random() % 3};
    }
    const auto known = [&] {
      MemberRecord ours = news.front();
      for (const auto& n : news) take_newer(ours, n, {});
      return ours;
    };
    const MemberRecord first = known();
    std::shuffle(news.begin(), news.end(), random);
    news.push_back(news[random() % 6]);
    CHECK(known() == first);
  }
}

TEST_CASE("a suspect has less time the more confirm it") {
  CHECK(suspicion_s(0.5, 3, 0, 3) == Approx(3));
  CHECK(suspicion_s(0.5, 3, 1, 3) == Approx(1.75));
  CHECK(suspicion_s(0.5, 3, 3, 3) == Approx(0.5));
  CHECK(suspicion_s(0.5, 3, 0, 0) == Approx(3));  // of two members nobody else is there to confirm it
}

TEST_CASE("everyone is in as many lists as its own has names") {
  for (const std::size_t n : {10U, 20U, 255U}) {
    std::vector<std::string> names(n);
    for (std::size_t k = 0; k < n; ++k) names[k] = Alone::name_of(k);
    std::map<std::string, std::size_t> lists;
    for (const auto& self : names) {
      Ring ring;
      for (const auto& name : names) ring.insert(name);
      const auto targets = ring.targets(self, 8);
      CHECK(targets.size() == 8);
      for (const auto& t : targets) ++lists[t];
    }
    CHECK(lists.size() == n);
    for (const auto& [name, count] : lists) CHECK(count == 8);
  }
  Ring ring;
  CHECK(ring.targets("me", 8).empty());
  ring.insert("me"), ring.insert("a"), ring.insert("a"), ring.insert("b"), ring.erase("c");
  CHECK(ring.targets("me", 8).size() == 2);
  ring.erase("a");
  CHECK(ring.targets("who is not in it", 8).size() == 2);
  CHECK(ring.targets("me", 8) == std::vector<std::string>{"b"});
}

TEST_CASE("rumours told least come first, of these the newest") {
  Rumours rumours;
  for (const char* name : {"a", "b", "c"}) rumours.add(name);
  CHECK(rumours.first(2) == std::vector<std::string>{"c", "b"});
  rumours.told("c", 1, 2);
  CHECK(rumours.first(9) == std::vector<std::string>{"b", "a", "c"});
  rumours.told("c", 1, 2);
  CHECK(rumours.first(9) == std::vector<std::string>{"b", "a"});
  rumours.add("a");
  CHECK(rumours.first(1) == std::vector<std::string>{"a"});
}

TEST_CASE("a member refutes what is wrong of its own start, by a greater number") {
  for (const Status wrong : {Status::suspect, Status::dead}) {
    Alone a(4);
    a.hears({record("me", 10, wrong, 3)});
    CHECK(a.of("me").refuted == 4);
    CHECK(a.of("me").status == Status::alive);
    CHECK(a.me->local_health() == 1);
    a.until(0.006);
    CHECK(a.take(Kind::news).size() == 4);  // at once to everybody
    a.hears({record("me", 10, wrong, 3)});
    CHECK(a.of("me").refuted == 4);
  }
  Alone a(4);
  a.hears({record("me", 10, Status::left, 3), record("me", 10, Status::suspect, 0xffffffff)});
  CHECK(a.of("me").status == Status::alive);
  a.hears({record("me", 9, Status::suspect)});  // of an earlier start: answered by what is so
  a.until(0.006);
  CHECK(a.tells_of("me", Status::alive));
}

TEST_CASE("a later process of the same name ends this one") {
  for (const bool direct : {true, false}) {
    Alone a(2);
    if (direct)
      a.me->on_body({Kind::ping, 1, "me", 11, "me", {record("me", 11)}}, 0);
    else
      a.hears({record("me", 11)});
    CHECK(a.superseded_by == std::vector<std::uint64_t>{11});
    a.sent.clear();
    a.gets(Kind::ping, "p0", 5);
    a.hears({record("me", 12)});
    a.until(100);
    CHECK(a.sent.empty());
    CHECK(a.superseded_by.size() == 1);
  }
  Alone a(2);
  a.me->on_body({Kind::ping, 1, "me", 9, "me", {record("me", 9)}}, 0);  // an earlier one hears of this
  REQUIRE(a.sent.size() == 1);
  CHECK(a.sent[0].second.records.front().start == 10);
  CHECK(a.superseded_by.empty());
}

TEST_CASE("pings are answered, unless another is meant") {
  Alone a(2);
  a.gets(Kind::ping, "p1", 77, "you");
  CHECK(a.sent.empty());
  for (const char* about : {"me", ""}) {
    a.gets(Kind::ping, "p1", 77, about);
    const auto acks = a.take(Kind::ack);
    REQUIRE(acks.size() == 1);
    CHECK(acks[0].first == Contact{"p1", "at p1"});
    CHECK(acks[0].second.number == 77);
    CHECK(acks[0].second.about == "p1");
    CHECK(acks[0].second.records.front().name == "me");
  }
  a.me->on_body({Kind::ping, 5, "p1", 0, "me", {}}, 0);  // of an earlier start: hears of the later one
  CHECK(a.take(Kind::ack).empty());
  CHECK(a.tells_of("p1", Status::alive));
}

TEST_CASE("a newcomer is told everything") {
  Alone a(150);
  a.gets(Kind::ping, "new", 5, "", {record("new")});
  std::set<std::string> told;
  REQUIRE(a.sent.size() == 3);
  CHECK(a.sent[0].second.kind == Kind::ack);
  for (const auto& [to, body] : a.sent) {
    CHECK(to == Contact{"new", "at new"});
    CHECK(body.records.size() <= kMostRecords);
    for (const auto& r : body.records) told.insert(r.name);
  }
  CHECK(told.size() == 151);
  CHECK(a.changes == std::vector<Alone::Change>{{"new", std::nullopt, Status::alive}});

  a.sent.clear(), a.now = 1;
  a.gets(Kind::ping, "new", 6, "me", {record("new")});
  CHECK(a.sent.size() == 1);  // known by now
  a.gets(Kind::news, "new", 1, "me");
  CHECK(a.sent.size() == 4);  // asks for all
}

TEST_CASE("a contact is pinged until it is heard") {
  Alone a;
  a.me->contact({"", "at p3"}, 0);
  a.me->contact({"p4", "at p4"}, 0);
  a.me->contact({"", "at me"}, 0);
  a.me->contact({"", "at nobody"}, 0);
  a.until(10);
  const auto pings = a.take(Kind::ping);
  std::map<std::string, std::vector<SwimBody>> to;
  for (const auto& [contact, body] : pings) to[contact.address].push_back(body);
  for (const auto& [address, bodies] : to) {
    CHECK(bodies.size() >= 5);
    CHECK(bodies.size() <= 12);
  }
  CHECK(to["at p3"][0].about.empty());
  CHECK(to["at p4"][0].about == "p4");
  CHECK(to["at p4"][0].records == std::vector{a.of("me")});

  a.gets(Kind::ack, "p3", to["at p3"][0].number, "me", {record("p3")});  // the first one's, late
  a.gets(Kind::ping, "p4", 1, "me", {record("p4")});
  a.me->on_body(to["at me"][0], a.now);  // itself
  a.me->forget("at nobody");
  a.sent.clear();
  for (double t = 10; t < 15; t += 0.1) {
    a.me->heard("p3", 1, t), a.me->heard("p4", 1, t);
    a.until(t);
  }
  CHECK(a.take(Kind::ping).empty());
}

TEST_CASE("who does not answer is asked by others, then suspected, then dead") {
  Alone a(5);
  const std::uint64_t number = a.pinged(2, 5);
  REQUIRE(number != 0);
  const double asked = a.now;
  a.until(asked + 0.19);
  CHECK(a.take(Kind::ping_request).empty());
  a.until(asked + 0.21);
  const auto requests = a.take(Kind::ping_request);
  REQUIRE(requests.size() == 3);
  for (const auto& [to, body] : requests) {
    CHECK(to.name != "p2");
    CHECK(body.about == "p2");
    CHECK(body.number == number);
  }
  SECTION("another's ping comes through") {
    a.gets(Kind::ack, requests[0].first.name, number);
    a.until(asked + 0.45);
    CHECK(a.status(2) == Status::alive);
  }
  SECTION("it answers late") {
    a.gets(Kind::ack, "p2", number);
    a.until(asked + 0.45);
    CHECK(a.status(2) == Status::alive);
  }
  SECTION("some other frame of it comes") {
    a.me->heard("p2", 1, a.now);
    a.until(asked + 0.45);
    CHECK(a.status(2) == Status::alive);
  }
  SECTION("nothing comes") {
    const std::size_t nacks = GENERATE(0U, 1U, 3U);
    for (std::size_t k = 0; k < nacks; ++k) a.gets(Kind::nack, requests[k].first.name, number, "p2");
    a.sent.clear();
    a.until(asked + 0.41);
    CHECK(a.status(2) == Status::suspect);
    CHECK(a.me->local_health() >= static_cast<int>(3 - nacks));
    CHECK(a.changes == std::vector<Alone::Change>{{"p2", Status::alive, Status::suspect}});
    const auto pings = a.take(Kind::ping);
    REQUIRE_FALSE(pings.empty());  // which tells it
    CHECK(pings[0].first.name == "p2");
    CHECK(pings[0].second.records.at(1).status == Status::suspect);
    SECTION("and it refutes") {
      a.gets(Kind::news, "p2", 0, "me", {record("p2", 1, Status::alive, 1)});
      CHECK(a.status(2) == Status::alive);
    }
    SECTION("and nobody confirms it") {
      for (; a.now < asked + 3.3; a.until(a.now + 0.05))
        for (const std::size_t k : {0U, 1U, 3U, 4U}) a.me->heard(Alone::name_of(k), 1, a.now);
      CHECK(a.status(2) == Status::suspect);
      a.until(asked + 3.5);
      CHECK(a.status(2) == Status::dead);
    }
    SECTION("and others confirm it") {
      for (const char* who : {"p0", "p1", "p3"}) {
        MemberRecord r = record("p2", 1, Status::suspect);
        r.doubted_by = {hash_text(who)};
        a.hears({r, r}, who);
      }
      a.until(asked + 0.85);
      CHECK(a.status(2) == Status::suspect);
      a.until(asked + 0.95);
      CHECK(a.status(2) == Status::dead);
    }
  }
}

TEST_CASE("a member asks for another, and says half-way that nothing came") {
  Alone a(3);
  a.gets(Kind::ping_request, "p0", 99, "p1");
  const auto pings = a.take(Kind::ping);
  REQUIRE(pings.size() == 1);
  CHECK(pings[0].first.name == "p1");
  a.until(0.099);
  CHECK(a.take(Kind::nack).empty());
  a.until(0.101);
  const auto nacks = a.take(Kind::nack);
  REQUIRE(nacks.size() == 1);
  CHECK(nacks[0].second.number == 99);
  a.gets(Kind::ack, "p1", pings[0].second.number);
  const auto acks = a.take(Kind::ack);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].first.name == "p0");
  CHECK(acks[0].second.number == 99);
  CHECK(acks[0].second.about == "p0");
  a.gets(Kind::ping_request, "p0", 100, "nobody");
  CHECK(a.take(Kind::nack).size() == 1);
}

TEST_CASE("of many that are dead a few are pinged at once and in time all") {
  Alone a;
  std::vector<MemberRecord> dead;
  for (std::size_t k = 0; k < 60; ++k) dead.push_back(record(Alone::name_of(k), 1, Status::dead));
  a.hears(std::move(dead), "host");
  std::set<std::string> pinged;
  const auto count = [&](double end) {
    for (; a.now < end; a.until(a.now + 0.1)) {
      a.me->heard("host", 1, a.now);
      for (const auto& [to, body] : a.take(Kind::ping))
        if (to.name != "host") pinged.insert(to.name);
    }
    return pinged.size();
  };
  CHECK(count(4) >= 8);
  CHECK(pinged.size() <= 20);
  CHECK(count(60) == 60);
}

TEST_CASE("room is made by those that ended first") {
  Alone a(3);
  a.hears({record("p1", 1, Status::dead)});
  a.until(1);
  a.hears({record("p2", 1, Status::left)});
  CHECK(a.me->make_room());
  CHECK_FALSE(a.me->members().contains("p1"));
  CHECK(a.me->make_room());
  CHECK_FALSE(a.me->members().contains("p2"));
  CHECK_FALSE(a.me->make_room());
  CHECK(a.me->members().contains("p0"));
}

// What one Swim makes of what its host tells it, and of time.
#include "gossamer_test/catch.h"
#include "lone_swim.h"

using namespace gossamer::node;
using Kind = SwimBody::Kind;
using Status = MemberStatus;

TEST_CASE("who was heard within the last period is not pinged") {
  Alone a(3);
  for (double t = 0; t < 2; t += 0.05) {
    for (std::size_t k = 0; k < 3; ++k) a.me->heard(Alone::name_of(k), 1, t);
    a.until(t);
  }
  CHECK(a.take(Kind::ping).empty());
}

TEST_CASE("every target is pinged in turn") {
  Alone a(7);
  std::map<std::string, double> last;
  double longest = 0;
  for (double t = 0; t < 20; t += 0.01) {
    a.until(t);
    for (const auto& [to, body] : a.take(Kind::ping)) {
      if (last.contains(to.name)) longest = std::max(longest, t - last[to.name]);
      last[to.name] = t;
      a.gets(Kind::ack, to.name, body.number);
    }
  }
  CHECK(last.size() == 7);
  CHECK(longest < 7 * 0.2 + 0.02);
}

TEST_CASE("who doubts itself goes slower") {
  Alone a(3);
  for (std::uint32_t n = 0; n < 12; ++n) a.hears({record("me", 10, Status::suspect, n)});
  CHECK(a.me->local_health() == 8);
  const std::uint64_t number = a.pinged(1, 3);
  const double asked = a.now;
  a.sent.clear();
  for (; a.now < asked + 1.7; a.until(a.now + 0.05)) a.me->heard("p0", 1, a.now), a.me->heard("p2", 1, a.now);
  CHECK(a.take(Kind::ping_request).empty());
  a.until(asked + 1.85);
  CHECK(a.take(Kind::ping_request).size() == 2);
  const int before = a.me->local_health();
  a.gets(Kind::ack, "p1", number);
  CHECK(a.me->local_health() == before - 1);
}

TEST_CASE("a broken connection is a doubt") {
  Alone a(4);
  a.me->on_broken("p1", 0);
  CHECK(a.status(1) == Status::suspect);
  CHECK(a.of("p1").doubted_by.size() == 1);
  const auto pings = a.take(Kind::ping);
  REQUIRE(pings.size() == 1);  // perhaps it is only the connection
  CHECK(pings[0].second.records.at(1).status == Status::suspect);
  a.until(0.006);
  CHECK(a.tells_of("p1", Status::suspect));
  a.me->on_broken("nobody", 0.01);
  a.me->on_broken("me", 0.01);
  SECTION("frames from before it do not count") {
    for (const char* k : {"p2", "p3"}) a.me->on_refused(k, 0.01);  // the fewer, the sooner the verdict
    a.me->heard("p1", 1, 0.2);
    for (; a.now < 3.2; a.until(a.now + 0.05)) a.me->heard("p0", 1, a.now);
    CHECK(a.status(1) == Status::dead);
  }
  SECTION("what answers the ping counts") {
    a.now = 0.01;
    a.gets(Kind::ack, "p1", pings[0].second.number, "me", {record("p1", 1, Status::alive, 1)});
    CHECK(a.status(1) == Status::alive);
    CHECK(a.of("p1").doubted_by.empty());
  }
}

TEST_CASE("a timer that comes late finds nobody dead before others are heard") {
  Alone a(4);
  a.me->on_broken("p1", 0);
  a.until(0.3);
  a.now = 20;
  a.me->on_timer(a.now);
  CHECK(a.status(1) == Status::suspect);
  CHECK(a.me->local_health() == 1);
  a.until(24);
  CHECK(a.status(1) == Status::dead);
}

TEST_CASE("whom nothing listens for any more is dead at once, if it was ever heard") {
  Alone a(3);
  a.hears({record("rumoured")});
  for (const char* name : {"p1", "rumoured", "nobody", "me"}) a.me->on_refused(name, 0);
  CHECK(a.status(1) == Status::dead);
  CHECK(a.of("p1").ended);
  CHECK(a.of("rumoured").status == Status::alive);
  CHECK(a.of("me").status == Status::alive);
  a.until(0.006);
  CHECK(a.tells_of("p1", Status::dead));
  CHECK(a.me->alive() == std::vector<std::string>{"me", "p0", "p2", "rumoured"});
}

TEST_CASE("that a process has ended is news of one that is dead, until that is refuted") {
  Alone a(3);
  a.hears({record("p1", 1, Status::dead)});
  CHECK_FALSE(a.of("p1").ended);
  a.me->on_refused("p1", 0);  // a network that has fallen apart may refuse, too
  CHECK_FALSE(a.of("p1").ended);
  MemberRecord ended = record("p1", 1, Status::dead);
  ended.ended = true;
  a.hears({ended});
  CHECK(a.of("p1").ended);
  a.hears({record("p1", 1, Status::dead)});
  CHECK(a.of("p1").ended);
  a.hears({record("p1", 1, Status::alive, 1)});
  CHECK(a.status(1) == Status::alive);
  CHECK_FALSE(a.of("p1").ended);
}

TEST_CASE("the dead are kept, and pinged more and more rarely") {
  Alone a(2);
  a.me->on_refused("p1", 0);
  a.hears({record("p1")});  // late news of it
  CHECK(a.status(1) == Status::dead);
  a.hears({record("p1", 1, Status::suspect)});
  CHECK(a.status(1) == Status::dead);

  std::vector<double> pinged;
  const auto watch = [&](double end) {
    for (; a.now < end; a.until(a.now + 0.1)) {
      a.me->heard("p0", 1, a.now);
      for (const auto& [to, body] : a.take(Kind::ping)) {
        CHECK(to.name == "p1");
        CHECK(body.records.at(1).status == Status::dead);
        pinged.push_back(a.now);
      }
    }
  };
  watch(300);
  REQUIRE(pinged.size() > 8);
  CHECK(pinged.size() < 16);
  CHECK(pinged[0] < 4);
  CHECK(pinged.back() - pinged[pinged.size() - 2] > 20);
  const int health = a.me->local_health();
  CHECK(health == 0);

  a.sent.clear();
  a.me->heard("p1", 1, a.now);  // it lives, and must hear that it is held dead
  CHECK(a.take(Kind::ping).size() == 1);
  watch(1000);
  a.gets(Kind::ping, "new", 5, "", {record("new")});
  CHECK(a.tells_of("p1", Status::dead));
  a.hears({record("new", 1, Status::left)});
  watch(1900);
  a.sent.clear();
  a.gets(Kind::ping, "newer", 5, "", {record("newer")});
  CHECK_FALSE(a.tells_of("p1", Status::dead));  // or it would never be forgotten everywhere
  a.hears({record("newer", 1, Status::left)});
  watch(3700);
  CHECK_FALSE(a.me->members().contains("p1"));
}

TEST_CASE("the dead come back by refuting it, those who left by a later start") {
  Alone a(3);
  a.me->on_refused("p1", 0);
  a.hears({record("p2", 1, Status::left)});
  a.hears({record("p1", 1, Status::alive, 1), record("p2", 1, Status::alive, 9)});
  CHECK(a.status(1) == Status::alive);
  CHECK(a.status(2) == Status::left);
  a.hears({record("p2", 2)});
  CHECK(a.status(2) == Status::alive);
  CHECK(a.of("p2").start == 2);
  a.hears({record("p2", 1, Status::left)});
  CHECK(a.status(2) == Status::alive);
  CHECK(a.changes == std::vector<Alone::Change>{{"p1", Status::alive, Status::dead},
                                                {"p2", Status::alive, Status::left},
                                                {"p1", Status::dead, Status::alive},
                                                {"p2", Status::left, Status::alive}});
}

TEST_CASE("what a member says of itself goes to all at once") {
  Alone a(4);
  a.me->say({std::byte{7}}, 0);
  CHECK(a.of("me").word_version == 1);
  a.until(0.006);
  const auto news = a.take(Kind::news);
  CHECK(news.size() == 4);
  for (const auto& [to, body] : news) CHECK(body.records == std::vector{a.of("me")});
  CHECK_THROWS_AS(a.me->say(std::vector<std::byte>(513), 0), std::invalid_argument);

  MemberRecord r = record("p1");
  r.word = {std::byte{1}}, r.word_version = 5;
  a.hears({r}, "p2");
  r.word = {std::byte{2}}, r.word_version = 4;
  a.hears({r}, "p2");
  CHECK(a.of("p1").word == std::vector{std::byte{1}});
  CHECK(a.changes == std::vector<Alone::Change>{{"p1", Status::alive, Status::alive}});
  a.until(0.02);
  CHECK(a.take(Kind::news).size() == 2);  // neither who told it nor whom it is of

  MemberRecord forged = record("me", 10);
  forged.word_version = 9;
  a.hears({forged});
  CHECK(a.of("me").word_version == 10);
  CHECK(a.of("me").word == std::vector{std::byte{7}});
}

TEST_CASE("who leaves says so, and no more") {
  Alone a(4);
  a.me->leave(0);
  const auto news = a.take(Kind::news);
  CHECK(news.size() == 4);
  for (const auto& [to, body] : news) CHECK(body.records.at(0).status == Status::left);
  a.until(100);
  CHECK(a.sent.empty());
  a.gets(Kind::ping, "p0", 4);
  CHECK(a.take(Kind::ack).size() == 1);
  CHECK(a.me->next_deadline() > 1e9);
}

TEST_CASE("links are targets, beside a few others") {
  Alone a(40);
  const std::vector<std::string> before = a.me->targets();
  CHECK(before.size() == 8);
  std::vector<std::string> links = before;
  links.resize(2);
  for (std::size_t k = 0; links.size() < 5; ++k)
    if (std::find(before.begin(), before.end(), Alone::name_of(k)) == before.end())
      links.push_back(Alone::name_of(k));
  links.push_back("me"), links.push_back("nobody");
  a.me->links(links);
  CHECK(a.me->targets().size() == 11);
  a.me->on_refused(links[4], 0);
  const auto& after = a.me->targets();
  CHECK(after.size() >= 8);
  for (std::size_t k = 0; k < 5; ++k) CHECK(std::count(after.begin(), after.end(), links[k]) == (k < 4));
  Alone few(8);
  CHECK(few.me->targets().size() == 8);
}

TEST_CASE("everything is exchanged with somebody every ten seconds or so") {
  Alone a(100);
  std::size_t asked = 0;
  for (double t = 0; t < 100; t += 0.05) {
    for (std::size_t k = 0; k < 100; ++k) a.me->heard(Alone::name_of(k), 1, t);
    a.until(t);
    for (const auto& [to, body] : a.take(Kind::news)) asked += body.number != 0;
  }
  CHECK(asked >= 8);
  CHECK(asked <= 14);
}

TEST_CASE("a stranger's record is asked for") {
  Alone a(2);
  a.me->on_body({Kind::news, 0, "stranger", 1, "me", {record("p7")}}, 0);
  a.until(0.01);
  const auto pings = a.take(Kind::ping);
  REQUIRE(pings.size() == 1);
  CHECK(pings[0].first == Contact{"stranger", ""});
}

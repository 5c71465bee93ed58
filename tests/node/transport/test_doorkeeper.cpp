// Connections that take more than they are owed: cut, and no others.

#include <chrono>
#include <thread>

#include "doorkeeper.h"
#include "gossamer_test/catch.h"
#include "tcp_pair.h"

using namespace gossamer::node;

namespace {

constexpr std::uint64_t kFirst = 100'000, kLater = 400'000;
constexpr DoorSpec kSpec{.most_silent = 3, .silent_s = 30, .first_bytes = kFirst, .later_bytes = kLater};

}  // namespace

TEST_CASE("who sends more than a first message may take is cut, and who was read may send more") {
  Doorkeeper door(kSpec);
  const TcpPair stranger, member;
  door.accepted(stranger.near, 0), door.accepted(member.near, 0);
  member.carry(1000);
  door.heard(member.near);
  stranger.carry(kFirst / 2), member.carry(2 * kFirst);
  door.look(1);
  CHECK_FALSE(stranger.is_cut());
  CHECK_FALSE(member.is_cut());
  stranger.carry(kFirst), member.carry(kFirst);
  door.look(2);
  CHECK(stranger.is_cut());
  CHECK_FALSE(member.is_cut());
  for (int k = 0; k < 10; ++k) {  // any amount, as long as messages come of it
    member.carry(kLater / 2);
    door.heard(member.near);
    door.look(3 + k);
  }
  CHECK_FALSE(member.is_cut());
  member.carry(kLater + 1);  // parts without end
  door.look(20);
  CHECK(member.is_cut());
  CHECK(door.cut() == 2);
  CHECK(door.take_news().size() == 2);
}

TEST_CASE("of many that say nothing the oldest are cut, and each after a while") {
  Doorkeeper door(kSpec);
  const std::array<TcpPair, 5> pairs;
  for (int p = 0; p < 5; ++p) door.accepted(pairs[p].near, p);
  door.look(6);
  for (int p = 0; p < 5; ++p) CHECK(pairs[p].is_cut() == (p < 2));
  door.heard(pairs[4].near);
  door.look(40);
  CHECK(pairs[3].is_cut());
  CHECK_FALSE(pairs[4].is_cut());
  CHECK(door.cut() == 4);
  CHECK(door.take_news().size() == 2);  // one in ten seconds
}

TEST_CASE("a connection that was closed, and one that has its number now, are let alone") {
  Doorkeeper door(kSpec);
  {
    const TcpPair gone;
    door.accepted(gone.near, 0);
    door.closed(gone.near);
    gone.carry(2 * kFirst);
    door.look(1);
    CHECK_FALSE(gone.is_cut());
  }
  auto first = std::make_unique<TcpPair>();
  const int number = first->near;
  door.accepted(number, 2);
  first.reset();
  const TcpPair second;
  if (second.near != number) return;  // the system gave it another one
  second.carry(2 * kFirst);
  door.look(3);
  CHECK_FALSE(second.is_cut());
}

TEST_CASE("over a connection that this peer made little comes, and it may be silent") {
  Doorkeeper door(kSpec);
  const TcpPair quiet, flood;
  door.dialled(quiet.near, 0), door.dialled(flood.near, 0);
  for (int t = 1; t <= 400; ++t) {  // signs of life, more than a message in all
    quiet.carry(1000);
    if (!flood.is_cut()) flood.carry(kFirst / 10);
    door.look(t);
  }
  CHECK_FALSE(quiet.is_cut());
  CHECK(flood.is_cut());
}

TEST_CASE("a connection over which something damaged came is cut") {
  Doorkeeper door(kSpec);
  const TcpPair plain;
  door.accepted(plain.near, 0);
  door.heard(plain.near);
  door.damaged(plain.near, 1);
  CHECK(plain.is_cut());
  const auto news = door.take_news();
  REQUIRE(news.size() == 1);
  CHECK(news[0].ends_with("was cut: what came over it was damaged, or no message of a peer"));
}

TEST_CASE("of one speaker only so many connections stay and those that are in use do") {
  Doorkeeper door({.most_of_one = 2, .first_bytes = kFirst, .later_bytes = kLater});
  const std::array<TcpPair, 5> pairs;
  const std::string mallory = "mallory", other = "other";
  for (int p = 0; p < 4; ++p) {
    door.accepted(pairs[p].near, p);
    door.heard(pairs[p].near, &mallory, p);
    door.heard(pairs[0].near, &mallory, p + 0.5);
  }
  door.accepted(pairs[4].near, 4);
  door.heard(pairs[4].near, &other, 4);
  for (int p = 0; p < 5; ++p) CHECK(pairs[p].is_cut() == (p == 1 || p == 2));
  const auto news = door.take_news();
  REQUIRE(news.size() == 1);
  CHECK(news.front().find("mallory has too many that are open") != std::string::npos);
}

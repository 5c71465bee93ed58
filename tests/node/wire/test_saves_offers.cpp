// What peers tell each other of checkpoints: it merges whatever the order, and reads back from its bytes
// alone.
#include <algorithm>
#include <random>

#include "gossamer_test/catch.h"
#include "offers.h"
#include "saves.h"

using namespace gossamer::node;

namespace {

SaveNews drawn_news(std::mt19937_64& random, std::size_t peers) {
  SaveNews news{.at = random() % 1000, .best = random() % 1000, .judged = random() % 5};
  news.best = news.judged * 7;  // what was judged once is not judged otherwise later
  for (auto* of_all : {&news.holding, &news.taken, &news.committed})
    for (std::size_t p = 0; p < peers; ++p) of_all->push_back(random() % 4 * 100);
  for (PeerId p = 0; p < peers; ++p)
    if (random() % 4 == 0) news.leaving.push_back(p);
  return news;
}

}  // namespace

TEST_CASE("news of saves merges to the same, in whatever order it comes and however often") {
  std::mt19937_64 random(7);
  for (int n = 0; n < 200; ++n) {
    const SaveNews a = drawn_news(random, 9), b = drawn_news(random, 9), c = drawn_news(random, 9);
    SaveNews abc = a, cab = c;
    abc.merge(b, 9), abc.merge(c, 9), cab.merge(a, 9), cab.merge(b, 9), cab.merge(a, 9);
    CHECK(abc == cab);
    CHECK_FALSE(abc.merge(b, 9));
    const auto bytes = a.to_bytes();
    CHECK(bytes.size() <= a.most_bytes());
    REQUIRE(SaveNews::from_bytes(bytes));
    CHECK(*SaveNews::from_bytes(bytes) == a);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut)
      if (const auto part = SaveNews::from_bytes(std::span(bytes).first(cut)))
        CHECK(part->committed.size() < 9);
  }
  SaveNews few = drawn_news(random, 3);
  CHECK_FALSE(few.merge(drawn_news(random, 4), 0));
  CHECK_FALSE(SaveNews{});
  CHECK(SaveNews{}.common() == 0);
  const std::vector<std::byte> huge(20, std::byte{255});
  CHECK_FALSE(SaveNews::from_bytes(huge));
}

TEST_CASE("peers alike take a few bytes, however many they are") {
  SaveNews news{.at = 4000,
                .holding = std::vector<Round>(1000, 3000),
                .taken = std::vector<Round>(1000, 3000),
                .committed = std::vector<Round>(1000, 3000)};
  CHECK(news.to_bytes().size() < 16);
  CHECK(news.common() == 3000);
  news.look_whole();
  CHECK(news.whole == 3000);
  news.committed[17] = 0;
  CHECK(news.common() == 0);
}

TEST_CASE("of itself a peer believes nobody, and what all have was seen to be the same") {
  SaveNews news{.holding = {1, 1}, .taken = {1, 1}, .committed = {1, 1}};
  SaveNews theirs{.holding = {9, 9}, .taken = {9, 9}, .committed = {9, 9}};
  CHECK(theirs.greatest() == 9);
  CHECK(news.merge(theirs, 0));
  CHECK(news.holding == std::vector<Round>{1, 9});
  CHECK(news.common() == 1);
  CHECK(news.whole == 0);
  news.committed[0] = 9;
  news.look_whole();
  CHECK(news.whole == 9);
}

TEST_CASE("a checkpoint is taken when all hold for it, or one has taken it") {
  SaveNews news{.at = 8, .holding = {8, 8, 0}, .taken = {0, 0, 0}, .committed = {0, 0, 0}};
  CHECK_FALSE(news.all_hold(8));
  news.holding[2] = 8;
  CHECK(news.all_hold(8));
  news.holding[1] = 12;  // it has gone on and holds again
  CHECK_FALSE(news.all_hold(8));
  news.taken[1] = 8;
  CHECK(news.all_hold(8));
}

TEST_CASE("offers spread until all are known, and the newest common round is the same for all") {
  const std::vector<std::vector<Round>> had{{10, 20, 30}, {20, 30}, {10, 20}, {5, 20, 40}};
  std::vector<Offers> peers;
  for (PeerId p = 0; p < 4; ++p) peers.emplace_back(4, p, 77 + p, had[p]);
  CHECK_FALSE(peers[0].newest_common());
  for (std::size_t p = 1; p < 4; ++p) CHECK(peers[p].merge(peers[p - 1]));
  CHECK_FALSE(peers[2].complete());
  for (std::size_t p = 3; p > 0; --p) CHECK(peers[p - 1].merge(peers[p]));
  for (const Offers& o : peers) {
    CHECK(o.complete());
    CHECK(o == peers[0]);
    CHECK(o.run() == 77);
    CHECK(o.newest_common() == 20u);
    REQUIRE(Offers::from_bytes(o.to_bytes()));
    CHECK(*Offers::from_bytes(o.to_bytes()) == o);
  }
  CHECK_FALSE(peers[1].merge(peers[2]));
  CHECK_FALSE(peers[1].merge(Offers(5, 2, 1, {})));
  // a later start of the same peer counts
  CHECK(peers[1].merge(Offers(4, 0, 200, {10})));
  CHECK(peers[1].run() == 200);
  CHECK_FALSE(peers[1].newest_common());
  CHECK_FALSE(peers[1].merge(peers[2]));
  CHECK(Offers().complete());
  CHECK_FALSE(Offers().asked());
  const auto bytes = Offers(4, 1, 9, {1, 2, 3}).to_bytes();
  REQUIRE(Offers::from_bytes(bytes));
  CHECK_FALSE(Offers::from_bytes(bytes)->complete());
  CHECK_FALSE(Offers::from_bytes(std::span(bytes).first(5)));
  const std::vector<std::byte> many{std::byte{1}, std::byte{255}, std::byte{127}};
  CHECK_FALSE(Offers::from_bytes(many));
}

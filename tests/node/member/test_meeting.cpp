// What sides of a parted network hold of each other's samples, and how their models are weighed.
#include "gossamer_test/catch.h"
#include "meeting.h"
#include "swim_body.h"
#include "view.h"

using namespace gossamer::node;

namespace {

constexpr std::uint64_t kUnderWay = 8;

/// By seat the view in which it trained last; 0: it says nothing of its model.
Meeting meet(const std::vector<std::uint64_t>& last, const std::vector<Trained>& trained) {
  std::vector<Past> all;
  for (std::size_t k = 0; k < last.size(); ++k) all.push_back({last[k], last[k] ? trained[k] : Trained{}});
  return meeting_of(all, kUnderWay);
}

}  // namespace

TEST_CASE("members that differ by what is under way are one side") {
  const Meeting m = meet({1, 2, 3}, {{100, 100, 103}, {101, 99, 100}, {108, 100, 100}});
  CHECK(m.side == std::vector<std::size_t>{0, 0, 0});
  CHECK(m.weight == std::vector<double>{1});
  CHECK(m.all == Trained{108, 100, 103});
}

TEST_CASE("who trained in one view last is of one side, however little some have heard of the others") {
  // the last two have trained together; the third differs from them by less than they from each other
  const Meeting m = meet({1, 2, 2}, {{6, 11, 7}, {0, 19, 15}, {6, 20, 16}});
  CHECK(m.side == std::vector<std::size_t>{0, 1, 1});
  CHECK(m.weight == std::vector<double>{0, 1});
  CHECK(m.all == Trained{6, 20, 16});
}

TEST_CASE("sides are weighed by what each has trained since they parted") {
  // two and two, of which the first have taken 300 rounds each, the others 100
  const Trained a{500, 500, 200, 200}, b{200, 200, 300, 300};
  const Meeting m = meet({1, 1, 2, 2}, {a, a, b, b});
  CHECK(m.side == std::vector<std::size_t>{0, 0, 1, 1});
  REQUIRE(m.weight.size() == 2);
  CHECK(m.weight[0] == Approx(0.75));
  CHECK(m.weight[1] == Approx(0.25));
  CHECK(m.partner(0, 1) == 2);
  CHECK(m.partner(1, 1) == 3);
  CHECK(m.all == Trained{500, 500, 300, 300});
}

TEST_CASE("who has trained nothing meanwhile weighs nothing") {
  const Trained stood{200, 200, 200}, went{600, 600, 200};
  CHECK(meet({2, 2, 1}, {went, went, stood}).weight == std::vector<double>{1, 0});
  CHECK(meet({1, 2, 2}, {stood, went, went}).weight == std::vector<double>{0, 1});
}

TEST_CASE("what has come together already counts once") {
  // one member of the view has entered it, and the others have not: it holds what both sides have trained
  const Trained a{500, 500, 200, 200}, b{200, 200, 300, 300}, both{500, 500, 300, 300};
  const Meeting m = meet({3, 1, 2, 2}, {both, a, b, b});
  CHECK(m.side == std::vector<std::size_t>{0, 1, 2, 2});
  CHECK(m.weight == std::vector<double>{1, 0, 0});
  CHECK(meet({1, 3, 2, 2}, {a, both, b, b}).weight == std::vector<double>{0, 1, 0});
}

TEST_CASE("several sides weigh as much in whatever order they are folded") {
  const Trained a{400, 100, 100}, b{100, 300, 100}, c{100, 100, 200};
  const Meeting m = meet({1, 2, 3}, {a, b, c}),
                other = meet({3, 2, 1}, {{200, 100, 100}, {100, 300, 100}, {100, 100, 400}});
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(m.weight[k] == Approx(std::vector<double>{0.5, 1.0 / 3, 1.0 / 6}[k]));
    CHECK(other.weight[k] == Approx(m.weight[2 - k]));
  }
}

TEST_CASE("more members of one side than of the other share these") {
  const Trained a{300, 300, 300, 100}, b{100, 100, 100, 300};
  const Meeting m = meet({1, 1, 1, 2}, {a, a, a, b});
  for (std::size_t seat = 0; seat < 3; ++seat) CHECK(m.partner(seat, 1) == 3);
  CHECK(m.partner(3, 0) == 0);
  CHECK(m.weight[0] == Approx(0.75));
}

TEST_CASE("whose model's past is not known takes no part") {
  const Meeting m = meet({1, 2, 0}, {{500, 200, 0}, {200, 300, 0}, {}});
  CHECK(m.side == std::vector<std::size_t>{0, 1, Meeting::kNone});
  CHECK(m.weight.size() == 2);
  CHECK(meet({0, 0}, {{}, {}}).weight.empty());
}

TEST_CASE("a member says for whom it waits, and what its model holds") {
  Standing s{.begun = true,
             .whole = true,
             .view = ~std::uint64_t{0},
             .attempt = 3,
             .share = 0.25,
             .hash = 7,
             .bytes = 9,
             .holds = true,
             .last = ~std::uint64_t{0} - 5,
             .trained = {5, 5, 5, 1u << 20, 0, 0},
             .others = {{7, 0}, {~std::uint32_t{0}, 1u << 20}}};
  CHECK(standing_from(s.to_bytes()) == s);
  s.others.clear(), s.holds = false;
  CHECK(standing_from(s.to_bytes()) == s);
  s.trained.clear();
  CHECK(standing_from(s.to_bytes()) == s);
  s.deaf_to = {0, 7, ~std::uint32_t{0}};
  CHECK(standing_from(s.to_bytes()) == s);
  s.deaf_to = {7, 7};
  CHECK(standing_from(s.to_bytes()) == Standing{});
  s.deaf_to.clear();
  s.trained.assign(60000, 123456);  // all alike
  CHECK(standing_from(s.to_bytes()) == s);
  s.others = {{1, 2}};
  for (std::size_t k = 0; k < s.trained.size(); ++k) s.trained[k] = k;  // more than there is room for
  const auto bytes = s.to_bytes();
  CHECK(bytes.size() <= kMostWordBytes);
  s.trained.clear(), s.others.clear();
  CHECK(standing_from(bytes) == s);
  for (std::size_t n = 0; n < bytes.size(); ++n)
    CHECK(standing_from(std::span(bytes).first(n)) == Standing{});
  const auto and_then = [&](const std::vector<int>& more) {
    auto longer = std::span(bytes).first(bytes.size() - 1);  // without the 0 that ends the runs
    std::vector<std::byte> all(longer.begin(), longer.end());
    for (const int b : more) all.push_back(static_cast<std::byte>(b));
    return standing_from(all);
  };
  CHECK(and_then({2, 1, 0}).trained == Trained{1, 1});
  CHECK(and_then({0xff, 0xff, 0x7f, 1, 0}) == Standing{});  // of too many seats
  CHECK(and_then({0, 9, 3}).others.at(9) == 3);
  CHECK(and_then({0, 9, 3, 9, 3}) == Standing{});  // of one peer twice
}

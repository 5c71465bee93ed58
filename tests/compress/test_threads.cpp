#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "gossamer/compress/threads.h"
#include "gossamer_test/catch.h"

using gossamer::compress::for_each_piece;
using gossamer::compress::Threads;

TEST_CASE("every piece is worked on once, by a thread of the team") {
  for (const std::size_t count : {1, 2, 5}) {
    Threads threads(count);
    REQUIRE(threads.count() == count);
    for (const std::size_t pieces : {0, 1, 2, 3, 64, 1000}) {
      std::vector<std::atomic<int>> seen(pieces);
      std::atomic<bool> strange{false};
      for (int call = 0; call < 20; ++call) {
        threads.for_each(pieces, [&](std::size_t piece, std::size_t thread) {
          ++seen[piece];
          if (thread >= count) strange = true;
        });
      }
      REQUIRE_FALSE(strange);
      for (const auto& times : seen) REQUIRE(times == 20);
    }
  }
}

TEST_CASE("of pieces that throw the lowest is reported, and the team goes on") {
  Threads threads(3);
  for (int call = 0; call < 200; ++call) {
    std::string what;
    try {
      threads.for_each(100, [](std::size_t piece, std::size_t) {
        if (piece >= 7) throw std::runtime_error(std::to_string(piece));
      });
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    REQUIRE(what == "7");
  }
  std::atomic<int> worked{0};
  threads.for_each(10, [&](std::size_t, std::size_t) { ++worked; });
  REQUIRE(worked == 10);
}

TEST_CASE("pieces in front of one that throws are all worked on") {
  Threads threads(4);
  for (int call = 0; call < 200; ++call) {
    std::vector<std::atomic<int>> seen(64);
    REQUIRE_THROWS_AS(threads.for_each(64,
                                       [&](std::size_t piece, std::size_t) {
                                         ++seen[piece];
                                         if (piece % 16 == 9) throw std::runtime_error("no");
                                       }),
                      std::runtime_error);
    for (std::size_t piece = 0; piece <= 9; ++piece) REQUIRE(seen[piece] == 1);
  }
}

TEST_CASE("without a team pieces run here, in order") {
  std::vector<std::size_t> order;
  for_each_piece(nullptr, 4, [&](std::size_t piece, std::size_t thread) {
    REQUIRE(thread == 0);
    order.push_back(piece);
  });
  REQUIRE(order == std::vector<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("a team of none is refused") { REQUIRE_THROWS_AS(Threads(0), std::invalid_argument); }

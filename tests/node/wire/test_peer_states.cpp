// Runs of peers of equal status against the plain list that they stand for.
#include <random>

#include "gossamer_test/catch.h"
#include "peer_states.h"

using namespace gossamer::node;

namespace {

constexpr PeerStatus kUnknown = PeerStatus::unknown, kPresent = PeerStatus::present, kDone = PeerStatus::done;

std::vector<PeerStatus> plain(const PeerStates& s) {
  std::vector<PeerStatus> list;
  for (PeerId p = 0; p < s.size(); ++p) list.push_back(s[p]);
  return list;
}

bool same(const PeerStates& s, const std::vector<PeerStatus>& list) { return plain(s) == list; }

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

}  // namespace

TEST_CASE("statuses behave as a plain list of them") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const auto peers = static_cast<PeerId>(1 + random() % 300),
               other = static_cast<PeerId>(1 + random() % 300);
    PeerStates mine(peers, kUnknown), theirs(other, kUnknown);
    std::vector<PeerStatus> my_list(peers, kUnknown), their_list(other, kUnknown);
    for (int change = 0; change < 40; ++change) {
      const auto status = static_cast<PeerStatus>(random() % 8);
      const auto p = static_cast<PeerId>(random() % peers);
      CHECK(mine.raise(p, status) == (my_list[p] < status));
      my_list[p] = std::max(my_list[p], status);
      const auto q = static_cast<PeerId>(random() % other);
      theirs.raise(q, status);
      their_list[q] = std::max(their_list[q], status);
    }
    REQUIRE(same(mine, my_list));
    REQUIRE(PeerStates::from_bytes(theirs.to_bytes()) == theirs);
    CHECK(theirs.to_bytes().size() <= theirs.most_bytes());
    const auto self = static_cast<PeerId>(random() % peers);
    bool news = false;
    for (std::size_t p = 0; p < std::min(my_list.size(), their_list.size()); ++p)
      if (p != self && their_list[p] > my_list[p]) {
        my_list[p] = their_list[p];
        news = true;
      }
    CHECK(mine.merge(theirs, self) == news);
    CHECK(same(mine, my_list));
    CHECK_FALSE(mine.merge(theirs, self));
    for (int s = 0; s < 8; ++s) {
      const auto status = static_cast<PeerStatus>(s);
      CHECK(mine.with(status).size() ==
            static_cast<std::size_t>(std::count(my_list.begin(), my_list.end(), status)));
      CHECK(mine.any(status) == !mine.with(status).empty());
      CHECK(mine.all_at_least(status) ==
            std::all_of(my_list.begin(), my_list.end(), [&](PeerStatus each) { return each >= status; }));
    }
  }
}

TEST_CASE("what many peers do together takes few bytes") {
  PeerStates s(4096, kPresent);
  CHECK(s.to_bytes().size() == 3);
  s.raise(2000, kDone);
  CHECK(s.to_bytes().size() <= 8);
  for (PeerId p = 0; p < 4096; ++p) s.raise(p, kDone);
  CHECK(s == PeerStates(4096, kDone));
}

TEST_CASE("bytes that are no statuses are refused") {
  CHECK(PeerStates::from_bytes({})->size() == 0);
  CHECK(PeerStates::from_bytes(bytes_of({2, 3})) == PeerStates(3, kPresent));
  CHECK(PeerStates::from_bytes(bytes_of({200, 2})) == PeerStates(2, kUnknown));
  CHECK_FALSE(PeerStates::from_bytes(bytes_of({2})));
  CHECK_FALSE(PeerStates::from_bytes(bytes_of({2, 0})));
  CHECK_FALSE(PeerStates::from_bytes(bytes_of({2, 0x80})));
  CHECK_FALSE(PeerStates::from_bytes(bytes_of({2, 0xff, 0xff, 0xff, 0xff, 0xff, 1})));
  CHECK_FALSE(PeerStates::from_bytes(bytes_of({2, 0xff, 0xff, 0xff, 0xff, 0x7f})));
  CHECK_FALSE(PeerStates::from_bytes(bytes_of({2, 0xff, 0xff, 0xff, 0xff, 0x0f, 3, 1})));
}

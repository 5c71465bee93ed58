// The checkers of a run, told of runs that break one rule each.
#include "checkers.h"

#include "gossamer_test/catch.h"
#include "link.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

Message message(Round round, ParcelId parcel, int content, std::uint64_t sequence = 0) {
  return {round,
          parcel,
          0,
          4,
          std::make_shared<const std::vector<std::byte>>(4, static_cast<std::byte>(content)),
          sequence};
}

/// Checkers of four peers on a ring, and which of them speaks up.
struct Told {
  explicit Told(const Settings& settings = {}) : prepared(prepare(small_job(settings))), checkers(prepared) {
    for (PeerId p = 0; p < 4; ++p) checkers.on_round(p, 0);
  }
  std::string found() const { return checkers.first() ? checkers.first()->checker : ""; }
  Prepared prepared;
  Checkers checkers;
};

}  // namespace

TEST_CASE("a message that comes twice, too early, changed or unsent breaks the rule of links") {
  for (const int wrong : {0, 1, 2, 3, 4}) {
    Told t;
    Checkers& c = t.checkers;
    c.on_send(0, 1, message(0, 0, 7));
    c.on_send(0, 1, message(0, 1, 8));
    c.on_message(1, 0, message(0, 0, 7, 1));
    REQUIRE(t.found().empty());
    if (wrong == 0) c.on_message(1, 0, message(0, 1, 8, 2));
    if (wrong == 1) c.on_message(1, 0, message(0, 0, 7, 2));
    if (wrong == 2) c.on_message(1, 0, message(0, 1, 9, 2));
    if (wrong == 3) c.on_message(0, 1, message(0, 0, 7, 1));
    if (wrong == 4) c.on_message(1, 2, message(0, 0, 7, 1));
    INFO(wrong);
    CHECK(t.found() == (wrong == 0 ? "" : "links"));
  }
}

TEST_CASE("a message is used once, and in its round where rounds are synchronous") {
  for (const int wrong : {0, 1, 2}) {
    Told t;
    Checkers& c = t.checkers;
    const Message m = message(wrong == 2 ? 1 : 0, 0, 7, 1);
    c.on_send(0, 1, m);
    c.on_message(1, 0, m);
    c.on_used(1, 0, m);
    if (wrong == 1) c.on_used(1, 0, m);
    INFO(wrong);
    CHECK(t.found() == (wrong == 0 ? "" : "links"));
  }
}

TEST_CASE("a mix without a neighbour's message of the round breaks the rule of rounds") {
  for (const char* staleness : {"0", "1", "unbounded"}) {
    Told t({std::string("exchange.staleness=") + staleness});
    for (const PeerId from : {1U, 3U}) {
      t.checkers.on_send(from, 0, message(0, 0, 7));
      t.checkers.on_message(0, from, message(0, 0, 7, 1));
    }
    t.checkers.on_mixed(0, 0, 0);
    CHECK(t.found().empty());
    t.checkers.on_mixed(0, 1, 0);
    CHECK(t.found() == (staleness == std::string("0") ? "rounds" : ""));
    t.checkers.on_mixed(0, 2, 0);
    CHECK(t.found() == (staleness == std::string("unbounded") ? "" : "rounds"));
  }
  Told skipped;
  skipped.checkers.on_round(0, 2);
  CHECK(skipped.found() == "rounds");
}

TEST_CASE("frames that nobody sent, or that vanish, break the rule of frames") {
  const std::vector<std::byte> frame(8, std::byte{1}), other(8, std::byte{2});
  Told t;
  t.checkers.on_frame(Fate::sent, 0, 1, frame);
  t.checkers.on_frame(Fate::copied, 0, 1, frame);
  t.checkers.on_frame(Fate::arrived, 0, 1, frame);
  t.checkers.on_frame(Fate::lost, 0, 1, frame);
  CHECK(t.found().empty());
  t.checkers.on_frame(Fate::arrived, 0, 1, frame);
  CHECK(t.found() == "frames");
  Told vanished;
  vanished.checkers.on_frame(Fate::sent, 0, 1, frame);
  SimResult result;
  result.peers.resize(4);
  result.peers[0].traffic.bytes_out = 8;
  vanished.checkers.at_end(result);
  CHECK(vanished.found() == "frames");
  Told under_way;
  under_way.checkers.on_frame(Fate::sent, 0, 1, frame);
  result.frames_under_way = 1;
  under_way.checkers.at_end(result);
  CHECK(under_way.found().empty());
}

TEST_CASE("an error that is neither sent nor kept breaks the rule of residuals") {
  const std::vector<float> g{1.0f, -2.0f, 3.0f, -4.0f};
  for (const bool wrong : {false, true}) {
    Told t;
    const auto codec = compress::make_codec("onebit");
    compress::Workspace workspace;
    compress::FeedbackState state;
    std::vector<std::byte> bytes(codec->max_bytes(g.size()));
    for (std::uint64_t round = 0; round < 3; ++round) {
      const op::Encode e{.range = {0, 4},
                         .src = kGradient,
                         .minus = {},
                         .apply_to = {},
                         .feedback = 0,
                         .round = round,
                         .parcel = 0};
      t.checkers.before_encode(0, e, g, round == 0 ? nullptr : &state);
      const std::size_t size = codec->encode_feedback(g, state, {1, 0, 0, round}, workspace, bytes);
      compress::FeedbackState kept = state;
      kept.materialise();
      if (wrong && round == 2) kept.residual[1] += 0.01f;
      t.checkers.after_encode(
          0, e, &kept, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.begin() + size));
    }
    CHECK(t.found() == (wrong ? "residual" : ""));
  }
}

TEST_CASE("what comes after the first breach is not looked at") {
  Told t;
  t.checkers.on_time(1.5);
  t.checkers.on_round(0, 7);
  t.checkers.on_time(2.5);
  t.checkers.on_message(1, 0, message(0, 0, 7, 1));
  REQUIRE(t.checkers.first());
  CHECK(t.checkers.first()->checker == "rounds");
  CHECK(t.checkers.first()->time == 1.5);
}

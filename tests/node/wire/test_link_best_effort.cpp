// A link that resends nothing: what comes whole is delivered once, and never after something newer.
#include "gossamer_test/catch.h"
#include "link.h"

using namespace gossamer::node;

namespace {

/// Both ends; the frames of one lie there until the test hands them over.
struct Wire {
  Wire()
      : from([this](Frame f, std::uint32_t) { return keep(std::move(f)); }, 0.2, Delivery::best_effort),
        to([](Frame, std::uint32_t) { return std::size_t{0}; }, 0.2, Delivery::best_effort) {}

  std::size_t keep(Frame f) {
    frames.push_back(encode_frame(f));
    return frames.back()->size();
  }
  void send(Round round, std::size_t bytes, ParcelId parcel = 0) {
    from.send(
        {round, parcel, 0, bytes, std::make_shared<const std::vector<std::byte>>(bytes, std::byte(round))},
        0);
  }
  /// Rounds of the messages that the frame completed.
  std::vector<Round> arrive(std::size_t frame) {
    const auto f = decode_frame(*frames.at(frame));
    std::vector<Round> rounds;
    to.receive(f->header, std::get<ParcelBody>(f->body));
    while (const auto m = to.next()) {
      rounds.push_back(m->round);
      CHECK(std::ranges::all_of(*m->payload, [&](std::byte b) { return b == std::byte(m->round); }));
      CHECK(m->payload->size() == m->entries);
      to.consume(m->sequence);
    }
    return rounds;
  }

  std::vector<FrameBytes> frames;
  Link from, to;
};

using Rounds = std::vector<Round>;

}  // namespace

TEST_CASE("best effort: a lost message holds up nothing and an overtaken one is left out") {
  Wire wire;
  for (Round r = 1; r <= 5; ++r) wire.send(r, 100);
  CHECK(wire.arrive(0) == Rounds{1});
  CHECK(wire.arrive(2) == Rounds{3});  // the second is lost, or late
  CHECK(wire.arrive(1) == Rounds{});
  CHECK(wire.arrive(2) == Rounds{});  // twice
  CHECK(wire.arrive(4) == Rounds{5});
  CHECK_FALSE(wire.from.resend_due(1000, false));
  CHECK_FALSE(wire.to.owes_acknowledgement());
  CHECK(wire.from.unused(0) == 0);
  CHECK(wire.to.counters().duplicates == 1);
  CHECK(wire.to.counters().reordered == 1);
}

TEST_CASE("best effort: copies of what came before do not bring a message back") {
  Wire wire;
  for (Round r = 1; r <= 3; ++r) wire.send(r, 100);
  CHECK(wire.arrive(2) == Rounds{3});
  for (int again = 0; again < 100; ++again)
    for (std::size_t frame = 0; frame < 3; ++frame) CHECK(wire.arrive(frame) == Rounds{});
}

TEST_CASE("best effort: a message from far ahead is forgotten when many come below it") {
  Wire wire;
  for (Round r = 1; r <= 60; ++r) wire.send(r, 100);
  CHECK(wire.arrive(59) == Rounds{60});
  std::size_t frame = 0;
  while (wire.arrive(frame) == Rounds{}) ++frame;
  CHECK(frame == 32);
  CHECK(wire.arrive(33) == Rounds{34});
}

TEST_CASE("best effort: chunks come in any order, and a message that lacks one is given up") {
  Wire wire;
  wire.send(1, 2 * kChunkBytes + 10);  // frames 0 1 2
  wire.send(2, 2 * kChunkBytes + 10);  // 3 4 5
  wire.send(3, kChunkBytes + 10);      // 6 7
  CHECK(wire.arrive(2) == Rounds{});
  CHECK(wire.arrive(0) == Rounds{});
  CHECK(wire.arrive(1) == Rounds{1});
  CHECK(wire.arrive(3) == Rounds{});
  CHECK(wire.arrive(5) == Rounds{});  // 4 is lost
  CHECK(wire.arrive(7) == Rounds{});
  CHECK(wire.arrive(4) == Rounds{});  // late
  CHECK(wire.arrive(6) == Rounds{3});
}

TEST_CASE("best effort: parcels do not wait for each other") {
  Wire wire;
  wire.send(1, 10, 0);
  wire.send(1, 10, 1);
  wire.send(2, 10, 0);
  CHECK(wire.arrive(2) == Rounds{2});
  CHECK(wire.arrive(1) == Rounds{1});
  CHECK(wire.arrive(0) == Rounds{});
}

TEST_CASE("best effort: chunks that say otherwise how many there are do not come together") {
  Wire wire;
  wire.send(1, 2 * kChunkBytes);
  const auto first = decode_frame(*wire.frames[0]), second = decode_frame(*wire.frames[1]);
  Frame alone = *first;  // all of a message, by its own words
  std::get<ParcelBody>(alone.body).chunks = 1;
  wire.to.receive(second->header, std::get<ParcelBody>(second->body));
  wire.to.receive(alone.header, std::get<ParcelBody>(alone.body));
  CHECK_FALSE(wire.to.next());
  CHECK(wire.to.counters().refused() == 1);
}

#include <algorithm>
#include <vector>

#include "gossamer_test/catch.h"
#include "hash.h"
#include "link.h"
#include "linked_pair.h"

using namespace gossamer::node;

using gossamer::node::test::in_order;
using gossamer::node::test::Pair;

TEST_CASE("every message arrives once and in order whatever the network does") {
  std::uint64_t resent = 0, duplicates = 0, reordered = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Pair pair({.loss = 0.05 * static_cast<double>(seed % 8), .duplicate = 0.2, .reorder = 0.3}, seed);
    constexpr std::size_t kMessages = 40;
    for (std::size_t k = 0; k < kMessages; ++k) {
      pair.send(0, k, 1 + k % 5);
      pair.send(1, k, 3);
      pair.pass(0.02);
    }
    for (int wait = 0; wait < 200 && !(pair.end(0).all_received() && pair.end(1).all_received()); ++wait)
      pair.pass(0.5);
    INFO("seed " << seed);
    CHECK(in_order(pair.got[1], kMessages));
    CHECK(in_order(pair.got[0], kMessages));
    CHECK(pair.end(0).all_received());
    CHECK(pair.end(0).unused(1) == 0);
    const LinkCounters& c = pair.end(1).counters();
    resent += c.resent, duplicates += c.duplicates, reordered += c.reordered;
    CHECK(c.refused() == 0);
  }
  CHECK(resent > 0);
  CHECK(duplicates > 0);
  CHECK(reordered > 0);
}

TEST_CASE("a large payload travels in chunks and comes back whole") {
  Pair pair({.loss = 0.1, .duplicate = 0.1, .reorder = 0.3}, 3);
  const std::size_t size = 3 * kChunkBytes + 5;
  pair.send(0, 0, size);
  pair.send(0, 1, 0);
  pair.send(0, 2, kChunkBytes);
  pair.pass(10);
  CHECK(in_order(pair.got[1], 3));
  CHECK(pair.end(0).counters().data_entries_out == size + kChunkBytes);
  CHECK(pair.end(0).unused(1) == 0);
}

TEST_CASE("on a fast link a payload goes whole, and stays where it came") {
  constexpr std::size_t kSize = kWholeBytes - 64;
  const auto frames_of = [](Pair& pair, std::size_t size) {
    const std::size_t before = pair.frames_sent(), messages = pair.got[1].size();
    pair.send(0, messages, size);
    const std::size_t frames = pair.frames_sent() - before;
    while (pair.got[1].size() == messages) pair.pass(0.01);
    pair.pass(1);
    return frames;
  };
  Pair fast({}, 0);
  CHECK(frames_of(fast, kSize) == 4);  // nothing is known of it yet
  for (int k = 0; k < 3; ++k) CHECK(frames_of(fast, kSize) == 1);
  CHECK(frames_of(fast, kWholeBytes) == 1);
  CHECK(frames_of(fast, kWholeBytes + 1) == 5);
  CHECK(in_order(fast.got[1], 6));
  Pair slow({}, 0);  // of what is small a round trip takes long
  for (int k = 0; k < 4; ++k) CHECK(frames_of(slow, kChunkBytes + 1) == 2);

  std::uint64_t resent = 0, whole = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Pair pair({.loss = 0.05 * static_cast<double>(seed % 6), .duplicate = 0.2, .reorder = 0.3}, seed);
    constexpr std::size_t kMessages = 16;
    for (std::size_t k = 0; k < kMessages; ++k) {
      const std::size_t before = pair.frames_sent();
      pair.send(0, k, k % 4 == 3 ? 2 : kSize + k);
      whole += k % 4 != 3 && pair.frames_sent() == before + 1;
      pair.pass(0.05);
    }
    for (int wait = 0; wait < 200 && !pair.end(0).all_received(); ++wait) pair.pass(0.5);
    INFO("seed " << seed);
    CHECK(in_order(pair.got[1], kMessages));
    CHECK(pair.end(0).all_received());
    CHECK(pair.end(1).bytes_held() == 0);
    CHECK(pair.end(1).counters().refused() == 0);
    resent += pair.end(0).counters().resent;
  }
  CHECK(resent > 0);
  CHECK(whole > 0);
}

TEST_CASE("a message that is passed on is known by the hashes of what is sent") {
  Pair fast({}, 0);
  for (std::uint64_t k = 0; k < 4; ++k) fast.send(0, k, kWholeBytes - k), fast.pass(1);
  Message cut = fast.got[1].front(), whole = fast.got[1].back();
  CHECK_FALSE(cut.hash);  // of four chunks
  CHECK(whole.hash == hash_bytes(*whole.payload));
  std::vector<ParcelBody> sent;
  Link slow(
      [&](const Frame& frame, std::uint32_t) {
        sent.push_back(std::get<ParcelBody>(frame.body));
        return std::size_t{0};
      },
      0.2);
  slow.send(cut, 0);
  slow.send(whole, 0);
  CHECK(sent.size() == 8);
  for (const ParcelBody& body : sent) CHECK(body.hash == hash_bytes(body.payload));
  fast.end(1).send(whole, fast.now());
  fast.pass(1);
  REQUIRE(fast.got[0].size() == 1);
  CHECK(fast.got[0][0].payload == whole.payload);
  CHECK(fast.end(0).counters().refused() == 0);
}

TEST_CASE("chunks come together whatever their order") {
  const std::uint32_t chunks = 4;
  std::vector<std::byte> payload((chunks - 1) * kChunkBytes + 17);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 31 + i / 4099);
  std::vector<std::uint32_t> order{0, 1, 2, 3};
  std::uint64_t first = 1;
  Link link([](const Frame&, std::uint32_t) { return std::size_t{0}; }, 0.2);
  do {
    std::size_t whole = 0;
    for (const std::uint32_t chunk : order) {
      FrameHeader header;
      header.sequence = first + chunk;
      const auto part = std::span<const std::byte>(payload).subspan(chunk * kChunkBytes);
      link.receive(header, {first, 0, 0, payload.size(), chunk, chunks, digest_of(payload, chunks),
                            part.first(std::min(kChunkBytes, part.size()))});
      while (const auto message = link.next()) {
        ++whole;
        CHECK(std::ranges::equal(*message->payload, payload));
        link.consume(message->sequence);
      }
    }
    CHECK(whole == 1);
    first += chunks;
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(link.counters().refused() == 0);
  CHECK(link.bytes_held() == 0);
}

TEST_CASE("a message counts as unconsumed until it has been used") {
  Pair pair({}, 1);
  pair.use_at_once = false;
  for (std::size_t k = 0; k < 4; ++k) pair.send(0, k, 8);
  CHECK(pair.end(0).unused(1) == 4);
  CHECK_FALSE(pair.end(0).all_received());
  pair.pass(0.1);
  CHECK(pair.end(0).all_received());
  CHECK(pair.end(0).unused(1) == 4);
  pair.end(1).consume(pair.got[1][1].sequence);  // out of turn: counts once the earlier one is used
  pair.pass(0.1);
  CHECK(pair.end(0).unused(1) == 4);
  pair.end(1).consume(pair.got[1][0].sequence);
  pair.pass(0.1);
  CHECK(pair.end(0).unused(1) == 2);
}

TEST_CASE("nothing is resent and little is sent while all goes well") {
  Pair pair({}, 1);
  for (std::size_t k = 0; k < 50; ++k) {
    pair.send(0, k, 100);
    pair.pass(0.05);
  }
  pair.pass(5);
  CHECK(pair.end(0).counters().resent == 0);
  CHECK(pair.frames_sent() <= 100);
}

TEST_CASE("what stays unanswered is resent ever more rarely") {
  Pair pair({}, 1);
  pair.silent[1] = true;
  pair.send(0, 0, 100);
  std::vector<double> at;
  while (pair.now() < 60) {
    const std::size_t before = pair.frames_sent();
    pair.pass(0.01);
    if (pair.frames_sent() > before) at.push_back(pair.now());
  }
  REQUIRE(at.size() >= 5);
  CHECK(at.size() < 25);
  CHECK(at[0] == Approx(0.2).margin(0.02));
  CHECK(at[2] - at[1] > 1.5 * (at[1] - at[0]));
  CHECK(at.back() - at[at.size() - 2] <= 5.05);
  pair.silent[1] = false;
  pair.pass(10);
  CHECK(pair.end(0).all_received());
  CHECK(pair.got[1].size() == 1);
}

TEST_CASE("a way that takes longer than the first patience is learnt, and no more is sent twice over it") {
  Pair pair({}, 1);
  pair.latency = 0.45;
  for (std::uint64_t round = 0; round < 40; ++round) {
    pair.send(0, round, 100);
    pair.pass(1.2);
  }
  CHECK(pair.got[1].size() == 40);
  INFO(pair.end(0).counters().resent);
  CHECK(pair.end(0).counters().resent < 8);
}

TEST_CASE("frames that wait on this side are not resent") {
  std::size_t sent = 0;
  Link link(
      [&](const Frame&, std::uint32_t) {
        ++sent;
        return std::size_t{100};
      },
      0.2);
  link.send({0, 0, 0, 1, std::make_shared<const std::vector<std::byte>>(4)}, 0);
  for (double t = 0; t < 10; t += 0.1) {
    const auto due = link.resend_due(t, true);
    REQUIRE(due);
    CHECK(*due > t);
  }
  CHECK(sent == 1);
  link.resend_due(10.5, false);
  CHECK(sent == 2);
}

TEST_CASE("an acknowledgement of a part starts the patience for the rest anew") {
  std::size_t sent = 0;
  Link link(
      [&](const Frame&, std::uint32_t) {
        ++sent;
        return std::size_t{100};
      },
      1);
  for (Round r = 0; r < 20; ++r)
    link.send({r, 0, 0, 1, std::make_shared<const std::vector<std::byte>>(4)}, 0);
  for (std::uint64_t k = 1; k < 20; ++k) {  // a slow line: one frame comes through every 0.9 s
    const double now = 0.9 * static_cast<double>(k);
    link.resend_due(now, false);
    FrameHeader header;
    header.received = k;
    link.acknowledged(header, now);
  }
  CHECK(sent == 20);
}

TEST_CASE("after a broken connection patience is short, once") {
  std::size_t sent = 0;
  Link link(
      [&](const Frame&, std::uint32_t) {
        ++sent;
        return std::size_t{100};
      },
      30);
  link.send({0, 0, 0, 1, std::make_shared<const std::vector<std::byte>>(4)}, 0);
  link.resend_due(5, false);
  CHECK(sent == 1);
  link.on_broken();
  link.resend_due(5, false);
  CHECK(sent == 2);
  CHECK(link.resend_due(10, false) > 30);
  CHECK(sent == 2);
}

TEST_CASE("what a broken connection lost is sent again also where earlier frames are acknowledged after it") {
  constexpr std::uint64_t kFrames = 1000;
  std::vector<std::uint64_t> sent;
  Link link(
      [&](const Frame& f, std::uint32_t) {
        sent.push_back(f.header.sequence);
        return std::size_t{100};
      },
      30);
  for (Round r = 0; r < kFrames; ++r)
    link.send({r, 0, 0, 1, std::make_shared<const std::vector<std::byte>>(4)}, 0);
  link.on_broken();
  link.send({kFrames, 0, 0, 1, std::make_shared<const std::vector<std::byte>>(4)}, 0);
  FrameHeader header;
  header.received = kFrames / 2;
  link.acknowledged(header, 0.1);
  sent.clear();
  for (double now = 0.1; now < 10; now += 0.1) link.resend_due(now, false);
  REQUIRE(sent.size() == kFrames / 2);  // and not the one that was sent over the new one
  CHECK(sent.front() == kFrames / 2 + 1);
  CHECK(sent.back() == kFrames);
}

TEST_CASE("frames that overtake by the thousand do not lock out the one that is wanted") {
  std::vector<Frame> frames;
  const auto keep = [&](const Frame& f, std::uint32_t) {
    frames.push_back(f);
    return std::size_t{100};
  };
  Link from(keep, 1), to(keep, 1);
  constexpr std::size_t kMany = 20'000;
  const auto payload = std::make_shared<const std::vector<std::byte>>(4);
  for (Round r = 0; r < kMany; ++r) from.send({r, 0, 0, 1, payload}, 0);
  std::size_t got = 0;
  for (std::size_t sweep = 0; sweep < 3; ++sweep)  // the last first
    for (auto f = frames.rbegin(); f != frames.rend(); ++f)
      for (to.receive(f->header, std::get<ParcelBody>(f->body)); to.next();) ++got;
  CHECK(got == kMany);
}

TEST_CASE("acknowledgements of what was never sent are not believed") {
  Pair pair({}, 1);
  pair.silent[1] = true;
  pair.send(0, 0, 4);
  FrameHeader header;
  header.received = 7;
  pair.end(0).acknowledged(header, 0);
  CHECK_FALSE(pair.end(0).all_received());
  header.received = 0, header.consumed = 1;
  pair.end(0).acknowledged(header, 0);
  CHECK(pair.end(0).unused(1) == 1);
}

TEST_CASE("chunks that do not follow one another are refused and counted") {
  Link link([](const Frame&, std::uint32_t) { return std::size_t{0}; }, 0.2);
  const std::vector<std::byte> bytes(4);
  const auto give = [&](std::uint64_t sequence, std::uint32_t chunk, std::uint32_t chunks) {
    FrameHeader header;
    header.sequence = sequence;
    link.receive(header, {0, 0, 0, 4, chunk, chunks, digest_of(bytes, chunks), bytes});
    return link.next().has_value();
  };
  CHECK_FALSE(give(1, 1, 2));
  CHECK_FALSE(give(2, 0, 0));
  CHECK(give(3, 0, 1));
  CHECK(link.counters().refused() == 2);
}

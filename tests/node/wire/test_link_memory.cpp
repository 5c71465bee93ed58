// Payloads that the other end of a link reads where they are.
#include <memory>
#include <vector>

#include "gossamer_test/catch.h"
#include "link.h"
#include "linked_pair.h"

using namespace gossamer::node;
using gossamer::node::test::in_order;
using gossamer::node::test::Pair;

namespace {

Link::Send kept_in(std::vector<Frame>& sent) {
  return [&sent](const Frame& frame, std::uint32_t) {
    sent.push_back(frame);
    return std::size_t{0};
  };
}
Payload as_it_is(const Payload& payload) { return payload; }

void receive(Link& link, const Frame& frame) { link.receive(frame.header, std::get<ParcelBody>(frame.body)); }

}  // namespace

TEST_CASE("a payload that is read where it is travels as one frame, and in chunks where that is lost") {
  const std::size_t size = 3 * kChunkBytes + 5;
  const auto share = [](const Payload& payload) { return payload->size() > 3 ? payload : Payload(); };
  Pair calm({}, 0, 0.2, share);
  calm.send(0, 0, size);
  CHECK(calm.frames_sent() == 1);
  calm.pass(1);
  REQUIRE(in_order(calm.got[1], 1));
  CHECK(calm.end(0).all_received());
  CHECK(calm.end(0).counters().resent == 0);
  CHECK(calm.end(0).counters().data_bytes_out > size);  // as if it had been sent
  calm.send(0, 1, size);
  calm.send(0, 2, 2);
  calm.pass(1);
  CHECK(in_order(calm.got[1], 3));

  std::uint64_t resent = 0, duplicates = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Pair pair({.loss = 0.05 * static_cast<double>(seed % 8), .duplicate = 0.2, .reorder = 0.3}, seed, 0.2,
              share);
    constexpr std::size_t kMessages = 12;
    for (std::size_t k = 0; k < kMessages; ++k) {
      pair.send(0, k, k % 4 == 3 ? 2 : size + k);
      pair.pass(0.02);
    }
    for (int wait = 0; wait < 200 && !pair.end(0).all_received(); ++wait) pair.pass(0.5);
    INFO("seed " << seed);
    CHECK(in_order(pair.got[1], kMessages));
    CHECK(pair.end(0).all_received());
    CHECK(pair.end(0).unused(1) == 0);
    CHECK(pair.end(1).bytes_held() == 0);
    CHECK(pair.end(1).counters().refused() == 0);
    resent += pair.end(0).counters().resent, duplicates += pair.end(1).counters().duplicates;
  }
  CHECK(resent > 0);
  CHECK(duplicates > 0);
}

TEST_CASE("a whole payload takes the place of chunks that came before it") {
  std::vector<Frame> sent;
  const Link::Send keep = kept_in(sent);
  const auto payload = std::make_shared<const std::vector<std::byte>>(2 * kChunkBytes + 1, std::byte{7});
  const Message message{0, 1, 2, payload->size(), payload};
  Link chunks(keep, 1), whole(keep, 1, Delivery::reliable, {}, {}, as_it_is);
  chunks.send(message, 0);
  whole.send(message, 0);
  REQUIRE(sent.size() == 4);
  for (const std::size_t early : {0, 1, 2}) {
    Link end(keep, 1);
    receive(end, sent[early]);
    CHECK_FALSE(end.next());
    receive(end, sent[3]);
    const auto got = end.next();
    REQUIRE(got);
    CHECK(got->payload == Payload(payload));
    receive(end, sent[3]);
    receive(end, sent[0]);
    CHECK_FALSE(end.next());
    CHECK(end.counters().duplicates == 2);
    end.consume(got->sequence);
    CHECK(end.bytes_held() == 0);
  }
  // of another size than its chunks say
  Link end(keep, 1);
  auto wrong = std::get<ParcelBody>(sent[3].body);
  wrong.chunks = 4;
  end.receive(sent[3].header, wrong);
  CHECK_FALSE(end.next());
  CHECK(end.counters().refused_by[static_cast<std::size_t>(Refusal::chunks)] == 1);
}

TEST_CASE("a whole payload that was lost is sent again whole, and then in chunks") {
  std::vector<Frame> sent;
  const Link::Send keep = kept_in(sent);
  const auto is_whole = [&] { return static_cast<bool>(std::get<ParcelBody>(sent.back().body).apart); };
  const auto payload = std::make_shared<const std::vector<std::byte>>(40 * kChunkBytes);
  for (const bool broken : {false, true}) {
    INFO(broken);
    sent.clear();
    Link link(keep, 10, Delivery::reliable, {}, {}, as_it_is);
    link.send({0, 1, 2, payload->size(), payload}, 0);
    REQUIRE(sent.size() == 1);
    if (broken) link.on_broken();
    const auto look_again = link.resend_due(broken ? 2 : 12, false);
    REQUIRE(sent.size() == 2);
    CHECK(is_whole());
    CHECK(sent.back().header.sequence == sent.front().header.sequence);
    REQUIRE(look_again);
    CHECK(*look_again > (broken ? 2 : 12));
    link.resend_due(60, false);
    CHECK(sent.size() == 2 + 16);
    CHECK_FALSE(is_whole());
  }
}

TEST_CASE("a whole payload that is refused is in the way of nothing, and chunks that came stay") {
  std::vector<Frame> sent;
  const Link::Send keep = kept_in(sent);
  const auto payload = std::make_shared<const std::vector<std::byte>>(2 * kChunkBytes + 1, std::byte{7});
  Link chunks(keep, 1), whole(keep, 1, Delivery::reliable, {}, {}, as_it_is);
  chunks.send({0, 1, 2, payload->size(), payload}, 0);
  chunks.send({1, 1, 2, 3, std::make_shared<const std::vector<std::byte>>(3)}, 0);
  whole.send({0, 1, 2, payload->size(), payload}, 0);
  REQUIRE(sent.size() == 5);
  IntakeRules rules;
  rules.decodes = [](const Message&, bool shared) { return !shared; };
  Link end(keep, 1, Delivery::reliable, {}, rules);
  receive(end, sent[0]);
  receive(end, sent[4]);  // whole, and refused
  CHECK(end.counters().refused_by[static_cast<std::size_t>(Refusal::payload)] == 1);
  receive(end, sent[1]);
  receive(end, sent[2]);
  const auto got = end.next();
  REQUIRE(got);
  CHECK(got->payload == Payload(payload));

  Link other(keep, 1, Delivery::reliable, {}, rules);
  receive(other, sent[4]);
  receive(other, sent[3]);
  const auto behind = other.next();  // all numbers of what was refused are passed
  REQUIRE(behind);
  CHECK(behind->round == 1);
}

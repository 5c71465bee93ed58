#include <random>

#include "aligned.h"
#include "frame.h"
#include "gossamer_test/catch.h"

using namespace gossamer::node;

namespace {

using Bytes = std::vector<std::byte, boost::alignment::aligned_allocator<std::byte, 8>>;

std::vector<std::byte> some_bytes(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

FrameHeader some_header() { return {kWireVersion, 7, 0xABCDEF0123456789, 42, 1000, 999, 998}; }

HelloBody some_hello() {
  HelloBody h;
  h.oldest_version = kOldestWireVersion;
  h.name = "alpha";
  h.heard_epoch = 5;
  h.job_hash = 6;
  h.job_text = "run.seed = 1\n";
  h.topology_hash = 8;
  h.layers = "fc1:0+33 ";
  h.parameters_hash = 9;
  h.data_hash = 10;
  h.status = {PeerStatus::present, PeerStatus::unknown};
  h.allreduce = "ring 0 1, halving_doubling 2";
  return h;
}

ParcelBody some_parcel(std::span<const std::byte> payload) { return {3, 2, 1, 77, 1, 4, 0xd19e57, payload}; }

bool same(const FrameHeader& a, const FrameHeader& b) {
  return a.version == b.version && a.sender == b.sender && a.job == b.job && a.epoch == b.epoch &&
         a.sequence == b.sequence && a.received == b.received && a.consumed == b.consumed;
}
bool same(const AliveBody& a, const AliveBody& b) {
  return a.status == b.status && a.samples == b.samples && a.saves == b.saves;
}
bool same(const HelloBody& a, const HelloBody& b) {
  return a.oldest_version == b.oldest_version && a.name == b.name && a.heard_epoch == b.heard_epoch &&
         a.job_hash == b.job_hash && a.job_text == b.job_text && a.topology_hash == b.topology_hash &&
         a.layers == b.layers && a.parameters_hash == b.parameters_hash && a.data_hash == b.data_hash &&
         a.status == b.status && a.allreduce == b.allreduce;
}
bool same(const PlacesBody& a, const PlacesBody& b) { return a.places == b.places && a.offers == b.offers; }
bool same(const ParcelBody& a, const ParcelBody& b) {
  return a.round == b.round && a.parcel == b.parcel && a.tag == b.tag && a.entries == b.entries &&
         a.chunk == b.chunk && a.chunks == b.chunks && a.digest == b.digest &&
         std::ranges::equal(a.payload, b.payload);
}
bool same(const Frame& a, const Frame& b) {
  return same(a.header, b.header) && a.body.index() == b.body.index() &&
         std::visit(
             [&](const auto& body) { return same(body, std::get<std::decay_t<decltype(body)>>(b.body)); },
             a.body);
}

std::vector<Frame> one_of_each(std::span<const std::byte> payload) {
  return {
      {some_header(), AliveBody{{PeerStatus::done, PeerStatus::lost, PeerStatus::started}}},
      {some_header(), AliveBody{{PeerStatus::present, PeerStatus::done}, {{0, 77}, {3, 1'000'000}}}},
      {some_header(), some_hello()},
      {some_header(),
       AliveBody{{PeerStatus::present, PeerStatus::done}, {}, {7, 5, 3, 0, {7, 0}, {3, 3}, {3, 0}}}},
      {some_header(),
       AliveBody{{PeerStatus::present, PeerStatus::done}, {{0, 77}}, {7, 5, 3, 0, {7, 0}, {3, 3}, {3, 0}}}},
      {some_header(), PlacesBody{Places(4, 2, {7, 8})}},
      {some_header(), PlacesBody{Places(4, 2, {7, 8}), Offers(4, 1, 99, {3, 7, 20})}},
      {some_header(), some_parcel(payload)}};
}

Bytes copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

TEST_CASE("a frame of each kind comes back as it was") {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 1000U, static_cast<unsigned>(kChunkBytes)}) {
    const auto payload = some_bytes(size);
    for (const Frame& frame : one_of_each(payload)) {
      const FrameBytes bytes = encode_frame(frame);
      CHECK(bytes->size() <= kMaxFrameBytes);
      const auto back = decode_frame(*bytes);
      REQUIRE(back);
      CHECK(same(frame, *back));
    }
  }
  const FrameBytes empty = encode_frame({});
  REQUIRE(decode_frame(*empty));
  CHECK(same(Frame{}, *decode_frame(*empty)));
}

// A changed byte that carries nothing (padding behind a blob) may pass; what comes out is then unchanged.
TEST_CASE("no flipped byte changes what a frame says") {
  const auto payload = some_bytes(13);
  for (const Frame& frame : one_of_each(payload)) {
    const FrameBytes bytes = encode_frame(frame);
    std::size_t passed = 0;
    for (std::size_t i = 0; i < bytes->size(); ++i)
      for (const unsigned flip : {1U, 0x80U, 0xFFU}) {
        Bytes changed = copy(*bytes);
        changed[i] ^= static_cast<std::byte>(flip);
        const auto back = decode_frame(changed);
        passed += back.has_value();
        if (back && !same(frame, *back)) FAIL_CHECK("byte " << i << " changed by " << flip);
      }
    CHECK(passed < 3 * 24);
  }
}

TEST_CASE("no truncated frame is read") {
  const auto payload = some_bytes(13);
  for (const Frame& frame : one_of_each(payload)) {
    const FrameBytes bytes = encode_frame(frame);
    for (std::size_t n = 0; n < bytes->size(); ++n) CHECK_FALSE(decode_frame(std::span(*bytes).first(n)));
  }
}

TEST_CASE("random bytes are no frame") {
  std::mt19937_64 random(1);
  const auto payload = some_bytes(13);
  const FrameBytes real = encode_frame(one_of_each(payload).back());
  for (int trial = 0; trial < 20'000; ++trial) {
    Bytes bytes = trial % 2 ? copy(*real) : Bytes(8 * (random() % 40));
    if (trial % 2) {  // several changes to a real frame
      for (int k = 0; k < 4; ++k) bytes[random() % 64] = static_cast<std::byte>(random());
    } else {
      for (auto& b : bytes) b = static_cast<std::byte>(random());
    }
    if (std::ranges::equal(bytes, *real)) continue;
    const auto back = decode_frame(bytes);
    if (back) CHECK(same(one_of_each(payload).back(), *back));
  }
}

TEST_CASE("lengths that no frame has are refused") {
  const auto payload = some_bytes(13);
  const FrameBytes bytes = encode_frame(one_of_each(payload).back());
  Bytes longer = copy(*bytes);
  longer.push_back(std::byte{0});
  CHECK_FALSE(decode_frame(longer));
  CHECK_FALSE(decode_frame({}));

  const auto large = some_bytes(kMaxFrameBytes);
  const FrameBytes oversize = encode_frame({some_header(), some_parcel(large)});
  CHECK_FALSE(decode_frame(*oversize));
}

TEST_CASE("text that no terminal should see is refused") {
  const auto with_name = [](const char* name) {
    HelloBody h = some_hello();
    h.name = name;
    return decode_frame(*encode_frame({some_header(), h})).has_value();
  };
  CHECK(with_name("αβ"));
  for (const char* name : {"\xff", "\xc3", "\xed\xa0\x80", "\x1b[31malpha", "al\x07pha",
                           "\xc2\x9b"
                           "31malpha",
                           "a\rb"})
    CHECK_FALSE(with_name(name));
  HelloBody h = some_hello();
  h.job_text = "run.seed = 1\x1b]0;owned\x07\n";
  CHECK_FALSE(decode_frame(*encode_frame({some_header(), h})));
}

// The discriminant is among the 16-bit words and the checksum among the 64-bit words: every pair is tried.
// Some of them change nothing that is read: what pads a blob, or how many pointers a struct has room for.
TEST_CASE("a kind that this version does not know is refused") {
  const Frame frame{some_header(), AliveBody{{PeerStatus::present}}};
  const FrameBytes bytes = encode_frame(frame);
  for (std::size_t kind = 8; kind < bytes->size(); kind += 2)
    for (std::size_t sum = 8; sum < bytes->size(); sum += 8) {
      Bytes changed = copy(*bytes);
      std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(sum), 8, std::byte{0});
      changed[kind] = std::byte{5};
      changed[kind + 1] = std::byte{0};
      const auto back = decode_frame(changed);
      CAPTURE(kind, sum);
      CHECK((!back || same(*back, frame)));
    }
}

TEST_CASE("a status from a later version counts as unknown") {
  const FrameBytes bytes = encode_frame({some_header(), AliveBody{{static_cast<PeerStatus>(200)}}});
  const auto back = decode_frame(*bytes);
  REQUIRE(back);
  CHECK(std::get<AliveBody>(back->body).status == PeerStates{PeerStatus::unknown});
}

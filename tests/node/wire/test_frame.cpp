#include <boost/align/aligned_allocator.hpp>
#include <cstring>
#include <random>

#include "aligned.h"
#include "byte_pool.h"
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

FrameHeader nobodys_header() { return {kWireVersion, kNoPeer, 0xABCDEF0123456789, 42, 0, 0, 0}; }

SwimBody some_swim() {
  return {SwimBody::Kind::ack,
          0xfedcba9876543210,
          "alpha",
          ~std::uint64_t{0},
          "beta",
          {{"alpha", "tcp://10.0.0.1:7000", 1, 0, MemberStatus::alive, 3, some_bytes(5)},
           {"gamma", "tcp://10.0.0.3:7000", 9, 2, MemberStatus::suspect, 0, {}, {3, 5, ~std::uint64_t{0}}},
           {"delta", "tcp://10.0.0.4:7000", 9, 2, MemberStatus::dead, 0, {}, {}, true},
           {"beta", "", ~std::uint64_t{0}, 0xffffffff, MemberStatus::left, 0xffffffff, {}}}};
}

StatusBody some_status() {
  StatusBody s{
      "job", "alpha", "choco", "onebit_scaled", "ring", ~std::uint64_t{0}, 3, true, 77, 0.25, 1.5, 0.125,
      8,     300,     {}};
  s.members = {{"alpha", "tcp://10.0.0.1:7000", 1, StatusBody::Standing::alive, 1.5, true, false, {}},
               {"beta", "", ~std::uint64_t{0}, StatusBody::Standing::left, 0, false, true, 2},
               {"gamma", "tcp://10.0.0.3:7000", 0, StatusBody::Standing::waiting, 0.25, false, true, 0}};
  s.waits = "cut off from βeta";
  return s;
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
bool same(const SwimBody& a, const SwimBody& b) { return a == b; }
bool same(const WantBody& a, const WantBody& b) {
  return a.hash == b.hash && a.offset == b.offset && a.from == b.from;
}
bool same(const PieceBody& a, const PieceBody& b) {
  return a.hash == b.hash && a.offset == b.offset && std::ranges::equal(a.bytes, b.bytes);
}
bool same(const QueryBody& a, const QueryBody& b) { return a.number == b.number; }
bool same(const AnswerBody& a, const AnswerBody& b) { return a.number == b.number && a.status == b.status; }
bool same(const OfferBody& a, const OfferBody& b) {
  return a.hash == b.hash && a.bytes == b.bytes && a.share == b.share && a.from == b.from;
}
bool same(const AskBody& a, const AskBody& b) { return a.from == b.from && a.initial_at == b.initial_at; }
bool same(const TermsBody& a, const TermsBody& b) {
  return a.from == b.from && a.refusal == b.refusal && a.taken == b.taken && a.session == b.session &&
         a.min_peers == b.min_peers && a.job_text == b.job_text && a.layers == b.layers &&
         a.parameters_hash == b.parameters_hash && a.data_hash == b.data_hash && a.access == b.access &&
         a.initial_at == b.initial_at && a.initial == b.initial;
}
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
       AliveBody{{PeerStatus::present, PeerStatus::done}, {}, {7, 5, 3, 0, {7, 0}, {3, 3}, {3, 0}, {1}}}},
      {some_header(),
       AliveBody{{PeerStatus::present, PeerStatus::done}, {{0, 77}}, {7, 5, 3, 0, {7, 0}, {3, 3}, {3, 0}}}},
      {some_header(), PlacesBody{Places(4, 2, {7, 8})}},
      {some_header(), PlacesBody{Places(4, 2, {7, 8}), Offers(4, 1, 99, {3, 7, 20})}},
      {nobodys_header(), SwimBody{.from = "alpha"}},
      {nobodys_header(), some_swim()},
      {nobodys_header(), WantBody{0xfedcba9876543210, 1 << 20, "alpha"}},
      {nobodys_header(), PieceBody{0xfedcba9876543210, 1 << 20, payload}},
      {nobodys_header(), QueryBody{0xfedcba9876543210}},
      {nobodys_header(), AnswerBody{7, {}}},
      {nobodys_header(), AnswerBody{0xfedcba9876543210, some_status()}},
      {nobodys_header(), OfferBody{0xfedcba9876543210, 100 << 20, 0.375, "alpha"}},
      {nobodys_header(), AskBody{"newcomer"}},
      {nobodys_header(), AskBody{"newcomer", 3 << 20}},
      {nobodys_header(), TermsBody{"alpha", "a peer of the name 'b' takes part already", true, 7, 2,
                                   "batch = 8\n", "w:0+16", 11, 12}},
      {nobodys_header(),
       TermsBody{"alpha", "", false, 7, 2, "batch = 8\n", "w:0+16", 11, 12, std::string(3000, 'x')}},
      {nobodys_header(), TermsBody{"alpha",
                                   "",
                                   false,
                                   7,
                                   2,
                                   "batch = 8\n",
                                   "w:0+16",
                                   11,
                                   12,
                                   "",
                                   3 << 20,
                                   {payload.begin(), payload.end()}}},
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

TEST_CASE("a large payload that is held stands beside its frame, and is read where it is") {
  for (const std::size_t size : {std::size_t{16} << 10, kChunkBytes, kWholeBytes}) {
    const Payload held = std::make_shared<const std::vector<std::byte>>(some_bytes(size));
    Frame frame{some_header(), some_parcel(*held)};
    std::get<ParcelBody>(frame.body).held = held;
    const FrameBytes one = encode_frame(frame), parts = encode_frame(frame, true);
    CHECK(parts->size() < 256);
    CHECK(parts.beside.get() == held.get());
    const auto back = decode_frame(*parts, parts.beside);
    REQUIRE(back);
    CHECK(same(frame, *back));
    CHECK(std::get<ParcelBody>(back->body).payload.data() == held->data());

    CHECK_FALSE(decode_frame(*parts));
    CHECK_FALSE(decode_frame(*one, held));
    CHECK_FALSE(decode_frame(*encode_frame({some_header(), some_hello()}), held));
    CHECK_FALSE(decode_frame(*parts, held.part(0, size - 1)));
    std::vector<std::byte> other = some_bytes(size);
    other[size / 2] ^= std::byte{4};
    CHECK_FALSE(decode_frame(*parts, std::make_shared<const std::vector<std::byte>>(other)));
    for (std::size_t i = 0; i < parts->size(); ++i) {
      Bytes changed = copy(*parts);
      changed[i] ^= std::byte{0x80};
      if (const auto read = decode_frame(changed, held)) CHECK(same(frame, *read));
    }
  }
  for (const std::size_t size : {std::size_t{1000}, kMaxFrameBytes}) {
    const Payload held = std::make_shared<const std::vector<std::byte>>(some_bytes(size));
    Frame frame{some_header(), some_parcel(*held)};
    std::get<ParcelBody>(frame.body).held = held;
    const FrameBytes parts = encode_frame(frame, true);
    CHECK(static_cast<bool>(parts.beside) == (size > 1000));
    CHECK(decode_frame(*parts, parts.beside).has_value() == (size == 1000));
  }
}

TEST_CASE("what stood in memory before does not show in a frame") {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 1001U, static_cast<unsigned>(kChunkBytes)}) {
    const auto payload = some_bytes(size);
    for (const Frame& frame : one_of_each(payload)) {
      const auto over = [&](int contents) {
        {
          const ByteBlock before = take_block(encode_frame(frame)->size());
          std::memset(before.bytes.data(), contents, before.bytes.size());
        }
        return encode_frame(frame);
      };
      const FrameBytes clear = over(0), full = over(0xff);
      CHECK(clear == full);
    }
  }
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
    CHECK(passed < 3 * 32);
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
      changed[kind] = std::byte{8};
      changed[kind + 1] = std::byte{0};
      const auto back = decode_frame(changed);
      CAPTURE(kind, sum);
      CHECK((!back || same(*back, frame)));
    }
}

TEST_CASE("what is beyond the limits of a member's record is refused") {
  const auto taken = [](const SwimBody& b) {
    const auto back = decode_frame(*encode_frame({nobodys_header(), b}));
    if (back) CHECK(std::get<SwimBody>(back->body) == b);
    return back.has_value();
  };
  const auto with = [&](const MemberRecord& r) { return taken({.from = "alpha", .records = {r}}); };
  CHECK(with({std::string(64, 'n'), std::string(512, 'a'), 1, 2, MemberStatus::dead, 3, some_bytes(512)}));
  CHECK_FALSE(with({std::string(65, 'n')}));
  CHECK_FALSE(with({"", "tcp://here"}));
  CHECK_FALSE(with({"n", std::string(513, 'a')}));
  CHECK_FALSE(with({"n", "a", 1, 0, MemberStatus::alive, 0, some_bytes(513)}));
  CHECK_FALSE(with({"n", "a", 1, 0, static_cast<MemberStatus>(4)}));
  CHECK(with({"n", "a", 1, 0, MemberStatus::dead, 0, {}, {}, true}));
  CHECK_FALSE(with({"n", "a", 1, 0, MemberStatus::alive, 0, {}, {}, true}));
  for (const char* name : {"two words", "../a", "β"}) CHECK_FALSE(with({name}));
  for (const char* name : {"two\nlines", "a\ttab", "\x1b[31malpha", "\xff"}) {
    CHECK_FALSE(with({name}));
    CHECK_FALSE(with({"n", name}));
    CHECK_FALSE(taken({.from = name}));
    CHECK_FALSE(taken({.from = "alpha", .about = name}));
  }
  const auto doubted = [&](std::vector<std::uint64_t> by) {
    return with({"n", "a", 1, 0, MemberStatus::suspect, 0, {}, std::move(by)});
  };
  CHECK(doubted({1, 2, 3, 4}));
  CHECK_FALSE(doubted({1, 2, 3, 4, 5}));
  CHECK_FALSE(doubted({2, 1}));
  CHECK_FALSE(doubted({1, 1}));
  CHECK_FALSE(taken({.from = ""}));
  CHECK_FALSE(taken({.kind = static_cast<SwimBody::Kind>(5), .from = "alpha"}));
  CHECK(taken({.from = "alpha", .records = std::vector<MemberRecord>(64, {"n"})}));
  CHECK_FALSE(taken({.from = "alpha", .records = std::vector<MemberRecord>(65, {"n"})}));
  CHECK_FALSE(decode_frame(*encode_frame({some_header(), some_swim()})));  // a sender with a number

  const MemberRecord most{std::string(64, 'n'), std::string(512, 'a'), ~0ULL, 0xffffffff, MemberStatus::left,
                          0xffffffff,           some_bytes(512)};
  const SwimBody full{.from = most.name, .about = most.name, .records = std::vector(64, most)};
  CHECK(taken(full));
  CHECK(full.to_bytes().size() <= kChunkBytes);
}

// Behind a right checksum: what a faulty or hostile member may send.
TEST_CASE("no bytes of a member's body crash the reader or pass its limits") {
  std::mt19937_64 random(2);
  const auto real = some_swim().to_bytes();
  std::size_t read = 0;
  for (int trial = 0; trial < 100'000; ++trial) {
    auto bytes = real;
    if (trial % 3 == 0) bytes.resize(random() % (real.size() + 1));
    for (std::size_t k = random() % 4 + 1; k > 0 && !bytes.empty(); --k)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto body = SwimBody::from_bytes(bytes);
    if (!body) continue;
    ++read;
    CHECK(SwimBody::from_bytes(body->to_bytes()) == body);
    CHECK(body->to_bytes().size() <= body->most_bytes());
  }
  CHECK(read > 1000);
  for (std::size_t n = 0; n < real.size(); ++n) CHECK_FALSE(SwimBody::from_bytes(std::span(real).first(n)));
}

TEST_CASE("what a peer tells of its run is bounded, whatever the bytes") {
  StatusBody::Member most{std::string(64, 'n'),
                          std::string(512, 'a'),
                          ~0ULL,
                          StatusBody::Standing::left,
                          1e9,
                          true,
                          true,
                          1 << 20};
  StatusBody full = some_status();
  full.members.assign(256, most);
  full.waits.clear();  // which stands beside these bytes
  const auto bytes = full.to_bytes();
  CHECK(bytes.size() <= full.most_bytes());
  CHECK(encode_frame({nobodys_header(), AnswerBody{1, full}})->size() <= kMaxFrameBytes);
  CHECK(StatusBody::from_bytes(bytes) == full);
  full.members.push_back(most);
  CHECK_FALSE(StatusBody::from_bytes(full.to_bytes()));
  for (const char* name : {"two\nlines", "\x1b[31malpha", "\xff"}) {
    StatusBody wrong = some_status();
    wrong.members[1].name = name;
    CHECK_FALSE(StatusBody::from_bytes(wrong.to_bytes()));
    wrong = some_status();
    wrong.run = name;
    CHECK_FALSE(StatusBody::from_bytes(wrong.to_bytes()));
  }
  std::mt19937_64 random(3);
  const auto real = some_status().to_bytes();
  for (std::size_t n = 0; n < real.size(); ++n) CHECK_FALSE(StatusBody::from_bytes(std::span(real).first(n)));
  for (int trial = 0; trial < 20'000; ++trial) {
    auto changed = real;
    for (std::size_t k = random() % 4 + 1; k > 0; --k)
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    if (const auto read = StatusBody::from_bytes(changed)) CHECK(read->members.size() <= 256);
  }
  CHECK_FALSE(decode_frame(*encode_frame({some_header(), QueryBody{1}})));  // a sender with a number
}

TEST_CASE("a status from a later version counts as unknown") {
  const FrameBytes bytes = encode_frame({some_header(), AliveBody{{static_cast<PeerStatus>(200)}}});
  const auto back = decode_frame(*bytes);
  REQUIRE(back);
  CHECK(std::get<AliveBody>(back->body).status == PeerStates{PeerStatus::unknown});
}

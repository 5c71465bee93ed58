// Payloads that no encoder wrote. Each must be refused with PayloadError or decode to numbers; under a
// sanitizer no byte outside the payload may be read (every payload here is an allocation of its own size).
#include <cstring>
#include <limits>

#include "gossamer/compress/payload_check.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

enum class Outcome { decoded, refused, not_finite };

Outcome outcome(const Bytes& payload, std::size_t n) {
  Vector acc(n, 0.0f);
  try {
    decode_add(payload, 0.5f, acc);
  } catch (const PayloadError&) {
    return Outcome::refused;
  }
  const bool finite = std::all_of(acc.begin(), acc.end(), [](float f) { return std::isfinite(f); });
  return finite ? Outcome::decoded : Outcome::not_finite;
}

Bytes bytes(std::initializer_list<int> values) {
  Bytes all;
  for (const int v : values) all.push_back(static_cast<std::byte>(v));
  return all;
}

}  // namespace

TEST_CASE("every truncation and every longer payload is refused") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const std::size_t n : {1u, 40u, 700u}) {
      for (const Vector& v : {gaussian(n, 1), sparse(n, 0.03, 2)}) {
        const Bytes payload = encode(*codec, v);
        std::size_t wrong = 0;
        for (std::size_t length = 0; length < payload.size(); ++length) {
          const Bytes cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length));
          wrong += outcome(cut, n) == Outcome::refused ? 0 : 1;
        }
        for (const int extra : {0, 1, 255}) {
          Bytes longer = payload;
          longer.push_back(static_cast<std::byte>(extra));
          wrong += outcome(longer, n) == Outcome::refused ? 0 : 1;
        }
        INFO(spec << " on " << n);
        REQUIRE(wrong == 0);
      }
    }
  }
}

TEST_CASE("every payload with one byte changed is refused or decodes to numbers") {
  gossamer::test::Drawn drawn(4);
  PayloadCheck check;
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const std::size_t n : {1u, 37u, 100u}) {
      for (const Vector& v : {gaussian(n, 1), sparse(n, 0.05, 2)}) {
        const Bytes payload = encode(*codec, v);
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < payload.size(); ++at) {
          if (!drawn()) continue;
          Bytes changed = payload;
          for (int value = 0; value < 256; ++value) {
            changed[at] = static_cast<std::byte>(value);
            const Outcome o = outcome(changed, n);
            const bool other_codec = at < 4;  // refused whatever it decodes to
            wrong += o == Outcome::not_finite ||
                             (!other_codec && check(changed, n, spec) != (o == Outcome::decoded))
                         ? 1
                         : 0;
          }
        }
        INFO(spec << " on " << n);
        REQUIRE(wrong == 0);
      }
    }
  }
}

TEST_CASE(
    "NaN and Inf in place of any number of a payload are refused, or nothing of it is read as a number") {
  const auto pattern = [](auto value) {
    Bytes b(sizeof value);
    std::memcpy(b.data(), &value, sizeof value);
    return b;
  };
  std::vector<Bytes> patterns;
  for (const float v : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity()})
    patterns.push_back(pattern(v));
  for (const int half : {0x7c00, 0xfc00, 0x7e00, 0x7f80, 0xff80, 0x7fc0})  // fp16 and bf16
    patterns.push_back(pattern(static_cast<std::uint16_t>(half)));
  gossamer::test::Drawn drawn(4);
  PayloadCheck check;
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const std::size_t n : {1u, 37u, 300u}) {
      const Bytes payload = encode(*codec, gaussian(n, 1));
      std::size_t wrong = 0;
      for (std::size_t at = 0; at < payload.size(); ++at) {
        if (!drawn()) continue;
        for (const Bytes& p : patterns) {
          if (at + p.size() > payload.size()) continue;
          Bytes changed = payload;
          std::copy(p.begin(), p.end(), changed.begin() + static_cast<std::ptrdiff_t>(at));
          const Outcome o = outcome(changed, n);
          wrong += o == Outcome::not_finite || check(changed, n, spec) != (o == Outcome::decoded) ? 1 : 0;
        }
      }
      INFO(spec << " on " << n);
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("random bytes are refused or decode to numbers") {
  std::mt19937_64 random(6);
  std::size_t wrong = 0;
  for (int trial = 0; trial < 400000; ++trial) {
    const std::size_t n = random() % 100;
    Bytes payload = bytes({'g', 1, static_cast<int>(random() % 16), static_cast<int>(n)});
    if (trial % 8 == 0) payload.clear();
    const std::size_t body = random() % 60;
    // Small bytes are more often plausible parameters.
    for (std::size_t i = 0; i < body; ++i)
      payload.push_back(static_cast<std::byte>(random() >> (random() % 8)));
    wrong += outcome(payload, n) == Outcome::not_finite ? 1 : 0;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("a payload for another number of entries is refused") {
  for (const auto& spec : all_specs()) {
    const Bytes payload = encode(*make_codec(spec), gaussian(100, 1));
    INFO(spec);
    for (const std::size_t n : {0u, 1u, 99u, 101u, 1000u}) REQUIRE(outcome(payload, n) == Outcome::refused);
  }
}

TEST_CASE("claimed sizes allocate nothing and are refused") {
  // 2^63 entries, as each codec; then topk with a claimed k of 2^56.
  for (int id = 0; id < 256; ++id) {
    Bytes payload = bytes({'g', 1, id});
    for (int i = 0; i < 9; ++i) payload.push_back(std::byte{0x80});
    payload.push_back(std::byte{1});
    REQUIRE(outcome(payload, 10) == Outcome::refused);
  }
  REQUIRE(outcome(bytes({'g', 1, 6, 10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0}), 10) ==
          Outcome::refused);
  // Number with leading zeros, and one of more than 64 bits.
  REQUIRE(outcome(bytes({'g', 1, 1, 0x80, 0}), 0) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2}), 0) == Outcome::refused);
}

TEST_CASE("single entries of 2^32 and more are refused") {
  for (const char* spec : {"topk:density=1", "threshold:tau=1", "randk:density=1"}) {
    float x = 0;  // is all that there is of the vector: it is not looked at
    INFO(spec);
    REQUIRE_THROWS_AS(decode_add(claiming_2_to_32(*make_codec(spec)), 1, {&x, std::size_t{1} << 32}),
                      PayloadError);
    REQUIRE(x == 0);
  }
}

TEST_CASE("crafted faults of each codec are refused") {
  // onebit of 1 entry: a negative scale, NaN, Inf, a sign bit too many, a bucket that is none.
  const Bytes onebit = encode(*make_codec("onebit:bucket=32"), Vector{2.0f});
  REQUIRE(onebit == bytes({'g', 1, 3, 1, 32, 0, 0, 0, 0x40, 1}));
  for (const auto& bad :
       {bytes({'g', 1, 3, 1, 32, 0, 0, 0, 0xc0, 1}), bytes({'g', 1, 3, 1, 32, 0, 0, 0xc0, 0x7f, 1}),
        bytes({'g', 1, 3, 1, 32, 0, 0, 0x80, 0x7f, 1}), bytes({'g', 1, 3, 1, 32, 0, 0, 0, 0x40, 3}),
        bytes({'g', 1, 3, 1, 33, 0, 0, 0, 0x40, 1}), bytes({'g', 1, 3, 1, 0, 0, 0, 0, 0x40, 1})}) {
    REQUIRE(outcome(bad, 1) == Outcome::refused);
  }
  // onebit_scaled: a mode bit too many, a scale of zero, a mode byte too many, more modes than bytes.
  const Bytes scaled = encode(*make_codec("onebit_scaled:bucket=32"), Vector{2.0f});
  REQUIRE(scaled == bytes({'g', 1, 4, 1, 32, 1, 0, 0, 0, 0, 0x40, 1}));
  REQUIRE(outcome(bytes({'g', 1, 4, 1, 32, 1, 4, 0, 0, 0, 0x40, 1}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 4, 1, 32, 1, 0, 0, 0, 0, 0, 1}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 4, 1, 32, 2, 0, 0, 0, 0, 0, 0x40, 1}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 4, 1, 32, 200, 1, 0, 0, 0, 0, 0x40, 1}), 1) == Outcome::refused);
  // qsgd: level 8 of 7, a field past the end, bits that are none, an unknown coding.
  const Bytes qsgd = encode(*make_codec("qsgd:bucket=32"), Vector{2.0f});
  REQUIRE(qsgd == bytes({'g', 1, 5, 1, 4, 0, 32, 0, 0, 0, 0x40, 14}));
  REQUIRE(outcome(bytes({'g', 1, 5, 1, 4, 0, 32, 0, 0, 0, 0x40, 15}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 5, 1, 4, 0, 32, 0, 0, 0, 0x40, 30}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 5, 1, 3, 0, 32, 0, 0, 0, 0x40, 14}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 5, 1, 4, 1, 32, 0, 0, 0, 0x40, 14}), 1) == Outcome::refused);
  // topk: k of 0, an index of 1 among 1 entries, a Rice parameter of 32, endless zeros, an index form of 6.
  const Bytes topk = encode(*make_codec("topk:coding=rice"), Vector{2.0f});
  REQUIRE(topk == bytes({'g', 1, 6, 1, 1, 0, 0, 1, 0, 0, 0, 0x40}));
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 0}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0, 0, 2, 0, 0, 0, 0x40}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0, 32, 1, 0, 0, 0, 0x40}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 6, 0, 1, 0, 0, 0, 0x40}), 1) == Outcome::refused);
  // fp16: Inf, and a shared exponent that takes a finite half beyond float.
  REQUIRE(outcome(bytes({'g', 1, 2, 1, 0, 0, 0, 0x7c}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 2, 1, 113, 0, 0, 0x78}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 2, 1, 114, 0, 0, 0}), 1) == Outcome::refused);
}

TEST_CASE("crafted faults of the codecs with several values per bucket are refused") {
  // bf16: NaN and Inf.
  REQUIRE(encode(*make_codec("bf16"), Vector{2.0f}) == bytes({'g', 1, 7, 1, 0, 0x40}));
  REQUIRE(outcome(bytes({'g', 1, 7, 1, 0x80, 0x7f}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 7, 1, 0xc0, 0xff}), 1) == Outcome::refused);
  // onebit_two: means of the wrong sign, Inf, a sign bit too many.
  REQUIRE(encode(*make_codec("onebit_two:bucket=32"), Vector{2.0f, -2.0f}) ==
          bytes({'g', 1, 8, 2, 32, 0, 0, 0, 0x40, 0, 0, 0, 0xc0, 1}));
  for (const auto& bad : {bytes({'g', 1, 8, 2, 32, 0, 0, 0, 0xc0, 0, 0, 0, 0xc0, 1}),
                          bytes({'g', 1, 8, 2, 32, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 1}),
                          bytes({'g', 1, 8, 2, 32, 0, 0, 0x80, 0x7f, 0, 0, 0, 0xc0, 1}),
                          bytes({'g', 1, 8, 2, 32, 0, 0, 0, 0x40, 0, 0, 0, 0xc0, 5})}) {
    REQUIRE(outcome(bad, 2) == Outcome::refused);
  }
  // intq: an empty range the wrong way round, bits that are none, a field past the end.
  REQUIRE(encode(*make_codec("intq:bits=4,bucket=32"), Vector{0.0f, 2.0f, 0.0f}) ==
          bytes({'g', 1, 10, 3, 4, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0x40, 0xf0, 0}));
  for (const auto& bad : {bytes({'g', 1, 10, 3, 4, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0xf0, 0}),
                          bytes({'g', 1, 10, 3, 3, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0x40, 0xf0, 0}),
                          bytes({'g', 1, 10, 3, 4, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0x40, 0xf0, 0x10})}) {
    REQUIRE(outcome(bad, 3) == Outcome::refused);
  }
}

TEST_CASE("crafted faults of terngrad, randk, threshold and sign_vote are refused") {
  // terngrad: a byte of 243, a digit past the end, a negative scale.
  REQUIRE(encode(*make_codec("terngrad"), Vector{2.0f}) == bytes({'g', 1, 9, 1, 0, 0, 0, 0, 0x40, 2}));
  REQUIRE(outcome(bytes({'g', 1, 9, 5, 0, 0, 0, 0, 0x40, 243}), 5) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 9, 1, 0, 0, 0, 0, 0x40, 3}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 9, 1, 0, 0, 0, 0, 0xc0, 2}), 1) == Outcome::refused);
  // randk: k of 0, k above n, and any seed.
  REQUIRE(outcome(bytes({'g', 1, 11, 1, 0}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 11, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 1) ==
          Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 11, 2, 1, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0x40}), 2) ==
          Outcome::decoded);
  // threshold: a count above n, a width of 33. One index of one entry is a field of no bits.
  REQUIRE(encode(*make_codec("threshold"), Vector{2.0f}) == bytes({'g', 1, 12, 1, 1, 2, 0, 0, 0, 0, 0x40}));
  REQUIRE(outcome(bytes({'g', 1, 12, 1, 2, 2, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x40}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 12, 1, 1, 2, 33, 0, 0, 0, 0x40}), 1) == Outcome::refused);
  // topk: int8 of 2 is 127 of 2, −128 is no level; a sign past the end, a negative scale.
  REQUIRE(encode(*make_codec("topk:values=int8"), Vector{2.0f}) ==
          bytes({'g', 1, 6, 1, 1, 0x82, 0, 0, 0, 0, 0x40, 127}));
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0x82, 0, 0, 0, 0, 0x40, 128}), 1) == Outcome::refused);
  REQUIRE(encode(*make_codec("topk:values=sign"), Vector{2.0f}) ==
          bytes({'g', 1, 6, 1, 1, 0xc2, 0, 0, 0, 0, 0x40, 1}));
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0xc2, 0, 0, 0, 0, 0x40, 3}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0xc2, 0, 0, 0, 0, 0xc0, 1}), 1) == Outcome::refused);
  // two_bit: bits past the end, a negative scale; a form that is not.
  REQUIRE(encode(*make_codec("topk:values=two_bit"), Vector{2.0f}) ==
          bytes({'g', 1, 6, 1, 1, 0x22, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 1}));
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0x22, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 5}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0x22, 0, 0, 0, 0, 0x40, 0, 0, 0, 0xc0, 1}), 1) == Outcome::refused);
  REQUIRE(outcome(bytes({'g', 1, 6, 1, 1, 0xe2, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 1}), 1) == Outcome::refused);
  // sign_vote: a sign past the end.
  REQUIRE(outcome(bytes({'g', 1, 13, 1, 1}), 1) == Outcome::decoded);
  REQUIRE(outcome(bytes({'g', 1, 13, 1, 2}), 1) == Outcome::refused);
}

TEST_CASE("inspect refuses what has no whole header") {
  const Bytes payload = encode(*make_codec("dense"), gaussian(300, 1));
  for (std::size_t length = 0; length < 5; ++length) {
    REQUIRE_THROWS_AS(inspect(std::span(payload).first(length)), PayloadError);
  }
  REQUIRE_NOTHROW(inspect(std::span(payload).first(5)));
  REQUIRE_THROWS_AS(inspect(bytes({'h', 1, 1, 0})), PayloadError);
  REQUIRE_THROWS_AS(inspect(bytes({'g', 2, 1, 0})), PayloadError);
  REQUIRE_THROWS_AS(inspect(bytes({'g', 1, 99, 0})), PayloadError);
}

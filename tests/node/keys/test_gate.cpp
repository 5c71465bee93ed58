// The gate: connections of strangers, certificates in time and too late, rules that change meanwhile.
#include "gate.h"
#include "gossamer_test/catch.h"

using namespace gossamer;
using namespace gossamer::node;

namespace {

constexpr std::int64_t kClock = 1'800'000'000;
const std::string kFrom = "10.0.0.7";

PublicKey a_key() { return make_key_pair(KeyKind::peer, "x").public_key; }

std::vector<std::byte> some(std::size_t size) { return std::vector<std::byte>(size, std::byte{1}); }

TEST_CASE("a listed key speaks under its name, also while it changes, and no longer than it is listed") {
  const PublicKey old_key = a_key(), new_key = a_key(), stranger = a_key();
  Gate gate({.allowed = {{old_key, "ada"}, {new_key, "ada"}}});
  CHECK(gate.knock(old_key, kFrom, 0, kClock));
  CHECK(gate.speaker(old_key, some(100), 0, kClock) == "ada");
  CHECK(gate.speaker(new_key, some(100), 0, kClock) == "ada");
  CHECK_FALSE(gate.knock(stranger, kFrom, 0, kClock));
  CHECK_FALSE(gate.speaker(stranger, some(100), 0, kClock));
  gate.replace({.allowed = {{new_key, "ada"}}});
  CHECK_FALSE(gate.speaker(old_key, some(100), 1, kClock));  // over the connection that stands
  CHECK_FALSE(gate.knock(old_key, kFrom, 1, kClock));
  CHECK(gate.speaker(new_key, some(100), 1, kClock) == "ada");
  gate.replace({.allowed = {{new_key, "ada"}}, .revoked = {new_key}});
  CHECK_FALSE(gate.turns_away(new_key, 2));
  CHECK_FALSE(gate.speaker(new_key, some(100), 2, kClock));
  CHECK(gate.turns_away(new_key, 2));  // the connection that stands is of no use
  CHECK_FALSE(gate.turns_away(stranger, 60));
  CHECK(gate.refused().at(Admitted::no_revoked) == 1);
  CHECK(gate.refused().at(Admitted::no_unlisted) == 4);
}

TEST_CASE("a certificate in time admits, and nothing else of a stranger is read") {
  const KeyPair authority = make_key_pair(KeyKind::authority, "lab"),
                foreign = make_key_pair(KeyKind::authority, "eve");
  Gate gate({.authority = authority.public_key}, {.probation_s = 1});
  const PublicKey key = a_key();
  const auto bytes = encode_certificate(sign_certificate(authority, "ada", key, kClock + 60));

  SECTION("in time") {
    CHECK(gate.knock(key, kFrom, 0, kClock));
    CHECK_FALSE(gate.speaker(key, bytes, 0.5, kClock));  // the certificate itself is no message
    CHECK(gate.speaker(key, some(100), 0.6, kClock) == "ada");
    CHECK(gate.knock(key, kFrom, 100, kClock + 60));  // a new connection needs not show it again
    CHECK(gate.speaker(key, some(100), 100, kClock + 60) == "ada");
    CHECK_FALSE(gate.speaker(key, some(100), 101, kClock + 61));  // it is over
    CHECK(gate.refused().at(Admitted::no_expired) == 1);
    const auto news = gate.take_news();
    REQUIRE(news.size() == 2);
    CHECK(news[0].starts_with("ada (10.0.0.7) is admitted by a certificate until "));
    CHECK(news[1].starts_with("10.0.0.7 was turned away: its certificate has expired ("));
  }
  SECTION("another one takes its place, before it is over and after") {
    const auto later = encode_certificate(sign_certificate(authority, "ada", key, kClock + 120)),
               last = encode_certificate(sign_certificate(authority, "ada", key, kClock + 500));
    CHECK(gate.knock(key, kFrom, 0, kClock));
    CHECK_FALSE(gate.speaker(key, bytes, 0.1, kClock));
    CHECK(gate.speaker(key, later, 1, kClock + 1) == "ada");  // which is no frame that anybody reads
    CHECK(gate.speaker(key, some(100), 70, kClock + 70) == "ada");
    CHECK_FALSE(gate.speaker(key, some(100), 121, kClock + 121));
    CHECK_FALSE(gate.knock(key, kFrom, 122, kClock + 122));
    CHECK(gate.knock(key, kFrom, 140, kClock + 140));
    CHECK_FALSE(gate.speaker(key, last, 140.1, kClock + 140));
    CHECK(gate.speaker(key, some(100), 140.2, kClock + 140) == "ada");
  }
  SECTION("never") {
    CHECK(gate.knock(key, kFrom, 0, kClock));
    gate.end_probation(0.9);
    CHECK(gate.take_news().empty());
    gate.end_probation(1.1);
    const auto news = gate.take_news();
    REQUIRE(news.size() == 1);
    CHECK(news[0].starts_with("10.0.0.7 was turned away: it has shown no certificate yet ("));
    gate.end_probation(2);
    CHECK(gate.take_news().empty());
    CHECK_FALSE(gate.knock(key, kFrom, 2, kClock));
  }
  SECTION("too late") {
    CHECK(gate.knock(key, kFrom, 0, kClock));
    CHECK_FALSE(gate.speaker(key, bytes, 1.1, kClock));
    CHECK_FALSE(gate.speaker(key, some(100), 1.2, kClock));
    CHECK_FALSE(gate.knock(key, kFrom, 2, kClock));
    CHECK(gate.knock(key, kFrom, 12, kClock));  // it may try again
    CHECK_FALSE(gate.speaker(key, bytes, 12, kClock));
    CHECK(gate.speaker(key, some(100), 12, kClock) == "ada");
  }
  SECTION("something else first is not read") {
    CHECK(gate.knock(key, kFrom, 0, kClock));
    CHECK_FALSE(gate.speaker(key, some(100), 0.1, kClock));
    CHECK_FALSE(gate.speaker(key, some(100000), 0.1, kClock));
    CHECK(gate.refused().at(Admitted::on_probation) == 2);
    CHECK_FALSE(gate.speaker(key, bytes, 0.2, kClock));
    CHECK(gate.speaker(key, some(100), 0.3, kClock) == "ada");
  }
  SECTION("another authority's, and another key's") {
    const PublicKey other = a_key();
    for (const auto& [who, shown] :
         {std::pair{key, encode_certificate(sign_certificate(foreign, "ada", key, kClock + 60))},
          std::pair{other, bytes}}) {
      CHECK(gate.knock(who, kFrom, 0, kClock));
      CHECK_FALSE(gate.speaker(who, shown, 0.1, kClock));
      CHECK_FALSE(gate.speaker(who, some(100), 0.1, kClock));
    }
    CHECK(gate.refused().at(Admitted::no_forged) == 1);
    CHECK(gate.refused().at(Admitted::no_other_key) == 1);
  }
  SECTION("a certificate that was shown does not outlive the authority") {
    CHECK(gate.knock(key, kFrom, 0, kClock));
    CHECK_FALSE(gate.speaker(key, bytes, 0.1, kClock));
    gate.replace({.authority = foreign.public_key});
    CHECK_FALSE(gate.speaker(key, some(100), 0.2, kClock));
    gate.replace({.authority = authority.public_key, .revoked = {authority.public_key}});
    CHECK_FALSE(gate.speaker(key, some(100), 0.3, kClock));
    CHECK_FALSE(gate.knock(key, kFrom, 60, kClock));
  }
}

TEST_CASE("strangers on probation are few, and their keys take bounded memory") {
  const KeyPair authority = make_key_pair(KeyKind::authority, "lab");
  Gate gate({.authority = authority.public_key}, {.most_on_probation = 3, .probation_s = 1});
  std::vector<PublicKey> keys;
  for (int i = 0; i < 4; ++i) keys.push_back(a_key());
  for (int i = 0; i < 3; ++i) CHECK(gate.knock(keys[i], kFrom, 0, kClock));
  CHECK_FALSE(gate.knock(keys[3], kFrom, 0.5, kClock));
  CHECK(gate.knock(keys[0], kFrom, 0.5, kClock));  // the same probation, and no longer one
  CHECK(gate.knock(keys[3], kFrom, 1.1, kClock));  // the others' is over
  PublicKey made;
  for (int i = 0; i < 100000; ++i) {
    made.bytes[0] = static_cast<unsigned char>(i), made.bytes[1] = static_cast<unsigned char>(i >> 8);
    made.bytes[2] = static_cast<unsigned char>(i >> 16);
    gate.knock(made, kFrom, 2 + i * 1e-6, kClock);
  }
  CHECK(gate.take_news().size() <= 256);
  const PublicKey late = a_key();
  CHECK(gate.knock(late, kFrom, 10, kClock));
  CHECK_FALSE(
      gate.speaker(late, encode_certificate(sign_certificate(authority, "ada", late, kClock)), 10.1, kClock));
  CHECK(gate.speaker(late, some(10), 10.2, kClock) == "ada");
}

}  // namespace

TEST_CASE("one address does not take all places of those who may show a certificate") {
  const KeyPair authority = make_key_pair(KeyKind::authority, "lab");
  Gate gate({.authority = authority.public_key},
            {.most_on_probation = 8, .most_of_one_address = 3, .probation_s = 1});
  for (int k = 0; k < 3; ++k) CHECK(gate.knock(a_key(), "10.0.0.1", 0, kClock));
  CHECK_FALSE(gate.knock(a_key(), "10.0.0.1", 0.1, kClock));
  CHECK(gate.knock(a_key(), "10.0.0.2", 0.2, kClock));
  CHECK(gate.knock(a_key(), "10.0.0.1", 1.1, kClock));
}

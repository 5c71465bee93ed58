// What one peer may cost another.
#include "gossamer_test/catch.h"
#include "speaker_limits.h"

using namespace gossamer::node;

TEST_CASE("an allowance is given so much at once, and so much a second after that") {
  Allowance a(10, 2);
  for (int k = 0; k < 10; ++k) CHECK(a.take(1, 5));
  CHECK_FALSE(a.take(1, 5));
  CHECK_FALSE(a.take(1, 5.4));
  CHECK(a.take(1, 5.5));
  CHECK_FALSE(a.take(11, 100));
  CHECK(a.take(10, 100));
  CHECK_FALSE(a.take(1, 99));  // a clock that goes back gives nothing
}

TEST_CASE("who sends nothing of use is not heard for a while, and then again") {
  SpeakerLimits limits;
  int refused = 0;
  while (!limits.refused(1)) REQUIRE(++refused < 100000);
  CHECK(refused > 1000);
  CHECK_FALSE(limits.hears(1.1));
  CHECK(limits.hears(1 + SpeakerLimits::kNotHeard_s));
  SpeakerLimits slow;  // some frames of old views at each change
  for (int second = 0; second < 1000; ++second)
    for (int k = 0; k < 400; ++k) REQUIRE_FALSE(slow.refused(second));
}

TEST_CASE("questions and copies of the state have bounds of their own") {
  SpeakerLimits limits;
  int answers = 0, copies = 0;
  while (limits.may_ask(1)) REQUIRE(++answers < 100000);
  CHECK(answers >= 50);
  while (limits.may_have(1000, 1000, 1)) REQUIRE(++copies < 1000);
  CHECK(copies >= 4);
  CHECK(limits.may_tell(1));
  CHECK(limits.hears(1));
  CHECK(limits.may_ask(2));
}

// From when on a peer is late: what it is compared with, and how that follows.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gossamer_test/catch.h"
#include "pace.h"

using namespace gossamer::node;

namespace {

/// Rounds in which every neighbour's message comes after its own time; neighbours count from 1, 0 is the
/// peer itself.
class Course {
 public:
  explicit Course(double k, std::uint64_t interval = 1) : pace(k, interval), interval_(interval) {}

  /// From one exchange to the next.
  void exchange(const std::vector<double>& seconds) {
    const double begin = now_;
    for (std::uint64_t step = 0; step < interval_; ++step) {
      pace.begin(round_ + step, begin);
      pace.computed(round_ + step, seconds[0] / static_cast<double>(interval_));
    }
    round_ += interval_;
    for (PeerId p = 1; p < seconds.size(); ++p) pace.heard(p, round_ - 1, begin + seconds[p]);
    now_ = begin + *std::max_element(seconds.begin(), seconds.end());
  }
  void exchanges(int count, const std::vector<double>& seconds) {
    for (int e = 0; e < count; ++e) exchange(seconds);
  }

  Pace pace;

 private:
  std::uint64_t interval_;
  Round round_ = 0;
  double now_ = 100;
};

double deadline(double k, const std::vector<double>& seconds, int exchanges = 20) {
  Course course(k);
  course.exchanges(exchanges, seconds);
  return course.pace.deadline().value();
}

}  // namespace

TEST_CASE("the deadline is the median and so many deviations") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(deadline(0, {1, 2, 3}) == Approx(2).epsilon(0.02));
  CHECK(deadline(3, {1, 2, 3}) == Approx(2.3));  // no spread in time: a twentieth of the median
  CHECK(deadline(6, {1, 1, 1}) == Approx(1.3));
  std::mt19937_64 random(3);
  Course swings(3);  // neighbours take 1 to 3
  const auto draw = [&] { return 1 + 2 * static_cast<double>(random() >> 11) * 0x1p-53; };
  for (int e = 0; e < 40; ++e) swings.exchange({2, draw(), draw(), draw()});
  const double until = swings.pace.deadline().value();
  CHECK((until > 2.4 && until < 4));
}

TEST_CASE("nobody is late before a few rounds are known") {
  Course course(6);
  CHECK_FALSE(course.pace.deadline());
  CHECK(course.pace.steps() == 1);
  for (int e = 0; e < 3; ++e) {
    course.exchange({1, 1, 1, 1, 1, 1, 1});
    INFO(e);
    CHECK_FALSE(course.pace.deadline());
  }
  course.exchanges(2, {1, 1, 1, 1, 1, 1, 1});
  CHECK(course.pace.deadline());
  Course alone(6);
  alone.exchanges(5, {1});
  CHECK_FALSE(alone.pace.deadline());
  alone.exchanges(5, {1});
  CHECK(alone.pace.deadline().value() == Approx(1.3));
}

TEST_CASE("less than half of the peers do not move the deadline, however slow they are") {
  std::mt19937_64 random(5);
  const auto draw = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  for (int course = 0; course < 200; ++course) {
    const std::size_t peers = 3 + random() % 8, slow = random() % ((peers + 1) / 2);
    const double k = draw(0, 10), slower = std::pow(10, draw(0.5, 6));
    Course calm(k), hit(k);
    for (int e = 0; e < 24; ++e) {
      std::vector<double> seconds(peers);
      for (double& s : seconds) s = draw(0.9, 1.1);
      calm.exchange(seconds);
      for (std::size_t p = 0; p < slow; ++p) seconds[seconds.size() - 1 - p] *= slower;
      hit.exchange(seconds);
    }
    INFO(peers << " peers, " << slow << " slow by " << slower << ", k " << k);
    CHECK(calm.pace.deadline().value() <= 1.1 + k * 0.2);
    CHECK(hit.pace.deadline().value() <= 1.1 + k * 0.2);
    CHECK(hit.pace.deadline().value() >= 0.9);
  }
}

TEST_CASE("the deadline follows peers that become slower, and faster again") {
  Course course(4);
  course.exchanges(20, {1, 1, 1, 1});
  const double before = course.pace.deadline().value();
  course.exchanges(20, {5, 5, 5, 5});
  CHECK(course.pace.deadline().value() == Approx(5 * before));
  course.exchanges(20, {1, 1, 1, 1});
  CHECK(course.pace.deadline().value() == Approx(before));
}

TEST_CASE("who is ahead by as much always does not widen the deadline") {
  CHECK(deadline(6, {1, 0, 1}) == Approx(1.3));
  CHECK(deadline(6, {1, 0.5, 10}) == Approx(1.3));
}

TEST_CASE("a greater k waits longer") {
  double last = 0;
  for (const double k : {0.0, 0.5, 1.0, 3.0, 6.0, 100.0}) {
    const double now = deadline(k, {1, 1.2, 0.8, 4});
    CHECK(now > last);
    last = now;
  }
}

TEST_CASE("of two peers neither is the slow one") {
  CHECK(deadline(0, {1, 9}) == Approx(5));
  CHECK(deadline(0, {9, 1}) == Approx(5));
  CHECK(deadline(20, {1, 9}) > 9);
}

TEST_CASE("messages of a round that has not begun took no time, and rounds that were left out say nothing") {
  Pace pace(0, 1);
  double now = 0;
  for (Round r = 0; r < 20; ++r) {
    pace.heard(1, r + 1, now);
    pace.heard(2, r + 1, now);
    pace.begin(r, now);
    pace.computed(r, 1);
    now += 1;
  }
  CHECK(pace.deadline().value() == 0);
  Pace skipping(0, 1);
  for (Round r = 0; r < 200; r += 10, now += 1) {
    skipping.begin(r, now);
    skipping.computed(r, 0.5);
    for (Round of = r > 10 ? r - 9 : 0; of <= r; ++of) skipping.heard(1, of, now + 0.5);
  }
  CHECK(skipping.deadline().value() == Approx(0.5));
}

TEST_CASE("a peer that is held up now and then knows its mean, not its usual step") {
  Pace pace(6, 10);
  double now = 0;
  for (Round r = 0; r < 200; ++r) {  // every fifth step takes fifty times as long
    pace.begin(r, now);
    pace.computed(r, r % 5 == 0 ? 0.5 : 0.01);
    now += 0.2;
    for (const PeerId p : {1U, 2U, 3U})
      if (r % 10 == 9) pace.heard(p, r, now - 2 + 0.1);
  }
  CHECK(pace.steps() == 1);  // 1.08 s for ten steps, 0.1 s of the others
}

TEST_CASE("a slow peer takes as many local steps as fit") {
  const auto steps = [](double k, const std::vector<double>& seconds) {
    Course course(k, 16);
    course.exchanges(20, seconds);
    return course.pace.steps();
  };
  CHECK(steps(6, {1, 1, 1, 1}) == 16);
  CHECK(steps(0, {1, 1, 1, 1}) == 16);
  CHECK(steps(6, {1, 4, 4, 1}) == 16);  // others are slow
  const auto few = steps(0, {4, 1, 1, 1});
  CHECK((few >= 3 && few <= 4));
  CHECK(steps(6, {4, 1, 1, 1}) == 5);  // 1.3 times the median
  CHECK(steps(6, {1000, 1, 1, 1}) == 1);
  CHECK(steps(1e9, {4, 1, 1, 1}) == 16);
}

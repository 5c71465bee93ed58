// What an attacker's data plane sends in place of what it should.
#include "attack.h"
#include "attackers.h"

#include <cmath>
#include <random>

#include "gossamer/compress/payload_check.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

std::vector<float> random_vector(std::size_t n, std::uint32_t seed, float mean = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, 1);
  std::vector<float> v(n);
  for (float& x : v) x = normal(random);
  return v;
}

op::Encode command(Round round, Range range = {0, 1000}) {
  return {.range = range, .src = kGradient, .minus = {}, .apply_to = {}, .round = round, .parcel = 0};
}

std::vector<float> sent(Attack& attack, const std::vector<float>& v, Round round, std::size_t begin = 0) {
  const auto out = attack.corrupt(v, command(round, {begin, v.size()}));
  return {out.begin(), out.end()};
}

Attack make(const std::string& text, std::uint32_t peer = 3) {
  return Attack(parse_attacker("peer3=" + text).attack, 7, peer);
}

double norm(const std::vector<float>& v) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares);
}

std::string wrong_words(const Settings& settings) {
  return refusal_of([&] { small_job(settings); });
}

}  // namespace

TEST_CASE("nan sends payloads that do not decode, and goes by the right ones itself") {
  const Prepared prepared = prepare(small_job({}));
  const auto replica = [&](AttackSpec attack) {
    return make_replica(prepared, 0, make_objective(prepared, 0), 1, attack, Buffers{.slots = 1});
  };
  Replica honest = replica({}), attacker = replica(parse_attacker("peer3=nan").attack);
  const Range whole{0, prepared.initial.size()};
  const op::Encode tell{
      .range = whole, .src = kParameters, .minus = {}, .apply_to = 2, .round = 0, .parcel = 0};
  Payload right, wrong;
  honest.run(tell, [&](DataEvent e) { right = std::get<Encoded>(e).payload; });
  attacker.run(tell, [&](DataEvent e) { wrong = std::get<Encoded>(e).payload; });
  compress::PayloadCheck check;
  CHECK(check(*right, whole.size, prepared.job.exchange.codec));
  CHECK_FALSE(check(*wrong, whole.size, prepared.job.exchange.codec));
  attacker.run(op::DecodeAdd{whole, 2, 1, wrong}, [](const DataEvent&) {});
  CHECK(Run::same_bits(attacker.slot(2), honest.slot(2)));
}

TEST_CASE("flipped, zero and honest vectors are what their names say") {
  const auto v = random_vector(1000, 1);
  Attack flip = make("sign_flip"), zero = make("zero"), honest({}, 7, 3);
  const auto flipped = sent(flip, v, 0), zeros = sent(zero, v, 0);
  for (std::size_t i = 0; i < v.size(); ++i) {
    CHECK(flipped[i] == -10 * v[i]);
    CHECK(zeros[i] == 0);
  }
  CHECK(sent(honest, v, 0) == v);
}

TEST_CASE("noise has the stated size, and is the same when drawn again") {
  const auto v = random_vector(1000, 1);
  Attack one = make("noise:100"), same = make("noise:100"), other = make("noise:100", 4);
  const auto first = sent(one, v, 5);
  CHECK(norm(first) == Approx(100 * norm(v)).epsilon(0.1));
  CHECK(sent(same, v, 5) == first);
  CHECK(sent(other, v, 5) != first);
  CHECK(sent(same, v, 6) != first);
  CHECK(sent(same, v, 5, 1600) != first);
}

TEST_CASE("a little is enough sends the mean less some standard deviations, by its own vectors") {
  Attack attack = make("alie:2");
  const auto first = random_vector(1000, 1, 5);
  CHECK(sent(attack, first, 0) == first);
  double sum = 0;
  for (Round t = 1; t <= 100; ++t) {
    const auto told = sent(attack, random_vector(1000, static_cast<std::uint32_t>(t), 5), t);
    if (t > 50)
      for (const float x : told) sum += static_cast<double>(x) / 50'000;
  }
  CHECK(sum == Approx(5 - 2).margin(0.15));  // entries have mean 5 and deviation 1
}

TEST_CASE("who flips labels sends what it learned of them honestly") {
  Attack attack = make("label_flip");
  CHECK(attack.flips_labels());
  CHECK(sent(attack, {1, 2}, 0) == std::vector<float>{1, 2});
  CHECK_FALSE(Attack({}, 7, 3).flips_labels());
}

TEST_CASE("attackers are read from the job, and wrong ones refused") {
  const auto with = [](const std::string& list) { return wrong_words({"sim.attackers=[" + list + "]"}); };
  CHECK(with("\"peer1=noise\", \"peer2=alie:0.3\"").empty());
  CHECK(says(with("\"peer1=nois\""), "did you mean 'noise'?"));
  CHECK(says(with("\"peer1\""), "expected PEER=ATTACK"));
  CHECK(says(with("\"peer1=noise:-1\""), "a number above 0"));
  CHECK(says(with("\"peer1=zero:2\""), "zero has no size"));
  CHECK(says(with("\"peer9=zero\""), "peer9"));
  CHECK(says(with("\"peer1=zero\", \"peer1=noise\""), "names 'peer1' twice"));
  CHECK(says(with("\"peer0=zero\", \"peer1=zero\", \"peer2=zero\", \"peer3=zero\""), "an honest one"));
  const Job job = small_job({"sim.attackers=[\"peer1=noise:5\"]"});
  CHECK(attack_of(job, 1).size == 5);
  CHECK(honest(job, 0));
  const Job sixteen =
      small_job({"peers=16", "sim.attackers=[\"peer1=alie\", \"peer2=alie\", \"peer3=alie:1.5\"]"});
  CHECK(attack_of(sixteen, 1).size == Approx(0.0966).epsilon(1e-3));  // 7 of 13 honest ones below
  CHECK(attack_of(sixteen, 3).size == 1.5);
  CHECK_FALSE(honest(job, 1));
}

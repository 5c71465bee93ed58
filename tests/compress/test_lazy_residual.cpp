// The residual that sign codecs keep lazily is the one of the definition: e ← v, then minus what was sent.
#include <limits>

#include "gossamer_test/catch.h"
#include "targets.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

const char* const kLazy[] = {"onebit",
                             "onebit:bucket=96",
                             "onebit:bucket=8192",
                             "onebit_two",
                             "onebit_two:bucket=32",
                             "onebit_two:bucket=131072",
                             "onebit_scaled",
                             "onebit_scaled:lambda=auto,bound=0.7",
                             "onebit_scaled:bound=0.3,bucket=96",
                             "onebit_scaled:bucket=131072"};

Vector residual_of(FeedbackState state) {
  state.materialise();
  return Vector(state.residual.begin(), state.residual.end());
}

/// Error feedback by its definition alone.
struct Eager {
  Vector e;
  Bytes encode_feedback(const Codec& codec, std::span<const float> g, RandomKey key = {}) {
    Vector v(g.begin(), g.end());
    for (std::size_t i = 0; i < e.size(); ++i) v[i] = g[i] + e[i];
    const Bytes payload = encode(codec, v, key);
    e = v;
    decode_add(payload, -1, e);
    return payload;
  }
};

struct Lazy {
  explicit Lazy(Threads* threads = nullptr) : workspace(threads) {}
  Bytes encode_feedback(const Codec& codec, std::span<const float> g, RandomKey key = {}) {
    Bytes out(codec.max_bytes(g.size()), std::byte{0x5a});
    out.resize(codec.encode_feedback(g, state, key, workspace, out));
    return out;
  }
  FeedbackState state;
  Workspace workspace;
};

/// Vectors of one kind in each round: some are all zero, some split buckets, some are of −0 or denormals.
Vector gradient(std::size_t n, std::uint64_t round) {
  const auto all = families(std::max<std::size_t>(n, 1), round);
  Vector g = all[round % all.size()].v;
  if (g.size() > n) g.resize(n);
  // Sums over the rounds stay in float's range.
  for (float& x : g) x = std::fabs(x) > 1e30f ? x * 1e-10f : x;
  return g;
}

}  // namespace

TEST_CASE("lazy feedback is eager feedback to the bit") {
  for (const char* spec : kLazy) {
    const auto codec = make_codec(spec);
    for (const std::size_t n : {0u, 1u, 31u, 32u, 33u, 511u, 512u, 513u, 5000u}) {
      Eager eager;
      Lazy lazy;
      for (std::uint64_t round = 0; round < 30; ++round) {
        const Vector g = gradient(n, round);
        INFO(spec << " on " << n << " in round " << round);
        REQUIRE(lazy.encode_feedback(*codec, g) == eager.encode_feedback(*codec, g));
        REQUIRE(same_bits(residual_of(lazy.state), eager.e));
      }
    }
  }
}

TEST_CASE("long vectors give the same bytes and residual for any number of threads") {
  const std::size_t n = (std::size_t{1} << 20) + 7;
  for (const char* spec : {"onebit", "onebit_two:bucket=96", "onebit_scaled", "onebit_scaled:bucket=96",
                           "onebit_scaled:bound=0.5", "qsgd", "dense", "fp16", "bf16"}) {
    const auto codec = make_codec(spec);
    // Some slices hold split buckets, some none.
    Vector g = gaussian(n, 1);
    const Vector few = sparse(n, 0.01, 2);
    std::copy(few.begin() + 300000, few.begin() + 600000, g.begin() + 300000);
    Eager eager;
    std::vector<Bytes> payloads;
    for (int round = 0; round < 2; ++round) payloads.push_back(eager.encode_feedback(*codec, g));
    Vector sum(n, 1.0f);
    decode_add(payloads[1], 0.3f, sum);
    for (const std::size_t count : {1u, 2u, 5u}) {
      Threads threads(count);
      Lazy lazy(&threads);
      INFO(spec << " with " << count << " threads");
      if (codec->traits().feedback()) {
        for (const Bytes& payload : payloads) REQUIRE(lazy.encode_feedback(*codec, g) == payload);
        REQUIRE(same_bits(residual_of(lazy.state), eager.e));
      }
      Bytes out(codec->max_bytes(n));
      out.resize(codec->encode(g, {}, lazy.workspace, out));
      REQUIRE(out == payloads[0]);
      Vector acc(n, 1.0f);
      decode_add(payloads[1], 0.3f, acc, &threads);
      REQUIRE(same_bits(acc, sum));
    }
  }
}

TEST_CASE("a residual goes on under another codec and bucket size") {
  const char* const specs[] = {"onebit",     "onebit:bucket=96", "qsgd", "onebit_two:bucket=96",
                               "onebit_two", "onebit_scaled",    "topk", "onebit_scaled:bucket=32"};
  for (const std::size_t n : {33u, 5000u}) {
    Eager eager;
    Lazy lazy;
    for (std::uint64_t round = 0; round < 40; ++round) {
      const auto codec = make_codec(specs[round * 5 % std::size(specs)]);
      const Vector g = gradient(n, round * 3);
      INFO(codec->spec() << " on " << n << " in round " << round);
      REQUIRE(lazy.encode_feedback(*codec, g, {.round = round}) ==
              eager.encode_feedback(*codec, g, {.round = round}));
      REQUIRE(same_bits(residual_of(lazy.state), eager.e));
    }
  }
}

TEST_CASE("a saved state goes on as if it had not been saved") {
  for (const char* spec : {"onebit", "onebit_two:bucket=96", "onebit_scaled:bound=0.3", "topk"}) {
    const auto codec = make_codec(spec);
    Lazy one, other;
    for (std::uint64_t round = 0; round < 6; ++round) {
      other.state = restore_feedback(save(one.state));
      const Vector g = laplacian(3000, round);
      INFO(spec << " in round " << round);
      REQUIRE(one.encode_feedback(*codec, g) == other.encode_feedback(*codec, g));
      REQUIRE(same_bits(one.state.residual, other.state.residual));
      REQUIRE(save(one.state) == save(other.state));
    }
  }
}

TEST_CASE("bytes that are no saved state are refused") {
  Lazy lazy;
  (void)lazy.encode_feedback(*make_codec("onebit"), gaussian(700, 1));
  const Bytes good = save(lazy.state);
  for (std::size_t size = 0; size < good.size(); ++size)
    REQUIRE_THROWS_AS(restore_feedback(std::span(good).first(size)), StateError);
  Bytes longer = good;
  longer.push_back(std::byte{0});
  REQUIRE_THROWS_AS(restore_feedback(longer), StateError);
  const auto with = [&](std::size_t at, std::byte value) {
    Bytes bad = good;
    bad[at] = value;
    return bad;
  };
  // Mark, version, number of entries, bucket, number of pairs.
  for (const std::size_t at : {0u, 3u, 4u, 11u, 12u, 20u, 27u})
    REQUIRE_THROWS_AS(restore_feedback(with(at, std::byte{0xff})), StateError);
  // A pair of the wrong sign; an exponent of ones in a pair and in an entry.
  REQUIRE_THROWS_AS(restore_feedback(with(31, std::byte{0xbf})), StateError);
  for (const std::size_t last : {std::size_t{31}, good.size() - 1}) {
    Bytes infinite = with(last, std::byte{0x7f});
    infinite[last - 1] = std::byte{0x80};
    REQUIRE_THROWS_AS(restore_feedback(infinite), StateError);
  }
}

TEST_CASE("sign codecs keep the same residual on every instruction set") {
  for (const char* spec : kLazy) {
    const auto codec = make_codec(spec);
    const auto rounds = [&] {
      Lazy lazy;
      Bytes all;
      for (std::uint64_t round = 0; round < 5; ++round) {
        const Bytes payload = lazy.encode_feedback(*codec, gradient(9001, round));
        all.insert(all.end(), payload.begin(), payload.end());
      }
      const Bytes state = save(lazy.state);
      all.insert(all.end(), state.begin(), state.end());
      return all;
    };
    const Bytes expected = rounds();
    for_each_target([&](const std::string& target) {
      INFO(spec << " on " << target);
      REQUIRE(rounds() == expected);
    });
  }
}

TEST_CASE("what is not finite is found on every instruction set and loses nothing") {
  const float most = std::numeric_limits<float>::max();
  for (const char* spec : kLazy) {
    const auto codec = make_codec(spec);
    for_each_target([&](const std::string& target) {
      for (const std::size_t at : {0u, 500u, 4999u, 70003u}) {
        // The first is named, though others follow in the same bucket or the next.
        const std::size_t n = 70005, later = std::min(at + 400, n - 1);
        Threads threads(2);
        Lazy lazy(&threads);
        Vector g = sparse(n, 0.3, at);
        (void)lazy.encode_feedback(*codec, g);
        // A sum that overflows, of an entry and a residual that are finite both.
        g[at] = at % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -most;
        g[later] = g[n - 1] = std::numeric_limits<float>::infinity();
        lazy.state.materialise();
        lazy.state.residual[at] = -most;
        Vector expected = residual_of(lazy.state);
        for (std::size_t i = 0; i < n; ++i) expected[i] += i == at || i == later || i == n - 1 ? 0 : g[i];
        std::string message;
        try {
          (void)lazy.encode_feedback(*codec, g);
        } catch (const EncodeError& error) {
          message = error.what();
        }
        INFO(spec << " on " << target << ": " << message);
        REQUIRE(message.find("entry " + std::to_string(at) + " of ") != std::string::npos);
        REQUIRE(same_bits(residual_of(lazy.state), expected));
      }
    });
  }
}

TEST_CASE("huge entries are encoded though their sums overflow") {
  for (const char* spec : kLazy) {
    const auto codec = make_codec(spec);
    Vector g = wide(5000, 120, 126, 1);
    g[17] = 0;
    Eager eager;
    Lazy lazy;
    for (int round = 0; round < 3; ++round) {
      INFO(spec << " in round " << round);
      REQUIRE(lazy.encode_feedback(*codec, g) == eager.encode_feedback(*codec, g));
      REQUIRE(same_bits(residual_of(lazy.state), eager.e));
    }
  }
}

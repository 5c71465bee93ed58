// What every codec of the table promises.
#include <limits>

#include "gossamer/compress/kernels.h"
#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// l2 norms of a bucket and values times n/k may leave float's range; such a vector is refused, not encoded.
bool encodable(const Codec& codec, const Named& named) {
  const bool grows = is_l2(codec) || codec.spec().find("scale=1") != std::string::npos;
  return !(grows && (named.name == "huge" || named.name == "all exponents"));
}

}  // namespace

TEST_CASE("a payload stays within max_bytes and says what it is") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const std::size_t n : sizes()) {
      for (const auto& [name, v] : families(std::max<std::size_t>(n, 1), n)) {
        if (!encodable(*codec, {name, {}})) continue;
        const auto x = std::span(v).first(n);
        const Bytes payload = encode(*codec, x);
        INFO(spec << " on " << n << " entries: " << name);
        REQUIRE(payload.size() <= codec->max_bytes(n));
        const PayloadInfo info = inspect(payload);
        REQUIRE(info.codec == codec->name());
        REQUIRE(info.entries == n);
        const Vector decoded = decode(payload, n);
        REQUIRE(std::all_of(decoded.begin(), decoded.end(), [](float f) { return std::isfinite(f); }));
        if (codec->traits().exact) REQUIRE(std::equal(decoded.begin(), decoded.end(), x.begin()));
        if (n > 100000 && name != "gaussian" && name != "0.1 % dense") break;
      }
    }
  }
}

TEST_CASE("a difference is encoded, and its estimate goes along, as if both were done one after the other") {
  Threads threads(3);
  const RandomKey key{.seed = 11, .peer = 2, .layer = 3, .round = 5};
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const std::size_t n : sizes()) {
      const Vector about = laplacian(n, 3);
      for (const auto& [name, v] : families(std::max<std::size_t>(n, 1), n)) {
        if (!encodable(*codec, {name, {}})) continue;
        INFO(spec << " on " << n << " entries: " << name);
        const auto x = std::span(v).first(n);
        for (const Vector& before : {Vector(n, 0.0f), Vector(n, -0.0f), about, Vector(x.begin(), x.end())}) {
          Vector difference(n), expected = before, estimate = before;
          for (std::size_t i = 0; i < n; ++i) difference[i] = x[i] - before[i];
          const Bytes payload = encode(*codec, difference, key);
          decode_add(payload, 1.0f, expected);
          Workspace workspace(n > 10000 ? &threads : nullptr);
          Bytes out(codec->max_bytes(n));
          out.resize(codec->encode_difference(x, estimate, key, workspace, out));
          REQUIRE(out == payload);
          REQUIRE(same_bits(estimate, expected));
          Vector made(n, NAN);  // x is made on the way, each entry once
          const auto make = [&](std::size_t first, std::size_t count) {
            for (std::size_t i = first; i < first + count; ++i) made[i] = std::isnan(made[i]) ? x[i] : NAN;
          };
          estimate = before;
          out.assign(codec->max_bytes(n), std::byte{0});
          out.resize(codec->encode_difference(made, estimate, key, workspace, out, make));
          REQUIRE(out == payload);
          REQUIRE(same_bits(estimate, expected));
          REQUIRE(same_bits(made, Vector(x.begin(), x.end())));
        }
        if (n > 100000 && name != "gaussian" && name != "0.1 % dense") break;
      }
    }
  }
}

TEST_CASE("encoding is a function of vector and key") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    const Vector v = laplacian(3000, 7);
    const RandomKey key{.seed = 11, .peer = 2, .layer = 3, .round = 5};
    INFO(spec);
    const Bytes payload = encode(*codec, v, key);
    REQUIRE(payload == encode(*codec, v, key));
    // Scratch that is used already, and output that is not clean, change nothing.
    Workspace workspace;
    Bytes out(codec->max_bytes(5000), std::byte{0xa5});
    (void)codec->encode(gaussian(5000, 8), key, workspace, out);
    const std::size_t used = codec->encode(v, key, workspace, out);
    REQUIRE(Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used)) == payload);
  }
}

TEST_CASE("the bytes of wire version 1 are frozen") {
  // Made of exact operations only, so that every compiler and machine makes the same vector.
  std::mt19937_64 random(1);
  Vector v(5000);
  for (float& x : v) {
    x = static_cast<float>(static_cast<int>(random() % 255) + static_cast<int>(random() % 255) - 254) / 64;
    if (random() % 4 == 0) x = 0;
  }
  std::fill(v.begin() + 2000, v.begin() + 2900, 0.0f);
  v[2500] = 100;
  const std::vector<std::pair<std::string, std::uint64_t>> expected = {
      {"dense", 0x16ddc5025f50b2f1u},
      {"fp16", 0x1284d8bee1c74961u},
      {"onebit", 0xa30e67b01724dcbau},
      {"onebit_scaled", 0x01f62be0b8318424u},
      {"onebit_scaled:lambda=auto,bound=0.5", 0xb430ecf1ba056603u},
      {"qsgd:bits=2,norm=l2", 0xceb7d8e9f18e95f2u},
      {"qsgd:bits=4", 0x19b6784bc40447f7u},
      {"qsgd:bits=8", 0x602a249053ebb3abu},
      {"topk:density=0.02", 0x2b8b7bef71e918c1u},
      {"bf16", 0x35f2442b97b3388fu},
      {"onebit_two", 0x2df042422b0da8b1u},
      {"terngrad", 0xd51a465688ff4ca9u},
      {"intq:bits=2,rounding=stochastic", 0x7fe5408ffc35f5aau},
      {"intq:bits=4", 0x0cd4b627bbb4083eu},
      {"intq:bits=8", 0x8d440a45adc6f97au},
      {"intq:bits=4,coding=rans", 0xcb850efd554250deu},
      {"intq:coding=auto", 0x0515731997cf6a1eu},
      {"randk:density=0.02", 0x38e7ab58ef3efc18u},
      {"threshold:tau=2", 0x4828c2750526e092u},
      {"topk:values=fp16,select=sampled", 0x1a932f1b303fd48du},
      {"topk:values=int8,select=bisect", 0xba273570e97108d1u},
      {"topk:values=sign,select=ldte_bs", 0x136ae7e3b915f9feu},
      {"qsgd:coding=elias", 0x03ac99824a8f224du},
      {"qsgd:norm=l2,coding=elias_dense", 0xeac5f2a0797d2bdbu},
      {"qsgd:bits=8,coding=rice", 0xb325bf39cf3aca15u},
      {"qsgd:coding=rans", 0x751add5340e6371eu},
      {"terngrad:coding=auto", 0xddea674d27eaa978u},
      {"topk:coding=elias", 0xafa7e8a953a47430u},
      {"topk:coding=rice", 0xada7f7fb038d04ddu},
      {"sign_vote", 0x211b82533a63e156u}};
  for (const auto& [spec, hash] : expected) {
    std::uint64_t fnv = 0xcbf29ce484222325u;
    for (const std::byte b : encode(*make_codec(spec), v, {.seed = 1, .peer = 2, .layer = 3, .round = 4})) {
      fnv = (fnv ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
    }
    INFO("a change of format needs a new version: " << spec);
    CHECK(fnv == hash);
  }
}

TEST_CASE("decode_add adds the weighted decoded vector") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const std::size_t n : {1u, 33u, 513u, 4097u}) {
      const Vector v = gaussian(n, 21);
      const Bytes payload = encode(*codec, v);
      Vector sum = laplacian(n, 22), expected = sum;
      axpy(-0.3f, decode(payload, n), expected);
      decode_add(payload, -0.3f, sum);
      INFO(spec << " on " << n);
      REQUIRE(same_bits(sum, expected));
    }
  }
}

TEST_CASE("payloads that are added together leave what they leave one after the other") {
  Threads threads(2);
  const auto specs = all_specs();
  for (std::size_t s = 0; s < specs.size(); ++s)
    for (const std::size_t n : {0u, 1u, 513u, 8192u, 30001u}) {
      const auto codec = make_codec(specs[s]), other = make_codec(specs[(s + 1) % specs.size()]);
      const auto rarely = make_codec("onebit_scaled:bucket=1024"),
                 wide = make_codec("onebit_scaled:bucket=16384");
      for (const Codec* last : {codec.get(), other.get(), rarely.get(), wide.get()}) {
        const Bytes one = encode(*codec, gaussian(n, 1)), two = encode(*codec, laplacian(n, 2)),
                    three = encode(*last, gaussian(n, 3));
        const std::vector<WeightedPayload> all{{0.25f, one}, {0.5f, two}, {-0.75f, three}};
        Vector expected = laplacian(n, 4);
        for (const auto& [weight, payload] : all) decode_add(payload, weight, expected);
        INFO(specs[s] << " and " << last->spec() << " on " << n);
        for (Threads* team : {static_cast<Threads*>(nullptr), &threads}) {
          Vector sum = laplacian(n, 4);
          std::size_t told = 0;
          bool in_turn = true;
          decode_add(
              all, sum,
              [&](std::size_t begin, std::size_t size) {
                in_turn &= begin == told;
                told += size;
                for (std::size_t i = begin; i < begin + size; ++i)
                  in_turn &= same_bits({&sum[i], 1}, {&expected[i], 1});
              },
              team);
          REQUIRE(in_turn);
          REQUIRE(told == n);
          REQUIRE(same_bits(sum, expected));
        }
        Bytes longer = three;
        longer.push_back(std::byte{0});
        Vector sum(n);
        REQUIRE_THROWS_AS(decode_add(std::vector<WeightedPayload>{{1, one}, {1, longer}}, sum,
                                     [](std::size_t, std::size_t) {}),
                          PayloadError);
      }
    }
}

TEST_CASE("a codec that claims to be contractive is") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    if (!codec->traits().contractive) continue;
    // Few of the draws of randk hold the one entry that counts.
    const std::uint64_t draws = codec->name() == "randk"                             ? 1000
                                : codec->traits().unbiased && !codec->traits().exact ? 16
                                                                                     : 1;
    for (const auto& [name, v] : families(2000, 5)) {
      // A scale that is a denormal number is rounded too coarsely for a bound; only onebit_scaled checks it.
      if (!encodable(*codec, {name, {}}) || (name == "tiny" && codec->spec() != "onebit_scaled")) continue;
      double error = 0, worst = 0;
      for (std::uint64_t r = 0; r < draws; ++r) {
        const Vector decoded = decode(encode(*codec, v, {.seed = 1, .round = r}), v.size());
        error += squared_error(decoded, v);
        for (std::size_t i = 0; i < v.size(); ++i)
          worst = std::max(worst, std::fabs(static_cast<double>(decoded[i]) - v[i]));
      }
      INFO(spec << " on " << name);
      // The max norm is what intq stands on; see there.
      const bool in_max = codec->name() == "intq" && worst <= (1 - 1e-7) * largest(v);
      REQUIRE((in_max || error / static_cast<double>(draws) <= (1 - 1e-7) * squared(v)));
    }
  }
}

TEST_CASE("codecs that are not contractive say so") {
  REQUIRE_FALSE(make_codec("qsgd:bits=2")->traits().contractive);
  REQUIRE_FALSE(make_codec("qsgd:bits=4,norm=l2")->traits().contractive);
  REQUIRE_FALSE(make_codec("qsgd:bits=2,norm=l2,bucket=32")->traits().contractive);
  REQUIRE(make_codec("qsgd:bits=8,norm=l2")->traits().contractive);
  REQUIRE(make_codec("qsgd:bits=4,norm=l2,bucket=32")->traits().contractive);
  for (const char* name :
       {"terngrad", "terngrad:clip=none", "threshold", "sign_vote", "randk:density=0.5,scale=1"}) {
    INFO(name);
    REQUIRE_FALSE(make_codec(name)->traits().contractive);
  }
  for (const char* name :
       {"dense", "fp16", "onebit", "onebit_scaled", "topk", "qsgd", "qsgd:bits=8", "bf16", "onebit_two",
        "intq", "intq:bits=2,rounding=stochastic", "randk", "randk:density=0.6,scale=1"}) {
    INFO(name);
    REQUIRE(make_codec(name)->traits().contractive);
  }
}

TEST_CASE("codecs say whether they are unbiased") {
  for (const char* name :
       {"dense", "qsgd", "terngrad:clip=none", "intq:rounding=stochastic", "randk:scale=1"}) {
    INFO(name);
    REQUIRE(make_codec(name)->traits().unbiased);
  }
  for (const char* name : {"fp16", "bf16", "onebit", "onebit_two", "terngrad", "intq", "randk", "threshold",
                           "sign_vote", "topk"}) {
    INFO(name);
    REQUIRE_FALSE(make_codec(name)->traits().unbiased);
  }
}

TEST_CASE("NaN and Inf are refused by their index") {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const std::size_t at : {0u, 37u, 1500u, 1999u}) {
      for (const float value : bad) {
        Vector v = gaussian(2000, 3);
        v[at] = value;
        std::string message;
        try {
          (void)encode(*codec, v);
        } catch (const EncodeError& error) {
          message = error.what();
        }
        INFO(spec << ": " << message);
        REQUIRE(message.find("entry " + std::to_string(at) + " ") != std::string::npos);
        Workspace workspace;
        Vector estimate(2000, 0.5f);
        Bytes out(codec->max_bytes(2000));
        REQUIRE_THROWS_WITH(codec->encode_difference(v, estimate, {}, workspace, out),
                            ContainsSubstring("entry " + std::to_string(at) + " "));
      }
    }
  }
}

TEST_CASE("an output that is too small is refused") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    Workspace workspace;
    Bytes out(codec->max_bytes(1000) - 1);
    REQUIRE_THROWS_AS(codec->encode(gaussian(1000, 1), {}, workspace, out), EncodeError);
  }
}

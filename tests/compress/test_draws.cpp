// The random bits of the quantisers: uniform and without pattern, from either source.
#include <array>
#include <bit>
#include <string>

#include "gossamer_test/catch.h"
#include "level_kernels.h"
#include "targets.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

constexpr RandomKey kKey{.seed = 11, .peer = 2, .layer = 3, .round = 4};
constexpr std::array kSources = {Random::philox, Random::hash};

/// Bits of the first n entries, n a multiple of 512.
std::vector<std::uint16_t> bits_of(const EntryBits& random, std::size_t n) {
  std::vector<std::uint16_t> all(n);
  EntryBits::Group group;
  for (std::size_t g = 0; g < n / group.size(); ++g) {
    random.group(g, group);
    std::copy(group.begin(), group.end(), all.begin() + static_cast<std::ptrdiff_t>(g * group.size()));
  }
  return all;
}

std::string name_of(Random source) { return source == Random::hash ? "hash" : "philox"; }

/// How far χ² of equally likely cells lies from its mean, in standard deviations.
double chi_z(const std::vector<std::size_t>& count, std::size_t n) {
  const double cells = static_cast<double>(count.size()), expected = static_cast<double>(n) / cells;
  double chi = 0;
  for (const std::size_t c : count) chi += std::pow(static_cast<double>(c) - expected, 2) / expected;
  return (chi - (cells - 1)) / std::sqrt(2 * (cells - 1));
}

/// Correlation of two runs of draws, times √n: a standard normal number where they have nothing in common.
double correlation_z(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  constexpr double kMean = 32767.5, kVariance = (65536.0 * 65536.0 - 1) / 12;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - kMean) * (b[i] - kMean);
  return sum / kVariance / std::sqrt(static_cast<double>(a.size()));
}

/// kKey with each of its bits flipped in turn.
std::vector<RandomKey> neighbours() {
  std::vector<RandomKey> keys;
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (unsigned part = 0; part < (bit < 32 ? 4u : 2u); ++part) {
      RandomKey key = kKey;
      if (part == 0) key.seed ^= std::uint64_t{1} << bit;
      if (part == 1) key.round ^= std::uint64_t{1} << bit;
      if (part == 2) key.peer ^= 1u << bit;
      if (part == 3) key.layer ^= 1u << bit;
      keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace

TEST_CASE("hashed draws are the same on every instruction set") {
  const EntryBits random(kKey, Random::hash);
  for_each_target([&](const std::string& target) {
    for (const std::size_t group : {std::size_t{0}, std::size_t{1}, std::size_t{77},
                                    (std::size_t{1} << 24) - 1, std::size_t{1} << 24, std::size_t{3} << 25}) {
      Draws draws;
      draw(random, group, draws);
      std::array<std::uint32_t, EntryBits::kGroup / 2> expected;
      random.words(group, expected.data());
      INFO(target << " group " << group);
      REQUIRE(std::equal(expected.begin(), expected.end(), draws.words));
    }
  });
}

TEST_CASE("draws are uniform, alone and in pairs of neighbours") {
  constexpr std::size_t n = std::size_t{1} << 23;
  for (const Random source : kSources) {
    const auto bits = bits_of(EntryBits(kKey, source), n);
    std::vector<std::size_t> values(65536), high_pairs(65536), low_pairs(65536), rows(65536);
    std::array<std::size_t, 16> ones{};
    for (std::size_t i = 0; i < n; ++i) {
      const unsigned a = bits[i], b = bits[(i + 1) % n], c = bits[(i + 64) % n];
      ++values[a];
      ++high_pairs[(a & 0xff00u) | b >> 8];
      ++low_pairs[(a & 0xffu) << 8 | (b & 0xffu)];
      ++rows[(a & 0xff00u) | (c & 0xffu)];  // among these the two halves of a word
      for (unsigned k = 0; k < 16; ++k) ones[k] += a >> k & 1u;
    }
    INFO(name_of(source));
    for (const auto* count : {&values, &high_pairs, &low_pairs, &rows}) {
      const double z = chi_z(*count, n);
      CAPTURE(z);
      REQUIRE(std::fabs(z) < 5);
    }
    for (const std::size_t count : ones) {
      const double half = n / 2.0;
      REQUIRE(std::fabs(static_cast<double>(count) - half) < 5 * std::sqrt(half / 2));
    }
  }
}

TEST_CASE("neighbouring draws are not correlated") {
  constexpr std::size_t n = std::size_t{1} << 21;
  for (const Random source : kSources) {
    const auto bits = bits_of(EntryBits(kKey, source), n + 512);
    for (std::size_t lag = 1; lag <= 64; ++lag) {
      INFO(name_of(source) << " lag " << lag);
      REQUIRE(std::fabs(correlation_z(std::span(bits).first(n), std::span(bits).subspan(lag, n))) < 5);
    }
  }
}

TEST_CASE("keys that differ in one bit give draws that have nothing in common") {
  constexpr std::size_t n = std::size_t{1} << 14;
  for (const Random source : kSources) {
    const auto base = bits_of(EntryBits(kKey, source), n);
    for (const RandomKey& key : neighbours()) {
      const auto other = bits_of(EntryBits(key, source), n);
      std::array<std::size_t, 16> flips{};
      for (std::size_t i = 0; i < n; ++i) {
        for (unsigned k = 0; k < 16; ++k) flips[k] += (base[i] ^ other[i]) >> k & 1u;
      }
      INFO(name_of(source) << " seed " << key.seed << " peer " << key.peer << " layer " << key.layer
                           << " round " << key.round);
      REQUIRE(std::fabs(correlation_z(base, other)) < 5);
      for (const std::size_t count : flips)
        REQUIRE(std::fabs(static_cast<double>(count) - n / 2.0) < 5.5 * std::sqrt(n / 4.0));
    }
  }
}

TEST_CASE("each bit of a word's number flips half of the word's bits") {
  constexpr std::size_t kGroups = 512, kWords = EntryBits::kGroup / 2, n = kGroups * kWords;
  const EntryBits random(kKey, Random::hash);
  std::vector<std::uint32_t> words(n);
  for (std::size_t g = 0; g < kGroups; ++g) random.words(g, words.data() + g * kWords);
  for (unsigned bit = 0; bit < 17; ++bit) {
    std::array<std::size_t, 32> flips{};
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t changed = words[i] ^ words[i ^ std::size_t{1} << bit];
      for (unsigned k = 0; k < 32; ++k) flips[k] += changed >> k & 1u;
    }
    // Each pair was counted twice.
    const double half = n / 4.0, sigma = std::sqrt(n / 8.0);
    for (unsigned k = 0; k < 32; ++k) {
      INFO("bit " << bit << " of the number, " << k << " of the word");
      REQUIRE(std::fabs(static_cast<double>(flips[k]) / 2 - half) < 5.5 * sigma);
    }
  }
}

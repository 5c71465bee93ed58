// Quantised levels: every form gives them back for any number of threads, is as long as the papers say, and
// refuses what no writer wrote.
#include "gossamer_test/catch.h"
#include "level_coding.h"
#include "level_fields.h"
#include "rans.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

std::vector<FieldCoding> codings() {
  std::vector<FieldCoding> all = {std::nullopt};
  for (std::size_t form = 0; form < kLevelForms; ++form) all.emplace_back(static_cast<LevelForm>(form));
  return all;
}

std::string name_of(FieldCoding coding) { return std::string(field_coding_name(coding)); }

/// In memory of exactly its own size.
Bytes coded(FieldCoding coding, const FieldVector& fields, unsigned s, Threads* threads = nullptr) {
  Bytes out(coded_max_bytes(coding, fields.size(), s));
  const std::size_t used = write_coded(coding, fields.size(), s, threads, out,
                                       [&](std::size_t first, std::span<std::uint8_t> to, std::size_t) {
                                         std::memcpy(to.data(), fields.data() + first, to.size());
                                       });
  if (used > out.size()) throw std::logic_error("more bytes than promised");
  return Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used));
}

FieldVector decoded(const Bytes& bytes, std::size_t n, unsigned s, Threads* threads = nullptr) {
  FieldVector fields(n);
  read_coded(bytes, n, s, threads, [&](std::size_t first, std::span<const std::uint8_t> got) {
    std::memcpy(fields.data() + first, got.data(), got.size());
  });
  return fields;
}

/// True where refused. Throws where fields come that are no levels.
bool refused(const Bytes& bytes, std::size_t n, unsigned s) {
  try {
    const FieldVector fields = decoded(bytes, n, s);
    if (std::any_of(fields.begin(), fields.end(), [s](std::uint8_t f) { return f > 2 * s; }))
      throw std::logic_error("wrong fields");
    return false;
  } catch (const PayloadError&) {
    return true;
  }
}

/// Fields of 0 … 2s, n ≥ 1 of them.
std::vector<FieldVector> field_families(std::size_t n, unsigned s) {
  std::mt19937_64 random(n + s);
  std::vector<FieldVector> all;
  const auto zero = static_cast<std::uint8_t>(s), top = static_cast<std::uint8_t>(2 * s);
  all.push_back(FieldVector(n, zero));
  all.push_back(FieldVector(n, top));
  all.push_back(FieldVector(n, 0));
  FieldVector evenly(n), mostly_zero(n, zero), one(n, zero), near_zero(n);
  for (auto& field : evenly) field = static_cast<std::uint8_t>(random() % (2 * s + 1));
  for (auto& field : mostly_zero) field = random() % 40 == 0 ? evenly[random() % n] : zero;
  for (auto& field : near_zero) {
    const double level = std::clamp(normal(random) * 1.5, -static_cast<double>(s), static_cast<double>(s));
    field = static_cast<std::uint8_t>(static_cast<int>(s) + static_cast<int>(level));
  }
  one[n / 2] = top;
  FieldVector last(n, zero), clusters(n, zero);
  last[n - 1] = 0;
  for (std::size_t i = 0; i < n; ++i) clusters[i] = i / 300 % 7 == 3 ? evenly[i] : zero;
  for (auto& fields : {evenly, mostly_zero, near_zero, one, last, clusters}) all.push_back(fields);
  return all;
}

double bits_per_entry(FieldCoding coding, const FieldVector& fields, unsigned s) {
  return 8.0 * static_cast<double>(coded(coding, fields, s).size()) / static_cast<double>(fields.size());
}

}  // namespace

TEST_CASE("levels come back in every form, no longer than promised") {
  for (const unsigned s : {1u, 2u, 7u, 8u, 20u, 127u}) {
    for (const std::size_t n : {1u, 2u, 31u, 32u, 33u, 511u, 512u, 513u, 66000u}) {
      for (const FieldVector& fields : field_families(n, s)) {
        for (const FieldCoding coding : codings()) {
          INFO(name_of(coding) << ", s " << s << ", " << n << " fields");
          const bool same = decoded(coded(coding, fields, s), n, s) == fields;
          REQUIRE(same);
        }
      }
    }
  }
}

TEST_CASE("a long vector's levels are the same bytes for any number of threads") {
  const std::size_t n = (std::size_t{1} << 20) + 7;
  Threads two(2), three(3);
  for (const unsigned s : {1u, 7u, 127u}) {
    const FieldVector fields = field_families(n, s)[5];
    for (const FieldCoding coding : codings()) {
      INFO(name_of(coding) << ", s " << s);
      const Bytes alone = coded(coding, fields, s);
      bool same = coded(coding, fields, s, &two) == alone && coded(coding, fields, s, &three) == alone;
      same = same && decoded(alone, n, s) == fields && decoded(alone, n, s, &three) == fields;
      REQUIRE(same);
    }
  }
  REQUIRE(coded(std::nullopt, FieldVector(), 7).empty());
  REQUIRE(decoded(Bytes(), 0, 7).empty());
  REQUIRE(refused(Bytes(1), 0, 7));
}

TEST_CASE("auto takes the smallest form of a slice") {
  std::vector<std::size_t> wins(kLevelForms, 0);
  for (const unsigned s : {1u, 2u, 7u, 127u}) {
    for (const std::size_t n : {1u, 5u, 33u, 100u, 512u, 3000u, 65536u}) {
      for (const FieldVector& fields : field_families(n, s)) {
        std::size_t least = ~std::size_t{0}, form = 0;
        for (const FieldCoding coding : codings()) {
          if (!coding) continue;
          const std::size_t bytes = coded(coding, fields, s).size();
          if (bytes >= least) continue;
          least = bytes;
          form = static_cast<std::size_t>(*coding);
        }
        const Bytes chosen = coded(std::nullopt, fields, s);
        INFO("s " << s << ", " << n << " fields");
        REQUIRE(chosen.size() == least);
        REQUIRE((static_cast<std::size_t>(chosen[0]) & 0x7f) == form);
        ++wins[form];
      }
    }
  }
  for (std::size_t form = 0; form < kLevelForms; ++form) {
    INFO(name_of(static_cast<LevelForm>(form)));
    CHECK(wins[form] > 0);
  }
}

TEST_CASE("entropy-coded levels come within 0.3 % of their entropy and a table") {
  const std::size_t n = std::size_t{1} << 20;
  struct Case {
    FieldVector fields;
    unsigned s;
  };
  for (const Case& c : {Case{quantised(gaussian(n, 1), 7, 512, false, 7, 1), 7},
                        Case{quantised(laplacian(n, 1), 7, 512, false, 7, 1), 7},
                        Case{quantised(gaussian(n, 1), 127, 512, false, 127, 1), 127},
                        Case{quantised(laplacian(n, 1), 4, 512, true, 4, 1), 4},
                        Case{quantised(gaussian(n, 1), 1, 512, true, 1, 1), 1}}) {
    std::size_t tables = 0;
    for (std::size_t i = 0; i < n; i += kSlice) {
      const RansModel model = rans_model(count_fields(std::span(c.fields).subspan(i, kSlice)), c.s);
      std::size_t bits = 8 * (1 + sizeof(std::uint32_t) + 4 * kRansStates);
      for (unsigned f = 0; f <= 2 * c.s; ++f) bits += omega_length(model.frequency[f] + std::uint64_t{1});
      tables += bits;
    }
    const double bits = bits_per_entry(LevelForm::rans, c.fields, c.s), least = entropy(c.fields);
    INFO("s " << c.s << ": " << bits << " bits, entropy " << least);
    REQUIRE(bits <= 1.003 * least + static_cast<double>(tables) / static_cast<double>(n));
    REQUIRE(bits <= 1.02 * least);
  }
}

TEST_CASE("QSGD's dense code at s = sqrt n takes at most 4.01, 3.0 and 2.8 bits per entry") {
  const std::size_t n = std::size_t{1} << 18;
  const double root = std::sqrt(static_cast<double>(n));
  struct Case {
    const char* name;
    Vector v;
    double most;
  };
  Vector constant(n, 0.25f);
  for (std::size_t i = 0; i < n; i += 3) constant[i] = -0.25f;
  for (const Case& c : {Case{"constant", constant, 4.01}, Case{"gaussian", gaussian(n, 2), 3.0},
                        Case{"laplacian", laplacian(n, 2), 2.8}}) {
    double bits = 0;
    const int keys = 8;
    for (int key = 0; key < keys; ++key) {
      const FieldVector fields = quantised(c.v, root, n, true, kLevelsMax, static_cast<std::uint64_t>(key));
      bits += 32 + 8 * static_cast<double>(coded(LevelForm::elias_dense, fields, kLevelsMax).size());
    }
    INFO(c.name << ": " << bits / keys / static_cast<double>(n));
    REQUIRE(bits / keys <= c.most * static_cast<double>(n) + 32);
  }
}

TEST_CASE("QSGD's sparse code stays under the paper's bound") {
  for (const std::size_t d : {512u, 8192u, 65536u}) {
    const double root = std::sqrt(static_cast<double>(d));
    for (const double s : {1.0, 4.0, 7.0, 16.0}) {
      const double levels = s * (s + root);
      const double bound = (3 + 1.5 * std::log2(2 * (s * s + static_cast<double>(d)) / levels)) * levels + 32;
      for (const Vector& v : {gaussian(d, 3), laplacian(d, 3), Vector(d, 1.0f)}) {
        double bits = 0;
        const int keys = 50;
        for (int key = 0; key < keys; ++key) {
          const auto fields = quantised(v, s, d, true, 16, static_cast<std::uint64_t>(key));
          bits += 32 + 8 * static_cast<double>(coded(LevelForm::elias, fields, 16).size());
        }
        INFO(d << " entries, s " << s << ": " << bits / keys << " of " << bound);
        REQUIRE(bits / keys <= bound);
      }
    }
  }
}

TEST_CASE("coded levels that are cut short or go on are refused") {
  for (const unsigned s : {1u, 7u, 127u}) {
    for (const std::size_t n : {1u, 33u, 300u}) {
      for (const FieldVector& fields : field_families(n, s)) {
        for (const FieldCoding coding : codings()) {
          const Bytes bytes = coded(coding, fields, s);
          std::size_t wrong = 0;
          for (std::size_t length = 0; length < bytes.size(); ++length) {
            const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
            wrong += refused(cut, n, s) ? 0 : 1;
          }
          for (const int extra : {0, 1, 255}) {
            Bytes longer = bytes;
            longer.push_back(static_cast<std::byte>(extra));
            wrong += refused(longer, n, s) ? 0 : 1;
          }
          INFO(name_of(coding) << ", s " << s << ", " << n << " fields");
          REQUIRE(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("coded levels with a bit flipped are refused or are levels") {
  for (const unsigned s : {1u, 7u, 127u}) {
    for (const std::size_t n : {2u, 100u}) {
      for (const FieldVector& fields : field_families(n, s)) {
        for (const FieldCoding coding : codings()) {
          Bytes bytes = coded(coding, fields, s);
          for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
            const auto flip = static_cast<std::byte>(1u << bit % 8);
            bytes[bit / 8] ^= flip;
            (void)refused(bytes, n, s);
            bytes[bit / 8] ^= flip;
          }
        }
      }
    }
  }
}

TEST_CASE("bytes that nobody coded are refused or are levels") {
  std::mt19937_64 random(4);
  std::size_t accepted = 0;
  for (int trial = 0; trial < 200000; ++trial) {
    const std::size_t n = 1 + random() % (trial % 3 == 0 ? 10 : 200);
    const unsigned s = std::array{1u, 7u, 127u}[random() % 3];
    Bytes bytes(random() % 60);
    const unsigned shift = random() % 8;
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() >> (56 + shift));
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 6);
    accepted += refused(bytes, n, s) ? 0 : 1;
  }
  CHECK(accepted > 0);
  // Omega without end, zeros without end, lengths of slices beyond what is there.
  for (int form = 0; form < 6; ++form) {
    for (const int fill : {0, 255}) {
      Bytes bytes(5000, static_cast<std::byte>(fill));
      bytes[0] = static_cast<std::byte>(form);
      REQUIRE(refused(bytes, 1, 7));
      REQUIRE(refused(bytes, 200000, 7));
    }
  }
}

TEST_CASE("long slices, whose codes stand in four strings, are refused where bytes are cut, added or moved") {
  const std::size_t n = 5003;
  std::mt19937_64 random(5);
  for (const unsigned s : {1u, 7u, 127u}) {
    for (const FieldVector& fields : field_families(n, s)) {
      for (const FieldCoding coding : codings()) {
        const Bytes bytes = coded(coding, fields, s);
        std::size_t wrong = 0;
        for (std::size_t cut = 1; cut < bytes.size(); cut += 1 + cut / 3) {
          wrong +=
              refused(Bytes(bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(cut)), n, s) ? 0 : 1;
        }
        Bytes longer = bytes;
        longer.push_back(std::byte{0});
        wrong += refused(longer, n, s) ? 0 : 1;
        INFO(name_of(coding) << ", s " << s);
        REQUIRE(wrong == 0);
        // Any other bytes are fields or an error: refused() throws where they are neither.
        for (int run = 0; run < 20; ++run) {
          Bytes other = bytes;
          const std::size_t first = run < 10 ? 14 : bytes.size();
          for (int j = 0; j < 3; ++j)
            other[random() % std::min(first, other.size())] = static_cast<std::byte>(random());
          (void)refused(other, n, s);
        }
      }
    }
  }
  // Four strings of no fields, but for the last.
  for (const int form : {1, 2, 3}) {
    Bytes few(64, std::byte{0});
    few[0] = static_cast<std::byte>(0x80 | form);
    (void)refused(few, 3, 7);
    for (const std::size_t at : {1u, 5u, 9u}) {
      Bytes beyond = few;
      for (std::size_t j = 0; j < 4; ++j) beyond[at + j] = std::byte{255};
      REQUIRE(refused(beyond, 3, 7));
    }
  }
}

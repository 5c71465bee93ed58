// Quantised levels: every form gives them back for any number of threads, is as long as the papers say, and
// refuses what no writer wrote.
#include "bits.h"
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

/// s levels on each side of 0, for each s; and those of a range of 4 and of 8 bits.
std::vector<LevelRange> ranges(std::initializer_list<unsigned> sides) {
  std::vector<LevelRange> all = {{8, 15}, {128, 255}};
  for (const unsigned s : sides) all.push_back(levels_each_side(s));
  return all;
}

std::string name_of(FieldCoding coding) { return std::string(field_coding_name(coding)); }

/// In memory of exactly its own size.
Bytes coded(FieldCoding coding, const FieldVector& fields, LevelRange range, Threads* threads = nullptr) {
  Bytes out(coded_max_bytes(coding, fields.size(), range));
  const std::size_t used = write_coded(coding, fields.size(), range, threads, out,
                                       [&](std::size_t first, std::span<std::uint8_t> to, std::size_t) {
                                         std::memcpy(to.data(), fields.data() + first, to.size());
                                       });
  if (used > out.size()) throw std::logic_error("more bytes than promised");
  return Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used));
}

FieldVector decoded(const Bytes& bytes, std::size_t n, LevelRange range, Threads* threads = nullptr) {
  FieldVector fields(n);
  read_coded(bytes, n, range, threads, [&](std::size_t first, std::span<const std::uint8_t> got) {
    std::memcpy(fields.data() + first, got.data(), got.size());
  });
  return fields;
}

/// True where refused. Throws where fields come that are no levels.
bool refused(const Bytes& bytes, std::size_t n, LevelRange range) {
  try {
    const FieldVector fields = decoded(bytes, n, range);
    if (std::any_of(fields.begin(), fields.end(), [range](std::uint8_t f) { return f > range.top; }))
      throw std::logic_error("wrong fields");
    return false;
  } catch (const PayloadError&) {
    return true;
  }
}

/// Fields of 0 … top, n ≥ 1 of them.
std::vector<FieldVector> field_families(std::size_t n, LevelRange range) {
  std::mt19937_64 random(n + range.top);
  std::vector<FieldVector> all;
  const auto zero = static_cast<std::uint8_t>(range.zero), top = static_cast<std::uint8_t>(range.top);
  all.push_back(FieldVector(n, zero));
  all.push_back(FieldVector(n, top));
  all.push_back(FieldVector(n, 0));
  FieldVector evenly(n), mostly_zero(n, zero), one(n, zero), near_zero(n);
  for (auto& field : evenly) field = static_cast<std::uint8_t>(random() % (range.top + 1));
  for (auto& field : mostly_zero) field = random() % 40 == 0 ? evenly[random() % n] : zero;
  for (auto& field : near_zero) {
    const double level = std::round(normal(random) * 1.5) + range.zero;
    field = static_cast<std::uint8_t>(std::clamp(level, 0.0, static_cast<double>(range.top)));
  }
  one[n / 2] = top;
  FieldVector last(n, zero), clusters(n, zero);
  last[n - 1] = 0;
  for (std::size_t i = 0; i < n; ++i) clusters[i] = i / 300 % 7 == 3 ? evenly[i] : zero;
  for (auto& fields : {evenly, mostly_zero, near_zero, one, last, clusters}) all.push_back(fields);
  return all;
}

double bits_per_entry(FieldCoding coding, const FieldVector& fields, LevelRange range) {
  return 8.0 * static_cast<double>(coded(coding, fields, range).size()) / static_cast<double>(fields.size());
}

}  // namespace

TEST_CASE("levels come back in every form, no longer than promised") {
  for (const LevelRange range : ranges({1u, 2u, 7u, 8u, 20u, 127u})) {
    for (const std::size_t n : {1u, 2u, 31u, 32u, 33u, 511u, 512u, 513u, 66000u}) {
      for (const FieldVector& fields : field_families(n, range)) {
        for (const FieldCoding coding : codings()) {
          INFO(name_of(coding) << ", top " << range.top << ", " << n << " fields");
          const bool same = decoded(coded(coding, fields, range), n, range) == fields;
          REQUIRE(same);
        }
      }
    }
  }
}

TEST_CASE("a long vector's levels are the same bytes for any number of threads") {
  const std::size_t n = (std::size_t{1} << 20) + 7;
  Threads two(2), three(3);
  for (const LevelRange range : ranges({1u, 7u, 127u})) {
    const FieldVector fields = field_families(n, range)[5];
    for (const FieldCoding coding : codings()) {
      INFO(name_of(coding) << ", top " << range.top);
      const Bytes alone = coded(coding, fields, range);
      bool same =
          coded(coding, fields, range, &two) == alone && coded(coding, fields, range, &three) == alone;
      same = same && decoded(alone, n, range) == fields && decoded(alone, n, range, &three) == fields;
      REQUIRE(same);
    }
  }
  REQUIRE(coded(std::nullopt, FieldVector(), levels_each_side(7)).empty());
  REQUIRE(decoded(Bytes(), 0, levels_each_side(7)).empty());
  REQUIRE(refused(Bytes(1), 0, levels_each_side(7)));
}

TEST_CASE("auto takes the smallest form of a slice") {
  std::vector<std::size_t> wins(kLevelForms, 0);
  for (const LevelRange range : ranges({1u, 2u, 7u, 127u})) {
    for (const std::size_t n : {1u, 5u, 33u, 100u, 512u, 3000u, 65536u}) {
      for (const FieldVector& fields : field_families(n, range)) {
        std::size_t least = ~std::size_t{0}, form = 0;
        for (const FieldCoding coding : codings()) {
          if (!coding) continue;
          const std::size_t bytes = coded(coding, fields, range).size();
          if (bytes >= least) continue;
          least = bytes;
          form = static_cast<std::size_t>(*coding);
        }
        const Bytes chosen = coded(std::nullopt, fields, range);
        INFO("top " << range.top << ", " << n << " fields");
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
    LevelRange range;
  };
  for (const Case& c : {Case{quantised(gaussian(n, 1), 7, 512, false, 7, 1), levels_each_side(7)},
                        Case{quantised(laplacian(n, 1), 7, 512, false, 7, 1), levels_each_side(7)},
                        Case{quantised(gaussian(n, 1), 127, 512, false, 127, 1), levels_each_side(127)},
                        Case{quantised(laplacian(n, 1), 4, 512, true, 4, 1), levels_each_side(4)},
                        Case{quantised(gaussian(n, 1), 1, 512, true, 1, 1), levels_each_side(1)}}) {
    std::size_t tables = 0;
    for (std::size_t i = 0; i < n; i += kSlice) {
      const RansModel model = rans_model(count_fields(std::span(c.fields).subspan(i, kSlice)), c.range);
      std::size_t bits = 8 * (1 + sizeof(std::uint32_t) + 4 * kRansStates);
      for (unsigned f = 0; f <= c.range.top; ++f) bits += omega_length(model.frequency[f] + std::uint64_t{1});
      tables += bits;
    }
    const double bits = bits_per_entry(LevelForm::rans, c.fields, c.range), least = entropy(c.fields);
    INFO("top " << c.range.top << ": " << bits << " bits, entropy " << least);
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
      const FieldVector fields =
          quantised(c.v, root, n, true, kLevelsMax, static_cast<std::uint64_t>(100 + key));
      bits += 32 + 8 * static_cast<double>(
                           coded(LevelForm::elias_dense, fields, levels_each_side(kLevelsMax)).size());
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
          bits += 32 + 8 * static_cast<double>(coded(LevelForm::elias, fields, levels_each_side(16)).size());
        }
        INFO(d << " entries, s " << s << ": " << bits / keys << " of " << bound);
        REQUIRE(bits / keys <= bound);
      }
    }
  }
}

TEST_CASE("coded levels that are cut short or go on are refused") {
  for (const LevelRange range : ranges({1u, 7u, 127u})) {
    for (const std::size_t n : {1u, 33u, 300u}) {
      for (const FieldVector& fields : field_families(n, range)) {
        for (const FieldCoding coding : codings()) {
          const Bytes bytes = coded(coding, fields, range);
          std::size_t wrong = 0;
          for (std::size_t length = 0; length < bytes.size(); ++length) {
            const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
            wrong += refused(cut, n, range) ? 0 : 1;
          }
          for (const int extra : {0, 1, 255}) {
            Bytes longer = bytes;
            longer.push_back(static_cast<std::byte>(extra));
            wrong += refused(longer, n, range) ? 0 : 1;
          }
          INFO(name_of(coding) << ", top " << range.top << ", " << n << " fields");
          REQUIRE(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("coded levels with a bit flipped are refused or are levels") {
  for (const LevelRange range : ranges({1u, 7u, 127u})) {
    for (const std::size_t n : {2u, 100u}) {
      for (const FieldVector& fields : field_families(n, range)) {
        for (const FieldCoding coding : codings()) {
          Bytes bytes = coded(coding, fields, range);
          for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
            const auto flip = static_cast<std::byte>(1u << bit % 8);
            bytes[bit / 8] ^= flip;
            (void)refused(bytes, n, range);
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
    const LevelRange range = ranges({1, 7, 127})[random() % 5];
    Bytes bytes(random() % 60);
    const unsigned shift = random() % 8;
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() >> (56 + shift));
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 6);
    accepted += refused(bytes, n, range) ? 0 : 1;
  }
  CHECK(accepted > 0);
  // Omega without end, zeros without end, lengths of slices beyond what is there.
  for (int form = 0; form < 6; ++form) {
    for (const int fill : {0, 255}) {
      Bytes bytes(5000, static_cast<std::byte>(fill));
      bytes[0] = static_cast<std::byte>(form);
      REQUIRE(refused(bytes, 1, levels_each_side(7)));
      REQUIRE(refused(bytes, 200000, levels_each_side(7)));
    }
  }
}

TEST_CASE("long slices, whose codes stand in four strings, are refused where bytes are cut, added or moved") {
  const std::size_t n = 5003;
  std::mt19937_64 random(5);
  for (const LevelRange range : ranges({1u, 7u, 127u})) {
    for (const FieldVector& fields : field_families(n, range)) {
      for (const FieldCoding coding : codings()) {
        const Bytes bytes = coded(coding, fields, range);
        std::size_t wrong = 0;
        for (std::size_t cut = 1; cut < bytes.size(); cut += 1 + cut / 3) {
          wrong +=
              refused(Bytes(bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(cut)), n, range) ? 0 : 1;
        }
        Bytes longer = bytes;
        longer.push_back(std::byte{0});
        wrong += refused(longer, n, range) ? 0 : 1;
        INFO(name_of(coding) << ", top " << range.top);
        REQUIRE(wrong == 0);
        // Any other bytes are fields or an error: refused() throws where they are neither.
        for (int run = 0; run < 20; ++run) {
          Bytes other = bytes;
          const std::size_t first = run < 10 ? 14 : bytes.size();
          for (int j = 0; j < 3; ++j)
            other[random() % std::min(first, other.size())] = static_cast<std::byte>(random());
          (void)refused(other, n, range);
        }
      }
    }
  }
  // Four strings of no fields, but for the last.
  for (const int form : {1, 2, 3}) {
    Bytes few(64, std::byte{0});
    few[0] = static_cast<std::byte>(0x80 | form);
    (void)refused(few, 3, levels_each_side(7));
    for (const std::size_t at : {1u, 5u, 9u}) {
      Bytes beyond = few;
      for (std::size_t j = 0; j < 4; ++j) beyond[at + j] = std::byte{255};
      REQUIRE(refused(beyond, 3, levels_each_side(7)));
    }
  }
}

TEST_CASE("a range has no level above its highest, though a byte has no room to tell it from the lowest") {
  const LevelRange bytes_range{128, 255};
  for (const bool negative : {true, false}) {
    for (const LevelForm form : {LevelForm::elias, LevelForm::elias_dense}) {
      Bytes bytes(16, std::byte{0});
      bytes[0] = static_cast<std::byte>(form);
      BitWriter out(std::span<std::byte>(bytes).subspan(1));
      if (form == LevelForm::elias) out.put(0, 1);  // a gap of one
      BitCode code = form == LevelForm::elias ? sparse_code(-128) : dense_code(-128);
      const unsigned sign = form == LevelForm::elias ? 0 : code.length - 1;
      if (!negative) code.bits ^= std::uint64_t{1} << sign;
      out.put(code.bits, code.length);
      bytes.resize(1 + out.finish());
      INFO(name_of(form));
      REQUIRE(refused(bytes, 1, bytes_range) == !negative);
    }
  }
}

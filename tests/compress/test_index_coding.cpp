// The indices of sparse payloads: every form gives them back, is as long as it says, and refuses what no
// writer wrote.
#include "gossamer_test/catch.h"
#include "index_coding.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

using Indices = std::vector<std::uint32_t>;

Indices random_indices(std::size_t n, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Indices all;
  for (std::size_t i = 0; i < n; ++i) {
    if (uniform(random) < density) all.push_back(static_cast<std::uint32_t>(i));
  }
  return all;
}

Indices run_of(std::size_t first, std::size_t count) {
  Indices all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<std::uint32_t>(first + i));
  return all;
}

/// Clusters of neighbours far apart.
Indices clusters(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Indices all;
  for (std::size_t i = random() % 50; i < n; i += 1000 + random() % 9000) {
    for (std::size_t j = 0; j < 30 && i + j < n; ++j) all.push_back(static_cast<std::uint32_t>(i + j));
  }
  return all;
}

/// What there is to index n ≥ 1 entries.
std::vector<Indices> index_families(std::size_t n) {
  std::vector<Indices> all = {run_of(0, n), run_of(0, (n + 1) / 2), run_of(n / 2, n - n / 2),
                              run_of(0, 1), run_of(n - 1, 1),       clusters(n, n)};
  if (n > 1) all.push_back({0u, static_cast<std::uint32_t>(n - 1)});
  for (const double density : {0.7, 0.3, 0.01, 0.001}) all.push_back(random_indices(n, density, n + 1));
  std::erase_if(all, [](const Indices& indices) { return indices.empty(); });
  return all;
}

std::vector<IndexCoding> codings() {
  std::vector<IndexCoding> all = {std::nullopt};
  for (std::size_t form = 0; form < kIndexForms; ++form) all.emplace_back(static_cast<IndexForm>(form));
  return all;
}

/// In memory of exactly its own size.
Bytes write(const IndexPlan& plan, const Indices& indices, std::size_t n) {
  Bytes out(static_cast<std::size_t>(plan.bytes));
  wire::Writer writer(out);
  write_indices(writer, plan, indices, n);
  if (writer.size() != out.size()) throw std::logic_error("not as long as planned");
  return out;
}

Indices read(const Bytes& bytes, unsigned form, std::size_t count, std::size_t n) {
  IndexReader reader(bytes, form, count, n);
  Indices all(count);
  for (std::size_t j = 0; j < count; j += IndexReader::kBlock)
    reader.read(std::span(all).subspan(j, std::min(IndexReader::kBlock, count - j)));
  reader.finish();
  return all;
}

/// True where refused; false where what came is ascending and in range. Throws for anything else.
bool refused(const Bytes& bytes, unsigned form, std::size_t count, std::size_t n) {
  try {
    const Indices all = read(bytes, form, count, n);
    const auto falls = std::adjacent_find(all.begin(), all.end(), std::greater_equal<>());
    if (falls != all.end() || all.back() >= n) throw std::logic_error("wrong indices");
    return false;
  } catch (const PayloadError&) {
    return true;
  }
}

/// Exactly density·n of 2²² entries, each set of so many equally likely.
Indices uniform_set(double density, std::uint64_t seed) {
  const std::size_t n = std::size_t{1} << 22;
  std::mt19937_64 random(seed);
  const auto k = static_cast<std::size_t>(density * static_cast<double>(n));
  Indices indices;
  for (std::size_t i = 0; i < n; ++i) {
    if (uniform(random) * static_cast<double>(n - i) < static_cast<double>(k - indices.size()))
      indices.push_back(static_cast<std::uint32_t>(i));
  }
  return indices;
}

/// Mean over sixteen sets, the parameter's byte among them.
double bits_per_index(double density, IndexCoding coding) {
  double bits = 0, count = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const Indices indices = uniform_set(density, seed);
    bits += 8.0 * static_cast<double>(plan_indices(coding, indices, std::size_t{1} << 22).bytes);
    count += static_cast<double>(indices.size());
  }
  return bits / count;
}

}  // namespace

TEST_CASE("indices come back in every form, no longer than promised") {
  for (const std::size_t n : {1u, 2u, 31u, 32u, 33u, 511u, 512u, 513u, 70000u, (1u << 20) + 7}) {
    for (const Indices& indices : index_families(n)) {
      for (const IndexCoding coding : codings()) {
        const IndexPlan plan = plan_indices(coding, indices, n);
        const Bytes bytes = write(plan, indices, n);
        INFO(index_coding_name(coding) << ": " << indices.size() << " of " << n);
        REQUIRE(bytes.size() <= indices_max_bytes(coding, indices.size(), n));
        REQUIRE(bytes.size() <= indices_max_bytes(coding, n, n));
        REQUIRE(read(bytes, static_cast<unsigned>(plan.form), indices.size(), n) == indices);
      }
    }
  }
}

TEST_CASE("auto takes the smallest form, and each form wins somewhere") {
  std::vector<std::size_t> wins(kIndexForms, 0);
  for (const std::size_t n : {1u, 40u, 512u, 3000u, 70000u, 1000003u}) {
    for (const Indices& indices : index_families(n)) {
      IndexPlan best = plan_indices(IndexForm::rice, indices, n);
      for (const IndexCoding coding : codings()) {
        if (!coding) continue;
        const IndexPlan plan = plan_indices(coding, indices, n);
        if (plan.bytes < best.bytes) best = plan;
      }
      const IndexPlan chosen = plan_indices(std::nullopt, indices, n);
      INFO(indices.size() << " of " << n);
      REQUIRE(chosen.bytes == best.bytes);
      REQUIRE(chosen.form == best.form);
      ++wins[static_cast<std::size_t>(chosen.form)];
    }
  }
  for (const IndexForm form : {IndexForm::rice, IndexForm::packed, IndexForm::elias, IndexForm::bitmap}) {
    INFO(index_coding_name(form));
    CHECK(wins[static_cast<std::size_t>(form)] > 0);
  }
}

TEST_CASE("the Rice parameter is the best there is") {
  const std::size_t n = 100000;
  for (const Indices& indices : index_families(n)) {
    const IndexPlan plan = plan_indices(IndexForm::rice, indices, n);
    for (unsigned r = 0; r < 32; ++r) {
      std::uint64_t bits = 0, next = 0;
      for (const std::uint32_t i : indices) {
        bits += ((i - next) >> r) + 1 + r;
        next = std::uint64_t{i} + 1;
      }
      REQUIRE(plan.bytes <= 1 + (bits + 7) / 8);
    }
  }
}

TEST_CASE("random indices in Rice code are within 1 % of their entropy") {
  for (const auto& [density, most] : {std::pair{0.001, 11.5}, std::pair{0.01, 8.15}}) {
    const double entropy = -std::log2(density) - (1 - density) / density * std::log2(1 - density);
    const double bits = bits_per_index(density, IndexForm::rice);
    INFO(density << ": " << bits << " bits, entropy " << entropy);
    REQUIRE(bits <= most);
    REQUIRE(bits <= 1.01 * entropy);
    REQUIRE(bits_per_index(density, std::nullopt) <= bits);
  }
}

TEST_CASE("indices that are cut short or go on are refused") {
  for (const std::size_t n : {1u, 33u, 600u, 200000u}) {
    for (const Indices& indices : index_families(n)) {
      for (const IndexCoding coding : codings()) {
        const IndexPlan plan = plan_indices(coding, indices, n);
        const Bytes bytes = write(plan, indices, n);
        if (bytes.size() > 300) continue;
        const auto form = static_cast<unsigned>(plan.form);
        std::size_t wrong = 0;
        for (std::size_t length = 0; length < bytes.size(); ++length) {
          const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
          wrong += refused(cut, form, indices.size(), n) ? 0 : 1;
        }
        for (const int extra : {0, 1, 255}) {
          Bytes longer = bytes;
          longer.push_back(static_cast<std::byte>(extra));
          wrong += refused(longer, form, indices.size(), n) ? 0 : 1;
        }
        INFO(index_coding_name(coding) << ": " << indices.size() << " of " << n);
        REQUIRE(wrong == 0);
      }
    }
  }
}

TEST_CASE("index bytes that nobody wrote are refused or give ascending indices in range") {
  std::mt19937_64 random(3);
  std::size_t accepted = 0;
  for (int trial = 0; trial < 300000; ++trial) {
    const std::size_t n = 1 + random() % (trial % 2 == 0 ? 60 : 100000);
    const std::size_t count = 1 + random() % std::min<std::size_t>(n, 40);
    Bytes bytes(random() % 40);
    const unsigned shift = random() % 8;
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() >> (56 + shift % 8));
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 40);
    accepted += refused(bytes, static_cast<unsigned>(random() % 7), count, n) ? 0 : 1;
  }
  CHECK(accepted > 0);
}

TEST_CASE("indices with a bit flipped are refused or stay ascending and in range") {
  for (const std::size_t n : {33u, 600u, 200000u}) {
    for (const Indices& indices : index_families(n)) {
      for (const IndexCoding coding : codings()) {
        const IndexPlan plan = plan_indices(coding, indices, n);
        Bytes bytes = write(plan, indices, n);
        if (bytes.size() > 200) continue;
        for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
          const auto flip = static_cast<std::byte>(1u << bit % 8);
          bytes[bit / 8] ^= flip;
          (void)refused(bytes, static_cast<unsigned>(plan.form), indices.size(), n);
          bytes[bit / 8] ^= flip;
        }
      }
    }
  }
}

TEST_CASE("crafted faults of each index form are refused") {
  const auto bytes = [](std::initializer_list<int> values) {
    Bytes all;
    for (const int v : values) all.push_back(static_cast<std::byte>(v));
    return all;
  };
  const auto number = [](IndexForm form) { return static_cast<unsigned>(form); };
  // A form that is none; more indices than entries; a Rice parameter of 32; a width of 33.
  REQUIRE(refused(bytes({0, 1}), 6, 1, 8));
  REQUIRE(refused(bytes({0, 255}), 0, 8, 7));
  REQUIRE(refused(bytes({32, 255, 255, 255, 255, 1}), 0, 1, 100));
  REQUIRE(refused(bytes({33, 0, 0, 0, 0, 0}), number(IndexForm::packed), 1, 100));
  // Zeros without end; a quotient that would shift out of 64 bits.
  REQUIRE(refused(Bytes(1000), 0, 1, 100));
  REQUIRE(refused(bytes({31, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}), 0, 1, 0xffffffffu));
  // Fixed: the same twice, and falling.
  REQUIRE(refused(bytes({5, 0, 0, 0, 5, 0, 0, 0}), number(IndexForm::fixed), 2, 100));
  REQUIRE(refused(bytes({5, 0, 0, 0, 4, 0, 0, 0}), number(IndexForm::fixed), 2, 100));
  REQUIRE(refused(bytes({100, 0, 0, 0}), number(IndexForm::fixed), 1, 100));
  // Omega: nothing but ones. Runs: nothing but runs that go on. Bitmap: a bit past n, one too many.
  REQUIRE(refused(Bytes(100, std::byte{255}), number(IndexForm::elias), 1, 0xffffffffu));
  REQUIRE(refused(Bytes(1000000, std::byte{255}), number(IndexForm::runs), 1, 0xffffffffu));
  REQUIRE(refused(bytes({0x80}), number(IndexForm::bitmap), 1, 7));
  REQUIRE(refused(bytes({0x03}), number(IndexForm::bitmap), 1, 7));
}

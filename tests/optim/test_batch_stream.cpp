#include <chrono>
#include <stdexcept>
#include <thread>

#include "support.h"

namespace gossamer::optim::test {
namespace {

/// Hands out row `step` and fails from a given step on.
class FailingSampler final : public Sampler {
 public:
  explicit FailingSampler(std::uint64_t fails_at) : fails_at_(fails_at) {}
  std::size_t steps_per_epoch() const override { return 1; }
  void rows_of(std::uint64_t step, std::span<std::uint32_t> rows) override {
    if (step >= fails_at_) throw std::runtime_error("the sampler failed");
    for (std::uint32_t& row : rows) row = static_cast<std::uint32_t>(step);
  }
  RowsLeft left(std::uint64_t) override { return {}; }

 private:
  std::uint64_t fails_at_;
};

}  // namespace

TEST_CASE("batches read ahead are those read when asked for") {
  const Data data = blobs(300, 5, 3);
  for (const NamedHelp& row : split_table()) {
    const std::string kind = std::string(row.name) == "dirichlet" ? "dirichlet:1" : row.name;
    const SplitSpec spec{kind, 4, {24, 24}};
    BatchStream ahead(data.train, make_sampler(spec, data.train, 1), 24, 5, true);
    BatchStream plain(data.train, make_sampler(spec, data.train, 1), 24, 5, false);
    const auto sampler = make_sampler(spec, data.train, 1);
    for (std::uint64_t step = 5; step < 100; ++step) {
      const Batch &a = ahead.next(), &b = plain.next();
      REQUIRE(a.size == 24);
      REQUIRE(a.features == 5);
      REQUIRE(bit_hash(a.x) == bit_hash(b.x));
      REQUIRE(std::equal(a.labels.begin(), a.labels.end(), b.labels.begin(), b.labels.end()));
      std::vector<std::uint32_t> rows(24);
      sampler->rows_of(step, rows);
      std::vector<float> x(24 * 5);
      data.train->gather(rows, x);
      REQUIRE(bit_hash(a.x) == bit_hash(x));
      REQUIRE(a.labels[23] == data.train->label(rows[23]));
      REQUIRE(reinterpret_cast<std::uintptr_t>(a.x.data()) % 64 == 0);
    }
  }
}

TEST_CASE("a batch stays valid while later ones are read ahead") {
  const Data data = blobs(300, 5, 3);
  BatchStream stream(data.train, std::make_unique<FailingSampler>(300), 4, 0, true);
  for (std::uint32_t step = 0; step < 50; ++step) {
    const Batch& batch = stream.next();
    if (step % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(batch.labels[0] == data.train->label(step));
    std::vector<float> x(5);
    data.train->gather({{step}}, x);
    CHECK(bit_hash(batch.x.first(5)) == bit_hash(x));
  }
}

TEST_CASE("what the reading thread throws reaches the reader in its turn") {
  const Data data = blobs(300, 5, 3);
  for (const bool threaded : {true, false}) {
    BatchStream stream(data.train, std::make_unique<FailingSampler>(3), 4, 0, threaded);
    for (int step = 0; step < 3; ++step) CHECK(stream.next().size == 4);
    CHECK_THROWS_WITH(stream.next(), "the sampler failed");
    CHECK_THROWS_WITH(stream.next(), "the sampler failed");
  }
}

TEST_CASE("a stream can be left at any time") {
  const Data data = blobs(300, 5, 3);
  for (int reads = 0; reads < 60; ++reads) {
    BatchStream stream(data.train, make_sampler({"local_shuffle", 1, {16}}, data.train, 0), 16, 0, true);
    for (int i = 0; i < reads % 6; ++i) stream.next();
  }
}

}  // namespace gossamer::optim::test

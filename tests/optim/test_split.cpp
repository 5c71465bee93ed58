#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "support.h"

namespace gossamer::optim::test {
namespace {

using Rows = std::vector<std::uint32_t>;

std::string spec_of(const NamedHelp& row) {
  return std::string(row.name) == "dirichlet" ? "dirichlet:0.5" : row.name;
}

Rows rows_at(Sampler& sampler, std::uint64_t step, std::size_t batch) {
  Rows rows(batch);
  sampler.rows_of(step, rows);
  return rows;
}

/// The rows of one peer in steps [first, last).
Rows rows_between(Sampler& sampler, std::uint64_t first, std::uint64_t last, std::size_t batch) {
  Rows all;
  for (std::uint64_t step = first; step < last; ++step)
    for (const std::uint32_t row : rows_at(sampler, step, batch)) all.push_back(row);
  return all;
}

/// The shard of a dirichlet peer: after enough steps every row of it was read.
std::set<std::uint32_t> shard_of(const SplitSpec& spec, const std::shared_ptr<const Dataset>& data,
                                 std::size_t peer) {
  const auto sampler = make_sampler(spec, data, peer);
  const std::uint64_t steps = 2 * data->rows() / spec.batches[peer] + 1;
  const Rows rows = rows_between(*sampler, 0, steps, spec.batches[peer]);
  return {rows.begin(), rows.end()};
}

/// Mean over peers of the total variation distance between a peer's class shares and uniform ones.
double skew(const std::string& kind, const std::shared_ptr<const Dataset>& data) {
  const SplitSpec spec{kind, 3, std::vector<std::size_t>(8, 16)};
  double total = 0;
  for (std::size_t peer = 0; peer < 8; ++peer) {
    const auto shard = shard_of(spec, data, peer);
    std::vector<double> count(data->classes());
    for (const std::uint32_t row : shard) count[static_cast<std::size_t>(data->label(row))] += 1;
    for (const double c : count)
      total += std::abs(c / static_cast<double>(shard.size()) - 1.0 / static_cast<double>(count.size())) / 2;
  }
  return total / 8;
}

}  // namespace

TEST_CASE("every split is a pure function of peer and step") {
  const Data data = blobs(1003, 2, 5);
  for (const NamedHelp& row : split_table()) {
    INFO(row.name);
    const SplitSpec spec{spec_of(row), 7, {16, 32, 8}};
    for (std::size_t peer = 0; peer < 3; ++peer) {
      const std::size_t batch = spec.batches[peer];
      const auto forward = make_sampler(spec, data.train, peer),
                 backward = make_sampler(spec, data.train, peer);
      CHECK(forward->steps_per_epoch() == 1003 / 56);
      std::vector<Rows> seen;
      for (std::uint64_t step = 0; step < 60; ++step) seen.push_back(rows_at(*forward, step, batch));
      for (std::uint64_t step = 60; step-- > 0;) CHECK(rows_at(*backward, step, batch) == seen[step]);
      for (const Rows& rows : seen) CHECK(*std::max_element(rows.begin(), rows.end()) < 1003);
      auto other = spec;
      other.seed = 8;
      CHECK(rows_at(*make_sampler(other, data.train, peer), 0, batch) != seen[0]);
    }
  }
}

TEST_CASE("rows are the same on every platform") {
  const Data data = blobs(1000, 2, 5);
  std::map<std::string, std::uint64_t> sums;
  for (const NamedHelp& row : split_table()) {
    const auto sampler = make_sampler({spec_of(row), 7, {16, 32}}, data.train, 1);
    std::uint64_t sum = 0;
    for (const std::uint32_t r : rows_between(*sampler, 0, 50, 32)) sum = sum * 31 + r;
    sums[row.name] = sum;
  }
  CHECK(sums["local_shuffle"] == 0x6bb345155189c93f);
  CHECK(sums["with_replacement"] == 0x9286f3c2b7924b7);
  CHECK(sums["global_shuffle"] == 0x562e9651d1dd7cd6);
  CHECK(sums["dirichlet"] == 0x9f26dc6c755f70fb);
}

TEST_CASE("local shuffle deals out disjoint shards and reads each once per epoch") {
  const Data data = blobs(1003, 2, 5);
  const SplitSpec spec{"local_shuffle", 7, {16, 32, 8}};
  std::map<std::uint32_t, std::size_t> owner;
  for (std::size_t peer = 0; peer < 3; ++peer) {
    const auto sampler = make_sampler(spec, data.train, peer);
    const std::size_t batch = spec.batches[peer], steps = sampler->steps_per_epoch();
    for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
      const Rows rows = rows_between(*sampler, epoch * steps, (epoch + 1) * steps, batch);
      const std::set<std::uint32_t> distinct(rows.begin(), rows.end());
      CHECK(distinct.size() == steps * batch);
      for (const std::uint32_t row : distinct) CHECK(owner.emplace(row, peer).first->second == peer);
    }
  }
  CHECK(owner.size() == 1003);  // the remainder differs from epoch to epoch: in time all rows are read
  std::vector<double> share(3);
  for (const auto& [row, peer] : owner) share[peer] += 1;
  CHECK(share[0] == Approx(1003 * 16.0 / 56).margin(1));
  CHECK(share[1] == Approx(1003 * 32.0 / 56).margin(1));
}

TEST_CASE("local shuffle changes the order from epoch to epoch") {
  const Data data = blobs(512, 2, 2);
  const auto sampler = make_sampler({"local_shuffle", 7, {64}}, data.train, 0);
  CHECK(sampler->steps_per_epoch() == 8);
  CHECK(rows_between(*sampler, 0, 8, 64) != rows_between(*sampler, 8, 16, 64));
}

TEST_CASE("global shuffle reads every row at most once per epoch over all peers") {
  const Data data = blobs(1003, 2, 5);
  const SplitSpec spec{"global_shuffle", 7, {16, 32, 8}};
  std::vector<std::set<std::uint32_t>> of_peer(3);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    std::set<std::uint32_t> seen;
    std::size_t total = 0;
    for (std::size_t peer = 0; peer < 3; ++peer) {
      const auto sampler = make_sampler(spec, data.train, peer);
      const std::size_t steps = sampler->steps_per_epoch();
      const Rows rows = rows_between(*sampler, epoch * steps, (epoch + 1) * steps, spec.batches[peer]);
      seen.insert(rows.begin(), rows.end());
      of_peer[peer].insert(rows.begin(), rows.end());
      total += rows.size();
    }
    CHECK(seen.size() == total);
    CHECK(total == 17 * 56);
  }
  CHECK(of_peer[2].size() > 17 * 12);  // not the same shard each epoch
}

TEST_CASE("drawing with replacement is uniform") {
  const Data data = blobs(100, 2, 2);
  const auto sampler = make_sampler({"with_replacement", 7, {50, 50}}, data.train, 1);
  std::vector<int> count(100);
  for (const std::uint32_t row : rows_between(*sampler, 0, 2000, 50)) ++count[row];
  for (const int c : count) CHECK(std::abs(c - 1000) < 160);  // five standard deviations
}

TEST_CASE("dirichlet shards are disjoint and cover all rows") {
  const Data data = blobs(2000, 2, 10);
  for (const char* kind : {"dirichlet:0.001", "dirichlet:0.1", "dirichlet:1", "dirichlet:1000"}) {
    INFO(kind);
    const SplitSpec spec{kind, 11, {16, 32, 8, 64, 4, 16, 16, 16}};
    std::size_t total = 0;
    std::set<std::uint32_t> all;
    for (std::size_t peer = 0; peer < spec.batches.size(); ++peer) {
      const auto shard = shard_of(spec, data.train, peer);
      CHECK(shard.size() >= std::min<std::size_t>(10, spec.batches[peer]));
      total += shard.size();
      all.insert(shard.begin(), shard.end());
    }
    CHECK(total == 2000);
    CHECK(all.size() == 2000);
  }
}

TEST_CASE("label skew grows as alpha falls") {
  const Data data = blobs(4000, 2, 10);
  const double even = skew("dirichlet:1000", data.train), mild = skew("dirichlet:1", data.train),
               strong = skew("dirichlet:0.1", data.train);
  CHECK(even < 0.06);
  CHECK(mild > 2 * even);
  CHECK(strong > 1.3 * mild);
}

TEST_CASE("shards stay usable with hardly more rows than peers") {
  const Data data = blobs(70, 2, 3);
  for (const NamedHelp& row : split_table()) {
    INFO(row.name);
    std::vector<std::size_t> batches(64, 32);
    batches[0] = 1000;
    for (std::size_t peer = 0; peer < 64; ++peer) {
      const auto sampler = make_sampler({spec_of(row), 1, batches}, data.train, peer);
      CHECK(sampler->steps_per_epoch() == 1);
      for (const std::uint32_t r : rows_between(*sampler, 0, 3, batches[peer])) CHECK(r < 70);
    }
  }
}

TEST_CASE("sixty-four peers cost little") {
  const Data data = blobs(60000, 1, 10);
  for (const NamedHelp& row : split_table()) {
    INFO(row.name);
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::unique_ptr<Sampler>> samplers;
    const SplitSpec spec{spec_of(row), 1, std::vector<std::size_t>(64, 64)};
    for (std::size_t peer = 0; peer < 64; ++peer) samplers.push_back(make_sampler(spec, data.train, peer));
    for (std::uint64_t step = 0; step < 28; ++step)
      for (const auto& sampler : samplers) rows_at(*sampler, step, 64);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CAPTURE(seconds);
    CHECK(seconds < 10);  // 0.1 to 0.3 s on one core; a permutation per step would take a minute
  }
}

TEST_CASE("wrong splits are refused") {
  const auto message = [](std::string_view kind) { return message_of([&] { check_split(kind); }); };
  CHECK(message("dirichlet:0.3").empty());
  CHECK(offers([] { check_split("local_shufle"); }, "local_shufle", "local_shuffle"));
  for (const char* kind :
       {"dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:-1", "dirichlet:x", "dirichlet:1x",
        "dirichlet:nan", "dirichlet:inf", "local_shuffle:1", "local_shuffle:", ""}) {
    INFO(kind);
    CHECK_FALSE(message(kind).empty());
  }
  const Data data = blobs(3, 2, 2);
  CHECK_THROWS_AS(make_sampler({"local_shuffle", 1, {1, 1, 1, 1}}, data.train, 0), OptimError);
  CHECK_THROWS_AS(make_sampler({"local_shuffle", 1, {1, 0}}, data.train, 0), OptimError);
}

}  // namespace gossamer::optim::test

// Every message of make_schedule and of the constructors.
#include <limits>

#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

void check_error(const GraphSpec& spec, std::initializer_list<const char*> parts) {
  const std::string message = error_of([&] { make_schedule(spec); });
  CAPTURE(message);
  REQUIRE_FALSE(message.empty());
  for (const char* part : parts) {
    CAPTURE(part);
    REQUIRE(contains(message, part));
  }
}

void check_matrix_error(std::vector<std::vector<Edge>> rows, std::initializer_list<const char*> parts) {
  const std::string message = error_of([&] { MixingMatrix w(std::move(rows)); });
  CAPTURE(message);
  REQUIRE_FALSE(message.empty());
  for (const char* part : parts) {
    CAPTURE(part);
    REQUIRE(contains(message, part));
  }
}

}  // namespace

TEST_CASE("a misspelt kind is answered with those that there are") {
  check_error(spec_of("rign", 4), {"'rign'", "ring, torus, full"});
  REQUIRE(offers([] { make_schedule(spec_of("rign", 4)); }, "rign", "ring"));
}

TEST_CASE("misspelt weights are answered with those that there are") {
  GraphSpec spec = spec_of("ring", 4);
  spec.weights = "metropolitan";
  check_error(spec, {"'metropolitan'", "metropolis, lazy, uniform, explicit"});
  REQUIRE(offers([&] { make_schedule(spec); }, "metropolitan", "metropolis"));
}

TEST_CASE("no peers are refused") {
  GraphSpec spec = spec_of("ring", 1);
  spec.peers = 0;
  check_error(spec, {"no peers", "at least 1"});
}

TEST_CASE("explicit weights are refused where no edges are listed") {
  GraphSpec spec = spec_of("torus", 4);
  spec.weights = "explicit";
  check_error(spec, {"explicit", "edges and file", "'torus'"});
}

TEST_CASE("explicit weights are needed on every edge") {
  check_error(edges_spec(2, {{0, 1, 0.5F}, {1, 0, {}}}, "explicit", true), {"edge 1 -> 0", "has no weight"});
}

TEST_CASE("rows that do not divide the peers are refused") {
  GraphSpec spec = spec_of("torus", 12);
  spec.rows = 5;
  check_error(spec, {"torus", "12 peers", "5 rows", "1, 2, 3, 4, 6, 12"});
}

TEST_CASE("impossible degrees are refused") {
  GraphSpec spec = spec_of("random_regular", 6);
  spec.degree = 0;
  check_error(spec, {"degree 0", "at least 1"});
  spec.degree = 1;
  check_error(spec, {"degree 1", "pairs", "at least 2"});
  spec.degree = 6;
  check_error(spec, {"degree 6", "6 peers", "at most 5"});
  spec.peers = 7;
  spec.degree = 3;
  check_error(spec, {"degree 3", "7 peers", "even", "degree 2", "8 peers"});
}

TEST_CASE("impossible edges are refused by name") {
  check_error(edges_spec(3, {{0, 1, {}}, {1, 3, {}}}, "uniform", false),
              {"edge 1 -> 3", "no peer 3", "0 ... 2"});
  check_error(edges_spec(3, {{0, 1, {}}, {2, 2, {}}}, "uniform", false), {"edge 2 -> 2", "self loop"});
  check_error(edges_spec(3, {{0, 1, {}}, {1, 2, {}}, {0, 1, {}}}, "uniform", true), {"edge 0 -> 1", "twice"});
  check_error(edges_spec(3, {{0, 1, {}}, {1, 2, {}}, {0, 1, {}}}, "uniform", false),
              {"edge 0 -> 1", "twice"});
  check_error(edges_spec(2, {{0, 1, 0.5F}, {1, 0, 0.25F}}, "explicit", false),
              {"edge 1 -> 0", "0.25", "0 -> 1", "0.5", "directed = true"});
}

TEST_CASE("metropolis weights that do not exist are refused") {
  check_error(edges_spec(3, {{0, 1, {}}, {1, 2, {}}, {2, 0, {}}, {0, 2, {}}}, "metropolis", true),
              {"metropolis", "0 -> 1", "no reverse", "uniform", "explicit", "directed = false"});
}

TEST_CASE("peers that are cut off are named") {
  check_error(edges_spec(5, {{0, 1, {}}, {1, 3, {}}, {2, 4, {}}}, "metropolis", false),
              {"not connected", "peers 2, 4 are cut off from peers 0, 1, 3"});
  check_error(edges_spec(3, {{0, 1, {}}}, "uniform", false), {"peer 2 is cut off"});
  check_error(edges_spec(3, {{0, 1, {}}, {1, 0, {}}, {1, 2, {}}}, "uniform", true),
              {"peer 2 is cut off from peers 0, 1", "directed = false"});
  check_error(edges_spec(2, {{0, 1, 0.0F}}, "explicit", false), {"positive weight"});
  check_error(edges_spec(40, {{0, 1, {}}}, "uniform", false), {"peers 2, 3, ", "and 22 more"});
}

TEST_CASE("impossible weights are refused by peer") {
  check_error(edges_spec(2, {{0, 1, -0.5F}, {1, 0, 0.5F}}, "explicit", true),
              {"peer 0's vector at peer 1", "-0.5", "at least 0"});
  check_error(edges_spec(3, {{0, 1, 0.75F}, {2, 1, 0.5F}}, "explicit", false),
              {"peer 1", "1.25", "at most 1"});
  check_matrix_error({{{1, std::numeric_limits<float>::quiet_NaN()}}, {}}, {"peer 1's", "peer 0", "finite"});
  check_matrix_error({{{1, std::numeric_limits<float>::infinity()}}, {}}, {"peer 1's", "peer 0", "finite"});
  check_matrix_error({{{2, 0.5F}}, {}}, {"peer 2's", "2 peers only"});
  check_matrix_error({{{0, 0.5F}}, {}}, {"peer 0's", "diagonal"});
  check_matrix_error({{{1, 0.25F}, {1, 0.5F}}, {}}, {"peer 0", "peer 1's", "twice"});
}

TEST_CASE("a schedule needs matrices of one size") {
  const auto error = [](std::initializer_list<std::size_t> peers) {
    std::vector<MixingMatrix> cycle;
    for (const std::size_t n : peers) cycle.emplace_back(std::vector<std::vector<Edge>>(n));
    return error_of([&] { Schedule schedule(std::move(cycle)); });
  };
  REQUIRE(contains(error({}), "at least one"));
  REQUIRE(contains(error({0}), "at least one"));
  REQUIRE(contains(error({1, 2}), "of 1 and of 2 peers"));
  REQUIRE(error({2, 2}).empty());
}

}  // namespace gossamer::topology::test

// Every selection method: how many it keeps, that none of them is smaller than one left out, ties, memory.
#include "gossamer/compress/selection.h"

#include <limits>
#include <numeric>

#include "gossamer_test/catch.h"
#include "targets.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

std::vector<Selection> methods() {
  std::vector<Selection> all;
  for (std::size_t i = 0; i < selection_names().size(); ++i) all.push_back(static_cast<Selection>(i));
  return all;
}

std::string name_of(Selection method) {
  return std::string(selection_names()[static_cast<std::size_t>(method)]);
}

std::vector<std::uint32_t> select(Selection method, const Vector& v, std::size_t k,
                                  SelectionState state = {}) {
  Workspace workspace;
  const Selected selected = select_largest(method, v, k, {.seed = 5}, state, workspace);
  for (std::size_t j = 0; j < selected.indices.size(); ++j) {
    if (!same_bits(selected.values.subspan(j, 1), std::span(v).subspan(selected.indices[j], 1)))
      throw std::logic_error("value and index differ");
  }
  return {selected.indices.begin(), selected.indices.end()};
}

/// Order by full sort: larger magnitudes first, then lower indices.
std::vector<std::uint32_t> order_of(const Vector& v) {
  std::vector<std::uint32_t> order(v.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return std::fabs(v[a]) > std::fabs(v[b]); });
  return order;
}

std::vector<std::uint32_t> ascending(std::vector<std::uint32_t> order, std::size_t count) {
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

/// Between k and 1.5k, the first so many of the full order; exactly k where the last of them ties with the
/// next.
bool right(Selection method, const Vector& v, std::size_t k, const std::vector<std::uint32_t>& order,
           const std::vector<std::uint32_t>& found) {
  const std::size_t count = found.size();
  if (count < k || count > selection_max(method, k, v.size())) return false;
  if (selects_exactly(method) && count != k) return false;
  if (found != ascending(order, count)) return false;
  const bool splits_a_tie = count < v.size() && std::fabs(v[order[count - 1]]) == std::fabs(v[order[count]]);
  return count == k || !splits_a_tie;
}

std::vector<Named> inputs(std::size_t n) {
  auto all = families(n, n);
  std::mt19937_64 random(n);
  Vector flat(n), tail(n), ties(n);
  for (float& x : flat) x = static_cast<float>(2 * uniform(random) - 1);
  for (float& x : tail) x = static_cast<float>(std::tan(3.1415 * (uniform(random) - 0.5)));  // Cauchy
  for (float& x : ties) x = static_cast<float>(static_cast<int>(random() % 9) - 4);
  Vector down = gaussian(n, n + 1);
  std::sort(down.begin(), down.end(), std::greater<>());
  Vector up(down.rbegin(), down.rend());
  Vector equal(n, 2.5f);
  for (std::size_t i = 0; i < n; i += 2) equal[i] = -2.5f;
  Vector offset = gaussian(n, n + 2);
  for (float& x : offset) x = x * 0.01f + 3;
  const Vector denormal(n, 1e-45f), minus_zero(n, -0.0f);
  for (auto& named :
       {Named{"uniform", flat}, Named{"heavy tail", tail}, Named{"ties", ties}, Named{"descending", down},
        Named{"ascending", up}, Named{"equal magnitudes", equal}, Named{"far from zero", offset},
        Named{"denormal", denormal}, Named{"only −0", minus_zero}}) {
    all.push_back(named);
  }
  return all;
}

}  // namespace

TEST_CASE("every selection keeps the largest, k of them or up to half more") {
  for (const std::size_t n : {1u, 2u, 31u, 32u, 33u, 511u, 512u, 513u, 5000u}) {
    for (const auto& [name, v] : inputs(n)) {
      const auto order = order_of(v);
      for (const double density : {0.0, 0.01, 0.1, 0.5, 0.7, 1.0}) {
        const auto k = std::max<std::size_t>(1, static_cast<std::size_t>(density * static_cast<double>(n)));
        for (const Selection method : methods()) {
          INFO(name_of(method) << ": " << k << " of " << n << ", " << name);
          REQUIRE(right(method, v, k, order, select(method, v, k)));
        }
      }
    }
  }
}

TEST_CASE("every selection works on a million entries") {
  const std::size_t n = (1u << 20) + 7;
  Vector tail(n);
  std::mt19937_64 random(3);
  for (float& x : tail) x = static_cast<float>(std::tan(3.1415 * (uniform(random) - 0.5)));
  for (const auto& [name, v] : {Named{"gaussian", gaussian(n, 1)}, Named{"laplacian", laplacian(n, 2)},
                                Named{"heavy tail", tail}, Named{"sparse", sparse(n, 0.0005, 4)}}) {
    const auto order = order_of(v);
    for (const std::size_t k : {1049u, 10486u}) {
      for (const Selection method : methods()) {
        INFO(name_of(method) << ": " << k << ", " << name);
        REQUIRE(right(method, v, k, order, select(method, v, k)));
      }
    }
  }
}

TEST_CASE("nothing is selected from nothing") {
  for (const Selection method : methods()) REQUIRE(select(method, {}, 0).empty());
}

TEST_CASE("the fitted threshold is near the true one on its own distribution") {
  // The paper's setting: Laplace entries with mean 5e-4 and b = 5e-3, 0.1 % of them.
  Vector v = laplacian(1u << 20, 8);
  for (float& x : v) x = 5e-4f + 5e-3f * x;
  SelectionState state;
  Workspace workspace;
  const std::size_t k = 1049;
  const std::size_t count = select_largest(Selection::ldte_bs, v, k, {}, state, workspace).indices.size();
  REQUIRE(count >= k);
  REQUIRE(count <= k + k / 2);
  const double fitted = 5e-3 * (std::log(std::cosh(0.1)) - std::log(0.001));
  REQUIRE(state.threshold == Approx(fitted).epsilon(0.07));
}

TEST_CASE("the published search starts at the fit for k itself") {
  // Exactly Laplace: quantiles in place of draws. The fit then is the threshold of k to a few entries.
  const std::size_t n = 1u << 18, k = 262;
  Vector v(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = (static_cast<double>(i * 40503 % n) + 0.5) / static_cast<double>(n) - 0.5;
    v[i] = static_cast<float>(std::copysign(5e-3 * std::log(1 - 2 * std::fabs(u)), u));
  }
  Workspace workspace;
  SelectionState paper, ours;
  const std::size_t published =
      select_largest(Selection::ldte_bs_paper, v, k, {}, paper, workspace).indices.size();
  const std::size_t aimed = select_largest(Selection::ldte_bs, v, k, {}, ours, workspace).indices.size();
  REQUIRE(published >= k);
  REQUIRE(published <= k + k / 2);
  REQUIRE(aimed > k + k / 10);
  REQUIRE(paper.threshold > ours.threshold * 0.9f);
  REQUIRE(select(Selection::radix, v, k) == select(Selection::exact, v, k));
  REQUIRE(select(Selection::hierarchical, v, k) == select(Selection::exact, v, k));
}

TEST_CASE("reuse keeps the threshold while it fits and finds another where it does not") {
  Workspace workspace;
  SelectionState state;
  const std::size_t n = 50000, k = 500;
  (void)select_largest(Selection::reuse, gaussian(n, 1), k, {}, state, workspace);
  const float first = state.threshold;
  REQUIRE(first > 0);
  // From the middle of the band any other Gaussian fits.
  state.threshold = 2.5f;
  (void)select_largest(Selection::reuse, gaussian(n, 2), k, {}, state, workspace);
  REQUIRE(state.threshold == 2.5f);
  Vector smaller = gaussian(n, 3);
  for (float& x : smaller) x *= 1e-3f;
  const Selected selected = select_largest(Selection::reuse, smaller, k, {}, state, workspace);
  REQUIRE(selected.indices.size() >= k);
  REQUIRE(selected.indices.size() <= k + k / 2);
  REQUIRE(state.threshold < 0.01f);
  for (const float broken : {-1.0f, std::nanf(""), INFINITY}) {
    REQUIRE(right(Selection::reuse, smaller, k, order_of(smaller),
                  select(Selection::reuse, smaller, k, {.threshold = broken})));
  }
}

TEST_CASE("every threshold method keeps k to 1.5k whatever the distribution") {
  for (const std::size_t n : {20000u, 300000u}) {
    Vector flat(n), cauchy(n), student(n);
    std::mt19937_64 random(n);
    for (float& x : flat) x = static_cast<float>(2 * uniform(random) - 1);
    for (float& x : cauchy) x = static_cast<float>(std::tan(3.1415 * (uniform(random) - 0.5)));
    for (float& x : student) {
      const double chi = std::hypot(normal(random), normal(random), normal(random));
      x = static_cast<float>(normal(random) / chi);
    }
    for (const auto& [name, v] :
         {Named{"laplacian", laplacian(n, 1)}, Named{"gaussian", gaussian(n, 2)}, Named{"uniform", flat},
          Named{"Cauchy", cauchy}, Named{"Student, 3 degrees", student}}) {
      const auto order = order_of(v);
      for (const double density : {0.0005, 0.001, 0.01, 0.05, 0.3}) {
        const auto k = static_cast<std::size_t>(density * static_cast<double>(n));
        for (const Selection method : methods()) {
          INFO(name_of(method) << ": " << k << " of " << n << ", " << name);
          REQUIRE(right(method, v, k, order, select(method, v, k)));
        }
      }
    }
  }
}

TEST_CASE("selection is the same on every instruction set and any number of threads") {
  const std::size_t n = 5 * kSlice + 7;
  for (const auto& [name, v] :
       {Named{"laplacian", laplacian(n, 2)}, Named{"0.1 % dense", sparse(n, 0.001, 3)},
        Named{"all exponents", wide(n, -149, 127.9, 4)}, Named{"ties", inputs(n)[16].v}}) {
    for (const std::size_t k : {std::size_t{1}, n / 1000, n / 10, n}) {
      for (const Selection method : methods()) {
        const auto expected = select(method, v, k);
        INFO(name_of(method) << ": " << k << ", " << name);
        for_each_target([&, &x = v](const std::string& target) {
          INFO(target);
          REQUIRE(select(method, x, k) == expected);
        });
        for (const std::size_t count : {2u, 5u}) {
          Threads threads(count);
          Workspace workspace(&threads);
          SelectionState state;
          const Selected found = select_largest(method, v, k, {.seed = 5}, state, workspace);
          REQUIRE(std::equal(found.indices.begin(), found.indices.end(), expected.begin(), expected.end()));
        }
      }
    }
  }
}

TEST_CASE("NaN and Inf are named by their index, also by threads and under feedback") {
  const std::size_t n = 4 * kSlice + 3;
  Threads threads(3);
  for (const char* spec :
       {"topk:density=0.001", "topk:select=ldte_bs", "topk:select=reuse", "threshold:tau=2", "randk"}) {
    const auto codec = make_codec(spec);
    for (Threads* const team : {static_cast<Threads*>(nullptr), &threads}) {
      Workspace workspace(team);
      Bytes out(codec->max_bytes(n));
      FeedbackState state;
      (void)codec->encode_feedback(gaussian(n, 1), state, {}, workspace, out);
      const Vector before(state.residual.begin(), state.residual.end());
      for (const std::size_t at : {std::size_t{0}, std::size_t{63}, 2 * kSlice + 100, n - 1}) {
        Vector g = gaussian(n, 2);
        g[at] = -std::numeric_limits<float>::infinity();
        g[n - 1] = std::nanf("");
        std::string message;
        try {
          (void)codec->encode_feedback(g, state, {}, workspace, out);
        } catch (const EncodeError& error) {
          message = error.what();
        }
        INFO(spec << ": " << message);
        REQUIRE(message.find("entry " + std::to_string(at) + " ") != std::string::npos);
        REQUIRE(std::sqrt(squared_error(state.residual, before)) <= 1e-6 * std::sqrt(squared(before)) + 1e-6);
      }
    }
  }
}

TEST_CASE("topk:select=reuse keeps its threshold where the caller keeps its state") {
  const auto codec = make_codec("topk:density=0.01,select=reuse");
  const std::size_t n = 50000;
  Workspace workspace;
  Bytes out(codec->max_bytes(n));
  SelectionState selection{.threshold = 2.5f};
  (void)codec->encode_selecting(gaussian(n, 1), selection, {}, workspace, out);
  REQUIRE(selection.threshold == 2.5f);
  FeedbackState state;
  state.selection = selection;
  (void)codec->encode_feedback(gaussian(n, 2), state, {}, workspace, out);
  REQUIRE(state.selection.threshold == 2.5f);
  REQUIRE(restore_feedback(save(state)).selection.threshold == 2.5f);
}

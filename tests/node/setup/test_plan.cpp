#include "exchange.h"
#include "gossamer_test/catch.h"
#include "plan.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;
using gossamer::test::says_if_any;

namespace {

/// Why the job is refused; empty where it is not.
Settings job_of(const std::string& method, const std::string& graph, const std::string& codec) {
  return {"peers=6", "exchange.method=" + method, "graph.kind=" + graph, "exchange.codec=" + codec};
}

struct Row {
  const char *method, *graph, *codec;
  Settings more;
  const char* refused;  ///< what the message says; empty: accepted
};

const char* const kDense = "dense";
const char* const kOnebit = "onebit_scaled";

}  // namespace

TEST_CASE("methods are accepted where they are sound and refused with a reason elsewhere") {
  const Settings uniform{"graph.weights=uniform"}, undirected{"graph.directed=false"},
      overlap{"exchange.overlap=true"}, bounded{"exchange.staleness=4"},
      never{"exchange.staleness=unbounded"}, samples{"exchange.aggregate=samples"},
      throughput{"exchange.aggregate=throughput"}, lossy{"exchange.delivery=best_effort"},
      streamed{"exchange.fragments=4", "exchange.outer_delay=2"},
      backup{"exchange.backup=1", "optimizer.kind=sgd"};
  const std::vector<Row> rows{
      {"none", "ring", kOnebit, {}, ""},
      {"none", "one_peer_exponential", kDense, never, ""},
      {"none", "ring", kDense, overlap, "exchange.overlap"},

      {"allreduce", "ring", kDense, {}, ""},
      {"allreduce", "full", kDense, {}, ""},
      {"allreduce", "full", kOnebit, {}, ""},
      {"allreduce", "full", "qsgd:bits=2", {}, ""},
      {"allreduce", "full", "topk", samples, ""},
      {"allreduce", "ring", kOnebit, {}, "an edge between every two peers"},
      {"allreduce", "ring", "fp16", {}, "an edge between every two peers"},
      {"allreduce", "star", kDense, {}, "lacks one of its edges"},
      {"allreduce", "hypercube", kDense, Settings{"peers=8"}, ""},
      {"allreduce", "hypercube", kDense, Settings{"peers=8", "exchange.algorithm=ring"},
       "lacks one of its edges"},
      {"allreduce", "ring", kDense, Settings{"exchange.algorithm=halving_doubling"},
       "ranks differ in one bit"},
      {"allreduce", "full", kDense, Settings{"exchange.algorithm=halving_doubling"}, ""},
      {"allreduce", "one_peer_exponential", kDense, {}, "lacks one of its edges"},
      {"allreduce", "one_peer_exponential", kOnebit, {}, "an edge between every two peers"},
      {"allreduce", "ring", kDense, bounded, "staleness = 0"},
      {"allreduce", "full", kOnebit, never, "staleness = 0"},
      {"allreduce", "ring", kDense, overlap, "exchange.overlap"},

      {"allreduce", "full", "sign_vote", {}, ""},
      {"allreduce", "full", "terngrad", {}, ""},
      {"allreduce", "full", "threshold", {}, ""},
      {"allreduce", "full", "qsgd:bits=4,norm=l2", {}, ""},

      {"dpsgd", "ring", kDense, {}, ""},
      {"dpsgd", "star", kDense, never, ""},
      {"dpsgd", "full", kDense, overlap, ""},
      {"dpsgd", "ring", kDense, overlap + bounded, ""},
      {"dpsgd", "random_regular", kDense, bounded, ""},
      {"dpsgd", "exponential", kDense, {}, ""},
      {"dpsgd", "one_peer_exponential", kDense, {}, ""},
      {"dpsgd", "one_peer_exponential", kDense, never, ""},
      {"dpsgd", "ring", kOnebit, {}, "do not converge under a lossy codec"},
      {"dpsgd", "ring", "fp16", {}, "method 'choco' for compressed gossip"},
      {"dpsgd", "star", kDense, uniform, "columns sum to 1"},
      {"dpsgd", "ring", kDense, uniform, ""},
      {"dpsgd", "star", kDense, uniform + samples, "symmetric mixing matrix"},
      {"dpsgd", "exponential", kDense, samples, "symmetric mixing matrix"},
      {"dpsgd", "star", kDense, samples, ""},
      {"dpsgd", "star", kDense, throughput, "peer 'peer0' states none"},

      {"broadcast", "full", "qsgd", {}, ""},
      {"broadcast", "ring", "qsgd", {}, "an edge between every two peers"},
      {"broadcast", "full", "topk", {}, ""},
      {"broadcast", "full", "sign_vote", {}, "unbiased or converges under error feedback"},
      {"broadcast", "full", "qsgd", bounded, "staleness = 0"},
      {"topk_allgather", "full", "topk", {}, ""},
      {"topk_allgather", "full", "threshold", {}, ""},
      {"topk_allgather", "full", "qsgd:bits=2", {}, "converges under error feedback"},
      {"topk_allgather", "star", "topk", {}, "an edge between every two peers"},
      {"gtopk", "full", "topk", {}, ""},
      {"gtopk", "full", "topk:density=0.001,values=fp16,select=ldte_bs", {}, ""},
      {"gtopk", "hypercube", "topk", Settings{"peers=8"}, ""},
      {"gtopk", "exponential", "topk", undirected, ""},
      {"gtopk", "exponential", "topk", {}, "tree of pairs of peers"},
      {"gtopk", "ring", "topk", {}, "tree of pairs of peers"},
      {"gtopk", "one_peer_exponential", "topk", {}, "tree of pairs of peers"},
      {"gtopk", "full", "randk", {}, "needs codec 'topk'"},
      {"gtopk", "full", kDense, {}, "method 'allreduce'"},
      {"gtopk", "full", "threshold", {}, "fixed number of the largest"},
      {"gtopk", "full", "topk", bounded, "staleness = 0"},
      {"deep_squeeze", "ring", kOnebit, {}, ""},
      {"deep_squeeze", "one_peer_exponential", kOnebit, overlap, ""},
      {"deep_squeeze", "one_peer_exponential", kOnebit, {}, ""},
      {"deep_squeeze", "ring", "qsgd:bits=2", {}, "contractive codec"},
      {"deep_squeeze", "star", kOnebit, uniform, "columns sum to 1"},
      {"deep_squeeze", "ring", kOnebit, never, "staleness = 0"},
      {"gradient_tracking", "base", kDense, {}, ""},
      {"gradient_tracking", "ring", kOnebit, {}, "do not converge under a lossy codec"},
      {"gradient_tracking", "ring", kDense, bounded, "staleness = 0"},
      {"exact_diffusion", "ring", kDense, Settings{"optimizer.kind=sgd"}, ""},
      {"exact_diffusion", "ring", kDense, Settings{"optimizer.kind=adam"}, "optimizer.kind 'sgd'"},
      {"exact_diffusion", "base", kDense, Settings{"optimizer.kind=sgd"}, "time-varying graph"},
      {"exact_diffusion", "exponential", kDense, {}, "symmetric mixing matrix"},
      {"relay_sum", "tree", kDense, {}, ""},
      {"relay_sum", "star", kDense, {}, ""},
      {"relay_sum", "ring", kDense, {}, "needs a tree"},
      {"relay_sum", "tree", "fp16", {}, "do not converge under a lossy codec"},
      {"local_sgd", "ring", kDense, {}, ""},
      {"local_sgd", "ring", kOnebit, {}, "do not converge under a lossy codec"},
      {"diloco", "full", kDense, {}, ""},
      {"diloco", "full", "qsgd:bits=2", samples, ""},
      {"diloco", "full", "topk", {}, ""},
      {"diloco", "full", "sign_vote", {}, "unbiased or converges under error feedback"},
      {"diloco", "ring", kDense, streamed, ""},
      {"diloco", "matching", kDense, {}, ""},
      {"diloco", "ring", "qsgd:bits=4", {}, "graph.kind 'full'"},
      {"diloco", "star", kDense, uniform, "columns sum to 1"},
      {"diloco", "ring", kDense, never, "exchange.outer_delay"},
      {"diloco", "ring", kDense, Settings{"exchange.fragments=17"}, "for each fragment"},
      {"diloco", "ring", kDense, Settings{"exchange.outer_delay=16"}, "use a smaller delay"},
      {"noloco", "matching", kDense, streamed, ""},
      {"noloco", "full", kDense, {}, ""},
      {"noloco", "matching", kOnebit, {}, "do not converge under a lossy codec"},
      {"noloco", "epidemic", kDense, {}, "columns sum to 1"},
      {"sparse_loco", "full", "topk:density=0.02,values=two_bit", streamed + samples, ""},
      {"sparse_loco", "full", "qsgd:bits=2", {}, "converges under error feedback"},
      {"sparse_loco", "matching", "topk", {}, "the same weights for all"},
      {"sparse_loco", "ring", "topk", {}, "peers with different neighbours drift apart"},
      {"sparse_loco", "full", "topk", bounded, "staleness = 0"},
      {"local_sgd", "ring", kDense, streamed, "exchange.fragments"},
      {"dpsgd", "ring", kDense, backup, ""},
      {"dpsgd", "ring", kDense, backup + bounded, ""},
      {"dpsgd", "ring", kDense, backup + overlap + Settings{"optimizer.kind=adam"}, ""},
      {"dpsgd", "ring", kDense, Settings{"exchange.backup=2"}, "wait for nobody at peer 'peer0'"},
      {"dpsgd", "star", kDense, backup, "wait for nobody at peer 'peer1'"},
      {"dpsgd", "one_peer_exponential", kDense, backup, "does not vary"},
      {"dpsgd", "full", kDense, backup + Settings{"exchange.aggregate=median"}, "a weighted sum"},
      {"broadcast", "full", "qsgd", backup, ""},
      {"broadcast", "full", "qsgd", backup + bounded, ""},
      {"broadcast", "full", "qsgd", Settings{"exchange.send_momentum=0.5"}, ""},
      {"broadcast", "full", "qsgd", backup + Settings{"exchange.send_momentum=0.5"}, "use backup = 0"},
      {"broadcast", "full", "qsgd", backup + Settings{"optimizer.kind=adam"}, "do not add up"},
      {"topk_allgather", "full", "topk", backup + samples, ""},
      {"allreduce", "full", kDense, backup, "none of its messages may be missing"},
      {"choco", "ring", kOnebit, backup, "none of its messages may be missing"},
      {"ensemble", "ring", kDense, {}, ""},
      {"ensemble", "star", "intq:bits=8", uniform, ""},
      {"ensemble", "one_peer_exponential", "fp16", {}, ""},
      {"ensemble", "ring", kDense, samples, ""},
      {"ensemble", "ring", kOnebit, {}, "a coarse code of all parameters predicts little"},
      {"ensemble", "ring", kDense, bounded, "staleness = 0"},
      {"epidemic", "epidemic", kDense, never, ""},
      {"epidemic", "star", kDense, uniform, ""},
      {"dpsgd", "epidemic", kDense, {}, "columns sum to 1"},

      {"pairwise", "ring", kDense, never, ""},
      {"pairwise", "one_peer_exponential", kDense, never, ""},
      {"pairwise", "star", kDense, never + uniform, ""},
      {"pairwise", "ring", kDense, {}, "waits for nobody"},
      {"pairwise", "ring", kDense, never + samples, "makes no difference to method 'pairwise'"},
      {"pairwise", "ring", kDense, bounded, "staleness = \"unbounded\""},
      {"pairwise", "ring", kOnebit, never, "do not converge under a lossy codec"},

      {"moniqua", "ring", kDense, {}, ""},
      {"moniqua", "ring", kDense, overlap, ""},
      {"moniqua", "one_peer_exponential", kDense, {}, ""},
      {"moniqua", "star", kDense, uniform, "columns sum to 1"},
      {"moniqua", "ring", kOnebit, {}, "a code of its own"},
      {"moniqua", "ring", kDense, never, "staleness = 0"},

      {"push_sum", "ring", kDense, {}, ""},
      {"push_sum", "exponential", kDense, bounded, ""},
      {"push_sum", "one_peer_exponential", kDense, never, ""},
      {"push_sum", "star", kDense, uniform + never + lossy, ""},
      {"push_sum", "ring", kDense, lossy, "cannot be waited for"},
      {"push_sum", "ring", kOnebit, {}, "do not converge under a lossy codec"},
      {"epidemic", "ring", kDense, never + lossy, ""},
      {"dpsgd", "ring", kDense, never + lossy, "mean drifts"},
      {"choco", "ring", kOnebit, never + lossy, "never recover what a lost message held"},

      {"choco", "ring", kOnebit, {}, ""},
      {"choco", "star", "topk", bounded, ""},
      {"choco", "full", "qsgd:bits=4,norm=max", never, ""},
      {"choco", "ring", kDense, {}, ""},
      {"choco", "exponential", kOnebit, undirected, ""},
      {"choco", "ring", kOnebit, overlap, ""},
      {"choco", "ring", kOnebit, overlap + Settings{"exchange.local_steps=4"}, ""},
      {"choco", "ring", kOnebit, overlap + bounded, "in synchronous rounds only"},
      {"choco", "ring", kOnebit, overlap + never, "in synchronous rounds only"},
      {"push_sum", "ring", kDense, overlap, "exchange.overlap"},
      {"choco", "exponential", kOnebit, {}, "symmetric mixing matrix"},
      {"choco", "star", kOnebit, uniform, "symmetric mixing matrix"},
      {"choco", "one_peer_exponential", kOnebit, {}, "time-varying graph"},
      {"choco", "ring", "qsgd:bits=2,norm=max", {}, "contractive codec"},
      {"choco", "ring", "qsgd:bits=4,norm=l2,bucket=4096", {}, "contractive codec"},
  };
  for (const Row& row : rows) {
    const std::string said = refusal(job_of(row.method, row.graph, row.codec) + row.more);
    INFO(row.method << " on " << row.graph << " with " << row.codec << ": " << said);
    CHECK(says_if_any(said, row.refused));
  }
}

TEST_CASE("a refusal names the job file") {
  CHECK(says(refusal(job_of("dpsgd", "ring", "onebit")), "job.toml: "));
}

TEST_CASE("every method of the table can be made") {
  for (const auto& row : method_table()) {
    const std::string name = row.name;
    const bool all_linked = name == "broadcast" || name == "topk_allgather" || name == "sparse_loco";
    const bool to_halves = name == "gtopk";
    const char* graph = all_linked || to_halves ? "full" : name == "relay_sum" ? "tree" : "ring";
    const char* staleness = name == "pairwise" ? "exchange.staleness=unbounded" : "exchange.staleness=0";
    CHECK(
        refusal(job_of(name, graph, to_halves ? "topk" : "dense") + Settings{"optimizer.kind=sgd", staleness})
            .empty());
    CHECK(std::string(row.help).size() > 10);
  }
}

TEST_CASE("the plan holds each peer's share of the samples") {
  const Plan plan = make_plan(with_batches(small_job({}), {8, 16, 8, 32}), 2);
  CHECK(plan.share == std::vector<double>{0.125, 0.25, 0.125, 0.5});
  CHECK(plan.self == 2);
}

TEST_CASE("weights by samples or throughput keep the mean weighted so") {
  const std::vector<std::size_t> weights{256, 16, 16, 3, 16, 40};
  for (const std::string aggregate : {"samples", "throughput"})
    for (const char* graph : {"ring", "star", "full", "torus", "random_regular"}) {
      INFO(aggregate << ", " << graph);
      const Settings settings{"peers=6", std::string("graph.kind=") + graph,
                              "exchange.aggregate=" + aggregate};
      const Job job = small_job(settings);
      const Plan plan =
          make_plan(aggregate == "samples" ? with_batches(job, weights) : with_throughput(job, weights), 0);
      const auto m = plan.schedule.at(0).dense();
      for (std::size_t j = 0; j < 6; ++j) {
        double column = 0;
        for (std::size_t i = 0; i < 6; ++i) column += static_cast<double>(weights[i]) * m[i * 6 + j];
        CHECK(column == Approx(static_cast<double>(weights[j])).epsilon(1e-5));
        CHECK(plan.share[j] == Approx(static_cast<double>(weights[j]) / 347));
      }
      if (std::string(graph) == "full") CHECK(m[1] == Approx(16.0 / 347));
    }
}

TEST_CASE("weights by samples are renormalised rows where neighbourhoods weigh alike") {
  const Plan plan = make_plan(with_batches(small_job({"exchange.aggregate=samples"}), {8, 16, 8, 32}), 0);
  const auto& w = plan.schedule.at(0);  // ring of four: 1/3 each before
  CHECK(w.self_weight(0) == Approx(8.0 / 56));
  CHECK(w.in(0)[0].weight == Approx(16.0 / 56));
  CHECK(w.in(0)[1].weight == Approx(32.0 / 56));
}

TEST_CASE("outer momentum is the job's or else what method and codec bear") {
  const auto momentum = [](const char* method, const char* codec, const Settings& more = {}) {
    return make_plan(small_job(job_of(method, "full", codec) + more), 0).outer_momentum;
  };
  CHECK(momentum("diloco", "dense") == 0.9);
  CHECK(momentum("diloco", "qsgd:bits=4") == 0.9);
  CHECK(momentum("diloco", "onebit_scaled") == 0.5);
  CHECK(momentum("diloco", "topk", {"exchange.outer_momentum=0.8"}) == 0.8);
  CHECK(momentum("noloco", "dense") == 0.5);
}

TEST_CASE("an outer momentum that drives pairs apart is refused, also where it would when peers have gone") {
  const auto refused = [](const char* graph, const char* momentum, const Settings& more = {}) {
    const Settings all{std::string("exchange.outer_momentum=") + momentum};
    return refusal_of([&] { make_plan(small_job(job_of("noloco", graph, "dense") + all + more), 0); });
  };
  CHECK(says(refused("matching", "0.9"), "use a smaller outer_momentum, as its default 0.5"));
  CHECK(refused("matching", "0.7") == "");
  CHECK(refused("ring", "0.9") == "");
  CHECK(says(refused("matching", "0.85"), "over graph 'matching' of 5"));
  CHECK(refused("matching", "0.85", {"run.min_peers=0"}) == "");  // the first loss ends it
}

TEST_CASE("parcels cover every layer once") {
  const std::vector<optim::Layer> layers{{"a", 0, 33, {}}, {"b", 48, 16, {}}, {"c", 64, 1000, {}}};
  for (const std::size_t largest : {16U, 32U, 100U, 1U << 20}) {
    std::vector<int> covered(1064, 0);
    for (const Parcel& p : make_parcels(layers, largest)) {
      CHECK(p.range.size > 0);
      CHECK(p.range.size <= (largest + 15) / 16 * 16);
      CHECK(p.range.begin % 16 == 0);
      for (std::size_t i = 0; i < p.range.size; ++i) ++covered[p.range.begin + i];
    }
    for (std::size_t i = 0; i < covered.size(); ++i) CHECK(covered[i] == (i < 33 || i >= 48 ? 1 : 0));
  }
}

TEST_CASE("slices cover a range once and some may be empty") {
  for (const std::size_t size : {1U, 15U, 16U, 17U, 100U, 1000U})
    for (const std::size_t count : {1U, 2U, 3U, 7U, 64U}) {
      std::size_t next = 32;
      for (std::size_t s = 0; s < count; ++s) {
        const Range r = slice_of({32, size}, s, count);
        CHECK(r.begin == next);
        next += r.size;
      }
      CHECK(next == 32 + size);
    }
}

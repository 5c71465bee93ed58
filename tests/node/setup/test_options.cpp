// A key of [exchange] either makes a difference to a run or is refused.
#include <fmt/format.h>

#include "gossamer_test/catch.h"
#include "plan.h"
#include "sim_job.h"
#include "soundness.h"
#include "unread.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

/// Four peers with different batches and throughputs; nothing under [exchange] but what the settings say.
Job plain_job(const Settings& settings) {
  const gossamer::test::Folder folder;
  const std::string path = folder.write("job.toml", R"(
peers = 4
[graph]
kind = "full"
[model]
kind = "softmax"
[data]
rows = 512
test_rows = 8
features = 10
classes = 3
[optimizer]
learning_rate = 0.2
batch = 8
[run]
rounds = 40
evaluate_every = 0
)");
  return with_throughput(with_batches(load_job(path, settings), {3, 8, 5, 2}), {10, 70, 30, 20});
}

struct Change {
  const char* key;
  const char* value;
  Settings with{};  ///< what the key needs, in both runs
};

const std::vector<Change> kChanges{
    {"gamma", "0.3"},
    {"algorithm", "ring", {"exchange.codec=dense", "exchange.method=allreduce"}},
    {"algorithm", "ring"},
    {"aggregate", "samples"},
    {"aggregate", "throughput"},
    {"aggregate", "median"},
    {"send_momentum", "0.5"},
    {"overlap", "true"},
    {"backup", "1"},
    {"dense_below", "1000"},
    {"modulo_bits", "4"},
    {"modulo_bound", "2"},
    {"local_steps", "20"},
    {"outer_rate", "0.3"},
    {"outer_momentum", "0.3"},
    {"feedback_decay", "0.5"},
    {"fragments", "3", {"exchange.parcel=16"}},
    {"outer_delay", "1"},
    {"distill_steps", "3"},
    {"distill_weight", "0.9"},
    {"momentum_correction", "0.5"},
    {"clip", "0.01"},
    {"density_warmup", "[0.5]"},
    {"layer_density", "[\"*=0.5\"]"},
};

/// What a method is run with.
Settings base_of(const std::string& method) {
  const Settings m{"exchange.method=" + method, "exchange.codec=dense"};
  const Settings small{"exchange.dense_below=2"};  // the model's only layer has 33 entries
  if (method == "allreduce" || method == "topk_allgather" || method == "gtopk" || method == "diloco" ||
      method == "sparse_loco" || method == "choco" || method == "deep_squeeze")
    return m + small + Settings{"exchange.codec=topk:density=0.2"};
  if (method == "broadcast") return m + small + Settings{"exchange.codec=qsgd:bits=4"};
  if (method == "ensemble") return m + small + Settings{"exchange.codec=qsgd:bits=8", "graph.kind=ring"};
  if (method == "relay_sum") return m + Settings{"graph.kind=tree", "graph.degree=2"};
  if (method == "pairwise") return m + Settings{"exchange.staleness=unbounded"};
  return m;
}

bool averages_gradients(const std::string& method) {
  return method == "allreduce" || method == "broadcast" || method == "topk_allgather" || method == "gtopk";
}

std::uint64_t digest(const Settings& settings) {
  Run run(plain_job(settings));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  return run.result.digest;
}

}  // namespace

TEST_CASE("every key under [exchange] alters the run of a method or is refused by it") {
  for (const Method* method : methods())
    for (const Change& change : kChanges) {
      const std::string name = method->row.name;
      if (!change.with.empty() && says(change.with.back(), "method") && name != "allreduce") continue;
      INFO(name << " with " << change.key << " = " << change.value);
      // Sums of gradients are weighed by samples in any case.
      if (says(change.value, "samples") && averages_gradients(name)) continue;
      const Settings base = base_of(name) + change.with;
      const Settings changed = base + Settings{fmt::format("exchange.{}={}", change.key, change.value)};
      const std::string refused = refusal_of([&] { make_plan(plain_job(changed), 0); });
      if (refused.empty()) {
        CHECK(digest(changed) != digest(base));
        CHECK(reads(*method, change.key));
      } else {
        CHECK(says(refused, change.key));
        CHECK(says(refused, name));
      }
      if (!reads(*method, change.key))
        CHECK(says(refused, fmt::format("--set exchange.{}={}: exchange.", change.key, change.value)));
    }
}

TEST_CASE("every key that a method has of its own is among those that are tried") {
  for (const Method* method : methods())
    for (const OwnKey& key : method->keys) {
      INFO(method->row.name << " reads exchange." << key.name());
      CHECK(std::any_of(kChanges.begin(), kChanges.end(),
                        [&](const Change& change) { return key.name() == std::string_view(change.key); }));
    }
}

TEST_CASE("a job with every key written out runs as the job did, whatever its method") {
  const gossamer::test::Folder folder;
  for (const Method* method : methods()) {
    INFO(method->row.name);
    const Job job = plain_job(base_of(method->row.name));
    const Job again = load_job(folder.write("again.toml", to_toml(job)));
    CHECK(to_toml(again) == to_toml(job));
    CHECK(refusal_of([&] { make_plan(again, 0); }).empty());
  }
}

TEST_CASE("a key that a method does not read is refused with its place, its readers and its default") {
  const gossamer::test::Folder folder;
  const std::string path =
      folder.write("job.toml",
                   "peers = 4\n[graph]\nkind = \"tree\"\n[exchange]\nmethod = \"relay_sum\"\n"
                   "codec = \"dense\"\naggregate = \"samples\"\n");
  const std::string message = refusal_of([&] { make_plan(load_job(path), 0); });
  CHECK(says(message, path + ":7:13: exchange.aggregate = \"samples\""));
  CHECK(says(message, "method 'relay_sum'"));
  CHECK(says(message, "dpsgd, "));
  CHECK(says(message, "its default, \"weighted\""));
  ExchangeSettings exchange = load_job(path).exchange;
  exchange.gamma = 0.5;
  drop_unread(exchange);
  CHECK(config::unread_keys(exchange).empty());
  CHECK_FALSE(exchange.gamma);
}

TEST_CASE("push-sum refuses quasi-global momentum where peers may be lost") {
  const Settings settings{"exchange.method=push_sum", "exchange.codec=dense", "graph.kind=exponential"};
  const auto refusal = [&](const Settings& more) {
    return refusal_of([&] { make_plan(plain_job(settings + more), 0); });
  };
  CHECK(
      says(refusal({"optimizer.kind=quasi_global"}), "use optimizer.kind 'momentum', or run.min_peers = 0"));
  CHECK(refusal({"optimizer.kind=quasi_global", "run.min_peers=0"}).empty());
  CHECK(refusal({"optimizer.kind=momentum"}).empty());
}

TEST_CASE("mixing that is not sure, or out of turn, is refused under quasi-global momentum") {
  const auto refusal = [&](const Settings& more) {
    return refusal_of([&] { make_plan(plain_job(Settings{"optimizer.kind=quasi_global"} + more), 0); });
  };
  for (const char* method : {"choco", "deep_squeeze"}) {
    const auto with = [&](const char* codec) {
      return refusal({fmt::format("exchange.method={}", method), fmt::format("exchange.codec={}", codec)});
    };
    for (const char* codec :
         {"onebit", "onebit_two", "topk:density=0.3", "randk:density=0.3", "onebit_scaled"}) {
      INFO(method << " " << codec);
      CHECK(says(with(codec), "use optimizer.kind 'momentum', or codec 'intq:bits=2'"));
    }
    for (const char* codec :
         {"onebit_scaled:bound=0.8", "qsgd:bits=4,norm=max", "intq:bits=2", "fp16", "dense"}) {
      INFO(method << " " << codec);
      CHECK(with(codec).empty());
    }
  }
  const Settings dpsgd{"exchange.method=dpsgd", "exchange.codec=dense"};
  for (const char* staleness : {"1", "6", "unbounded"}) {
    const Settings stale = dpsgd + Settings{fmt::format("exchange.staleness={}", staleness)};
    CHECK(says(refusal(stale), "use optimizer.kind 'momentum', or exchange.staleness = 0"));
    CHECK(says(refusal(stale + Settings{"exchange.overlap=true"}), "needs synchronous rounds"));
    CHECK(refusal(stale + Settings{"exchange.method=none"}).empty());
  }
  CHECK(says(refusal({"exchange.method=pairwise", "exchange.codec=dense", "exchange.staleness=unbounded"}),
             "or method 'dpsgd'"));
  CHECK(refusal(dpsgd + Settings{"exchange.overlap=true"}).empty());
  CHECK(refusal(dpsgd + Settings{"exchange.backup=1"}).empty());
}

TEST_CASE("a run that is over before its peers exchange anything is refused") {
  const auto refusal = [](const Settings& more) {
    const Settings job{"exchange.method=local_sgd", "exchange.codec=dense", "run.rounds=20"};
    return refusal_of([&] { prepare(small_job(job + more)); });
  };
  CHECK(says(refusal({"exchange.local_steps=21"}),
             "exchange.local_steps = 21 is more than the run's rounds, 20"));
  CHECK(refusal({"exchange.local_steps=20"}).empty());
  CHECK(refusal({"exchange.local_steps=21", "peers=1"}).empty());
  CHECK(says(refusal({"run.rounds=8"}), "exchange.local_steps = 16 (the method's default) is more than"));
}

TEST_CASE("outer steps with a momentum are refused under quasi-global momentum, which would multiply it") {
  for (const char* method : {"diloco", "noloco"}) {
    const Settings settings{fmt::format("exchange.method={}", method), "exchange.codec=dense",
                            "optimizer.kind=quasi_global"};
    std::string said;
    try {
      make_plan(plain_job(settings), 0);
    } catch (const ConfigError& error) {
      said = error.what();
    }
    INFO(said);
    CHECK(says(said, "use optimizer.kind 'momentum', or exchange.outer_momentum = 0"));
    CHECK_NOTHROW(make_plan(plain_job(settings + Settings{"exchange.outer_momentum=0"}), 0));
  }
}

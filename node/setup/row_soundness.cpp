#include "row_soundness.h"

#include <fmt/format.h>

#include "aggregation.h"
#include "method.h"

namespace gossamer::node {

bool exchanges_rows(const Job& job) {
  return job.peers.size() > 1 && job.sparse.exchange != "none" &&
         !find_method(job.exchange.method).needs.keeps_apart;
}

void check_rows(const Job& job) {
  const auto refuse = [&](const char* key, const std::string& found, const char* why) {
    throw ConfigError(
        fmt::format("{}: {} = {} {}; leave it out, or use table.exchange = \"none\", with which each "
                    "peer keeps its own rows",
                    job.where(key), key, found, why));
  };
  const ExchangeSettings& e = job.exchange;
  if (e.delivery != "reliable")
    refuse("exchange.delivery", e.delivery,
           "may lose messages, and every push of rows is to be applied once");
  if (e.backup > 0)
    refuse("exchange.backup", std::to_string(e.backup),
           "ends rounds without some messages, and rows wait for all");
  if (e.straggler != "wait")
    refuse("run.straggler", "\"" + e.straggler + "\"",
           "ends rounds without some messages, or leaves out steps, and rows wait for all");
  if (rule_scope(e.aggregate) != RuleScope::none)
    refuse("exchange.aggregate", e.aggregate, "is a rule over whole vectors, and rows of tables are summed");
  if (!job.sim.attackers.empty())
    refuse("sim.attackers", "[...]", "corrupts parameters only, and rows would go on as they are");
}

RowPlan row_plan(const Job& job, const compress::RowsSpec& spec, const topology::Schedule& schedule) {
  auto routes = std::make_shared<const Routes>(schedule);
  if (!routes->complete())
    throw ConfigError(
        fmt::format("{}: graph '{}' leaves peers that others cannot reach, and rows of tables go to all; "
                    "use a connected graph, or table.exchange = \"none\"",
                    job.where("graph.kind"), job.graph.kind));
  return {spec, std::move(routes)};
}

}  // namespace gossamer::node

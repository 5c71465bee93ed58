// By hand: table_gamma [--peers N] [--start KIND] [--factor F] [METHOD ...]. Every codec at the ends of its
// parameters averages under its default γ, on ring, full, star and undirected exponential (gossip_lab.h):
// after 2000 rounds the consensus distance is lower than at first, and it never was twice that. Ends with
// status 1 where that fails.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "gossip_lab.h"

using namespace gossamer::node::test;

int main(int argc, char** argv) {
  CLI::App app("Consensus under every codec's default consensus step");
  std::size_t peers = 8, rounds = 2000;
  std::uint64_t seed = 1;
  double factor = 1;
  std::string start;
  std::vector<std::string> wanted;
  app.add_option("--peers", peers, "of each graph")->capture_default_str();
  app.add_option("--rounds", rounds, "of each run")->capture_default_str();
  app.add_option("--seed", seed, "of the starts")->capture_default_str();
  app.add_option("--start", start, "normal, heavy, sparse or far; otherwise in turn");
  app.add_option("--factor", factor, "on the default, 1 at most")->capture_default_str();
  app.add_option("method", wanted, "only these methods");
  CLI11_PARSE(app, argc, argv);

  std::size_t failed = 0, all = 0;
  fmt::print("{:13} {:12} {:42} {:7} {:>9} {:>9} {:>9}\n", "METHOD", "GRAPH", "CODEC", "START", "GAMMA",
             "MOST", "LAST");
  for (const GossipCase& c : gossip_cases(peers, start)) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), c.method) == wanted.end()) continue;
    GossipCourse course = gossip(c, factor == 1 ? rounds : 1, seed);
    if (factor != 1) course = gossip(c, rounds, seed, std::min(1.0, factor * course.gamma));
    failed += course.holds() ? 0 : 1;
    ++all;
    fmt::print("{:13} {:12} {:42} {:7} {:>9.3g} {:>9.3g} {:>9.2g} {}\n", c.method, c.graph, c.codec, c.start,
               course.gamma, course.most, course.last, course.holds() ? "" : "!");
    std::fflush(stdout);
  }
  fmt::print("{} of {} cases failed\n", failed, all);
  return failed == 0 ? 0 : 1;
}

#include "gossamer_test/catch.h"
#include "hash.h"
#include "membership.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

HelloBody hello_of(const std::string& name) {
  HelloBody h;
  h.name = name;
  h.job_text = "exchange.codec = \"dense\"\nrun.seed = 1\n";
  h.job_hash = hash_text(h.job_text);
  h.topology_hash = 2;
  h.layers = "fc1:0+33 ";
  h.parameters_hash = 3;
  h.data_hash = 4;
  return h;
}

MembershipSpec spec_of(PeerId self) {
  MembershipSpec spec;
  spec.self = self;
  spec.names = {"alpha", "beta", "gamma"};
  spec.links = self == 0 ? std::vector<PeerId>{1} : std::vector<PeerId>{0};
  spec.hello = hello_of(spec.names[self]);
  spec.epoch = 10 + self;
  return spec;
}

/// What alpha says to beta's hello.
std::string said_to(const HelloBody& hello, std::uint16_t version = kWireVersion) {
  Membership alpha(spec_of(0), 0);
  FrameHeader header;
  header.version = version;
  header.epoch = 11;
  return alpha.on_hello(1, header, hello, 0);
}

FrameHeader header_of(std::uint64_t epoch) {
  FrameHeader header;
  header.epoch = epoch;
  return header;
}

}  // namespace

TEST_CASE("peers that agree join") {
  Membership alpha(spec_of(0), 0), beta(spec_of(1), 0);
  CHECK(alpha.status(0) == PeerStatus::started);
  CHECK(alpha.hello_for(1).heard_epoch == 0);
  CHECK(alpha.on_hello(1, header_of(11), beta.hello_for(0), 0).empty());
  CHECK(alpha.status(0) == PeerStatus::started);  // beta has not heard alpha yet
  CHECK(beta.on_hello(0, header_of(10), alpha.hello_for(1), 0).empty());
  CHECK(beta.status(1) == PeerStatus::present);
  CHECK(alpha.on_hello(1, header_of(11), beta.hello_for(0), 0).empty());
  CHECK(alpha.status(0) == PeerStatus::present);
}

TEST_CASE("each kind of difference is named") {
  CHECK(said_to(hello_of("beta")).empty());

  HelloBody h = hello_of("beta");
  h.oldest_version = 0x0200;
  CHECK(says(said_to(h, 0x0200), "wire version: here 1.14, at peer 'beta' 2.0"));
  CHECK(says(said_to(hello_of("beta"), 0x0003), "wire version: here 1.14, at peer 'beta' 0.3"));
  CHECK(said_to(hello_of("beta"), 0x0203).empty());  // speaks ours too

  CHECK(says(said_to(hello_of("delta")), "name of peer 1: here beta, at peer 'delta' delta"));

  h = hello_of("beta");
  h.name.assign(100000, 'x');
  CHECK(said_to(h).size() < 500);
  h = hello_of("beta");
  h.layers.assign(100000, 'x');
  CHECK(said_to(h).size() < 500);
  h = hello_of("beta");
  h.job_text.assign(100000, 'x').append(" = 1\n");
  h.job_hash = hash_text(h.job_text);
  CHECK(said_to(h).size() < 500);

  h = hello_of("beta");
  h.job_text = "exchange.codec = \"qsgd\"\nrun.seed = 1\n";
  h.job_hash = hash_text(h.job_text);
  const std::string job = said_to(h);
  CHECK(says(job, "exchange.codec"));
  CHECK(says(job, "\"dense\""));
  CHECK(says(job, "\"qsgd\""));
  CHECK(says(job, "peer 'beta'"));

  h = hello_of("beta");
  h.topology_hash = 7;
  CHECK(says(said_to(h), "topology hash: here 2, at peer 'beta' 7"));
  h = hello_of("beta");
  h.layers = "fc1:0+44 ";
  CHECK(says(said_to(h), "layer table: here fc1:0+33 , at peer 'beta' fc1:0+44"));
  h = hello_of("beta");
  h.allreduce = "ring 0";
  CHECK(says(said_to(h), "all-reduce algorithm by parcel"));
  h = hello_of("beta");
  h.data_hash = 8;
  CHECK(says(said_to(h), "data set hash: here 4, at peer 'beta' 8"));
  h = hello_of("beta");
  h.parameters_hash = 9;
  CHECK(says(said_to(h), "initial parameters: here 3, at peer 'beta' 9"));
}

TEST_CASE("a neighbour is lost after silence and sooner after a broken connection") {
  Membership alpha(spec_of(0), 0);
  CHECK_FALSE(alpha.find_lost(100));  // never heard: joining has a time-out of its own
  alpha.on_hello(1, header_of(11), hello_of("beta"), 1);
  CHECK_FALSE(alpha.find_lost(4.9));
  CHECK(alpha.heard(1, 11, 4.9));
  CHECK_FALSE(alpha.find_lost(8.8));
  CHECK(alpha.next_deadline() == Approx(8.9));
  alpha.on_broken(1, 5);
  CHECK(alpha.next_deadline() == Approx(6));
  CHECK(alpha.heard(1, 11, 5.5));  // it came back
  CHECK_FALSE(alpha.find_lost(6.5));
  alpha.on_broken(1, 7);
  CHECK(alpha.find_lost(8));
  CHECK(alpha.status(1) == PeerStatus::lost);
  CHECK_FALSE(alpha.find_lost(8));  // no news
}

TEST_CASE("frames that came before the connection broke do not prolong a dead peer's life") {
  Membership alpha(spec_of(0), 0);
  alpha.on_hello(1, header_of(11), hello_of("beta"), 0);
  alpha.on_broken(1, 1);
  CHECK(alpha.heard(1, 11, 1 + kBrokenEcho_s / 2));  // was still in a buffer
  CHECK(alpha.next_deadline() == Approx(1 + kBrokenGrace_s));
  CHECK(alpha.heard(1, 11, 1 + 2 * kBrokenEcho_s));  // came over a new connection
  CHECK(alpha.next_deadline() > 4);
}

TEST_CASE("a finished peer knows when its neighbours know the end") {
  Membership alpha(spec_of(0), 0);
  alpha.on_hello(1, header_of(11), hello_of("beta"), 0);
  alpha.merge(1, {PeerStatus::present, PeerStatus::done, PeerStatus::done});
  CHECK_FALSE(alpha.completion_acknowledged(1));
  alpha.merge(1, {PeerStatus::done, PeerStatus::done, PeerStatus::done});
  CHECK(alpha.completion_acknowledged(1));
  alpha.merge(1, {PeerStatus::present, PeerStatus::done, PeerStatus::done});
  CHECK(alpha.completion_acknowledged(5));  // silent for long: it has gone
}

TEST_CASE("frames of another epoch are not a neighbour's") {
  Membership alpha(spec_of(0), 0);
  CHECK_FALSE(alpha.heard(1, 11, 0));
  CHECK_FALSE(alpha.restarted(1, 11));
  alpha.on_hello(1, header_of(11), hello_of("beta"), 0);
  CHECK(alpha.heard(1, 11, 1));
  CHECK_FALSE(alpha.heard(1, 12, 1));
  CHECK(alpha.restarted(1, 12));
}

TEST_CASE("knowledge of peers only grows") {
  Membership alpha(spec_of(0), 0);
  CHECK(alpha.merge(1, {PeerStatus::lost, PeerStatus::started, PeerStatus::present}));
  CHECK(alpha.status(0) == PeerStatus::started);  // it knows better about itself
  CHECK(alpha.status(2) == PeerStatus::present);
  CHECK_FALSE(alpha.merge(1, {PeerStatus::unknown, PeerStatus::unknown, PeerStatus::started}));
  CHECK(alpha.merge(1, {PeerStatus::unknown, PeerStatus::unknown, PeerStatus::left, PeerStatus::lost}));
  CHECK(alpha.names_with(PeerStatus::left) == std::vector<std::string>{"gamma"});
}

TEST_CASE("the join time-out names who is missing and nobody else") {
  for (const char* graph : {"ring", "star", "full"})
    for (const PeerId missing : {1U, 5U}) {
      Run run(small_job({"peers=6", "run.join_timeout=2", std::string("graph.kind=") + graph}),
              {1, {{missing, 0}}});
      run.go();
      for (PeerId p = 0; p < 6; ++p) {
        if (p == missing) continue;
        INFO(graph << ", peer " << p << ": " << run.result.peers[p].message);
        CHECK(run.result.peers[p].outcome == Outcome::lost_peer);
        CHECK(says(run.result.peers[p].message, "--join-timeout"));
        CHECK(says(run.result.peers[p].message, "missing peer" + std::to_string(missing)));
        for (PeerId other = 0; other < 6; ++other)
          if (other != missing)
            CHECK_FALSE(says(run.result.peers[p].message, "peer" + std::to_string(other)));
      }
      CHECK(run.result.virtual_seconds == Approx(2).margin(0.1));
    }
}

// Processes that hear wrong frames in their neighbours' names beside the right ones: they refuse and count
// them, and learn what they would have learned.
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <regex>

#include "forging_relay.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "model_digest.h"
#include "process.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::Folder;
using gossamer::test::Peers;
using gossamer::test::Ports;
using gossamer::test::Process;
using gossamer::test::says;

namespace {

constexpr std::size_t kPeers = 4;

/// Four peers that are listed at one range of ports and listen on another.
std::string listed_elsewhere(std::uint16_t listed, std::uint16_t real) {
  std::string text;
  for (std::size_t k = 0; k < kPeers; ++k)
    text += fmt::format(
        "[[peer]]\nname = \"peer{0}\"\naddress = \"tcp://127.0.0.1:{1}\"\nbind = \"tcp://127.0.0.1:{2}\"\n",
        k, listed + k, real + k);
  return text + kSmallJob;
}

/// What the peer says that it has refused.
std::uint64_t refused(const std::string& said) {
  static const std::regex kCount("([0-9]+) for their ");
  std::uint64_t all = 0;
  for (std::sregex_iterator m(said.begin(), said.end(), kCount), end; m != end; ++m)
    all += std::stoull((*m)[1]);
  return all;
}

struct Course {
  Job job;
  std::uint64_t forged = 0, refused = 0, digest = 0;
  std::size_t most_bytes = 0;  ///< of memory, of any peer
};

std::vector<Forgery> all_kinds(const Job& job) {
  std::vector<Forgery> kinds;
  for (std::size_t k = 0; k < forgeries(goes_by_order(job.exchange)); ++k)
    kinds.push_back(static_cast<Forgery>(k));
  return kinds;
}

/// A whole run, with the words of settings after --set; `copies` forged frames before each, all kinds or one.
/// ended: what is made of each peer when it has ended.
Course forged_run(const Settings& more, std::size_t copies, std::optional<Forgery> kind,
                  const std::function<void(Process&)>& ended) {
  const Folder folder;
  const Ports ports(2 * kPeers);
  const auto real = static_cast<std::uint16_t>(ports.first() + kPeers);
  const std::string path = folder.write("job.toml", listed_elsewhere(ports.first(), real));
  const Settings settings = Settings{"model.kind=softmax"} + more;
  std::vector<std::string> words;
  for (const std::string& s : settings) words.insert(words.end(), {"--set", s});
  Course course{.job = load_job(path, settings)};
  ForgingRelay relay(ports.first(), real, kPeers, kind ? std::vector{*kind} : all_kinds(course.job), copies,
                     1);
  Peers peers(folder, "job.toml", kPeers, words);
  peers.start_all();
  for (std::size_t k = 0; k < kPeers; ++k) {
    peers[k].wait(120);
    INFO(peers[k].name() << ": " << peers[k].err());
    ended(peers[k]);
    course.refused += refused(peers[k].err());
    course.most_bytes = std::max(course.most_bytes, peers[k].most_bytes());
  }
  course.forged = relay.forged();
  if (std::filesystem::exists(peers.model(0))) course.digest = model_digest(course.job, folder.path(""));
  return course;
}

/// Of peers that mute nobody, and finish.
Course forged_run(const Settings& more, std::size_t copies, std::optional<Forgery> kind = {}) {
  return forged_run(Settings{"run.mute_after=0"} + more, copies, kind,
                    [](Process& peer) { REQUIRE(peer.status() == 0); });
}

void check_forged_runs(const char* staleness) {
  for (const auto& method : method_table()) {
    const auto sound = sound_job(method.name, staleness, {});
    if (!sound || std::string(method.name) == "none") continue;
    Settings settings{"exchange.method=" + std::string(method.name),
                      "exchange.staleness=" + std::string(staleness), "graph.kind=" + sound->graph.kind,
                      "exchange.codec=" + sound->exchange.codec};
    const auto reads_key = [&](const char* key) { return reads(find_method(std::string(method.name)), key); };
    if (reads_key("local_steps")) settings.push_back("exchange.local_steps=2");
    if (reads_key("distill_steps")) settings.push_back("exchange.distill_steps=2");
    if (!reads_key("dense_below"))
      settings.push_back("exchange.dense_below=" + std::to_string(ExchangeSettings{}.dense_below));
    INFO(method.name << " staleness " << staleness << " on a " << sound->graph.kind << ", "
                     << sound->exchange.codec);
    const bool waits = sound->exchange.staleness.has_value();
    // who waits for nobody sends when it can, and seldom
    settings.push_back(waits ? "run.rounds=120" : "run.rounds=2000");
    const Course course = forged_run(settings, 4);
    CHECK(course.forged >= 400);
    CHECK(course.refused <= course.forged);
    // some come after the end, and that of peers that wait for nobody does not wait for what is under way
    CHECK(static_cast<double>(course.refused) > (waits ? 0.9 : 0.2) * static_cast<double>(course.forged));
    if (std::string(staleness) == "0")
      CHECK(course.digest == Simulation(prepare(course.job), {}).run().digest);
  }
}

}  // namespace

TEST_CASE("peers of every synchronous method refuse forged frames and learn the same") {
  check_forged_runs("0");
}
TEST_CASE("peers of every method refuse forged frames while rounds may be late") { check_forged_runs("1"); }
TEST_CASE("peers that never wait refuse forged frames") { check_forged_runs("\"unbounded\""); }

TEST_CASE("a flood of forged frames costs a peer no more memory than its links may hold") {
  const Settings large{"data.features=8000", "data.rows=64", "exchange.codec=dense", "run.rounds=20"};
  const std::size_t calm = forged_run(large, 0).most_bytes;
  for (std::size_t kind = 0; kind < forgeries(false); ++kind) {
    const Course course = forged_run(large, 30, static_cast<Forgery>(kind));
    INFO("kind " << kind << ": " << course.forged << " forged, " << course.refused << " refused, "
                 << (course.most_bytes >> 20) << " MiB, without " << (calm >> 20));
    const std::size_t most = 2 * (std::size_t{72} << 20);                    // two neighbours
    CHECK((gossamer::test::kSanitized || course.most_bytes < calm + most));  // sanitizers keep what is freed
  }
}

TEST_CASE("a neighbour whose payloads do not decode is muted, and who waits for it ends by its name") {
  constexpr int kLost = 3;
  const Settings job{"exchange.method=dpsgd", "exchange.codec=dense", "exchange.dense_below=10000",
                     "run.rounds=400"};
  std::size_t muters = 0;
  forged_run(job, 1, Forgery::not_finite, [&](Process& peer) {
    CHECK(peer.status() == kLost);
    muters += says(peer.err(), "payloads in its name did not decode") ? 1 : 0;
    CHECK((says(peer.err(), ": muted peer peer") || says(peer.err(), "was muted by a neighbour") ||
           says(peer.err(), "this peer was muted, says peer")));
  });
  CHECK(muters > 0);
  forged_run(job + Settings{"exchange.staleness=\"unbounded\""}, 1, Forgery::not_finite, [&](Process& peer) {
    CHECK(peer.status() == 0);
    CHECK(says(peer.err(), "muted peer peer"));
    CHECK(says(peer.err(), "for their muted sender"));
  });
}

TEST_CASE("one that speaks an earlier version is told so, and joins nothing") {
  const Folder folder;
  const Ports ports(2);
  folder.write(
      "job.toml",
      gossamer::test::SmallJob{.peers = 2, .base_port = ports.first(), .rounds = gossamer::test::kForever}
          .toml());
  Peers peers(folder, "job.toml", 2);
  peers.start_all();
  REQUIRE(peers.train_within(30));
  FrameHeader header;
  header.sender = kNoPeer;
  header.version = kOldestWireVersion - 1;
  const FrameBytes question = encode_frame({header, AskBody{"newcomer"}});
  void* const context = zmq_ctx_new();
  void* const socket = zmq_socket(context, ZMQ_DEALER);
  const int patience_ms = 20'000, linger = 0;
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
  zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
  REQUIRE(zmq_connect(socket, fmt::format("tcp://127.0.0.1:{}", ports.first()).c_str()) == 0);
  zmq_send(socket, question->data(), question->size(), 0);
  std::vector<std::uint64_t> answer(kMaxFrameBytes / sizeof(std::uint64_t));
  const int bytes = zmq_recv(socket, answer.data(), answer.size() * sizeof(std::uint64_t), 0);
  zmq_close(socket);
  zmq_ctx_term(context);
  REQUIRE(bytes > 0);
  const auto frame = decode_frame(std::as_bytes(std::span(answer)).first(static_cast<std::size_t>(bytes)));
  REQUIRE(frame);
  const auto* terms = std::get_if<TermsBody>(&frame->body);
  REQUIRE(terms);
  INFO(terms->refusal);
  CHECK(says(terms->refusal, "it speaks wire version 1.13, and this run none before 1.14"));
  CHECK(peers[0].status() == std::nullopt);
}

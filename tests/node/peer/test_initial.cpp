// Where peers begin that have drawn parameters of their own.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "gossamer/node/training_loop.h"
#include "gossamer_test/catch.h"
#include "key_file.h"
#include "own_job.h"
#include "process.h"

using namespace gossamer;
using namespace gossamer::node;

namespace {

/// 2.4 MB, in several pieces.
const std::vector<TensorSpec> kTensors{{"large", {600, 1000}}, {"small", {3}}};

struct StartJob : test::OwnJob {
  explicit StartJob(std::size_t count, const std::string& more = "")
      : OwnJob(count,
               "[graph]\nkind = \"full\"\n[optimizer]\nlearning_rate = 0.1\nbatch = 8\n[exchange]\n"
               "method = \"dpsgd\"\ncodec = \"dense\"\n[run]\nepochs = 1000\njoin_timeout = 20\n" +
                   more) {}
};

constexpr std::size_t kOfNobody = 99;

/// What a peer of that number draws.
float drawn(std::size_t peer, std::size_t i) {
  return static_cast<float>(peer + 1) + 1e-3f * static_cast<float>(i % 7);
}

/// A loop whose gradients are zeros, so that parameters stay what they were at first.
class Loop {
 public:
  Loop(const StartJob& job, const std::string& name, std::size_t draw,
       const std::vector<std::string>& settings = {}, const std::string& join = "")
      : draw_(draw), loop_(job.load(settings), name, kTensors, options(join)) {
    thread_ = std::jthread([this] { train(); });
  }
  ~Loop() { end(); }
  void end() {
    loop_.interrupt();
    if (thread_.joinable()) thread_.join();
  }
  bool trains_within(double seconds) const {
    return test::wait_until(seconds, [this] { return rounds_ > 1 || over_; }) && rounds_ > 1;
  }
  std::size_t peers() const { return peers_; }
  /// Of which peer's draw the parameters are.
  std::size_t draw_of_large() const { return large_; }
  std::string error;

 private:
  LoopOptions options(const std::string& join) {
    LoopOptions o;
    o.peer.join = join;
    o.initialise = [this](std::size_t, std::span<float> x) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = drawn(draw_, i);
    };
    o.callbacks.on_members = [this](const std::vector<std::string>& names) { peers_ = names.size(); };
    return o;
  }
  void train() {
    try {
      while (loop_.wait()) {
        const auto x = loop_.parameters(0);
        std::size_t of = 0;
        while (of < 4 && x[599'999] != drawn(of, 599'999)) ++of;
        large_ = std::all_of(x.begin(), x.end(),
                             [&, i = std::size_t{0}](float v) mutable { return v == drawn(of, i++); })
                     ? of
                     : kOfNobody;
        loop_.post(1, 8);
        ++rounds_;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      loop_.finish();
    } catch (const std::exception& e) {
      error = e.what();
    }
    over_ = true;
  }

  std::size_t draw_;
  std::atomic<std::size_t> peers_{0}, large_{kOfNobody}, rounds_{0};
  std::atomic<bool> over_{false};
  TrainingLoop loop_;
  std::jthread thread_;
};

}  // namespace

TEST_CASE("peers that have drawn other parameters begin with the first one's, whoever comes first") {
  const bool late = GENERATE(false, true);
  CAPTURE(late);
  const StartJob job(3);
  Loop second(job, "peer1", 1), third(job, "peer2", 2);
  if (late) std::this_thread::sleep_for(std::chrono::milliseconds(700));
  Loop first(job, "peer0", 0);
  for (const Loop* loop : {&first, &second, &third}) {
    CHECK(loop->trains_within(20));
    CHECK(loop->draw_of_large() == 0);
  }
}

TEST_CASE("who comes later begins with what the run began with, also under the first peer's name") {
  const StartJob job(2);
  Loop second(job, "peer1", 1);
  {
    Loop first(job, "peer0", 0);
    REQUIRE(first.trains_within(20));
    REQUIRE(second.trains_within(20));
  }
  CHECK(test::wait_until(10, [&] { return second.peers() == 1; }));
  Loop again(job, "peer0", 2),
      newcomer(job, "late", 3, {}, fmt::format("tcp://127.0.0.1:{}", job.ports.first() + 1));
  for (const Loop* loop : {&again, &newcomer, &second}) {
    CHECK(loop->trains_within(20));
    CHECK(test::wait_until(10, [&] { return loop->peers() == 3; }));
    CHECK(loop->draw_of_large() == 0);
  }
  CHECK(again.error.empty());
}

TEST_CASE("initial parameters go over connections with keys, too") {
  const test::Folder keys;
  std::string access = "[access]\nallow = [";
  for (const std::string name : {"peer0", "peer1"}) {
    const KeyPair pair = make_key_pair(KeyKind::peer, name);
    write_key_file(keys.path(name + ".key"), pair);
    access += fmt::format("\"{}={}\", ", name, text_of(pair.public_key));
  }
  const StartJob job(2, access + "]\n");
  const auto own = [&](const std::string& name) {
    return std::vector<std::string>{"access.key=" + (keys.path(name + ".key"))};
  };
  Loop second(job, "peer1", 1, own("peer1")), first(job, "peer0", 0, own("peer0"));
  CHECK(first.trains_within(20));
  CHECK(second.trains_within(20));
  CHECK(second.draw_of_large() == 0);
}

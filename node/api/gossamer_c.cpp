// The C API over TrainingLoop.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>

#include "c_values.h"
#include "gossamer/node/safetensors.h"
#include "gossamer/node/training_loop.h"
#include "started.h"

using namespace gossamer;
using namespace gossamer::node::api;

namespace {

thread_local std::string last_members;

/// Where lines of the log go.
class Log {
 public:
  explicit Log(const std::string& path) : path_(path) {
    if (path.empty() || path == "-") return;
    file_.open(path, std::ios::app);
    if (!file_) throw node::ConfigError(fmt::format("log '{}' cannot be written", path));
  }
  void line(const std::string& text) {
    if (path_ == "-") std::fprintf(stderr, "%s\n", text.c_str());
    if (file_.is_open()) file_ << text << std::endl;
  }

 private:
  std::string path_;
  std::ofstream file_;
};

/// Where nothing is said, as many zeros.
std::vector<node::KeptArray> kept_of(std::span<const gs_tensor> arrays) {
  std::vector<node::KeptArray> kept;
  const std::vector<node::TensorSpec> specs = specs_of(arrays);  // says what is wrong with them
  std::vector<std::vector<float>> initial = initial_of(arrays);
  for (const node::TensorSpec& spec : specs) {
    std::vector<float>& values = initial[kept.size()];
    values.resize(floats_of(arrays[kept.size()]));
    kept.push_back({spec.name, std::move(values)});
  }
  return kept;
}

/// What the program says, or whoever has started it.
std::string or_started(const char* given, const char* variable) {
  return given ? given : from_environment(variable);
}
std::uint64_t own_session() {
  const std::string text = from_environment("GOSSAMER_SESSION");
  if (text.empty()) return 0;
  char* end = nullptr;
  errno = 0;
  const std::uint64_t session = std::strtoull(text.c_str(), &end, 10);
  if (!std::isdigit(static_cast<unsigned char>(text[0])) || *end != '\0' || errno != 0)
    throw node::ConfigError(fmt::format(
        "GOSSAMER_SESSION holds '{}'; expected a number from 0 to 2^64 - 1, the same for all peers", text));
  return session;
}

}  // namespace

struct gs_peer {
  gs_peer(const std::string& job, std::vector<std::string> overrides, const std::string& name,
          std::span<const gs_tensor> tensors, const gs_options& options)
      : log(text_of(options.log)), telling(name), specs(specs_of(tensors)) {
    progress.loss = std::nan("");
    node::LoopOptions loop_options;
    loop_options.peer.session = options.session > 0 ? options.session : own_session();
    loop_options.peer.resume = or_started(options.resume, "GOSSAMER_RESUME");
    loop_options.peer.trace = from_environment("GOSSAMER_TRACE");
    loop_options.peer.join = text_of(options.join);
    loop_options.peer.address = text_of(options.address);
    loop_options.checkpoints = or_started(options.checkpoints, "GOSSAMER_CHECKPOINTS");
    loop_options.own_steps = options.own_steps != 0;
    if (options.kept_count > 0 && !options.kept)
      misuse("gs_options.kept is null; expected as many arrays as kept_count says");
    loop_options.kept = kept_of({options.kept, options.kept_count});
    loop_options.rows = options.rows;
    loop_options.labels = labels_of(options.labels, options.rows);
    loop_options.alike = text_of(options.alike);
    loop_options.alike_steps = text_of(options.alike_steps);
    if (options.steps_per_epoch > 0) loop_options.steps_per_epoch = options.steps_per_epoch;
    loop_options.initialise = writes(initial_of(tensors));  // views that come later ask for it, too
    loop_options.callbacks.on_report = [this](const node::Report& r) {
      telling.report(r);
      const std::lock_guard lock(mutex);
      progress = progress_of(r);
    };
    loop_options.callbacks.on_members = [this](const std::vector<std::string>& names) {
      const std::lock_guard lock(mutex);
      members.clear();
      for (const std::string& member : names) members += member + "\n";
    };
    loop_options.callbacks.on_member = [this](const node::MemberEvent& event) { telling.member(event); };
    loop_options.callbacks.on_log = [this](const std::string& text) { log.line(text); };
    const std::string started = from_environment("GOSSAMER_JOB");
    loop.emplace(node::load_job(started.empty() ? job : started, overrides), name, specs,
                 std::move(loop_options));
    if (const std::string folder = from_environment("GOSSAMER_OUT"); !folder.empty())
      model = folder + "/" + name + ".safetensors";
  }
  /// Whoever started this program is to know how its peer ended.
  ~gs_peer() {
    if (telling.on()) ended();
  }
  gs_peer(const gs_peer&) = delete;
  gs_peer& operator=(const gs_peer&) = delete;

  void save(const std::string& path) const {
    optim::Layer all{"all", 0, 0, {}};
    std::vector<float> x;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      all.tensors.push_back({specs[t].name, specs[t].shape, x.size()});
      const auto from = loop->parameters(t);
      x.insert(x.end(), from.begin(), from.end());
    }
    all.size = x.size();
    node::check_replaceable(path);
    node::write_safetensors(path, {all}, x, {{"format", "pt"}});
  }

  /// How the run ended.
  gs_status ended() {
    if (!outcome) {
      node::PeerResult result;
      bool told_all = false;
      outcome = guarded([&] {
        result = loop->finish();
        if (!model.empty() && result.rounds > 0) save(model);
        telling.end(loop->details());
        told_all = true;
        return status_of(result.outcome);
      });
      message = told_all ? result.message : last_error();
    }
    return *outcome == GS_DONE ? GS_DONE : told(*outcome, message);
  }

  const pid_t process = getpid();
  Log log;              ///< outlives the loop, whose thread writes it
  Telling telling;      ///< likewise
  std::string model{};  ///< file where what was learned goes by itself; empty: none
  mutable std::mutex mutex;
  gs_progress progress{};
  std::string members;
  std::vector<node::TensorSpec> specs;
  bool computing = false;  ///< from gs_wait to gs_post
  std::optional<gs_status> outcome;
  std::string message;
  std::optional<node::TrainingLoop> loop;
};

namespace {

void require(const gs_peer* peer) {
  if (!peer) misuse("the peer is null; expected one that gs_open made");
  if (peer->process != getpid())
    misuse("this process was forked from the one that opened the peer; expected calls from that one alone");
}

/// What no clock can count is as long as it takes.
template <class Forever, class InTime>
std::optional<bool> in_time(double seconds, const Forever& forever, const InTime& in_time) {
  if (std::isnan(seconds)) misuse("found NaN seconds to wait for; expected a number");
  if (seconds < 0 || seconds > 1e9) return forever();
  return in_time();
}

/// The part of the peer that is asked for; empty where there is none, and gs_error says why.
template <class Part>
auto asked(const gs_peer* peer, const Part& part) {
  decltype(part()) found{};
  guarded([&] {
    require(peer);
    found = part();
    return GS_OK;
  });
  return found;
}

}  // namespace

int gs_abi(void) { return GS_ABI; }
const char* gs_version(void) { return GOSSAMER_VERSION; }
const char* gs_error(void) { return last_error().c_str(); }

gs_status gs_open(const char* job, const char* const* overrides, size_t overrides_count, const char* name,
                  const gs_tensor* tensors, size_t tensors_count, const gs_options* options, gs_peer** peer) {
  if (peer) *peer = nullptr;
  return guarded([&] {
    if (!job || !name || !peer || !tensors)
      misuse("gs_open was given a null pointer; expected a job, a name, tensors and a place for the peer");
    *peer = new gs_peer(job, texts_of(overrides, overrides_count), name, {tensors, tensors_count},
                        known_part(options, "gs_options"));
    return GS_OK;
  });
}

gs_status gs_wait(gs_peer* peer, double seconds) {
  return guarded([&] {
    require(peer);
    if (peer->outcome) return peer->ended();
    const auto stands = in_time(
        seconds, [&] { return peer->loop->wait(); }, [&] { return peer->loop->wait(seconds); });
    if (!stands) return GS_TIMEOUT;
    peer->computing = *stands;
    return *stands ? GS_OK : peer->ended();
  });
}

size_t gs_floats(const gs_peer* peer, size_t tensor) {
  return asked(peer, [&] { return peer->loop->parameters(tensor); }).size();
}
const float* gs_parameters(const gs_peer* peer, size_t tensor) {
  return asked(peer, [&] { return peer->loop->parameters(tensor); }).data();
}
float* gs_gradient(gs_peer* peer, size_t tensor) {
  return asked(peer, [&] { return peer->loop->gradient(tensor); }).data();
}

float* gs_changing(gs_peer* peer, size_t tensor) {
  return asked(peer, [&] { return peer->loop->changing(tensor); }).data();
}
float* gs_kept(gs_peer* peer, size_t array) {
  return asked(peer, [&] { return peer->loop->kept(array); }).data();
}

gs_status gs_remember(gs_peer* peer, const void* bytes, size_t size) {
  return guarded([&] {
    require(peer);
    if (!bytes && size > 0) misuse("gs_remember was given a null pointer");
    peer->loop->remember({static_cast<const std::byte*>(bytes), size});
    return GS_OK;
  });
}
const void* gs_remembered(const gs_peer* peer, size_t* size) {
  const auto bytes = asked(peer, [&] { return peer->loop->remembered(); });
  if (size) *size = bytes.size();
  return bytes.empty() ? nullptr : bytes.data();
}

uint64_t gs_steps_per_epoch(const gs_peer* peer) {
  return asked(peer, [&] { return peer->loop->steps_per_epoch(); });
}
uint64_t gs_step(const gs_peer* peer) {
  return asked(peer, [&] { return peer->loop->step(); });
}

gs_status gs_batch(const gs_peer* peer, uint64_t step, uint32_t* rows, size_t most, size_t* count) {
  return guarded([&] {
    require(peer);
    if (!count || (!rows && most > 0)) misuse("gs_batch was given a null pointer");
    const std::vector<std::uint32_t> batch = peer->loop->rows_of(step);
    *count = batch.size();
    std::copy_n(batch.begin(), std::min(most, batch.size()), rows);
    return GS_OK;
  });
}

gs_status gs_ready(gs_peer* peer, size_t tensor) {
  return guarded([&] {
    require(peer);
    peer->loop->ready(tensor);
    return GS_OK;
  });
}

gs_status gs_post(gs_peer* peer, double loss, size_t rows) {
  return guarded([&] {
    require(peer);
    if (rows > kMostRowsOfABatch)
      misuse(fmt::format("gs_post: found {} rows in a batch; expected at most {}", rows, kMostRowsOfABatch));
    peer->loop->post(loss, rows);
    peer->computing = false;
    return GS_OK;
  });
}

int gs_steps_by_mean(const gs_peer* peer) {
  return asked(peer, [&] { return peer->loop->steps_by_mean() ? 1 : 0; });
}

gs_status gs_wait_mean(gs_peer* peer, double seconds) {
  return guarded([&] {
    require(peer);
    const auto stands = in_time(
        seconds, [&] { return peer->loop->wait_for_mean(); },
        [&] { return peer->loop->wait_for_mean(seconds); });
    if (!stands) return GS_TIMEOUT;
    return *stands ? GS_OK : GS_NO_MEAN;
  });
}

gs_status gs_report(const gs_peer* peer, gs_progress* progress, size_t size) {
  return guarded([&] {
    require(peer);
    if (!progress || size == 0 || size > sizeof *progress)
      misuse(fmt::format(
          "gs_report was given {} bytes; expected sizeof(gs_progress), which is {} in this library",
          progress ? size : 0, sizeof *progress));
    const std::lock_guard lock(peer->mutex);
    std::memcpy(progress, &peer->progress, size);
    return GS_OK;
  });
}

const char* gs_members(const gs_peer* peer) {
  last_members = asked(peer, [&] {
    const std::lock_guard lock(peer->mutex);
    return peer->members;
  });
  return last_members.c_str();
}

gs_status gs_interrupt(gs_peer* peer) {
  return guarded([&] {
    require(peer);
    peer->loop->interrupt();
    return GS_OK;
  });
}

gs_status gs_save(const gs_peer* peer, const char* path) {
  return guarded([&] {
    require(peer);
    if (!path) misuse("gs_save was given no path");
    if (!peer->computing && !peer->outcome)
      misuse(
          "gs_save was called while parameters are exchanged; expected it between gs_wait and gs_post, or "
          "after the run");
    peer->save(path);
    return GS_OK;
  });
}

gs_status gs_end(gs_peer* peer) {
  return guarded([&] {
    require(peer);
    peer->computing = false;
    return peer->ended();
  });
}

void gs_close(gs_peer* peer) {
  // a forked child has none of the peer's threads to join: what is the parent's is left to it
  if (peer && peer->process == getpid()) delete peer;
}

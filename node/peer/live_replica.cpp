#include "live_replica.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "device_replica.h"
#include "endpoint.h"
#include "hash.h"
#include "method.h"
#include "plan.h"
#include "replica.h"

namespace gossamer::node {

namespace cuda = compress::cuda;

namespace {

constexpr std::size_t kFront = 5;  // of "cuda:N"

std::string where(const Job& job, const PeerEntry& peer) {
  return fmt::format("{}: peer '{}'", peer.device_at.empty() ? job.path : peer.device_at, peer.name);
}

/// How many of the peers before it share a machine, and its devices, with it.
std::size_t place_on_machine(const Job& job, PeerId self) {
  const auto host = [&](PeerId peer) {
    const std::string& address = job.peers[peer].address;
    return address.empty() ? address : endpoint_of(address).host;
  };
  std::size_t before = 0;
  for (PeerId p = 0; p < self; ++p)
    if (job.peers[p].device == "auto" && host(p) == host(self)) ++before;
  return before;
}

optim::cuda::DeviceModelSpec device_model(const Prepared& prepared, PeerId self, void* stream) {
  return {.model = prepared.homogeneous() ? prepared.job.model : prepared.shapes[self]->model,
          .stream = stream,
          .tf32 = prepared.job.precision == "tf32"};
}

/// Why the peer must compute on the host; empty: it need not. A device is in use.
std::string why_host(const Prepared& prepared, PeerId self) {
  const Job& job = prepared.job;
  if (prepared.learner.objective || prepared.learner.optimizer || prepared.learner.around_optimizer)
    return "the program computes gradients or steps itself, and hands them over in host memory";
  if (job.learns_by_key())
    return fmt::format("model '{}' learns rows of a table, on the host only", job.model.kind);
  if (find_method(job.exchange.method).needs.classifier)
    return fmt::format("method '{}' learns from what other models predict, on the host only",
                       job.exchange.method);
  try {
    for (const compress::Codec* codec : prepared.codecs_of(self)->all())
      (void)cuda::make_device_codec(codec->spec());
    (void)optim::cuda::make_device_model(device_model(prepared, self, nullptr));
  } catch (const compress::CodecError& error) {
    return error.what();
  } catch (const optim::OptimError& error) {
    return error.what();
  }
  return {};
}

/// The device's, or why not.
std::string why_not_on(int device, const Prepared& prepared, PeerId self) try {
  cuda::use_device(device);
  return why_host(prepared, self);
} catch (const std::runtime_error& error) {
  return error.what();
}

/// Where one has no room the next may.
ChosenDevice choose_any(const Prepared& prepared, PeerId self, std::size_t place) {
  std::string why;
  const std::size_t devices =
      cuda::available(why) ? static_cast<std::size_t>(cuda::device_count()) : std::size_t{0};
  for (std::size_t n = 0; n < devices; ++n) {
    const int device = static_cast<int>((place + n) % devices);
    std::string why_not = why_not_on(device, prepared, self);
    if (why_not.empty()) return {device, fmt::format("device = \"auto\": computes on cuda:{}", device)};
    if (n == 0) why = std::move(why_not);
  }
  return {{}, "device = \"auto\": computes on the host: " + why};
}

}  // namespace

ChosenDevice choose_device(const Prepared& prepared, PeerId self, bool joins) {
  const PeerEntry& peer = prepared.job.peers[self];
  if (peer.device == "cpu") return {};
  if (peer.device == "auto")
    return choose_any(prepared, self, joins ? hash_text(peer.name) : place_on_machine(prepared.job, self));
  int device = 0;
  std::from_chars(peer.device.data() + kFront, peer.device.data() + peer.device.size(), device);
  const std::string why = why_not_on(device, prepared, self);
  if (!why.empty())
    throw ConfigError(
        fmt::format("{} has device \"{}\": {}; expected a device that this machine has and this "
                    "job can use, or device = \"cpu\" or \"auto\"",
                    where(prepared.job, peer), peer.device, why));
  return {device, {}};
}

std::unique_ptr<ReplicaBase> make_live_replica(const Prepared& prepared, PeerId self,
                                               const ChosenDevice& device,
                                               std::shared_ptr<optim::DataCourse> course,
                                               std::uint64_t first_step, std::size_t threads,
                                               SpareFloats spare) {
  constexpr bool kReadsAhead = true;
  if (!device.cuda)
    return std::make_unique<Replica>(make_replica(
        prepared, self, make_objective(prepared, self, nullptr, kReadsAhead, std::move(course), first_step),
        threads, {}, {}, std::move(spare)));
  try {
    cuda::use_device(*device.cuda);
    const Buffers buffers = buffers_of(plan_of(prepared, self));
    const auto streams = std::make_shared<const DeviceStreams>();
    auto objective = optim::cuda::make_device_row_objective(
        row_objective_parts(prepared, self, nullptr, kReadsAhead, std::move(course), first_step),
        device_model(prepared, self, streams->compute.get()), streams->exchange.get());
    const std::size_t floats = objective->buffer_size();
    DeviceReplicaParts parts(replica_base_parts(prepared, self, std::move(objective), buffers), streams);
    parts.device = *device.cuda;
    parts.optimizer =
        optim::cuda::make_device_optimizer(optimizer_of(prepared), floats, streams->exchange.get());
    return std::make_unique<DeviceReplica>(std::move(parts), prepared.initial_of(self), buffers);
  } catch (const ConfigError&) {
    throw;
  } catch (const optim::OptimError&) {
    throw;
  } catch (const std::runtime_error& error) {  // of the device
    throw ConfigError(fmt::format(
        "{} cannot compute on cuda:{}: {}; expected a device that holds {} parameters "
        "with what the job keeps of them, a smaller model, or device = \"cpu\"",
        where(prepared.job, prepared.job.peers[self]), *device.cuda, error.what(), prepared.parameters));
  }
}

}  // namespace gossamer::node

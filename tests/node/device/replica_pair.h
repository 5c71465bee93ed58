#pragma once
// A device's replica beside the host's: the same commands on the same floats.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "device_replica.h"
#include "gossamer_test/catch.h"
#include "replica.h"
#include "sim_job.h"

namespace gossamer::node::test {

inline constexpr Slot kA = 2, kB = 3;

inline bool has_device() {
  std::string why;
  return compress::cuda::available(why);
}

inline DeviceReplica device_replica(const Prepared& prepared, const Buffers& buffers) {
  const auto streams = std::make_shared<const DeviceStreams>();
  constexpr bool kReadsAhead = true;
  auto objective = optim::cuda::make_device_row_objective(
      row_objective_parts(prepared, 0, nullptr, kReadsAhead, nullptr, 0),
      {.model = prepared.job.model, .stream = streams->compute.get()}, streams->exchange.get());
  DeviceReplicaParts parts(replica_base_parts(prepared, 0, std::move(objective), buffers), streams);
  parts.optimizer = optim::cuda::make_device_optimizer(optimizer_of(prepared), parts.objective->buffer_size(),
                                                       streams->exchange.get());
  return DeviceReplica(std::move(parts), prepared.initial, buffers);
}

inline Prepared with_codec(Prepared prepared, const std::string& codec) {
  if (codec.empty()) return prepared;
  prepared.job.exchange.codec = codec;
  prepared.codecs =
      std::make_shared<CodecSchedule>(prepared.job.exchange, prepared.layers, prepared.rounds_per_epoch);
  return prepared;
}

/// Both, and what they posted.
struct Pair {
  /// codec: in place of the job's, where it goes with no method that the job could have.
  explicit Pair(const Settings& settings = {}, const Buffers& buffers = {.slots = 2},
                const std::string& codec = "")
      : prepared(with_codec(prepare(small_job(settings)), codec)),
        host(make_replica(prepared, 0, make_objective(prepared, 0), 1, {}, buffers)),
        device(device_replica(prepared, buffers)),
        whole{0, prepared.initial.size()} {}

  void run(const Op& op) {
    host.run(op, [this](DataEvent e) { of_host.push_back(std::move(e)); });
    device.run(op, [this](DataEvent e) { of_device.push_back(std::move(e)); });
  }
  void run(const Gradient& gradient) {
    host.run(
        gradient, [this](DataEvent e) { of_host.push_back(std::move(e)); }, [] {});
    device.run(
        gradient, [this](DataEvent e) { of_device.push_back(std::move(e)); }, [] {});
  }
  /// Each parcel steps as soon as its gradient stands.
  Gradient stepping(Round round) const {
    Gradient gradient{.round = round, .on_ready = {}};
    for (const Parcel& p : prepared.plan->parcels)
      gradient.on_ready.push_back({op::Update{p.range, round, static_cast<double>(round)},
                                   op::Combine{p.range, kParameters, 1, {{-1.0f, kGradient}}}});
    return gradient;
  }
  void require_same_slot(Slot s) const {
    INFO("slot " << s);
    REQUIRE(Run::same_bits(device.slot(s), host.slot(s)));
  }
  void require_same_payload() const {
    const auto& a = std::get<Encoded>(of_host.back());
    const auto& b = std::get<Encoded>(of_device.back());
    REQUIRE(b.payload == a.payload);
    CHECK(b.round == a.round);
    CHECK(b.parcel == a.parcel);
    CHECK(b.tag == a.tag);
    CHECK(b.entries == a.entries);
  }
  double distance(Slot s) const {
    const std::vector<float> there = device.slot(s);
    double most = 0;
    for (std::size_t i = 0; i < there.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(there[i]) - static_cast<double>(host.slot(s)[i])));
    return most;
  }

  Prepared prepared;
  Replica host;
  DeviceReplica device;
  Range whole;
  std::vector<DataEvent> of_host, of_device;
};

inline op::Encode encode(Range range, Slot src, Round round, int feedback = -1) {
  return {.range = range,
          .src = src,
          .minus = {},
          .apply_to = {},
          .feedback = feedback,
          .round = round,
          .parcel = 0,
          .tag = 3};
}

}  // namespace gossamer::node::test

#pragma once
// Courses are small runs of every method, codec and staleness that is sound, whose bits are the same on every
// machine.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "sim_job.h"

namespace gossamer::node::test {

inline constexpr std::array kCodecs{"dense",
                                    "fp16",
                                    "bf16",
                                    "intq:bits=4",
                                    "onebit",
                                    "onebit_two",
                                    "onebit_scaled",
                                    "terngrad",
                                    "sign_vote",
                                    "qsgd:bits=4",
                                    "qsgd:levels=5,coding=elias",
                                    "topk:density=0.2",
                                    "randk:density=0.2",
                                    "threshold:tau=0.01"};

/// Frames take the same time whatever is in them.
inline Settings guarded(std::string_view method, std::string_view codec, std::string_view staleness,
                        std::string_view graph, std::string_view optimizer) {
  const auto set = [](const char* key, std::string_view value) {
    return std::string(key) + "=" + std::string(value);
  };
  const Settings settings{set("exchange.method", method),
                          set("exchange.codec", codec),
                          set("exchange.staleness", staleness),
                          set("graph.kind", graph),
                          set("optimizer.kind", optimizer),
                          "model.kind=quadratic",
                          "data.features=200",
                          "data.rows=64",
                          "optimizer.learning_rate=0.05",
                          "run.rounds=24",
                          "sim.bandwidth=1e15",
                          "sim.latency=0.001",
                          "sim.step_time=0.003",
                          "sim.step_jitter=0.5"};
  return optimizer == "momentum" ? settings + Settings{"optimizer.momentum=0.5"} : settings;
}

struct Course {
  std::string graph, optimizer;
  Prepared prepared;
};

/// On the first graph, and by the first optimiser, that the program accepts.
inline std::optional<Course> sound_course(std::string_view method, std::string_view codec,
                                          std::string_view staleness) {
  for (const char* optimizer : {"momentum", "sgd"})
    for (const char* graph : {"full", "ring", "star"}) try {
        return Course{graph, optimizer,
                      prepare(small_job(guarded(method, codec, staleness, graph, optimizer)))};
      } catch (const ConfigError&) {
      }
  return std::nullopt;
}

}  // namespace gossamer::node::test

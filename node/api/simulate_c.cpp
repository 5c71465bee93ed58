// A simulation whose gradients a C program computes.
#include <algorithm>
#include <memory>
#include <utility>

#include "c_values.h"
#include "gossamer/node/peer.h"
#include "tensor_objective.h"

using namespace gossamer;
using namespace gossamer::node::api;

namespace {

/// One simulated peer's.
class CalledObjective final : public node::TensorObjective {
 public:
  CalledObjective(const std::vector<node::TensorSpec>& tensors, const gs_simulation& simulation,
                  std::function<void(std::size_t, std::span<float>)> initialise, std::size_t peer)
      : TensorObjective(tensors, std::max<std::uint64_t>(1, simulation.steps_per_epoch),
                        std::move(initialise)),
        call_(simulation.gradient),
        context_(simulation.context),
        peer_(peer),
        x_(tensors.size()),
        g_(tensors.size()) {}

  optim::StepResult gradient(std::span<float> x, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    std::fill(g.begin(), g.end(), 0.0f);
    take_rows(key.step);
    for (std::size_t t = 0; t < tensors(); ++t) {
      x_[t] = part(x, t).data();
      g_[t] = part(g, t).data();
      if (place_of(t).state) std::ranges::copy(part(x, t), g_[t]);
    }
    double loss = 0;
    const std::span<const std::uint32_t> rows = batch_rows();
    const std::int64_t samples =
        call_(context_, peer_, key.step, rows.data(), rows.size(), x_.data(), g_.data(), &loss);
    if (samples < 0)
      throw node::Error(node::Error::Code::failed, "the program's gradient ended the simulation");
    if (static_cast<std::size_t>(samples) > kMostRowsOfABatch)
      misuse(fmt::format("the gradient of peer {} gave {} samples in a batch; expected at most {}", peer_,
                         samples, kMostRowsOfABatch));
    for (std::size_t t = 0; t < tensors(); ++t) {  // what became of a state is its step
      if (!place_of(t).state) continue;
      for (std::size_t i = 0; i < part(x, t).size(); ++i)
        x_[t][i] = std::exchange(g_[t][i], g_[t][i] - x_[t][i]);
    }
    for (std::size_t layer = layers().size(); layer-- > 0;) on_layer(layer);
    return {loss, static_cast<std::size_t>(samples)};
  }
  const PlaceOfTensor& place(std::size_t tensor) const { return place_of(tensor); }

 private:
  gs_gradient_function call_;
  void* context_;
  std::size_t peer_;
  std::vector<float*> x_, g_;
};

}  // namespace

struct gs_simulated {
  node::SimulationResult result;
  std::vector<std::size_t> offsets;
};

gs_status gs_simulate(const char* job, const char* const* overrides, size_t overrides_count,
                      const gs_tensor* tensors, size_t tensors_count, const gs_simulation* simulation,
                      gs_simulated** result) {
  if (result) *result = nullptr;
  return guarded([&] {
    if (!job || !tensors || tensors_count == 0 || !result)
      misuse(
          "gs_simulate was given a null pointer or no tensors; expected a job, tensors and a place for the "
          "result");
    const gs_simulation given = known_part(simulation, "gs_simulation");
    if (!given.gradient) misuse("gs_simulation.gradient is null; expected a function");
    const std::span<const gs_tensor> all(tensors, tensors_count);
    const std::vector<node::TensorSpec> specs = specs_of(all);
    const auto initialise = writes(initial_of(all));
    node::Job loaded =
        node::load_job(job, texts_of(overrides, overrides_count),
                       given.peers > 0 ? std::optional<std::size_t>(given.peers) : std::nullopt);
    check_state(loaded, specs);
    const auto make = [=](std::size_t peer) {
      return std::make_unique<CalledObjective>(specs, given, initialise, peer);
    };
    const std::shared_ptr<const CalledObjective> shape = make(0);
    node::Learner learner{make};
    learner.rows = node::labelled_rows(given.rows, labels_of(given.labels, given.rows));
    if (shape->has_state())
      learner.around_optimizer = [shape](std::unique_ptr<optim::Optimizer> inner) {
        return std::make_unique<node::StateAside>(shape, std::move(inner));
      };
    node::SimulationOptions options;
    if (given.seed > 0) options.seed = given.seed;
    if (given.report)
      options.on_report = [given](std::size_t peer, double seconds, const node::Report& report) {
        const gs_progress progress = progress_of(report);
        given.report(given.context, peer, seconds, &progress);
      };
    auto simulated = std::make_unique<gs_simulated>();
    simulated->result = node::simulate(std::move(loaded), std::move(learner), std::move(options));
    for (std::size_t t = 0; t < tensors_count; ++t) simulated->offsets.push_back(shape->place(t).offset);
    *result = simulated.release();
    return GS_OK;
  });
}

size_t gs_simulated_peers(const gs_simulated* result) { return result ? result->result.peers.size() : 0; }

const float* gs_simulated_parameters(const gs_simulated* result, size_t peer, size_t tensor) {
  if (!result || peer >= result->result.parameters.size() || tensor >= result->offsets.size()) {
    told(GS_MISUSE, "there is no such peer or tensor in the simulation");
    return nullptr;
  }
  return result->result.parameters[peer].data() + result->offsets[tensor];
}

gs_status gs_simulated_end(const gs_simulated* result, size_t peer, gs_ending* ending, size_t size) {
  return guarded([&] {
    if (!result || peer >= result->result.peers.size() || !ending || size == 0 || size > sizeof *ending)
      misuse("gs_simulated_end: no such peer, or another size than sizeof(gs_ending)");
    const node::PeerResult& r = result->result.peers[peer];
    const gs_ending all{status_of(r.outcome),
                        r.rounds,
                        r.rows,
                        r.train_loss,
                        r.bytes_out,
                        r.bytes_in,
                        result->result.virtual_seconds,
                        result->result.digest};
    std::memcpy(ending, &all, size);
    return all.status == GS_DONE ? GS_DONE : told(all.status, r.message);
  });
}

void gs_simulated_free(gs_simulated* result) { delete result; }

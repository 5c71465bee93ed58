// Where the keys that belong to sparse gradients under error feedback are of use (deep gradient compression,
// Lin et al. 2018).
#include <fmt/format.h>

#include <string_view>

#include "codec_schedule.h"
#include "method.h"
#include "soundness.h"

namespace gossamer::node {
namespace {

class Check {
 public:
  Check(const Job& job, const Plan& plan) : job_(job), plan_(plan) {}

  void all() const {
    const ExchangeSettings& e = job_.exchange;
    const bool warms_up = !e.density_warmup || !e.density_warmup->empty();
    if (e.momentum_correction > 0) momentum();
    if (e.clip > 0) on_whole_rounds("exchange.clip");
    if (warms_up) with_density("exchange.density_warmup");
    if (!e.layer_density.empty()) with_density("exchange.layer_density");
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(fmt::format("{}: {}", job_.path, what));
  }

  void on_sparse_gradients(std::string_view key) const {
    if (!find_method(job_.exchange.method).needs.sparse_feedback)
      refuse(
          fmt::format("{} is for gradients that are sent sparse with error feedback, and method '{}' sends "
                      "none such; use method 'topk_allgather' or 'gtopk' with codec 'topk', or leave the "
                      "key out",
                      key, job_.exchange.method));
    if (!plan_.codec.sparse || !plan_.codec.feedback())
      refuse(
          fmt::format("{} is for gradients that are sent sparse with error feedback, and codec '{}' is not "
                      "sparse or bears none; use codec 'topk', or leave the key out",
                      key, job_.exchange.codec));
  }

  /// Where late gradients are added to later rounds, each goes out as it is (partial.cpp).
  void on_whole_rounds(std::string_view key) const {
    on_sparse_gradients(key);
    if (closes_early(job_.exchange))
      refuse(
          fmt::format("{} needs rounds that wait for all gradients, found exchange.backup = {} and "
                      "run.straggler = \"{}\"; use backup = 0 and straggler = \"wait\", or leave the key out",
                      key, job_.exchange.backup, job_.exchange.straggler));
  }

  void with_density(std::string_view key) const {
    on_sparse_gradients(key);
    if (!density_of(job_.exchange.codec))
      refuse(fmt::format("{} needs a codec with a density, and '{}' has none; use codec 'topk'", key,
                         job_.exchange.codec));
  }

  void momentum() const {
    on_whole_rounds("exchange.momentum_correction");
    if (optim::optimizer_traits(job_.optimizer.kind).keeps_state)
      refuse(
          fmt::format("exchange.momentum_correction needs optimizer.kind 'sgd', found '{}': the momentum is "
                      "taken before the selection, and an optimiser with a state would act on it again; use "
                      "'sgd'",
                      job_.optimizer.kind));
  }

  const Job& job_;
  const Plan& plan_;
};

}  // namespace

void check_sparse_gradients(const Job& job, const Plan& plan) { Check(job, plan).all(); }

}  // namespace gossamer::node

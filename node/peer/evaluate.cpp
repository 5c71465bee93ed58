// What a job's model, or a program's, makes of parameters.
#include <fmt/format.h>

#include "gossamer/node/peer.h"
#include "setup.h"
#include "translate.h"

namespace gossamer::node {

optim::Figures evaluate(Job job, std::span<const float> parameters, Learner learner) {
  return translated([&] {
    const Prepared prepared = prepare(std::move(job), passed_through(std::move(learner)));
    if (parameters.size() != prepared.initial.size())
      throw Error(Error::Code::misuse, fmt::format("found {} parameters; the model has {}, padding included",
                                                   parameters.size(), prepared.initial.size()));
    const AlignedFloats x(parameters.begin(), parameters.end());
    return make_objective(prepared, 0)->evaluate(x);
  });
}

}  // namespace gossamer::node

#pragma once
// How errors leave the library: as one type, and what the program's own functions threw as it was.
#include <exception>
#include <utility>

#include "gossamer/compress/codec.h"
#include "gossamer/node/errors.h"
#include "gossamer/node/learner.h"
#include "gossamer/topology/schedule.h"

namespace gossamer::node {

/// Something of the program's, on its way through.
struct ProgramThrew {
  std::exception_ptr what;
};

template <class Work>
auto passed(Work&& work) {
  try {
    return work();
  } catch (...) {
    throw ProgramThrew{std::current_exception()};
  }
}

/// The same learner, whose functions throw ProgramThrew for whatever they throw.
inline Learner passed_through(Learner learner) {
  if (auto make = std::move(learner.objective))
    learner.objective = [make](std::size_t peer) { return passed([&] { return make(peer); }); };
  if (auto make = std::move(learner.optimizer))
    learner.optimizer = [make](std::size_t peer) { return passed([&] { return make(peer); }); };
  return learner;
}

/// What work returns. Throws Error for every error of the library's.
template <class Work>
auto translated(Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const ProgramThrew& program) {
    std::rethrow_exception(program.what);
  } catch (const optim::OptimError& e) {
    throw ConfigError(e.what());
  } catch (const topology::GraphError& e) {
    throw ConfigError(e.what());
  } catch (const compress::CodecError& e) {
    throw ConfigError(e.what());
  } catch (const std::exception& e) {
    throw Error(Error::Code::failed, e.what());
  }
}

}  // namespace gossamer::node

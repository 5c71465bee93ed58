#include "hints.h"

#include "gossamer/compress/codec.h"
#include "gossamer/optim/model.h"
#include "gossamer/topology/schedule.h"
#include "text.h"

namespace gossamer::node {
namespace {

template <class Error>
std::string hint(const std::exception& error) {
  const auto* e = dynamic_cast<const Error*>(&error);
  return e == nullptr ? "" : did_you_mean(e->found, e->names);
}

}  // namespace

std::string message_with_hint(const std::exception& error) {
  return error.what() + hint<topology::GraphError>(error) + hint<compress::CodecError>(error) +
         hint<optim::OptimError>(error);
}

}  // namespace gossamer::node

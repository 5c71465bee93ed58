#include "c_values.h"

#include <algorithm>
#include <limits>

namespace gossamer::node::api {
namespace {

constexpr std::size_t kMostFloats = std::numeric_limits<std::uint32_t>::max();  ///< of a tensor

thread_local std::string said;

}  // namespace

gs_status status_of(Error::Code code) {
  switch (code) {
    case Error::Code::bad_input:
    case Error::Code::bad_state:
      return GS_BAD_INPUT;
    case Error::Code::misuse:
      return GS_MISUSE;
    case Error::Code::failed:
      break;
  }
  return GS_FAILED;
}

gs_status status_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::finished:
      return GS_DONE;
    case Outcome::lost_peer:
    case Outcome::stalled:
      return GS_LOST_PEER;
    case Outcome::bad_input:
      return GS_BAD_INPUT;
    case Outcome::failed:
      return GS_DIVERGED;
    case Outcome::interrupted:
      return GS_INTERRUPTED;
    case Outcome::running:
      break;
  }
  return GS_FAILED;
}

gs_status told(gs_status status, const std::string& text) {
  said = text;
  return status;
}
const std::string& last_error() { return said; }
void misuse(const std::string& what) { throw Error(Error::Code::misuse, what); }

std::string text_of(const char* text) { return text ? text : ""; }
std::vector<std::string> texts_of(const char* const* texts, std::size_t count) {
  if (count > 0 && !texts) misuse("found null overrides; expected as many as are said to be there");
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(text_of(texts[i]));
  return all;
}

std::vector<TensorSpec> specs_of(std::span<const gs_tensor> tensors) {
  std::vector<TensorSpec> specs;
  for (const gs_tensor& tensor : tensors) {
    if (!tensor.name || (tensor.dimensions > 0 && !tensor.shape))
      misuse(fmt::format("tensor {} has no name or no shape; expected both", specs.size()));
    for (const TensorSpec& other : specs)
      if (other.name == tensor.name)
        throw ConfigError(
            fmt::format("two tensors are named '{}'; expected a name of its own for each", tensor.name));
    std::vector<std::size_t> shape(tensor.shape, tensor.shape + tensor.dimensions);
    std::size_t room = kMostFloats;
    for (const std::size_t n : shape) room /= std::max<std::size_t>(n, 1);
    if (room == 0)
      throw ConfigError(
          fmt::format("tensor '{}' has more than {} elements; split it", tensor.name, kMostFloats));
    specs.push_back({tensor.name, shape, tensor.state != 0});
  }
  return specs;
}

std::size_t floats_of(const gs_tensor& tensor) {
  std::size_t floats = 1;
  for (std::size_t d = 0; d < tensor.dimensions; ++d) floats *= tensor.shape[d];
  return floats;
}

std::vector<std::vector<float>> initial_of(std::span<const gs_tensor> tensors) {
  std::vector<std::vector<float>> initial;
  for (const gs_tensor& tensor : tensors) {
    initial.emplace_back();
    if (tensor.initial) initial.back().assign(tensor.initial, tensor.initial + floats_of(tensor));
  }
  return initial;
}

std::vector<std::int32_t> labels_of(const std::int32_t* labels, std::uint64_t rows) {
  return labels ? std::vector<std::int32_t>(labels, labels + rows) : std::vector<std::int32_t>();
}

std::function<void(std::size_t, std::span<float>)> writes(std::vector<std::vector<float>> initial) {
  return [initial = std::move(initial)](std::size_t tensor, std::span<float> x) {
    std::copy(initial[tensor].begin(), initial[tensor].end(), x.begin());
  };
}

gs_progress progress_of(const Report& r) {
  return {r.round,
          r.peers,
          r.epoch,
          r.share_done,
          r.loss,
          r.rows_per_second,
          r.bytes_out_per_second,
          r.bytes_in_per_second,
          r.staleness,
          r.skipped_steps,
          r.held_back,
          r.queued_bytes};
}

}  // namespace gossamer::node::api

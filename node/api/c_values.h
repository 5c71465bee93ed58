#pragma once
// What the functions of gossamer.h have in common: statuses in place of exceptions, and the caller's arrays.
#include <fmt/format.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "gossamer.h"
#include "gossamer/node/training_loop.h"

namespace gossamer::node::api {

inline constexpr std::size_t kMostRowsOfABatch = std::size_t{1} << 32;

gs_status status_of(Error::Code code);
gs_status status_of(Outcome outcome);
/// That status, and what gs_error says then.
gs_status told(gs_status status, const std::string& text);
const std::string& last_error();
[[noreturn]] void misuse(const std::string& what);

/// What work gives; whatever it throws as a status and gs_error's text.
template <class Work>
gs_status guarded(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    return told(status_of(error.code()), error.what());
  } catch (const std::exception& error) {
    return told(GS_FAILED, error.what());
  }
}

/// The caller's, of which an older program knows fewer members. Misuse where it knows more.
template <class Options>
Options known_part(const Options* given, const char* name) {
  Options options{};
  if (!given) return options;
  if (given->size == 0)
    misuse(fmt::format("{0}.size is 0; expected sizeof({0}), which is {1} in this library", name,
                       sizeof options));
  if (given->size > sizeof options)
    misuse(
        fmt::format("{0}.size is {1}; expected sizeof({0}), which is {2} in this library: it is older than "
                    "the header that the program was compiled with; use a library of that header's version",
                    name, given->size, sizeof options));
  std::memcpy(&options, given, given->size);
  return options;
}

std::string text_of(const char* text);
std::vector<std::string> texts_of(const char* const* texts, std::size_t count);
/// Names and shapes. Throws Error.
std::vector<TensorSpec> specs_of(std::span<const gs_tensor> tensors);
std::size_t floats_of(const gs_tensor& tensor);
/// Copies; empty where zeros are meant.
std::vector<std::vector<float>> initial_of(std::span<const gs_tensor> tensors);
std::vector<std::int32_t> labels_of(const std::int32_t* labels, std::uint64_t rows);
/// Writes what initial_of gave.
std::function<void(std::size_t, std::span<float>)> writes(std::vector<std::vector<float>> initial);
gs_progress progress_of(const Report& report);

}  // namespace gossamer::node::api

#include "parameters.h"

#include <algorithm>
#include <charconv>

#include "gossamer/compress/codec.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

std::string quoted(std::string_view text) {
  std::string result(1, '"');
  result += text;
  result += '"';
  return result;
}

template <class T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Parameters::Parameters(std::string_view spec, std::string_view text) : spec_(spec) {
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == item.size()) {
      throw CodecError("codec spec " + quoted(spec_) + ": found " + quoted(item) + ", expected key=value");
    }
    const std::string_view key = item.substr(0, equals);
    for (const auto& [seen, value] : values_) {
      if (seen == key)
        throw CodecError("codec spec " + quoted(spec_) + ": " + std::string(key) + " is given twice");
    }
    values_.emplace_back(key, item.substr(equals + 1));
  }
}

std::string_view Parameters::text(std::string_view key) {
  asked_.push_back(key);
  for (const auto& [name, value] : values_) {
    if (name == key) return value;
  }
  return {};
}

std::size_t Parameters::integer(std::string_view key, std::size_t fallback, std::string_view expected,
                                bool (*valid)(std::size_t)) {
  const std::string_view found = text(key);
  if (found.empty()) return fallback;
  std::size_t value = 0;
  if (!parse(found, value) || !valid(value)) refuse(key, found, expected);
  return value;
}

double Parameters::real(std::string_view key, double fallback, std::string_view expected,
                        bool (*valid)(double)) {
  const std::string_view found = text(key);
  if (found.empty()) return fallback;
  double value = 0;
  if (!parse(found, value) || !valid(value)) refuse(key, found, expected);
  return value;
}

std::size_t Parameters::choice(std::string_view key, std::span<const std::string_view> choices) {
  const std::string_view found = text(key);
  if (found.empty()) return 0;
  const auto at = std::find(choices.begin(), choices.end(), found);
  if (at != choices.end()) return static_cast<std::size_t>(at - choices.begin());
  std::string expected;
  for (const auto c : choices) expected += (expected.empty() ? "" : " or ") + std::string(c);
  refuse(key, found, expected);
}

void Parameters::finish() {
  for (const auto& [key, value] : values_) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const std::string message = "codec spec " + quoted(spec_) + ": no parameter " + quoted(key);
    if (asked_.empty()) throw CodecError(message + "; this codec takes none");
    std::string all;
    for (const auto a : asked_) all += (all.empty() ? "" : ", ") + std::string(a);
    throw CodecError(message + "; there are " + all, key, {asked_.begin(), asked_.end()});
  }
}

void Parameters::refuse(std::string_view key, std::string_view found, std::string_view expected) const {
  throw CodecError("codec spec " + quoted(spec_) + ": " + std::string(key) + " is " + quoted(found) +
                   ", expected " + std::string(expected));
}

std::string to_text(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, result.ptr};
}

std::size_t bucket_parameter(Parameters& parameters) {
  return parameters.integer("bucket", 512, "a multiple of 32 from 32 to 1048576",
                            [](std::size_t b) { return b > 0 && b % 32 == 0 && b <= wire::kBucketMax; });
}

}  // namespace gossamer::compress

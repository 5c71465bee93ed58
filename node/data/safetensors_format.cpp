#include "safetensors_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "gossamer/node/errors.h"
#include "text.h"

namespace gossamer::node {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are copied as they stand in memory");
static_assert(sizeof(float) == 4 && std::numeric_limits<float>::is_iec559);

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kLargestHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kPrefix = 8;
constexpr std::size_t kMostNames = 20;  ///< that a message holds

std::size_t entries_of(const optim::Tensor& tensor) {
  std::size_t entries = 1;
  for (const std::size_t extent : tensor.shape) entries *= extent;
  return entries;
}

template <class Function>
void for_each_tensor(const std::vector<optim::Layer>& layers, Function function) {
  for (const optim::Layer& layer : layers)
    for (const optim::Tensor& tensor : layer.tensors) function(tensor);
}

std::string header_of(const std::vector<optim::Layer>& layers,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  // entry by entry: an ordered object looks through all its keys for each new one
  const auto add = [&](const std::string& name, const OrderedJson& value) {
    const auto dump = [](const OrderedJson& json) {
      return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    };
    text += (text.size() > 1 ? "," : "") + dump(name) + ":" + dump(value);
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  std::size_t offset = 0;
  for_each_tensor(layers, [&](const optim::Tensor& tensor) {
    const std::size_t end = offset + 4 * entries_of(tensor);
    add(tensor.name, {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}});
    offset = end;
  });
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data starts at a multiple of 8
  return text;
}

std::size_t bytes_of(const optim::Tensor& tensor) { return sizeof(float) * entries_of(tensor); }

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::vector<std::string> extents;
  for (const std::size_t extent : shape) extents.push_back(std::to_string(extent));
  std::string text = "[";
  text += join(extents, ", ");
  return text += ']';
}

/// The names in a header as they stand there: a parsed object keeps one of two equal keys, and a tensor that
/// stands twice is damage. (A callback of Json::parse takes time quadratic in the number of tensors.)
struct HeaderKeys final : nlohmann::json_sax<Json> {
  std::vector<std::string> keys;
  int depth = 0;
  bool too_deep = false;

  bool begin() {
    too_deep = depth > 2;
    ++depth;
    return !too_deep;
  }
  bool end() {
    --depth;
    return true;
  }
  bool key(string_t& name) override {
    if (depth == 1) keys.push_back(name);
    return true;
  }
  bool start_object(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return begin(); }
  bool end_array() override { return end(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override { return false; }
};

[[noreturn]] void fail_tensors(const std::string& name, const std::string& what) {
  throw ConfigError(name + ": " + what);
}

std::string read_header(const std::string& name, const ByteSource& source) {
  if (source.size < kPrefix)
    fail_tensors(name, "damaged: " + std::to_string(source.size) + " bytes; expected a header of at least 8");
  std::uint64_t size = 0;
  source.read(0, std::as_writable_bytes(std::span(&size, 1)));
  if (size > kLargestHeader)
    fail_tensors(name, "damaged or no safetensors file: its header claims " + std::to_string(size) +
                           " bytes; expected at most " + std::to_string(kLargestHeader));
  if (size > source.size - kPrefix)
    fail_tensors(name, "truncated: its header claims " + std::to_string(size) + " bytes, and " +
                           std::to_string(source.size - kPrefix) + " follow");
  std::string text(size, '\0');
  source.read(kPrefix, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{')) fail_tensors(name, "damaged: its header is no JSON object");
  return text;
}

Json parse_header(const std::string& name, const std::string& text) {
  HeaderKeys watch;
  Json::sax_parse(text, &watch);
  if (watch.too_deep) fail_tensors(name, "damaged: its header nests too deeply");
  Json header;
  try {
    header = Json::parse(text);
  } catch (const Json::exception& error) {
    fail_tensors(name, "damaged: its header is no JSON: " + shortened(error.what()));
  }
  auto& keys = watch.keys;
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    fail_tensors(name, "damaged: tensor '" + shortened(*twice) + "' stands twice in its header");
  return header;
}

TensorRecord record_of(const std::string& file, const std::string& tensor, const Json& value) {
  const std::string wrong = "damaged: tensor '" + shortened(tensor) + "' lacks ";
  const auto at = [&](const char* key, Json::value_t type) -> const Json& {
    if (!value.is_object() || !value.contains(key) || value[key].type() != type)
      fail_tensors(file, wrong + key);
    return value[key];
  };
  const auto natural = [&](const Json& number) {
    if (!number.is_number_unsigned())
      fail_tensors(file, "damaged: tensor '" + shortened(tensor) + "' holds " + shortened(number.dump()) +
                             " for a size");
    return number.get<std::size_t>();
  };
  TensorRecord record;
  record.dtype = at("dtype", Json::value_t::string).get<std::string>();
  for (const Json& extent : at("shape", Json::value_t::array)) record.shape.push_back(natural(extent));
  const Json& offsets = at("data_offsets", Json::value_t::array);
  if (offsets.size() != 2) fail_tensors(file, wrong + "two data_offsets");
  record.begin = natural(offsets[0]);
  record.end = natural(offsets[1]);
  return record;
}

TensorMetadata metadata_of(const Json& value) {
  TensorMetadata metadata;
  if (!value.is_object()) return metadata;
  for (const auto& [key, text] : value.items())
    if (text.is_string()) metadata[key] = text.get<std::string>();
  return metadata;
}

using TensorRecords = std::map<std::string, TensorRecord>;

/// Every one of the data's bytes belongs to exactly one tensor, as the format demands.
void check_offsets(const std::string& file, const TensorRecords& records, std::uint64_t data_bytes) {
  std::vector<std::pair<const std::string*, const TensorRecord*>> order;
  for (const auto& [name, record] : records) order.emplace_back(&name, &record);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  std::uint64_t end = 0;
  for (const auto& [name, record] : order) {
    const std::string span = std::to_string(record->begin) + " to " + std::to_string(record->end);
    if (record->begin != end || record->end < record->begin)
      fail_tensors(file, "damaged: tensor '" + shortened(*name) + "' stands at bytes " + span +
                             " of the data; expected it to start at " + std::to_string(end));
    end = record->end;
  }
  if (end != data_bytes)
    fail_tensors(file, (end > data_bytes ? "truncated: " : "damaged: ") + std::to_string(data_bytes) +
                           " bytes of data; its header speaks of " + std::to_string(end));
}

void check_tensor(const std::string& file, const TensorRecords& records, const optim::Tensor& tensor) {
  const auto found = records.find(tensor.name);
  if (found == records.end())
    fail_tensors(file,
                 "has no tensor '" + tensor.name + "'; expected it with shape " + shape_text(tensor.shape));
  const TensorRecord& record = found->second;
  if (record.dtype != "F32")
    fail_tensors(file,
                 "tensor '" + tensor.name + "' is of type " + shortened(record.dtype) + "; expected F32");
  if (record.shape != tensor.shape)
    fail_tensors(file, "tensor '" + tensor.name + "' has shape " + shortened(shape_text(record.shape)) +
                           "; expected " + shape_text(tensor.shape));
  if (record.end - record.begin != bytes_of(tensor))
    fail_tensors(file, "damaged: tensor '" + tensor.name + "' has " +
                           std::to_string(record.end - record.begin) + " bytes; expected " +
                           std::to_string(bytes_of(tensor)) + " for shape " + shape_text(tensor.shape));
}

void check_extra(const std::string& file, const TensorRecords& records,
                 const std::vector<optim::Layer>& layers) {
  std::vector<std::string> names;
  for_each_tensor(layers, [&](const optim::Tensor& tensor) { names.push_back(tensor.name); });
  const std::unordered_set<std::string_view> known(names.begin(), names.end());
  for (const auto& [name, record] : records)
    if (!known.contains(name))
      fail_tensors(
          file, "holds a tensor '" + shortened(name) + "' that the model does not have; expected " +
                    (names.size() <= kMostNames ? join(names, ", ")
                                                : join(std::span(names).first(kMostNames), ", ") + " and " +
                                                      std::to_string(names.size() - kMostNames) + " more"));
}

}  // namespace

void write_safetensors(const ByteSink& sink, const std::vector<optim::Layer>& layers,
                       std::span<const std::byte> x, const TensorMetadata& metadata) {
  const std::string header = header_of(layers, metadata);
  const std::uint64_t size = header.size();
  sink(std::as_bytes(std::span(&size, 1)));
  sink(std::as_bytes(std::span(header)));
  for_each_tensor(layers, [&](const optim::Tensor& tensor) {
    sink(x.subspan(sizeof(float) * tensor.offset, bytes_of(tensor)));
  });
}

SafetensorsReader::SafetensorsReader(std::string name, ByteSource source)
    : name_(std::move(name)), source_(std::move(source)) {
  const std::string text = read_header(name_, source_);
  data_ = kPrefix + text.size();
  const Json header = parse_header(name_, text);
  for (const auto& [tensor, value] : header.items())
    if (tensor == "__metadata__")
      metadata_ = metadata_of(value);
    else
      records_.emplace(tensor, record_of(name_, tensor, value));
  check_offsets(name_, records_, source_.size - data_);
}

void SafetensorsReader::read(const std::vector<optim::Layer>& layers, std::span<std::byte> x) const {
  for_each_tensor(layers, [&](const optim::Tensor& tensor) { check_tensor(name_, records_, tensor); });
  check_extra(name_, records_, layers);
  std::fill(x.begin(), x.end(), std::byte{});
  for_each_tensor(layers, [&](const optim::Tensor& tensor) {
    source_.read(data_ + records_.at(tensor.name).begin,
                 x.subspan(sizeof(float) * tensor.offset, bytes_of(tensor)));
  });
}

}  // namespace gossamer::node

#include "gossamer/node/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
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
namespace fs = std::filesystem;

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

// --- Writing ---

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

std::string contents_of(const std::vector<optim::Layer>& layers, std::span<const float> x,
                        const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(layers, metadata);
  const std::uint64_t size = header.size();
  std::string contents(kPrefix, '\0');
  std::memcpy(contents.data(), &size, kPrefix);
  contents += header;
  for_each_tensor(layers, [&](const optim::Tensor& tensor) {
    const auto values = std::as_bytes(x.subspan(tensor.offset, entries_of(tensor)));
    contents.append(reinterpret_cast<const char*>(values.data()), values.size());
  });
  return contents;
}

/// A file that is removed unless it has been renamed; its descriptor is closed in any case.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : target_(path), path_(path + ".tmp-XXXXXX") {
    file_ = ::mkstemp(path_.data());
    if (file_ < 0) fail("cannot be created");
    ::fchmod(file_, 0644);
  }
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot be written");
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  /// The name appears only once the bytes are on the disk; the folder is synced so that the name lasts.
  void publish() {
    if (::fsync(file_) != 0) fail("cannot be synced");
    if (::close(std::exchange(file_, -1)) != 0) fail("cannot be closed");
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed");
    path_.clear();
    const fs::path folder = fs::path(target_).parent_path();
    const int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return;
    ::fsync(handle);
    ::close(handle);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(target_ + ": its temporary file " + what + ": " +
                             std::system_category().message(errno));
  }
  std::string target_, path_;
  int file_ = -1;
};

// --- Reading ---

struct Record {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::size_t begin = 0, end = 0;
};

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

/// One opened file; every failure names it.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    if (!fs::exists(path, error)) fail("no such file; expected a safetensors file");
    if (!fs::is_regular_file(path, error)) fail("is no regular file; expected a safetensors file");
    bytes_ = fs::file_size(path, error);
    file_.open(path, std::ios::binary);
    if (!file_) fail("cannot be read: " + std::system_category().message(errno));
  }

  [[noreturn]] void fail(const std::string& what) const { throw ConfigError(path_ + ": " + what); }

  void read_header() {
    if (bytes_ < kPrefix)
      fail("damaged: " + std::to_string(bytes_) + " bytes; expected a header of at least 8");
    std::uint64_t size = 0;
    file_.read(reinterpret_cast<char*>(&size), kPrefix);
    if (size > kLargestHeader)
      fail("damaged or no safetensors file: its header claims " + std::to_string(size) +
           " bytes; expected at most " + std::to_string(kLargestHeader));
    if (size > bytes_ - kPrefix)
      fail("truncated: its header claims " + std::to_string(size) + " bytes, and " +
           std::to_string(bytes_ - kPrefix) + " follow");
    std::string text(size, '\0');
    if (!file_.read(text.data(), static_cast<std::streamsize>(size))) fail("cannot be read");
    if (!text.starts_with('{')) fail("damaged: its header is no JSON object");
    data_ = kPrefix + size;
    parse_header(text);
    check_offsets();
  }

  const std::map<std::string, Record>& records() const { return records_; }

  void read_data(const Record& record, std::span<float> out) {
    file_.seekg(static_cast<std::streamoff>(data_ + record.begin));
    if (!file_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size_bytes())))
      fail("cannot be read");
  }

 private:
  void parse_header(const std::string& text) {
    HeaderKeys watch;
    Json::sax_parse(text, &watch);
    if (watch.too_deep) fail("damaged: its header nests too deeply");
    Json header;
    try {
      header = Json::parse(text);
    } catch (const Json::exception& error) {
      fail("damaged: its header is no JSON: " + shortened(error.what()));
    }
    auto& keys = watch.keys;
    std::sort(keys.begin(), keys.end());
    if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
      fail("damaged: tensor '" + shortened(*twice) + "' stands twice in its header");
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__") records_.emplace(name, record_of(name, value));
  }

  std::size_t natural(const Json& value, const std::string& name) const {
    if (!value.is_number_unsigned())
      fail("damaged: tensor '" + shortened(name) + "' holds " + shortened(value.dump()) + " for a size");
    return value.get<std::size_t>();
  }

  Record record_of(const std::string& name, const Json& value) const {
    const std::string wrong = "damaged: tensor '" + shortened(name) + "' lacks ";
    const auto at = [&](const char* key, Json::value_t type) -> const Json& {
      if (!value.is_object() || !value.contains(key) || value[key].type() != type) fail(wrong + key);
      return value[key];
    };
    Record record;
    record.dtype = at("dtype", Json::value_t::string).get<std::string>();
    for (const Json& extent : at("shape", Json::value_t::array))
      record.shape.push_back(natural(extent, name));
    const Json& offsets = at("data_offsets", Json::value_t::array);
    if (offsets.size() != 2) fail(wrong + "two data_offsets");
    record.begin = natural(offsets[0], name);
    record.end = natural(offsets[1], name);
    return record;
  }

  /// Every byte of the data belongs to exactly one tensor, as the format demands.
  void check_offsets() const {
    std::vector<std::pair<const std::string*, const Record*>> order;
    for (const auto& [name, record] : records_) order.emplace_back(&name, &record);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
    });
    std::uint64_t end = 0;
    for (const auto& [name, record] : order) {
      const std::string span = std::to_string(record->begin) + " to " + std::to_string(record->end);
      if (record->begin != end || record->end < record->begin)
        fail("damaged: tensor '" + shortened(*name) + "' stands at bytes " + span +
             " of the data; expected it to start at " + std::to_string(end));
      end = record->end;
    }
    if (data_ + end != bytes_)
      fail((data_ + end > bytes_ ? "truncated: " : "damaged: ") + std::to_string(bytes_ - data_) +
           " bytes of data; its header speaks of " + std::to_string(end));
  }

  std::string path_;
  std::ifstream file_;
  std::uintmax_t bytes_ = 0;
  std::uint64_t data_ = 0;  ///< where the data starts
  std::map<std::string, Record> records_;
};

void check_tensor(const Reader& reader, const optim::Tensor& tensor) {
  const auto found = reader.records().find(tensor.name);
  if (found == reader.records().end())
    reader.fail("has no tensor '" + tensor.name + "'; expected it with shape " + shape_text(tensor.shape));
  const Record& record = found->second;
  if (record.dtype != "F32")
    reader.fail("tensor '" + tensor.name + "' is of type " + shortened(record.dtype) + "; expected F32");
  if (record.shape != tensor.shape)
    reader.fail("tensor '" + tensor.name + "' has shape " + shortened(shape_text(record.shape)) +
                "; expected " + shape_text(tensor.shape));
  if (record.end - record.begin != 4 * entries_of(tensor))
    reader.fail("damaged: tensor '" + tensor.name + "' has " + std::to_string(record.end - record.begin) +
                " bytes; expected " + std::to_string(4 * entries_of(tensor)) + " for shape " +
                shape_text(tensor.shape));
}

void check_extra(const Reader& reader, const std::vector<optim::Layer>& layers) {
  std::vector<std::string> names;
  for_each_tensor(layers, [&](const optim::Tensor& tensor) { names.push_back(tensor.name); });
  const std::unordered_set<std::string_view> known(names.begin(), names.end());
  for (const auto& [name, record] : reader.records())
    if (!known.contains(name))
      reader.fail("holds a tensor '" + shortened(name) + "' that the model does not have; expected " +
                  (names.size() <= kMostNames ? join(names, ", ")
                                              : join(std::span(names).first(kMostNames), ", ") + " and " +
                                                    std::to_string(names.size() - kMostNames) + " more"));
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<optim::Layer>& layers,
                       std::span<const float> x, const std::map<std::string, std::string>& metadata) {
  const std::string contents = contents_of(layers, x, metadata);
  TemporaryFile file(path);
  file.write(contents);
  file.publish();
}

void check_writable(const std::string& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) throw ConfigError(path + ": is a folder; expected the name of a file");
  try {
    const TemporaryFile file(path);
  } catch (const std::runtime_error& error) {
    throw ConfigError(std::string(error.what()) + "; expected a folder that can be written");
  }
}

void read_safetensors(const std::string& path, const std::vector<optim::Layer>& layers, std::span<float> x) {
  Reader reader(path);
  reader.read_header();
  for_each_tensor(layers, [&](const optim::Tensor& tensor) { check_tensor(reader, tensor); });
  check_extra(reader, layers);
  std::fill(x.begin(), x.end(), 0.0f);
  for_each_tensor(layers, [&](const optim::Tensor& tensor) {
    reader.read_data(reader.records().at(tensor.name), x.subspan(tensor.offset, entries_of(tensor)));
  });
}

}  // namespace gossamer::node

#include "npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "gossamer/node/errors.h"
#include "text.h"

namespace gossamer::node {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are copied as they stand in memory");
namespace fs = std::filesystem;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLargestHeader = 1u << 20;  // that of a plain array takes about 100 bytes
constexpr std::size_t kAlignment = 64;            // of the data in the file

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw ConfigError(path + ": " + what);
}

/// A regular file, open, and how many bytes it has.
struct Source {
  std::ifstream file;
  std::uintmax_t bytes;
};

Source open_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) fail(path, "no such file");
  if (status.type() != fs::file_type::regular) fail(path, "no regular file");
  Source source{std::ifstream(path, std::ios::binary), fs::file_size(path, error)};
  if (error || !source.file) fail(path, "cannot be read");
  return source;
}

void take(Source& source, const std::string& path, void* to, std::size_t bytes) {
  source.file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  if (!source.file) fail(path, "cannot be read to its end; has it changed meanwhile?");
}

// --- The header: a Python dictionary with three keys ---

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::size_t>> shape;
};

class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      entry(header);
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (at_ != text_.size()) wrong("the end of the header");
    return header;
  }

 private:
  void entry(Header& header) {
    const std::string key = string("a key in quotes");
    expect(':');
    if (key == "descr")
      once(header.descr, key) = string("a plain type such as '<f4'");
    else if (key == "fortran_order")
      once(header.fortran_order, key) = boolean();
    else if (key == "shape")
      once(header.shape, key) = tuple();
    else
      fail(path_, "damaged: its header has a key '" + key + "'; expected descr, fortran_order, shape");
  }

  template <class T>
  std::optional<T>& once(std::optional<T>& value, const std::string& key) const {
    if (value) fail(path_, "damaged: its header has the key '" + key + "' twice");
    return value;
  }

  std::string string(const char* expected) {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') wrong(expected);
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) wrong("a string that ends");
    const std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    wrong("True or False");
  }

  std::vector<std::size_t> tuple() {
    std::vector<std::size_t> extents;
    expect('(');
    while (!accept(')')) {
      extents.push_back(natural());
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return extents;
  }

  std::size_t natural() {
    skip_space();
    std::size_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) wrong("an extent of the shape");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) wrong("'" + std::string(1, c) + "'");
  }
  [[noreturn]] void wrong(const std::string& expected) const {
    const std::string_view found = text_.substr(at_, 20);
    fail(path_, "damaged: its header has " + (found.empty() ? "nothing" : in_quotes(found)) + " at byte " +
                    std::to_string(at_) + "; expected " + expected);
  }

  const std::string& path_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// The header's text; the file then stands at the data, `bytes` being what is left of it.
std::string header_text(Source& source, const std::string& path) {
  std::array<char, 8> start{};
  if (source.bytes < start.size() + 2)
    fail(path, "no .npy file: it has " + std::to_string(source.bytes) + " bytes; its header alone needs 10");
  take(source, path, start.data(), start.size());
  const std::string_view magic(start.data(), kMagic.size());
  if (magic != kMagic)
    fail(path, "no .npy file: it starts with " + in_quotes(magic) + "; expected \\x93NUMPY (numpy.save)");
  const int version = static_cast<unsigned char>(start[6]), minor = static_cast<unsigned char>(start[7]);
  if ((version != 1 && version != 2) || minor != 0)
    fail(path, "is .npy version " + std::to_string(version) + "." + std::to_string(minor) +
                   "; expected 1.0 or 2.0");
  std::uint32_t size = 0;
  const std::size_t size_bytes = version == 1 ? 2 : 4, before = start.size() + size_bytes;
  if (source.bytes < before) fail(path, "truncated: it ends before the size of its header");
  take(source, path, &size, size_bytes);
  if (size > source.bytes - before || size > kLargestHeader)
    fail(path, "truncated or damaged: its header should have " + std::to_string(size) + " bytes; there are " +
                   std::to_string(source.bytes - before));
  std::string text(size, '\0');
  take(source, path, text.data(), size);
  source.bytes -= before + size;
  return text;
}

std::string shape_text(std::span<const std::size_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

/// Bytes of one entry.
std::size_t check_kind(const Header& header, const std::string& path) {
  if (!header.descr) fail(path, "damaged: its header lacks descr");
  if (!header.fortran_order) fail(path, "damaged: its header lacks fortran_order");
  if (!header.shape) fail(path, "damaged: its header lacks shape");
  if (*header.descr != "<f4" && *header.descr != "<f8")
    fail(path, "holds entries of type " + in_quotes(shortened(*header.descr)) +
                   "; expected \"<f4\" or \"<f8\" (x.astype('<f4'))");
  if (*header.fortran_order && header.shape->size() > 1)
    fail(path, "is in Fortran order; expected C order (numpy.ascontiguousarray)");
  return *header.descr == "<f4" ? sizeof(float) : sizeof(double);
}

std::size_t check_size(const Header& header, std::size_t width, std::uintmax_t bytes,
                       const std::string& path) {
  std::uintmax_t entries = 1;
  bool overflow = false;
  // An extent of 0 makes any product 0, however large the others.
  const bool empty = std::find(header.shape->begin(), header.shape->end(), 0u) != header.shape->end();
  for (const std::size_t extent : *header.shape) {
    if (empty) break;
    overflow = overflow || entries > std::numeric_limits<std::uintmax_t>::max() / width / extent;
    if (!overflow) entries *= extent;
  }
  if (empty) entries = 0;
  if (overflow || entries * width != bytes)
    fail(path,
         (overflow || entries * width > bytes ? "truncated: " : "damaged: ") + std::to_string(bytes) +
             " bytes of data; shape " + shape_text(*header.shape) + " of " + *header.descr +
             (overflow ? " is more than a file can hold" : " takes " + std::to_string(entries * width)));
  return static_cast<std::size_t>(entries);
}

void read_doubles(Source& source, const std::string& path, std::span<float> values) {
  std::vector<double> block(std::min<std::size_t>(values.size(), 1u << 16));
  for (std::size_t start = 0; start < values.size(); start += block.size()) {
    const std::size_t count = std::min(block.size(), values.size() - start);
    take(source, path, block.data(), count * sizeof(double));
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isfinite(block[i]) && std::fabs(block[i]) > std::numeric_limits<float>::max())
        fail(path, "entry " + std::to_string(start + i) + " is " + number_text(block[i]) +
                       "; a 32-bit float holds magnitudes up to 3.4e38");
      values[start + i] = static_cast<float>(block[i]);
    }
  }
}

void write_parts(const std::string& path, std::span<const std::byte> first,
                 std::span<const std::byte> second) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) fail(path, "cannot be written; is its folder there, and yours to write to?");
  for (const auto part : {first, second})
    file.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
  file.close();
  if (!file) throw std::runtime_error(path + ": could not be written to its end: " + std::strerror(errno));
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  Source source = open_file(path);
  const std::string text = header_text(source, path);
  Header header = HeaderParser(path, text).parse();
  const std::size_t width = check_kind(header, path);
  NpyArray array;
  array.values.resize(check_size(header, width, source.bytes, path));
  array.shape = std::move(*header.shape);
  if (width == sizeof(double))
    read_doubles(source, path, array.values);
  else
    take(source, path, array.values.data(), array.values.size() * sizeof(float));
  return array;
}

void write_npy(const std::string& path, std::span<const std::size_t> shape, std::span<const float> values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape_text(shape) + ", }";
  constexpr std::size_t kBefore = 10;
  const std::size_t end = (kBefore + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(end - kBefore - 1, ' ');
  header += '\n';
  if (header.size() > std::numeric_limits<std::uint16_t>::max())
    fail(path, "cannot be written: a shape of " + std::to_string(shape.size()) + " dimensions");
  const auto size = static_cast<std::uint16_t>(header.size());
  std::string start = std::string(kMagic) + '\1' + '\0' + std::string(2, '\0');
  std::memcpy(start.data() + kMagic.size() + 2, &size, sizeof size);
  start += header;
  write_parts(path, std::as_bytes(std::span(start)), std::as_bytes(values));
}

std::vector<std::byte> read_bytes(const std::string& path) {
  Source source = open_file(path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(source.bytes));
  take(source, path, bytes.data(), bytes.size());
  return bytes;
}

void write_bytes(const std::string& path, std::span<const std::byte> bytes) { write_parts(path, bytes, {}); }

}  // namespace gossamer::node

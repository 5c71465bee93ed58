#include "row_payload.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "bits.h"
#include "index_coding.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

constexpr unsigned kKeyBits = 64;
/// A row takes a bit at least, whatever its width: what a payload claims is bounded by what it holds.
constexpr std::size_t kRowsPerByte = 8;
/// Floats of a part beyond one a bit of its payload: a codec of signs tells zeros, however many, in a few
/// bytes.
constexpr std::size_t kMostUnwritten = std::size_t{1} << 26;

void put_varint(std::vector<std::byte>& out, std::uint64_t value) {
  std::array<std::byte, wire::kVarintMax> bytes;
  wire::Writer writer(bytes);
  writer.varint(value);
  out.insert(out.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(writer.size()));
}
void put_u8(std::vector<std::byte>& out, unsigned value) { out.push_back(static_cast<std::byte>(value)); }

/// Room at the end; cut down to what was written.
template <class Write>
void append(std::vector<std::byte>& out, std::size_t most, const Write& write) {
  const std::size_t begin = out.size();
  out.resize(begin + most);
  out.resize(begin + write(std::span(out).subspan(begin)));
}

void put_numbers(const std::vector<std::uint32_t>& numbers, std::vector<std::byte>& out) {
  put_varint(out, numbers.size());
  if (numbers.empty()) return;
  const std::size_t n = std::size_t{numbers.back()} + 1;
  const IndexPlan plan = plan_indices(std::nullopt, numbers, n);
  put_u8(out, static_cast<unsigned>(plan.form));
  put_varint(out, plan.bytes);
  put_varint(out, n);
  append(out, plan.bytes, [&](std::span<std::byte> room) {
    wire::Writer writer(room);
    write_indices(writer, plan, numbers, n);
    return writer.size();
  });
}

/// 64 bits in two puts.
void put_long(BitWriter& writer, std::uint64_t value, unsigned bits) {
  const unsigned low = std::min(bits, 32u);
  writer.put(value & low_bits(low), low);
  if (bits > 32) writer.put(value >> 32, bits - 32);
}
std::uint64_t take_long(BitReader& reader, unsigned bits) {
  const unsigned low = std::min(bits, 32u);
  std::uint64_t value = reader.take(low);
  if (bits > 32) value |= reader.take(bits - 32) << 32;
  return value;
}

std::size_t key_bytes(std::size_t count, unsigned width) {
  return wire::ceil_div(kKeyBits + (count - 1) * width, 8);
}

void put_keys(const std::vector<std::uint64_t>& keys, std::vector<std::byte>& out) {
  put_varint(out, keys.size());
  if (keys.empty()) return;
  std::uint64_t widest = 0;
  for (std::size_t i = 1; i < keys.size(); ++i) widest = std::max(widest, keys[i] - keys[i - 1]);
  const auto width = static_cast<unsigned>(std::bit_width(widest));
  put_u8(out, width);
  append(out, key_bytes(keys.size(), width), [&](std::span<std::byte> room) {
    BitWriter writer(room);
    put_long(writer, keys[0], kKeyBits);
    for (std::size_t i = 1; i < keys.size(); ++i) put_long(writer, keys[i] - keys[i - 1], width);
    return writer.finish();
  });
}

/// Columns [from, to) of each row, through the codec; what a receiver decodes takes their place.
void put_columns(const Codec& codec, RandomKey key, Workspace& workspace, RowPart& part, std::size_t width,
                 std::size_t from, std::size_t to, std::vector<std::byte>& out) {
  if (from == to) return;
  const std::size_t rows = part.rows(), columns = to - from;
  std::vector<float> values(rows * columns);
  for (std::size_t r = 0; r < rows; ++r)
    std::copy_n(&part.values[r * width + from], columns, &values[r * columns]);
  std::vector<std::byte> payload(codec.max_bytes(values.size()));
  payload.resize(codec.encode(values, key, workspace, payload));
  put_varint(out, payload.size());
  out.insert(out.end(), payload.begin(), payload.end());
  std::fill(values.begin(), values.end(), 0.0f);
  decode_add(payload, 1, values);
  for (std::size_t r = 0; r < rows; ++r)
    std::copy_n(&values[r * columns], columns, &part.values[r * width + from]);
}

// --- reading

std::size_t take_count(wire::Reader& in) {
  const std::uint64_t count = in.varint();
  if (count > in.left() * kRowsPerByte) throw PayloadError("payload claims more rows than it can hold");
  return static_cast<std::size_t>(count);
}

void take_numbers(const RowsSpec& spec, wire::Reader& in, std::vector<std::uint32_t>& numbers) {
  const std::size_t count = take_count(in);
  if (count == 0) return;
  const unsigned form = in.u8();
  const std::uint64_t bytes = in.varint(), n = in.varint();
  if (n > spec.most_numbered || count > n)
    throw PayloadError("payload names rows by numbers beyond the most that are given");
  if (bytes > in.left()) throw PayloadError("payload truncated: its numbers end early");
  numbers.resize(count);
  IndexReader reader(in.take(static_cast<std::size_t>(bytes)), form, numbers.size(),
                     static_cast<std::size_t>(n));
  for (std::size_t at = 0; at < numbers.size(); at += IndexReader::kBlock)
    reader.read(std::span(numbers).subspan(at, std::min(IndexReader::kBlock, numbers.size() - at)));
  reader.finish();
}

void take_keys(wire::Reader& in, std::vector<std::uint64_t>& keys) {
  const std::size_t count = take_count(in);
  if (count == 0) return;
  const unsigned width = in.u8();
  if (width > kKeyBits || (width == 0 && count > 1))
    throw PayloadError("payload's keys do not ascend, or have more than 64 bits");
  BitReader reader(in.take(key_bytes(count, width)));
  keys.resize(count);
  keys[0] = take_long(reader, kKeyBits);
  for (std::size_t i = 1; i < keys.size(); ++i) {
    keys[i] = keys[i - 1] + take_long(reader, width);
    if (keys[i] <= keys[i - 1]) throw PayloadError("payload's keys do not ascend");
  }
  reader.finish();
}

void take_columns(std::string_view codec, wire::Reader& in, RowPart& part, std::size_t width,
                  std::size_t from, std::size_t to) {
  if (from == to) return;
  const std::size_t rows = part.rows(), columns = to - from;
  const std::uint64_t bytes = in.varint();
  if (bytes > in.left()) throw PayloadError("payload truncated: its rows end early");
  const auto payload = in.take(static_cast<std::size_t>(bytes));
  if (const PayloadInfo info = inspect(payload); info.codec != codec || info.entries != rows * columns)
    throw PayloadError("payload's rows are of another codec or number than expected");
  std::vector<float> values(rows * columns);
  decode_add(payload, 1, values);
  for (const float v : values)
    if (!std::isfinite(v)) throw PayloadError("payload holds a number that is not finite");
  for (std::size_t r = 0; r < rows; ++r)
    std::copy_n(&values[r * columns], columns, &part.values[r * width + from]);
}

}  // namespace

void write_row_part(const RowsSpec& spec, const Codec& codec, RandomKey key, Workspace& workspace,
                    RowPart& part, std::vector<std::byte>& out) {
  put_varint(out, part.rows());
  if (part.rows() == 0) return;
  put_numbers(part.numbers, out);
  put_keys(part.keys, out);
  put_columns(codec, key, workspace, part, spec.width, 0, spec.linear, out);
  ++key.layer;
  put_columns(codec, key, workspace, part, spec.width, spec.linear, spec.width, out);
}

void read_row_part(const RowsSpec& spec, std::string_view codec, std::span<const std::byte>& in,
                   RowPart& part) {
  part.clear();
  wire::Reader reader(in);
  const std::size_t rows = take_count(reader);
  if (rows > 0) {
    take_numbers(spec, reader, part.numbers);
    take_keys(reader, part.keys);
    if (part.rows() != rows) throw PayloadError("payload holds another number of rows than it claims");
    if (rows * spec.width > reader.left() * kRowsPerByte + kMostUnwritten)
      throw PayloadError("payload claims more rows than it can hold");
    part.values.assign(rows * spec.width, 0.0f);
    take_columns(codec, reader, part, spec.width, 0, spec.linear);
    take_columns(codec, reader, part, spec.width, spec.linear, spec.width);
  }
  in = in.last(reader.left());
}

}  // namespace gossamer::compress

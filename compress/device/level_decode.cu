#include "device.cuh"
#include "level_strings.h"
#include "prefix_read.h"
#include "rans_model.h"
#include "scan.cuh"

namespace gossamer::compress::cuda {
namespace {

using Count = unsigned long long;

struct Bytes {
  const std::byte* at;
  std::size_t size;

  __device__ std::uint32_t word(std::size_t byte) const {
    return byte < size ? get_word(at + byte, size - byte) : 0;
  }
  /// At least 57 bits from bit `bit` on, zeros past the end.
  __device__ std::uint64_t bits(Count bit) const {
    const std::size_t byte = bit / 8;
    const std::uint64_t low = word(byte), high = word(byte + 4);
    return (low | high << 32) >> (bit % 8);
  }
  /// Whether from `bit` on there is nothing up to byte `end` but zeros that fill a byte.
  __device__ bool ends_at(Count bit, std::size_t end) const {
    if (bit > 8 * Count{end} || 8 * Count{end} - bit >= 8) return false;
    return (bits(bit) & low_bits(static_cast<unsigned>(8 * end - bit))) == 0;
  }
};

/// The levels of one slice, as one thread of its warp sees them.
struct SliceReader {
  LevelRange range;
  std::uint8_t* fields;
  std::size_t size;

  __device__ bool put(std::size_t i, int level) const {
    const int field = level + static_cast<int>(range.zero);
    fields[i] = static_cast<std::uint8_t>(field);
    return field >= 0 && field <= static_cast<int>(range.top);
  }
  __device__ bool read_packed(const Bytes& in) const {
    if (in.size != packed_bytes(size, range)) return false;
    bool good = true;
    if (range.top > 2) {
      const auto width = static_cast<unsigned>(std::bit_width(range.top));
      for (std::size_t i = 0; i < size; ++i) {
        const auto field = static_cast<unsigned>(in.bits(Count{i} * width) & low_bits(width));
        fields[i] = static_cast<std::uint8_t>(field);
        good = good && field <= range.top;
      }
      return good && in.ends_at(Count{size} * width, in.size);
    }
    for (std::size_t i = 0; i < size; i += kFieldsPerByte) {
      auto byte = static_cast<unsigned>(in.at[i / kFieldsPerByte]);
      for (std::size_t j = i; j < least(i + kFieldsPerByte, size); ++j, byte /= 3)
        fields[j] = static_cast<std::uint8_t>(byte % 3);
      good = good && byte == 0;
    }
    return good;
  }
  __device__ ReadCode read_code(LevelForm form, unsigned r, std::uint64_t bits, std::size_t left) const {
    if (form == LevelForm::elias) return read_sparse_or_end(bits, left);
    return form == LevelForm::rice ? read_rice_code(bits, r) : read_dense_code(bits);
  }
  /// String k, which stands in the bytes from … to of `in`.
  __device__ bool read_string(const Bytes& in, LevelForm form, unsigned r, std::size_t from, std::size_t to,
                              std::size_t strings, std::size_t k) const {
    const std::size_t part = size / strings, end = k + 1 < strings ? part * (k + 1) : size;
    Count bit = 8 * Count{from};
    for (std::size_t i = part * k; i < end;) {
      const ReadCode code = read_code(form, r, in.bits(bit), end - i);
      if (code.length == 0 || code.zeros + (code.last ? 0 : 1) > end - i) return false;
      bool good = true;
      for (std::size_t z = 0; z < code.zeros; ++z) good = put(i++, 0);
      if (!code.last) good = put(i++, code.level);
      if (!good) return false;
      bit += code.length;
    }
    return in.ends_at(bit, to);
  }
};

struct SharedSlots {
  std::uint32_t of[kRansTotal];
};

/// Fills the slots from the front of `in`; returns the model's bytes, 0 where it is none.
__device__ std::size_t read_model(const Bytes& in, LevelRange range, std::uint32_t* slots) {
  Count at = 0;
  std::uint32_t start = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    const OmegaRead read = read_omega(in.bits(at));
    at += read.length;
    if (read.number == 0 || read.number - 1 > kRansTotal - start) return 0;
    const auto f = static_cast<std::uint32_t>(read.number - 1);
    for (std::uint32_t j = 0; j < f; ++j) slots[start + j] = rans_slot(field, f, j);
    start += f;
  }
  const std::size_t bytes = ceil_divide(at, 8);
  return start == kRansTotal && bytes <= in.size && in.ends_at(at, bytes) ? bytes : 0;
}

__device__ bool read_rans(const Bytes& in, const SliceReader& reader) {
  auto& slots = shared<SharedSlots>().of;
  const std::size_t model = read_model(in, reader.range, slots);
  constexpr std::size_t kStateBytes = 4 * kRansStates;
  if (model == 0 || in.size - model < kStateBytes) return false;
  std::size_t at = model;
  std::uint32_t state[kRansStates];
  for (std::size_t j = 0; j < kRansStates; ++j, at += 4) state[j] = in.word(at);
  for (std::size_t i = 0; i < reader.size; ++i) {
    std::uint32_t& x = state[i % kRansStates];
    reader.fields[i] = step_back(x, slots[x & (kRansTotal - 1)]);
    if (x >= kRansLeast) continue;
    if (in.size - at < 2) return false;
    x = x << 16 | (in.word(at) & 0xffffu);
    at += 2;
  }
  bool ended = at == in.size;
  for (const std::uint32_t x : state) ended = ended && x == kRansLeast;
  return ended;
}

/// One slice by a warp: a string for each thread, or all by the first.
__device__ bool read_slice(Bytes in, const SliceReader& reader) {
  const std::size_t k = threadIdx.x;
  if (in.size == 0) return false;
  const auto byte = static_cast<unsigned>(in.at[0]);
  in = {in.at + 1, in.size - 1};
  if (byte == static_cast<unsigned>(LevelForm::packed)) return k > 0 || reader.read_packed(in);
  if (byte == static_cast<unsigned>(LevelForm::rans)) return k > 0 || read_rans(in, reader);
  const std::size_t strings = (byte & kInStrings) != 0 ? kStrings : 1;
  const unsigned form = byte & ~kInStrings;
  if (form < static_cast<unsigned>(LevelForm::elias) || form > static_cast<unsigned>(LevelForm::rice))
    return false;
  unsigned r = 0;
  if (form == static_cast<unsigned>(LevelForm::rice)) {
    if (in.size == 0) return false;
    r = static_cast<unsigned>(in.at[0]);
    in = {in.at + 1, in.size - 1};
    if (r > kLevelRiceMax) return false;
  }
  const std::size_t front = 4 * (strings - 1);
  if (in.size < front) return false;
  if (k >= strings) return true;
  std::size_t from = front;
  for (std::size_t j = 0; j < k; ++j) from += in.word(4 * j);
  const std::size_t to = k + 1 < strings ? from + in.word(4 * k) : in.size;
  if (from > to || to > in.size) return false;
  return reader.read_string(in, static_cast<LevelForm>(form), r, from, to, strings, k);
}

__global__ void read_lengths_kernel(Bytes in, std::size_t slices, Count* starts, DeviceResult* result) {
  for (std::size_t p = thread_of_grid(); p < slices; p += threads_in_grid())
    starts[p] = p + 1 < slices && result->error == DeviceError::none ? in.word(4 * p) : 0;
}

__global__ void read_slices_kernel(Bytes in, std::size_t n, std::size_t slices, LevelRange range,
                                   const Count* starts, const Count* all, std::uint8_t* fields,
                                   DeviceResult* result) {
  if (refused(result)) return;
  const std::size_t front = slice_lengths(slices), body = in.size - front;
  if (*all > body) return refuse_payload(result, DeviceError::size);
  for (std::size_t p = blockIdx.x; p < slices; p += gridDim.x) {
    const std::size_t end = p + 1 < slices ? starts[p + 1] : body;
    const Bytes slice{in.at + front + starts[p], end - starts[p]};
    const SliceReader reader{range, fields + p * kSlice, least(kSlice, n - p * kSlice)};
    if (!read_slice(slice, reader)) refuse_payload(result, DeviceError::unused);
    __syncwarp();
  }
}

}  // namespace

void read_levels(const DecodeCall& call, std::size_t front, LevelRange range, const LevelRoom& room) {
  if (room.n == 0) return;
  const std::size_t least_bytes = front + slice_lengths(room.slices);
  const Bytes in{call.payload_dev + front, call.bytes >= least_bytes ? call.bytes - front : 0};
  launch(read_lengths_kernel, blocks_for(room.slices, kThreads), kThreads, call.stream, in, room.slices,
         room.starts, call.result_dev);
  scan(room.starts, {nullptr, room.slices}, room.tiles, call.stream);
  launch(read_slices_kernel, blocks_for(room.slices, 1), kWarp, call.stream, in, room.n, room.slices, range,
         room.starts, room.tiles + tiles_of(room.slices), room.fields, call.result_dev);
}

}  // namespace gossamer::compress::cuda

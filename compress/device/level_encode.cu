#include "device.cuh"
#include "level_strings.h"
#include "rans_model.h"
#include "scan.cuh"

namespace gossamer::compress::cuda {
namespace {

using Count = unsigned long long;
constexpr unsigned kAnyForm = kLevelForms;
constexpr std::size_t kStateBytes = kRansStates * sizeof(std::uint32_t);

/// Of a room's slices.
struct Slices {
  std::size_t n, count;
  const std::uint8_t* fields;
  __device__ std::size_t size(std::size_t slice) const { return least(kSlice, n - slice * kSlice); }
  __device__ const std::uint8_t* of(std::size_t slice) const { return fields + slice * kSlice; }
};

/// Part k of a slice of `size` fields: where it starts and ends.
struct PartEnds {
  std::size_t from, to;
  __device__ PartEnds(std::size_t size, std::size_t strings, std::size_t k)
      : from(size / strings * k), to(k + 1 < strings ? size / strings * (k + 1) : size) {}
};

struct SharedCounts {
  std::uint32_t part[kStrings][256];
};

/// A block for each slice.
__global__ void count_levels_kernel(Slices slices, SliceCounts* all) {
  auto& counts = shared<SharedCounts>().part;
  for (std::size_t slice = blockIdx.x; slice < slices.count; slice += gridDim.x) {
    const std::size_t size = slices.size(slice), strings = strings_of(size), part = size / strings;
    for (unsigned k = 0; k < kStrings; ++k) counts[k][threadIdx.x] = 0;
    __syncthreads();
    for (std::size_t i = threadIdx.x; i < size; i += kThreads)
      atomicAdd(&counts[least(i / part, strings - 1)][slices.of(slice)[i]], 1u);
    __syncthreads();
    std::uint32_t sum = 0;
    for (unsigned k = 0; k < kStrings; ++k) {
      all[slice].part[k][threadIdx.x] = counts[k][threadIdx.x];
      sum += counts[k][threadIdx.x];
    }
    all[slice].all[threadIdx.x] = sum;
    if (threadIdx.x == 0) all[slice].strings = strings;
    __syncthreads();
  }
}

/// Calls work(position, gap) for the levels of part k that are not 0, and work(end, gap) for the zeros at its
/// end.
template <class Work>
__device__ void for_gaps(const std::uint8_t* fields, const PartEnds& part, unsigned zero, const Work& work) {
  std::size_t next = part.from;
  for (std::size_t i = part.from; i < part.to; ++i) {
    if (fields[i] == zero) continue;
    work(i, i - next + 1);
    next = i + 1;
  }
  if (next < part.to) work(part.to, part.to - next + 1);
}

__device__ Count gap_bits_of(const std::uint8_t* fields, const PartEnds& part, unsigned zero) {
  Count bits = 0;
  for_gaps(fields, part, zero, [&](std::size_t, std::size_t gap) { bits += omega(gap).length; });
  return bits;
}

struct SharedRans {
  RansModel model;
  RansStep steps[256];
};

/// Writes states and words backwards from the end of `out`, of out_bytes; returns their bytes. By one thread.
__device__ std::size_t put_rans(const std::uint8_t* fields, std::size_t size, const RansStep* steps,
                                std::byte* out, std::size_t out_bytes) {
  std::uint32_t state[kRansStates] = {kRansLeast, kRansLeast, kRansLeast, kRansLeast};
  std::byte* at = out + out_bytes;
  for (std::size_t i = size; i-- > 0;) {
    std::uint32_t& x = state[i % kRansStates];
    const RansStep step = steps[fields[i]];
    if (x >= step.most) {
      at -= 2;
      put_bytes(at, x, 2);
      x >>= 16;
    }
    x = step.moved(x);
  }
  at -= kStateBytes;
  for (std::size_t j = 0; j < kRansStates; ++j) put_bytes(at + 4 * j, state[j], 4);
  return static_cast<std::size_t>(out + out_bytes - at);
}

__device__ StringsPlan plan_strings(unsigned coding, const SliceCounts& counts, std::size_t size,
                                    LevelRange range, const Count* gap_bits) {
  const auto gaps = [gap_bits](std::size_t, std::size_t k) { return gap_bits[k]; };
  if (coding == static_cast<unsigned>(LevelForm::elias)) return sparse_plan(counts, size, range, gaps);
  if (coding == static_cast<unsigned>(LevelForm::elias_dense)) return dense_plan(counts, range);
  if (coding == static_cast<unsigned>(LevelForm::rice)) return rice_plan(counts, range);
  return best_prefix(counts, size, range, gaps);
}

/// Of a slice in the shorter of two ways, by one thread.
__device__ SlicePlan plan_slice(unsigned coding, const Slices& slices, std::size_t slice,
                                const SliceCounts& counts, LevelRange range, const Count* gap_bits,
                                std::byte* rans, std::size_t rans_room) {
  SlicePlan plan{{}, 0};
  const bool only_rans = coding == static_cast<unsigned>(LevelForm::rans);
  if (!only_rans) plan.strings = plan_strings(coding, counts, slices.size(slice), range, gap_bits);
  if (!only_rans && coding != kAnyForm) return plan;
  auto& room = shared<SharedRans>();
  room.model = rans_model(counts.all, range);
  const std::size_t front = model_bytes(room.model, range);
  if (!only_rans && rans_bytes_least(room.model, counts.all, range) >= plan.strings.bytes()) return plan;
  std::uint32_t start = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    const std::uint32_t f = room.model.frequency[field];
    if (f > 0) room.steps[field] = rans_step(f, start);
    start += f;
  }
  const std::size_t bytes =
      front + put_rans(slices.of(slice), slices.size(slice), room.steps, rans, rans_room);
  if (only_rans || bytes < plan.strings.bytes()) plan.rans_bytes = static_cast<std::uint32_t>(bytes);
  return plan;
}

struct SharedGaps {
  Count bits[kStrings];
};

/// A warp for each slice. starts: the slice's bytes.
__global__ void plan_slices_kernel(Slices slices, unsigned coding, LevelRange range, const SliceCounts* all,
                                   SlicePlan* plans, std::byte* rans, std::size_t rans_room, Count* starts) {
  auto& gap_bits = shared<SharedGaps>().bits;
  for (std::size_t slice = blockIdx.x; slice < slices.count; slice += gridDim.x) {
    const std::size_t size = slices.size(slice), k = threadIdx.x;
    const std::size_t strings = sparse_strings(size, size - all[slice].all[range.zero]);
    const bool sparse = coding == kAnyForm || coding == static_cast<unsigned>(LevelForm::elias);
    if (sparse && k < strings)
      gap_bits[k] = gap_bits_of(slices.of(slice), PartEnds(size, strings, k), range.zero);
    __syncwarp();
    if (k == 0) {
      plans[slice] =
          plan_slice(coding, slices, slice, all[slice], range, gap_bits, rans + slice * rans_room, rans_room);
      const SlicePlan& plan = plans[slice];
      starts[slice] = 1 + (plan.rans_bytes > 0 ? plan.rans_bytes : plan.strings.bytes());
    }
    __syncwarp();
  }
}

/// Bits to bytes of one thread's own.
class ByteBits {
 public:
  __device__ explicit ByteBits(std::byte* at) : at_(at) {}
  /// value < 2^count, count ≤ 56.
  __device__ void put(std::uint64_t value, unsigned count) {
    pending_ |= value << used_;
    for (used_ += count; used_ >= 8; used_ -= 8, pending_ >>= 8) *at_++ = static_cast<std::byte>(pending_);
  }
  __device__ void put(const BitCode& code) { put(code.bits, code.length); }
  __device__ void finish() {
    if (used_ > 0) *at_++ = static_cast<std::byte>(pending_);
  }

 private:
  std::byte* at_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  ///< bits in pending_, under 8 between calls
};

__device__ void put_packed(const std::uint8_t* fields, std::size_t size, LevelRange range, std::byte* out) {
  if (range.top > 2) {
    ByteBits bits(out);
    const auto width = static_cast<unsigned>(std::bit_width(range.top));
    for (std::size_t i = 0; i < size; ++i) bits.put(fields[i], width);
    return bits.finish();
  }
  for (std::size_t i = 0; i < size; i += kFieldsPerByte) {
    unsigned byte = 0;
    for (std::size_t j = least(kFieldsPerByte, size - i); j-- > 0;) byte = 3 * byte + fields[i + j];
    out[i / kFieldsPerByte] = static_cast<std::byte>(byte);
  }
}

__device__ void put_string(const StringsPlan& plan, const std::uint8_t* fields, const PartEnds& part,
                           LevelRange range, std::byte* out) {
  ByteBits bits(out);
  const auto zero = static_cast<int>(range.zero);
  if (plan.form == LevelForm::elias) {
    for_gaps(fields, part, range.zero, [&](std::size_t i, std::size_t gap) {
      bits.put(omega(gap));
      if (i < part.to) bits.put(sparse_code(static_cast<int>(fields[i]) - zero));
    });
  } else {
    for (std::size_t i = part.from; i < part.to; ++i) {
      const int level = static_cast<int>(fields[i]) - zero;
      bits.put(plan.form == LevelForm::rice ? rice_code(level, plan.r) : dense_code(level));
    }
  }
  bits.finish();
}

/// The slice in strings, by as many threads; what stands in front by the first.
__device__ void put_strings(const StringsPlan& plan, const std::uint8_t* fields, std::size_t size,
                            LevelRange range, std::byte* out) {
  const std::size_t k = threadIdx.x;
  if (k == 0)
    out[0] = static_cast<std::byte>(static_cast<unsigned>(plan.form) | (plan.strings > 1 ? kInStrings : 0));
  if (plan.form == LevelForm::packed) {
    if (k == 0) put_packed(fields, size, range, out + 1);
    return;
  }
  if (k == 0 && plan.form == LevelForm::rice) out[1] = static_cast<std::byte>(plan.r);
  if (k >= plan.strings) return;
  std::byte* const lengths = out + (plan.form == LevelForm::rice ? 2 : 1);
  if (k + 1 < plan.strings) put_bytes(lengths + 4 * k, static_cast<std::uint32_t>(plan.most[k]), 4);
  std::size_t at = 1 + plan.front();
  for (std::size_t j = 0; j < k; ++j) at += plan.most[j];
  put_string(plan, fields, PartEnds(size, plan.strings, k), range, out + at);
}

/// The model by the first thread, what rans wrote by all.
__device__ void copy_rans(const SlicePlan& plan, const SliceCounts& counts, LevelRange range,
                          const std::byte* end, std::byte* out) {
  auto& room = shared<SharedRans>();
  if (threadIdx.x == 0) {
    out[0] = static_cast<std::byte>(LevelForm::rans);
    room.model = rans_model(counts.all, range);
    ByteBits bits(out + 1);
    for (unsigned field = 0; field <= range.top; ++field) bits.put(omega(room.model.frequency[field] + 1u));
    bits.finish();
  }
  __syncwarp();
  const std::size_t front = model_bytes(room.model, range), bytes = plan.rans_bytes - front;
  for (std::size_t i = threadIdx.x; i < bytes; i += kWarp) out[1 + front + i] = (end - bytes)[i];
  __syncwarp();
}

/// A warp for each slice; in front of them the bytes of all but the last.
__global__ void put_slices_kernel(Slices slices, LevelRange range, const SliceCounts* counts,
                                  const SlicePlan* plans, const std::byte* rans, std::size_t rans_room,
                                  const Count* starts, const Count* all_bytes, std::size_t front,
                                  std::byte* out, DeviceResult* result) {
  const std::size_t body = front + slice_lengths(slices.count);
  if (blockIdx.x == 0 && threadIdx.x == 0) result->bytes = body + *all_bytes;
  for (std::size_t slice = blockIdx.x; slice < slices.count; slice += gridDim.x) {
    const SlicePlan& plan = plans[slice];
    std::byte* const to = out + body + starts[slice];
    if (threadIdx.x == 0 && slice + 1 < slices.count) {
      const std::size_t bytes = 1 + (plan.rans_bytes > 0 ? plan.rans_bytes : plan.strings.bytes());
      put_bytes(out + front + 4 * slice, static_cast<std::uint32_t>(bytes), 4);
    }
    if (plan.rans_bytes > 0) {
      copy_rans(plan, counts[slice], range, rans + (slice + 1) * rans_room, to);
    } else {
      put_strings(plan.strings, slices.of(slice), slices.size(slice), range, to);
    }
    __syncwarp();
  }
}

unsigned number_of(FieldCoding coding) { return coding ? static_cast<unsigned>(*coding) : kAnyForm; }

LevelRoom take_levels(Arena& arena, std::size_t n) {
  LevelRoom room{};
  room.n = n;
  room.slices = ceil_divide(n, kSlice);
  room.fields = arena.take<std::uint8_t>(ceil_divide(n, 512) * 512);
  room.starts = arena.take<Count>(room.slices);
  room.tiles = arena.take<Count>(tiles_of(room.slices) + 1);
  return room;
}

}  // namespace

LevelRoom take_encoding_levels(Arena& arena, FieldCoding coding, LevelRange range, std::size_t n) {
  LevelRoom room = take_levels(arena, n);
  room.counts = arena.take<SliceCounts>(room.slices);
  room.plans = arena.take<SlicePlan>(room.slices);
  if (!coding || *coding == LevelForm::rans) room.rans_room = rans_bytes_most(least(n, kSlice), range);
  room.rans = arena.take<std::byte>(room.slices * room.rans_room);
  return room;
}

LevelRoom take_decoding_levels(Arena& arena, std::size_t n) { return take_levels(arena, n); }

void write_levels(const LevelRoom& room, FieldCoding coding, LevelRange range, std::size_t front,
                  const EncodeCall& call) {
  if (room.n == 0) return;
  const Slices slices{room.n, room.slices, room.fields};
  const std::size_t blocks = blocks_for(room.slices, 1);
  launch(count_levels_kernel, blocks, kThreads, call.stream, slices, room.counts);
  launch(plan_slices_kernel, blocks, kWarp, call.stream, slices, number_of(coding), range, room.counts,
         room.plans, room.rans, room.rans_room, room.starts);
  scan(room.starts, {nullptr, room.slices}, room.tiles, call.stream);
  launch(put_slices_kernel, blocks, kWarp, call.stream, slices, range, room.counts, room.plans, room.rans,
         room.rans_room, room.starts, room.tiles + tiles_of(room.slices), front, call.out_dev,
         call.result_dev);
}

}  // namespace gossamer::compress::cuda

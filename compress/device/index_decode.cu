// Index j of a payload is starts[j] and all of sums up to its own: where codes have a fixed place sums are
// the gaps' low bits; where it must be found, a string of codes is cut into units whose codes are counted
// (quotients of Rice code, runs, the bitmap), or into parts that are read from every bit where they may begin
// (Elias).
#include "device.cuh"
#include "elias.h"
#include "index_code.h"
#include "scan.cuh"

namespace gossamer::compress::cuda {

namespace {

using Count = unsigned long long;
constexpr unsigned kRiceMax = 31, kWidthMax = 32;
constexpr unsigned kRunMax = 0xffff;
constexpr unsigned kPartBits = 1024;
constexpr unsigned kStarts = 64;  ///< where a part's first code may begin: none is longer than 45 bits

/// The count, a varint of one form only; false where it is none.
__device__ bool read_count(const std::byte* payload, std::size_t bytes, std::size_t& at, Count& count) {
  count = 0;
  for (unsigned shift = 0; at < bytes && shift <= 28; shift += 7) {
    const auto byte = static_cast<Count>(payload[at++]);
    count |= (byte & 0x7f) << shift;
    if (byte < 0x80) return byte != 0 || shift == 0;
  }
  return false;
}

/// Whether a string of this form may have so many bytes; its units.
__device__ DeviceError read_size(SparsePlan& plan, std::size_t n) {
  const Count count = plan.count, bits = 8 * plan.index_bytes;
  bool fits = false;
  switch (plan.form) {
    case IndexForm::rice: {
      const Count remainders = count * plan.parameter;
      fits = bits >= remainders + count && bits - remainders <= count + (n >> plan.parameter) + 7;
      plan.units = fits ? ceil_divide(bits - remainders, 32) : 0;
      break;
    }
    case IndexForm::fixed:
      fits = plan.index_bytes == 4 * count;
      break;
    case IndexForm::packed:
      fits = plan.index_bytes == ceil_divide(count * plan.parameter, 8);
      break;
    case IndexForm::elias:
      fits = bits >= count;
      break;
    case IndexForm::runs:
      fits = plan.index_bytes % 2 == 0 && plan.index_bytes >= 2 * count;
      plan.units = plan.index_bytes / 2;
      break;
    case IndexForm::bitmap:
      fits = plan.index_bytes == ceil_divide(n, 8);
      plan.units = ceil_divide(n, 32);
      break;
  }
  return fits ? DeviceError::none : DeviceError::size;
}

struct Limits {
  std::size_t n, most, units, parts;
};

__device__ DeviceError read_plan(const std::byte* payload, std::size_t bytes, std::size_t front,
                                 const SparseForm& form, const Limits& limits, SparsePlan& plan) {
  std::size_t at = front;
  Count count = plan.count;
  plan.count = 0;
  if (form.writes_count) {
    if (!read_count(payload, bytes, at, count)) return DeviceError::size;
    if (count > limits.most) return count > limits.n ? DeviceError::index : DeviceError::size;
    if (count == 0) return form.may_be_empty && at == bytes ? DeviceError::none : DeviceError::size;
  }
  if (at == bytes) return DeviceError::size;
  const unsigned forms = static_cast<unsigned>(payload[at++]), index_form = forms % kFrontIndexForms;
  if (forms - index_form != form_bits(form.values) || index_form >= kIndexForms) return DeviceError::front;
  if (form.coding < kIndexForms && index_form != form.coding) return DeviceError::front;
  plan.form = static_cast<IndexForm>(index_form);
  const bool has_parameter = plan.form == IndexForm::rice || plan.form == IndexForm::packed;
  const std::size_t values = value_bytes(form.values, count);
  if (bytes - at < values + (has_parameter ? 1 : 0)) return DeviceError::size;
  if (has_parameter) plan.parameter = static_cast<unsigned>(payload[at++]);
  if (plan.parameter > (plan.form == IndexForm::rice ? kRiceMax : kWidthMax)) return DeviceError::number;
  plan.indices_at = at;
  plan.values_at = bytes - values;
  plan.index_bytes = plan.values_at - at;
  plan.count = count;
  const DeviceError size = read_size(plan, limits.n);
  if (size != DeviceError::none) return size;
  const bool room = plan.units <= limits.units &&
                    (plan.form != IndexForm::elias || 8 * plan.index_bytes <= limits.parts * kPartBits);
  plan.scanned = count + 1;
  return room ? DeviceError::none : DeviceError::size;
}

/// count: of the payload's entries, where its front says no more.
__global__ void read_plan_kernel(const std::byte* payload, std::size_t bytes, std::size_t front,
                                 SparseForm form, Limits limits, std::size_t count, SparsePlan* plan,
                                 DeviceResult* result) {
  if (threadIdx.x != 0) return;
  SparsePlan found{};
  found.count = count;
  DeviceError error = result->error;
  if (error == DeviceError::none) error = read_plan(payload, bytes, front, form, limits, found);
  if (error != DeviceError::none) {
    found = {};
    refuse_payload(result, error);
  }
  *plan = found;
}

/// 32 bits of the code from `bit` on, zeros past its end.
__device__ std::uint32_t code_word(const std::byte* payload, const SparsePlan& plan, Count bit) {
  const std::byte* const code = payload + plan.indices_at;
  const Count byte = bit / 8;
  const std::uint32_t low = byte < plan.index_bytes ? get_word(code + byte, plan.index_bytes - byte) : 0;
  const std::uint32_t high =
      byte + 4 < plan.index_bytes ? get_word(code + byte + 4, plan.index_bytes - byte - 4) : 0;
  return __funnelshift_r(low, high, static_cast<unsigned>(bit % 8));
}
__device__ std::uint32_t low_part(std::uint32_t word, unsigned width) {
  return width < 32 ? word & ((1u << width) - 1) : word;
}
/// The bits behind the last code: none but what fills a byte, and all zeros.
__device__ bool ends_at(const std::byte* payload, const SparsePlan& plan, Count bit) {
  return ceil_divide(bit, 8) == plan.index_bytes && (bit % 8 == 0 || code_word(payload, plan, bit) == 0);
}

/// Where units lie: 32 bits each, or 16.
__device__ std::uint32_t unit_of(const std::byte* payload, const SparsePlan& plan, std::size_t u) {
  if (plan.form == IndexForm::rice)
    return code_word(payload, plan, plan.count * plan.parameter + 32 * Count{u});
  if (plan.form == IndexForm::bitmap) return code_word(payload, plan, 32 * Count{u});
  return code_word(payload, plan, 16 * Count{u}) & kRunMax;
}

__global__ void sum_units_kernel(const std::byte* payload, const SparsePlan* plan_dev, CodeSum* units) {
  const SparsePlan plan = *plan_dev;
  for (std::size_t u = thread_of_grid(); u < plan.units; u += threads_in_grid()) {
    const std::uint32_t unit = unit_of(payload, plan, u);
    if (plan.form == IndexForm::runs) {
      units[u] = {unit != kRunMax ? 1u : 0u, unit};
    } else {
      units[u] = {static_cast<Count>(__popc(unit)), 0};
    }
  }
}

/// Each one of a unit ends a code: of Rice code's quotients the zeros up to it are the sum so far, of a
/// bitmap it is the index.
__device__ void end_at_ones(const std::byte* payload, const SparsePlan& plan, std::size_t u, Count j,
                            std::size_t n, Count* starts, DeviceResult* result) {
  const unsigned r = plan.parameter;
  const bool rice = plan.form == IndexForm::rice;
  for (std::uint32_t bits = unit_of(payload, plan, u); bits != 0 && j < plan.count; bits &= bits - 1, ++j) {
    const Count at = 32 * Count{u} + static_cast<Count>(__ffs(static_cast<int>(bits)) - 1);
    starts[j] = !rice ? at : at - j <= n >> r ? ((at - j) << r) + j : n;
    if (rice && j + 1 == plan.count && !ends_at(payload, plan, plan.count * r + at + 1))
      refuse_payload(result, DeviceError::unused);
  }
}

__global__ void end_units_kernel(const std::byte* payload, const SparsePlan* plan_dev, const CodeSum* units,
                                 const CodeSum* all, std::size_t n, Count* starts, DeviceResult* result) {
  const SparsePlan plan = *plan_dev;
  if (plan.units > 0 && all->ends != plan.count && thread_of_grid() == 0)
    refuse_payload(result, DeviceError::unused);
  for (std::size_t u = thread_of_grid(); u < plan.units; u += threads_in_grid()) {
    const Count j = units[u].ends;
    if (plan.form != IndexForm::runs) {
      end_at_ones(payload, plan, u, j, n, starts, result);
      continue;
    }
    const std::uint32_t run = unit_of(payload, plan, u);
    if (run != kRunMax && j < plan.count) starts[j] = units[u].sum + run + j;
    if (run == kRunMax && u + 1 == plan.units) refuse_payload(result, DeviceError::size);
  }
}

__device__ OmegaRead read_elias(const std::byte* payload, const SparsePlan& plan, Count bit) {
  return read_omega(code_word(payload, plan, bit) |
                    static_cast<std::uint64_t>(code_word(payload, plan, bit + 32)) << 32);
}

constexpr Count parts_of(const SparsePlan& plan) {
  return plan.form == IndexForm::elias ? ceil_divide(8 * plan.index_bytes, kPartBits) : 0;
}

__global__ void jump_kernel(const std::byte* payload, const SparsePlan* plan_dev, EliasJump* jumps) {
  const SparsePlan plan = *plan_dev;
  for (std::size_t i = thread_of_grid(); i < parts_of(plan) * kStarts; i += threads_in_grid()) {
    const Count end = (i / kStarts + 1) * kPartBits;
    Count bit = end - kPartBits + i % kStarts;
    unsigned codes = 0;
    for (; bit < end; ++codes) {
      const OmegaRead read = read_elias(payload, plan, bit);
      bit += read.number == 0 ? 1 : read.length;
    }
    jumps[i] = {static_cast<std::uint16_t>(bit - end), static_cast<std::uint16_t>(codes)};
  }
}

/// One thread: from part to part.
__global__ void follow_jumps_kernel(const SparsePlan* plan_dev, const EliasJump* jumps, EliasEntry* entries,
                                    DeviceResult* result) {
  const SparsePlan plan = *plan_dev;
  if (threadIdx.x != 0 || plan.form != IndexForm::elias || plan.count == 0) return;
  Count index = 0;
  unsigned start = 0;
  for (Count p = 0; p < parts_of(plan); ++p) {
    entries[p] = {p * kPartBits + start, index};
    const EliasJump jump = jumps[p * kStarts + start];
    index += jump.codes;
    start = jump.next;
  }
  if (index < plan.count) refuse_payload(result, DeviceError::size);
}

__global__ void read_elias_kernel(const std::byte* payload, const SparsePlan* plan_dev,
                                  const EliasEntry* entries, Count* sums, DeviceResult* result) {
  const SparsePlan plan = *plan_dev;
  for (std::size_t p = thread_of_grid(); p < parts_of(plan); p += threads_in_grid()) {
    Count bit = entries[p].bit;
    for (Count j = entries[p].index; bit < (p + 1) * kPartBits && j < plan.count; ++j) {
      const OmegaRead read = read_elias(payload, plan, bit);
      if (read.number == 0) refuse_payload(result, DeviceError::index);
      bit += read.number == 0 ? 1 : read.length;
      sums[j] = read.number == 0 ? 0 : read.number - 1;
      if (j + 1 == plan.count && !ends_at(payload, plan, bit)) refuse_payload(result, DeviceError::unused);
    }
  }
}

/// Starts that are not found by units, and what of the sums has its own place.
__global__ void place_kernel(const std::byte* payload, const SparsePlan* plan_dev, Count* starts, Count* sums,
                             DeviceResult* result) {
  const SparsePlan plan = *plan_dev;
  const unsigned width = plan.parameter;
  for (std::size_t j = thread_of_grid(); j < plan.scanned; j += threads_in_grid()) {
    const bool last = j == plan.count;
    if (plan.form != IndexForm::elias || last) sums[j] = 0;
    if (last) continue;
    if (plan.form == IndexForm::rice || plan.form == IndexForm::packed)
      sums[j] = low_part(code_word(payload, plan, Count{j} * width), width);
    if (plan.form == IndexForm::packed || plan.form == IndexForm::elias) starts[j] = j;
    if (plan.form == IndexForm::packed && j + 1 == plan.count && !ends_at(payload, plan, plan.count * width))
      refuse_payload(result, DeviceError::unused);
    if (plan.form != IndexForm::fixed) continue;
    starts[j] = code_word(payload, plan, 32 * Count{j});
    if (j > 0 && starts[j] <= code_word(payload, plan, 32 * Count{j - 1}))
      refuse_payload(result, DeviceError::index);
  }
}

/// Of quotients, runs and words of a map, the most that there may be.
std::size_t most_units_of(const SparseForm& form, std::size_t n, std::size_t most) {
  std::size_t units = 0;
  const auto add = [&](IndexForm which, std::size_t of_it) {
    if (form.may_be(which) && of_it > units) units = of_it;
  };
  add(IndexForm::rice, (most + n + 7) / 32 + 1);
  add(IndexForm::runs, most + n / kRunMax);
  add(IndexForm::bitmap, ceil_divide(n, 32));
  return units;
}

}  // namespace

DecodingRoom take_decoding_room(Arena& arena, const SparseForm& form, std::size_t n, std::size_t most) {
  DecodingRoom room{};
  room.n = n;
  room.most = most;
  room.most_units = most_units_of(form, n, most);
  if (form.may_be(IndexForm::elias))
    room.most_parts = ceil_divide(8 * indices_max_bytes(form.index_coding(), most, n), kPartBits);
  room.plan = arena.take<SparsePlan>(1);
  room.starts = arena.take<Count>(most);
  room.sums = arena.take<Count>(most + 1);
  room.tiles = arena.take<Count>(tiles_of(most + 1) + 1);
  room.units = arena.take<CodeSum>(room.most_units);
  room.unit_tiles = arena.take<CodeSum>(tiles_of(room.most_units) + 1);
  room.jumps = arena.take<EliasJump>(kStarts * room.most_parts);
  room.entries = arena.take<EliasEntry>(room.most_parts);
  return room;
}

void add_sparse(const DecodeCall& call, std::size_t front, const SparseForm& form, std::size_t count,
                const DecodingRoom& room) {
  const Limits limits{room.n, room.most, room.most_units, room.most_parts};
  launch(read_plan_kernel, 1, kWarp, call.stream, call.payload_dev, call.bytes, front, form, limits, count,
         room.plan, call.result_dev);
  if (room.most_units > 0) {
    const std::size_t blocks = blocks_for(room.most_units, kThreads);
    launch(sum_units_kernel, blocks, kThreads, call.stream, call.payload_dev, room.plan, room.units);
    scan(room.units, {&room.plan->units, room.most_units}, room.unit_tiles, call.stream);
    launch(end_units_kernel, blocks, kThreads, call.stream, call.payload_dev, room.plan, room.units,
           room.unit_tiles + tiles_of(room.most_units), room.n, room.starts, call.result_dev);
  }
  if (room.most_parts > 0) {
    launch(jump_kernel, blocks_for(kStarts * room.most_parts, kThreads), kThreads, call.stream,
           call.payload_dev, room.plan, room.jumps);
    launch(follow_jumps_kernel, 1, kWarp, call.stream, room.plan, room.jumps, room.entries, call.result_dev);
    launch(read_elias_kernel, blocks_for(room.most_parts, kWarp), kWarp, call.stream, call.payload_dev,
           room.plan, room.entries, room.sums, call.result_dev);
  }
  launch(place_kernel, blocks_for(room.most + 1, kThreads), kThreads, call.stream, call.payload_dev,
         room.plan, room.starts, room.sums, call.result_dev);
  scan(room.sums, {&room.plan->scanned, room.most + 1}, room.tiles, call.stream);
  add_values(form.values, call, {room.starts, room.sums}, room.most, room.plan);
}

}  // namespace gossamer::compress::cuda

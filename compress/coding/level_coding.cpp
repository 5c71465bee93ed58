#include "level_coding.h"

#include <bit>

#include "bits.h"
#include "rans.h"
#include "slice_plan.h"

namespace gossamer::compress {
namespace {

constexpr std::array<std::string_view, kLevelForms + 1> kNames = {"packed", "elias", "elias_dense",
                                                                  "rice",   "rans",  "auto"};
std::size_t bytes_of(std::uint64_t bits) { return static_cast<std::size_t>((bits + 7) / 8); }

void write_packed(std::span<const std::uint8_t> fields, LevelRange range, std::span<std::byte> out) {
  if (range.top > 2) {
    BitWriter bits(out);
    const auto width = static_cast<unsigned>(std::bit_width(range.top));
    for (const std::uint8_t field : fields) bits.put(field, width);
    bits.finish();
    return;
  }
  for (std::size_t i = 0; i < fields.size(); i += kFieldsPerByte) {
    unsigned byte = 0;
    for (std::size_t j = std::min(kFieldsPerByte, fields.size() - i); j-- > 0;)
      byte = 3 * byte + fields[i + j];
    out[i / kFieldsPerByte] = static_cast<std::byte>(byte);
  }
}

void read_packed(std::span<const std::byte> in, LevelRange range, std::span<std::uint8_t> fields) {
  if (in.size() != packed_bytes(fields.size(), range))
    throw PayloadError("payload holds fields of another length than it has levels");
  unsigned bad = 0;
  if (range.top > 2) {
    const auto width = static_cast<unsigned>(std::bit_width(range.top));
    BitReader bits(in);
    for (std::uint8_t& field : fields) {
      field = static_cast<std::uint8_t>(bits.take(width));
      bad |= field > range.top ? 1u : 0u;
    }
    bits.finish();
  } else {
    for (std::size_t i = 0; i < fields.size(); i += kFieldsPerByte) {
      auto byte = static_cast<unsigned>(in[i / kFieldsPerByte]);
      for (std::size_t j = i; j < std::min(i + kFieldsPerByte, fields.size()); ++j, byte /= 3)
        fields[j] = static_cast<std::uint8_t>(byte % 3);
      bad |= byte;
    }
  }
  if (bad != 0) throw PayloadError("payload holds a level beyond the highest");
}

constexpr std::size_t kStringRoom = 8;  ///< behind each string while it is written

SliceCounts count_slice(std::span<const std::uint8_t> fields) {
  SliceCounts counts;
  counts.strings = strings_of(fields.size());
  for (std::size_t k = 0; k < counts.strings; ++k) {
    counts.part[k] = count_fields(part_of(fields, counts.strings, k));
    for (std::size_t field = 0; field < 256; ++field) counts.all[field] += counts.part[k][field];
  }
  return counts;
}

/// Writes a plan's strings behind the byte that names the form; out has kStringRoom more for each string.
std::size_t write_strings(const StringsPlan& plan, std::span<const std::uint8_t> fields, LevelRange range,
                          std::span<std::byte> out) {
  StringPlaces places{.strings = plan.strings, .at = {}, .bytes = {}};
  std::size_t at = plan.front();
  for (std::size_t k = 0; k < plan.strings; ++k) {
    places.at[k] = out.data() + at;
    at += plan.most[k] + kStringRoom;
  }
  assert(at <= out.size());
  if (plan.form == LevelForm::elias) write_sparse(places, fields, range);
  if (plan.form == LevelForm::elias_dense) write_dense(places, fields, range);
  if (plan.form == LevelForm::rice) {
    write_rice(places, fields, range, plan.r);
    out[0] = static_cast<std::byte>(plan.r);
  }
  at = plan.front();
  std::byte* const lengths = out.data() + (plan.form == LevelForm::rice ? 1 : 0);
  for (std::size_t k = 0; k < plan.strings; ++k) {
    assert(places.bytes[k] <= plan.most[k]);
    std::memmove(out.data() + at, places.at[k], places.bytes[k]);
    at += places.bytes[k];
    const auto bytes = static_cast<std::uint32_t>(places.bytes[k]);
    if (k + 1 < plan.strings) std::memcpy(lengths + k * sizeof bytes, &bytes, sizeof bytes);
  }
  return at;
}

std::byte form_byte(const StringsPlan& plan) {
  return static_cast<std::byte>(static_cast<unsigned>(plan.form) | (plan.strings > 1 ? kInStrings : 0));
}

unsigned longest_code(LevelForm form, LevelRange range) {
  const auto low = -static_cast<int>(range.zero), high = static_cast<int>(range.top) + low;
  if (form == LevelForm::elias_dense) return dense_code(low).length;
  // Gaps of a level each take at most 1.5 bits for each entry they cover, and one at the end a few more.
  if (form == LevelForm::elias) return 2 + sparse_code(low).length;
  return std::max(rice_code(low, kLevelRiceMax).length, rice_code(high, kLevelRiceMax).length);
}

/// Of a form that is not counted.
std::size_t string_max_bytes(LevelForm form, std::size_t count, LevelRange range) {
  return 8 + bytes_of(std::uint64_t{count} * longest_code(form, range));
}

/// For a form that is asked for, whatever it takes.
StringsPlan plan_form(LevelForm form, std::span<const std::uint8_t> fields, LevelRange range) {
  StringsPlan plan{.form = form};
  plan.strings = strings_of(fields.size());
  if (form == LevelForm::elias) {
    plan.strings = sparse_strings(fields.size(), shape_of(fields, range).levels);
  }
  if (form == LevelForm::rice) return rice_plan(count_slice(fields), range);
  for (std::size_t k = 0; k < plan.strings; ++k)
    plan.most[k] = string_max_bytes(form, part_of(fields, plan.strings, k).size(), range);
  return plan;
}

std::size_t write_smallest(std::span<const std::uint8_t> fields, LevelRange range, std::span<std::byte> out) {
  const SliceCounts counts = count_slice(fields);
  const StringsPlan best = best_prefix(counts, fields.size(), range, [&](std::size_t strings, std::size_t k) {
    return gap_bits(part_of(fields, strings, k), range);
  });
  const RansModel model = rans_model(counts.all, range);
  if (rans_bytes_least(model, counts.all, range) < best.bytes()) {
    // Its exact size is known only when it is written.
    const std::size_t bytes = write_rans(fields, range, model, out.subspan(1, best.bytes() + kRansRoom));
    if (bytes > 0 && bytes < best.bytes()) {
      out[0] = static_cast<std::byte>(LevelForm::rans);
      return 1 + bytes;
    }
  }
  out[0] = form_byte(best);
  if (best.form != LevelForm::packed) return 1 + write_strings(best, fields, range, out.subspan(1));
  write_packed(fields, range, out.subspan(1));
  return 1 + best.bytes();
}

/// Where the strings end that `in` holds, their lengths in front.
StringEnds string_ends(std::span<const std::byte> in, std::size_t strings) {
  StringEnds ends{.in = {}, .strings = strings, .end = {}};
  wire::Reader reader(in);
  std::array<std::uint32_t, kStrings> length{};
  const std::size_t front = (strings - 1) * sizeof length[0];
  std::memcpy(length.data(), reader.take(front).data(), front);
  ends.in = in.subspan(front);
  for (std::size_t k = 0; k + 1 < strings; ++k) {
    (void)reader.take(length[k]);
    ends.end[k] = (k == 0 ? 0 : ends.end[k - 1]) + length[k];
  }
  ends.end[strings - 1] = ends.in.size();
  return ends;
}

}  // namespace

FieldCoding field_coding_parameter(Parameters& parameters) {
  const std::size_t choice = parameters.choice("coding", kNames);
  if (choice == kLevelForms) return std::nullopt;
  return static_cast<LevelForm>(choice);
}

std::string_view field_coding_name(FieldCoding coding) {
  return kNames[coding ? static_cast<std::size_t>(*coding) : kLevelForms];
}

std::size_t slice_max_bytes(FieldCoding coding, std::size_t count, LevelRange range) {
  const LevelForm form = coding.value_or(LevelForm::packed);
  static_assert(kRansRoom <= kStrings * kStringRoom);
  if (form == LevelForm::packed)
    return 1 + packed_bytes(count, range) + (coding ? 0 : kStrings * kStringRoom);
  if (form == LevelForm::rans) return 1 + rans_bytes_most(count, range);
  const std::size_t strings = strings_of(count);
  // A byte's rest for each string; see string_max_bytes for the other 8.
  return 2 + kStringsFront + strings * (9 + kStringRoom) +
         bytes_of(std::uint64_t{count} * longest_code(form, range));
}

std::size_t write_slice(FieldCoding coding, std::span<const std::uint8_t> fields, LevelRange range,
                        std::span<std::byte> out) {
  assert(!fields.empty() && fields.size() <= kSlice && range.zero >= 1 && range.top <= 255);
  if (!coding) return write_smallest(fields, range, out);
  out[0] = static_cast<std::byte>(*coding);
  if (*coding == LevelForm::packed) {
    write_packed(fields, range, out.subspan(1));
    return 1 + packed_bytes(fields.size(), range);
  }
  if (*coding == LevelForm::rans)
    return 1 + write_rans(fields, range, rans_model(count_fields(fields), range), out.subspan(1));
  const StringsPlan plan = plan_form(*coding, fields, range);
  out[0] = form_byte(plan);
  return 1 + write_strings(plan, fields, range, out.subspan(1));
}

void read_slice(std::span<const std::byte> in, LevelRange range, std::span<std::uint8_t> fields) {
  if (in.empty()) throw PayloadError("payload truncated: no levels where some are expected");
  const auto byte = static_cast<unsigned>(in[0]);
  in = in.subspan(1);
  if (byte == static_cast<unsigned>(LevelForm::packed)) return read_packed(in, range, fields);
  if (byte == static_cast<unsigned>(LevelForm::rans)) return read_rans(in, range, fields);
  const std::size_t strings = (byte & kInStrings) != 0 ? kStrings : 1;
  const unsigned form = byte & ~kInStrings;
  if (form == static_cast<unsigned>(LevelForm::elias))
    return read_sparse(string_ends(in, strings), range, fields);
  if (form == static_cast<unsigned>(LevelForm::elias_dense))
    return read_dense(string_ends(in, strings), range, fields);
  if (form != static_cast<unsigned>(LevelForm::rice) || in.empty()) {
    throw PayloadError("payload claims level form " + std::to_string(byte) + ", expected one of 0 to " +
                       std::to_string(kLevelForms - 1));
  }
  read_rice(string_ends(in.subspan(1), strings), range, static_cast<unsigned>(in[0]), fields);
}

std::size_t coded_max_bytes(FieldCoding coding, std::size_t n, LevelRange range) {
  const std::size_t slices = wire::ceil_div(n, kSlice);
  return slices * (sizeof(std::uint32_t) + slice_max_bytes(coding, std::min(n, kSlice), range));
}

}  // namespace gossamer::compress

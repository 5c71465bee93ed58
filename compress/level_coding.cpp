#include "level_coding.h"

#include <bit>

#include "bits.h"
#include "rans.h"

namespace gossamer::compress {
namespace {

constexpr std::array<std::string_view, kLevelForms + 1> kNames = {"packed", "elias", "elias_dense",
                                                                  "rice",   "rans",  "auto"};
constexpr std::size_t kPerByte = 5;  ///< 3⁵ = 243 of a byte's 256 values

std::size_t bytes_of(std::uint64_t bits) { return static_cast<std::size_t>((bits + 7) / 8); }

std::size_t packed_bytes(std::size_t count, unsigned s) {
  if (s == 1) return wire::ceil_div(count, kPerByte);
  return bytes_of(std::uint64_t{count} * static_cast<unsigned>(std::bit_width(2 * s)));
}

void write_packed(std::span<const std::uint8_t> fields, unsigned s, std::span<std::byte> out) {
  if (s > 1) {
    BitWriter bits(out);
    const auto width = static_cast<unsigned>(std::bit_width(2 * s));
    for (const std::uint8_t field : fields) bits.put(field, width);
    bits.finish();
    return;
  }
  for (std::size_t i = 0; i < fields.size(); i += kPerByte) {
    unsigned byte = 0;
    for (std::size_t j = std::min(kPerByte, fields.size() - i); j-- > 0;) byte = 3 * byte + fields[i + j];
    out[i / kPerByte] = static_cast<std::byte>(byte);
  }
}

void read_packed(std::span<const std::byte> in, unsigned s, std::span<std::uint8_t> fields) {
  if (in.size() != packed_bytes(fields.size(), s))
    throw PayloadError("payload holds fields of another length than it has levels");
  unsigned bad = 0;
  if (s > 1) {
    const auto width = static_cast<unsigned>(std::bit_width(2 * s));
    BitReader bits(in);
    for (std::uint8_t& field : fields) {
      field = static_cast<std::uint8_t>(bits.take(width));
      bad |= field > 2 * s ? 1u : 0u;
    }
    bits.finish();
  } else {
    for (std::size_t i = 0; i < fields.size(); i += kPerByte) {
      auto byte = static_cast<unsigned>(in[i / kPerByte]);
      for (std::size_t j = i; j < std::min(i + kPerByte, fields.size()); ++j, byte /= 3)
        fields[j] = static_cast<std::uint8_t>(byte % 3);
      bad |= byte;
    }
  }
  if (bad != 0) throw PayloadError("payload holds a level beyond the highest");
}

struct Rice {
  unsigned r;
  std::uint64_t bits;
};

Rice best_rice(const FieldCounts& counts, unsigned s) {
  Rice best{least_level_rice(s), 0};
  best.bits = rice_bits(counts, s, best.r);
  for (unsigned r = best.r + 1; r <= kLevelRiceMax; ++r) {
    const std::uint64_t bits = rice_bits(counts, s, r);
    if (bits < best.bits) best = {r, bits};
  }
  return best;
}

/// The form's bytes behind the byte that names it.
std::size_t write_form(LevelForm form, std::span<const std::uint8_t> fields, unsigned s,
                       const FieldCounts& counts, std::span<std::byte> out) {
  BitWriter bits(out);
  switch (form) {
    case LevelForm::packed:
      write_packed(fields, s, out);
      return packed_bytes(fields.size(), s);
    case LevelForm::elias:
      write_sparse(bits, fields, s);
      break;
    case LevelForm::elias_dense:
      write_dense(bits, fields, s);
      break;
    case LevelForm::rice: {
      const unsigned r = best_rice(counts, s).r;
      bits.put(r, 8);
      write_rice(bits, fields, s, r);
      break;
    }
    case LevelForm::rans:
      return write_rans(fields, s, rans_model(counts, s), out);
  }
  return bits.finish();
}

struct Choice {
  LevelForm form = LevelForm::packed;
  std::size_t bytes = 0;
  void offer(LevelForm other, std::size_t needs) {
    if (needs < bytes) *this = {other, needs};
  }
};

/// The smallest but for rans. Gaps are counted only where they may matter.
Choice best_prefix(std::span<const std::uint8_t> fields, unsigned s, const FieldCounts& counts) {
  Choice best{LevelForm::packed, packed_bytes(fields.size(), s)};
  const std::size_t dense = bytes_of(dense_bits(counts, s));
  const std::size_t rice = 1 + bytes_of(best_rice(counts, s).bits);
  const std::uint64_t levels = fields.size() - counts[s];
  const std::uint64_t but_gaps = sparse_bits_but_gaps(counts, s);
  if (bytes_of(but_gaps + levels) < std::min({best.bytes, dense + 1, rice + 1}))
    best.offer(LevelForm::elias, bytes_of(but_gaps + gap_bits(fields, s)));
  best.offer(LevelForm::elias_dense, dense);
  best.offer(LevelForm::rice, rice);
  return best;
}

std::size_t write_smallest(std::span<const std::uint8_t> fields, unsigned s, const FieldCounts& counts,
                           std::span<std::byte> out) {
  const Choice best = best_prefix(fields, s, counts);
  const RansModel model = rans_model(counts, s);
  if (rans_bytes_least(model, counts, s) < best.bytes) {
    // Its exact size is known only when it is written.
    const std::size_t bytes = write_rans(fields, s, model, out.subspan(1, best.bytes + kRansRoom));
    if (bytes > 0 && bytes < best.bytes) {
      out[0] = static_cast<std::byte>(LevelForm::rans);
      return 1 + bytes;
    }
  }
  out[0] = static_cast<std::byte>(best.form);
  return 1 + write_form(best.form, fields, s, counts, out.subspan(1));
}

unsigned longest_code(LevelForm form, unsigned s) {
  const auto top = static_cast<int>(s);
  if (form == LevelForm::elias_dense) return dense_code(top).length;
  // Gaps of a level each take at most 1.5 bits for each entry they cover, and one at the end a few more.
  if (form == LevelForm::elias) return 2 + sparse_code(top).length;
  return std::max(rice_code(-top, kLevelRiceMax).length, rice_code(top, kLevelRiceMax).length);
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

std::size_t slice_max_bytes(FieldCoding coding, std::size_t count, unsigned s) {
  const LevelForm form = coding.value_or(LevelForm::packed);
  if (form == LevelForm::packed) return 1 + packed_bytes(count, s) + (coding ? 0 : kRansRoom);
  if (form == LevelForm::rans) return 1 + rans_bytes_most(count, s);
  return 16 + bytes_of(std::uint64_t{count} * longest_code(form, s));
}

std::size_t write_slice(FieldCoding coding, std::span<const std::uint8_t> fields, unsigned s,
                        std::span<std::byte> out) {
  assert(!fields.empty() && fields.size() <= kSlice && s >= 1 && s <= kLevelsMax);
  const bool counted = !coding || *coding == LevelForm::rice || *coding == LevelForm::rans;
  const FieldCounts counts = counted ? count_fields(fields) : FieldCounts{};
  if (!coding) return write_smallest(fields, s, counts, out);
  out[0] = static_cast<std::byte>(*coding);
  return 1 + write_form(*coding, fields, s, counts, out.subspan(1));
}

void read_slice(std::span<const std::byte> in, unsigned s, std::span<std::uint8_t> fields) {
  if (in.empty()) throw PayloadError("payload truncated: no levels where some are expected");
  const auto form = static_cast<unsigned>(in[0]);
  in = in.subspan(1);
  if (form == static_cast<unsigned>(LevelForm::packed)) return read_packed(in, s, fields);
  if (form == static_cast<unsigned>(LevelForm::elias)) return read_sparse(in, s, fields);
  if (form == static_cast<unsigned>(LevelForm::elias_dense)) return read_dense(in, s, fields);
  if (form == static_cast<unsigned>(LevelForm::rans)) return read_rans(in, s, fields);
  if (form != static_cast<unsigned>(LevelForm::rice) || in.empty()) {
    throw PayloadError("payload claims level form " + std::to_string(form) + ", expected one of 0 to " +
                       std::to_string(kLevelForms - 1));
  }
  read_rice(in.subspan(1), s, static_cast<unsigned>(in[0]), fields);
}

std::size_t coded_max_bytes(FieldCoding coding, std::size_t n, unsigned s) {
  const std::size_t slices = wire::ceil_div(n, kSlice);
  return slices * (sizeof(std::uint32_t) + slice_max_bytes(coding, std::min(n, kSlice), s));
}

}  // namespace gossamer::compress

// Slices of levels that no byte holds (level_coding.h).
#include <bit>

#include "bits.h"
#include "level_coding.h"
#include "prefix_read.h"
#include "slice_plan.h"

namespace gossamer::compress {
namespace {

int level_of(std::uint32_t field, LevelRange range) {
  return static_cast<int>(field) - static_cast<int>(range.zero);
}

/// Calls put(code) for every code of a slice.
template <class Put>
void for_dense_codes(std::span<const std::uint32_t> fields, LevelRange range, const Put& put) {
  for (const std::uint32_t field : fields) put(dense_code(level_of(field, range)));
}
template <class Put>
void for_sparse_codes(std::span<const std::uint32_t> fields, LevelRange range, const Put& put) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] == range.zero) continue;
    put(omega(i - next + 1));
    put(sparse_code(level_of(fields[i], range)));
    next = i + 1;
  }
  if (next < fields.size()) put(omega(fields.size() - next + 1));
}

/// Of equally small forms the first.
LevelForm smallest(std::span<const std::uint32_t> fields, LevelRange range) {
  std::uint64_t sparse = 0, dense = 0;
  for_sparse_codes(fields, range, [&](const BitCode& code) { sparse += code.length; });
  for_dense_codes(fields, range, [&](const BitCode& code) { dense += code.length; });
  const std::uint64_t packed = packed_bytes(fields.size(), range);
  sparse = (sparse + 7) / 8;
  dense = (dense + 7) / 8;
  if (packed <= sparse && packed <= dense) return LevelForm::packed;
  return sparse <= dense ? LevelForm::elias : LevelForm::elias_dense;
}

[[noreturn]] void refuse_level() { throw PayloadError("payload holds a level beyond the highest"); }

void read_packed(std::span<const std::byte> in, LevelRange range, std::span<std::uint32_t> fields) {
  if (in.size() != packed_bytes(fields.size(), range))
    throw PayloadError("payload holds fields of another length than it has levels");
  const auto width = static_cast<unsigned>(std::bit_width(range.top));
  BitReader bits(in);
  for (std::uint32_t& field : fields) {
    field = static_cast<std::uint32_t>(bits.take(width));
    if (field > range.top) refuse_level();
  }
  bits.finish();
}

/// Past its end a string reads as zeros; finish() tells.
class CodesReader {
 public:
  CodesReader(std::span<const std::byte> in, LevelRange range, std::span<std::uint32_t> fields)
      : in_(in), range_(range), fields_(fields) {}

  void read(LevelForm form) {
    for (std::size_t i = 0; i < fields_.size();) {
      const std::size_t left = fields_.size() - i;
      const std::uint64_t bits = load_bits(in_, at_);
      const ReadCode code = form == LevelForm::elias ? read_sparse_or_end(bits, left, range_.zero)
                                                     : read_dense_code(bits, range_.zero);
      if (code.length == 0 || code.zeros + (code.last ? 0 : 1) > left) refuse_level();
      std::fill_n(fields_.begin() + static_cast<std::ptrdiff_t>(i), code.zeros, range_.zero);
      i += static_cast<std::size_t>(code.zeros);
      if (!code.last) put(i++, code.level);
      at_ += code.length;
    }
    finish();
  }

 private:
  void put(std::size_t i, int level) {
    const int field = level + static_cast<int>(range_.zero);
    if (field < 0 || field > static_cast<int>(range_.top)) refuse_level();
    fields_[i] = static_cast<std::uint32_t>(field);
  }
  void finish() const {
    const std::uint64_t end = 8 * std::uint64_t{in_.size()};
    if (at_ > end) throw PayloadError("payload truncated: its codes end early");
    if (end - at_ >= 8 || (load_bits(in_, at_) & low_bits(static_cast<unsigned>(end - at_))) != 0)
      throw PayloadError("payload holds bits after its last code");
  }

  std::span<const std::byte> in_;
  LevelRange range_;
  std::span<std::uint32_t> fields_;
  std::uint64_t at_ = 0;  ///< bit
};

}  // namespace

std::size_t write_slice(FieldCoding coding, std::span<const std::uint32_t> fields, LevelRange range,
                        std::span<std::byte> out) {
  const LevelForm form = coding ? *coding : smallest(fields, range);
  out[0] = static_cast<std::byte>(form);
  BitWriter bits(out.subspan(1));
  const auto put = [&bits](const BitCode& code) { bits.put(code.bits, code.length); };
  const auto width = static_cast<unsigned>(std::bit_width(range.top));
  if (form == LevelForm::elias) {
    for_sparse_codes(fields, range, put);
  } else if (form == LevelForm::elias_dense) {
    for_dense_codes(fields, range, put);
  } else {
    for (const std::uint32_t field : fields) bits.put(field, width);
  }
  return 1 + bits.finish();
}

void read_slice(std::span<const std::byte> in, LevelRange range, std::span<std::uint32_t> fields) {
  if (in.empty()) throw PayloadError("payload truncated: no levels where some are expected");
  const auto form = static_cast<unsigned>(in[0]);
  if (form == static_cast<unsigned>(LevelForm::packed)) return read_packed(in.subspan(1), range, fields);
  if (form > static_cast<unsigned>(LevelForm::elias_dense)) {
    throw PayloadError("payload claims level form " + std::to_string(form) + " of more than " +
                       std::to_string(kLevelsMax) + " levels a side, expected one of 0 to 2");
  }
  CodesReader(in.subspan(1), range, fields).read(static_cast<LevelForm>(form));
}

}  // namespace gossamer::compress

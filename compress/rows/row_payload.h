#pragma once
// The bytes of a message of row changes:
//   u8 version, then three parts: what passed the threshold, by the job's codec, rows that changed by up to
//   the mean and by more; outliers and what was flushed, dense
// Each part: varint rows; where there are any
//   varint n rows under numbers, and these as ascending indices (u8 form, varint bytes, indices)
//   varint m rows under keys; u8 w; the first key in 64 bits, then gaps of w bits each
//   varint bytes and the codec's payload of the first `linear` floats of each row; the same of the others
// Rows under numbers come first, each group by ascending number or key.
#include <cstdint>
#include <span>
#include <vector>

#include "gossamer/compress/rows.h"

namespace gossamer::compress {

inline constexpr std::uint8_t kRowsVersion = 1;

/// Rows of one part as they go over the wire. values: numbered rows first, [rows, width].
struct RowPart {
  std::vector<std::uint32_t> numbers;  ///< ascending
  std::vector<std::uint64_t> keys;     ///< ascending
  std::vector<float> values;

  std::size_t rows() const { return numbers.size() + keys.size(); }
  void clear() {
    numbers.clear();
    keys.clear();
    values.clear();
  }
};

/// Appends the part, and puts into part.values what a receiver decodes.
void write_row_part(const RowsSpec& spec, const Codec& codec, RandomKey key, Workspace& workspace,
                    RowPart& part, std::vector<std::byte>& out);
/// Takes a part from the front of `in`; throws PayloadError. codec: name that its floats must be of.
void read_row_part(const RowsSpec& spec, std::string_view codec, std::span<const std::byte>& in,
                   RowPart& part);

}  // namespace gossamer::compress

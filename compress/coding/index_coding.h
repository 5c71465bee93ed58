#pragma once
// Ascending indices of a sparse payload. A gap is the number of entries left out before an index.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "parameters.h"
#include "wire.h"

namespace gossamer::compress {

/// Numbers on the wire. Lowest bits first, padded to a byte.
enum class IndexForm : std::uint8_t {
  rice = 0,    ///< u8 r; the low r bits of every gap; then for every gap gap >> r zeros and a one
  fixed = 1,   ///< 32 bits per index
  packed = 2,  ///< u8 w; w bits per gap, enough for the widest
  elias = 3,   ///< omega of gap + 1
  runs = 4,    ///< 16 bits per gap; 65535 = as many entries left out, and the gap goes on
  bitmap = 5,  ///< one bit per entry of the vector
};
inline constexpr std::size_t kIndexForms = 6;

/// A form, or the smallest of all for these indices.
using IndexCoding = std::optional<IndexForm>;
/// coding=auto (auto, rice, fixed, packed, elias, runs, bitmap).
IndexCoding index_coding_parameter(Parameters& parameters);
std::string_view index_coding_name(IndexCoding coding);

struct IndexPlan {
  IndexForm form = IndexForm::rice;
  std::uint8_t parameter = 0;  ///< r or w
  std::uint64_t bytes = 0;     ///< what write_indices writes
};
/// How to write these ascending indices of n < 2³² entries; of equally small forms the first. With Rice code
/// r is the best there is: within 1 % of the entropy of random indices.
IndexPlan plan_indices(IndexCoding coding, std::span<const std::uint32_t> indices, std::size_t n);
/// The parameter where the form has one, and the indices. The form itself is left to the caller to write.
void write_indices(wire::Writer& out, const IndexPlan& plan, std::span<const std::uint32_t> indices,
                   std::size_t n);
/// Bytes that any `most` or fewer of n entries need at most.
std::size_t indices_max_bytes(IndexCoding coding, std::size_t most, std::size_t n);

/// Reads the indices of one payload, in order and a block at a time. Those it gives are ascending and under
/// n; throws PayloadError for all else.
class IndexReader {
 public:
  static constexpr std::size_t kBlock = 256;

  /// `in` holds what write_indices wrote and nothing more; form is as the payload claims it. Throws
  /// PayloadError from 2³² entries on.
  IndexReader(std::span<const std::byte> in, unsigned form, std::size_t count, std::size_t n);
  /// The next out.size() ≤ kBlock indices, no more than are left.
  void read(std::span<std::uint32_t> out);
  /// Throws where anything but padding of zeros is left. Call it after the last read().
  void finish() const;

 private:
  void start_bits(unsigned width);
  void read_rice(std::span<std::uint32_t> out);
  void read_fixed(std::span<std::uint32_t> out);
  void read_packed(std::span<std::uint32_t> out);
  void read_elias(std::span<std::uint32_t> out);
  void read_runs(std::span<std::uint32_t> out);
  void read_bitmap(std::span<std::uint32_t> out);
  /// Turns next_one_ to the position after the next one bit, which it returns.
  std::uint64_t next_one();

  std::span<const std::byte> in_;
  IndexForm form_;
  unsigned width_ = 0;  ///< r or w
  std::uint64_t n_;
  std::uint64_t next_ = 0;  ///< the index after the last one read
  std::uint64_t at_ = 0;    ///< bit after the last field read
  std::uint64_t ones_ = 0;  ///< bit after the last one bit found (rice, bitmap)
  std::uint64_t base_ = 0;  ///< bit at which word_ was loaded
  std::uint64_t word_ = 0;  ///< its one bits that are not read yet
};

}  // namespace gossamer::compress

#include "level_kernels_inline.h"

namespace gossamer::compress {

Measured measure(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  return plain::measure(what, x, e, v, n);
}

void draw(const EntryBits& random, std::size_t group, Draws& draws) { random.words(group, draws.words); }

void quantise(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
              std::uint8_t* fields, float* residual) {
  plain::quantise(levels, v, n, draws, first, fields, residual);
}

void add_levels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  plain::add_levels(levels, fields, weight, acc, n);
}

void pack_pairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  plain::pack_pairs(bits, fields, n, out);
}

void unpack_pairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  plain::unpack_pairs(bits, in, n, fields);
}

void pack_trits(const std::uint8_t* digits, std::size_t row, std::uint8_t* out) {
  plain::pack_trits(digits, row, 0, out);
}

bool unpack_trits(const std::uint8_t* in, std::size_t row, std::uint8_t* digits) {
  return plain::unpack_trits(in, row, 0, digits);
}

std::size_t encode_groups(const BucketRule&, const float*, float*, std::size_t, const EntryBits&, std::size_t,
                          std::byte*, std::uint8_t*) {
  return 0;
}

bool all_within(const std::uint8_t* fields, std::size_t n, unsigned top) {
  return plain::all_within(fields, n, top);
}

}  // namespace gossamer::compress

#include <algorithm>
#include <cassert>

#include "gossamer/compress/kernels.h"
#include "kernels_inline.h"

namespace gossamer::compress {

void axpy(float a, std::span<const float> x, std::span<float> y) {
  assert(x.size() == y.size());
  plain::axpy(a, x.data(), y.data(), x.size());
}

void pack_signs(std::span<const float> x, std::span<std::uint32_t> words) {
  assert(words.size() >= (x.size() + 31) / 32);
  for (std::size_t i = 0; i < x.size(); i += 32) {
    words[i / 32] = plain::sign_word(x.data() + i, std::min<std::size_t>(32, x.size() - i));
  }
}

void add_signs(std::span<const std::uint32_t> words, float magnitude, std::span<float> y) {
  assert(words.size() >= (y.size() + 31) / 32);
  for (std::size_t i = 0; i < y.size(); i += 32) {
    plain::add_sign_word(words[i / 32], magnitude, y.data() + i, std::min<std::size_t>(32, y.size() - i));
  }
}

Norms norms(std::span<const float> x) {
  plain::BlockTree tree;
  for (std::size_t i = 0; i < x.size(); i += plain::kBlock) {
    plain::BlockSums sums;
    plain::add_to_lanes(x.data() + i, std::min(plain::kBlock, x.size() - i), sums);
    tree.add(plain::combine_lanes(sums.l1), plain::combine_lanes(sums.l2_squared));
  }
  return {tree.l1(), tree.l2_squared()};
}

}  // namespace gossamer::compress

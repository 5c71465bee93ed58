#include "coding_error.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "gossamer/compress/codec.h"

namespace gossamer::node {

double coding_error(const std::string& spec) {
  constexpr std::size_t kEntries = 16384, kSummed = 6;
  std::vector<float> v(kEntries, 0.0f);
  std::minstd_rand random(1);  // its sequence is fixed by the standard
  for (float& x : v)
    for (std::size_t i = 0; i < kSummed; ++i)
      x += static_cast<float>(static_cast<double>(random()) / static_cast<double>(std::minstd_rand::max()) -
                              0.5);
  const auto codec = compress::make_codec(spec);
  std::vector<std::byte> bytes(codec->max_bytes(kEntries));
  compress::Workspace workspace;
  bytes.resize(codec->encode(v, {}, workspace, bytes));
  double size = 0, error = 0;
  for (const float x : v) size += static_cast<double>(x) * static_cast<double>(x);
  compress::decode_add(bytes, -1.0f, v);
  for (const float x : v) error += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(error / size);
}

}  // namespace gossamer::node

#pragma once
// PayloadCheck tells whether a payload from elsewhere can be used, before anything is made of it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gossamer::compress {

/// Whether the payload's head says that it stands for so many numbers, and is of the codec of that spec
/// ("qsgd:bits=4"; parameters may differ) or dense. The rest is not looked at: to decode it throws where it
/// is not what the head says.
bool names_itself(std::span<const std::byte> payload, std::uint64_t entries, std::string_view spec);

/// Reads the payload; of some codecs it decodes into memory of its own that no one reads. Not thread-safe.
class PayloadCheck {
 public:
  /// Whether the payload names itself so, and decodes to exactly `entries` numbers, all finite.
  bool operator()(std::span<const std::byte> payload, std::uint64_t entries, std::string_view spec);

 private:
  std::vector<float> scratch_;
};

}  // namespace gossamer::compress

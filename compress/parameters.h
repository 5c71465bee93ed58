#pragma once
// The "key=value,key=value" part of a codec spec.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gossamer::compress {

/// Read by one factory: each getter names a key that may stand there and returns its value or the default;
/// finish() then refuses every other key. All throw CodecError.
class Parameters {
 public:
  /// spec is kept for messages; text is what follows the ':' (may be empty). Both must outlive this.
  Parameters(std::string_view spec, std::string_view text);

  std::size_t integer(std::string_view key, std::size_t fallback, std::string_view expected,
                      bool (*valid)(std::size_t));
  double real(std::string_view key, double fallback, std::string_view expected, bool (*valid)(double));
  /// Index into choices; choices[0] is the default.
  std::size_t choice(std::string_view key, std::span<const std::string_view> choices);
  /// The text of key as it stands, or empty.
  std::string_view text(std::string_view key);
  void finish();
  [[noreturn]] void refuse(std::string_view key, std::string_view found, std::string_view expected) const;

 private:
  std::string_view spec_;
  std::vector<std::pair<std::string_view, std::string_view>> values_;
  std::vector<std::string_view> asked_;
};

/// Shortest text that reads back as the same number.
std::string to_text(double value);

/// bucket=512: a multiple of 32 up to 1048576.
std::size_t bucket_parameter(Parameters& parameters);

}  // namespace gossamer::compress

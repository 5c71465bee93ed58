#include "public_key.h"

#include <fmt/format.h>
#include <sodium.h>

#include <stdexcept>

#include "text.h"

namespace gossamer::node {

std::string text_of(const PublicKey& key) {
  std::string text(2 * PublicKey::kSize + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), key.bytes.data(), key.bytes.size());
  text.pop_back();
  return text;
}

std::optional<PublicKey> public_key_of(std::string_view text) {
  PublicKey key;
  std::size_t size = 0;
  const char* end = nullptr;
  if (text.size() != 2 * PublicKey::kSize ||
      sodium_hex2bin(key.bytes.data(), key.bytes.size(), text.data(), text.size(), nullptr, &size, &end) !=
          0 ||
      size != key.bytes.size() || end != text.data() + text.size())
    return std::nullopt;
  return key;
}

PublicKey read_public_key(std::string_view text) {
  if (const auto key = public_key_of(text)) return *key;
  throw std::invalid_argument(
      fmt::format("found {}, {} characters; expected a public key: 64 hexadecimal digits, as 'gossamer keys "
                  "show' prints them",
                  in_quotes(shortened(text)), text.size()));
}

}  // namespace gossamer::node

#include "certificate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "gossamer/node/errors.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::string_view kMagic = "GSMCERT1", kDomain = "gossamer certificate\n",
                           kPrefix = "gossamer-certificate:";
constexpr std::size_t kFixed = kMagic.size() + PublicKey::kSize + 8 + 1;

void put(std::vector<std::byte>& out, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

std::vector<std::byte> unsigned_bytes(const Certificate& c) {
  std::vector<std::byte> out;
  put(out, kMagic.data(), kMagic.size());
  put(out, c.key.bytes.data(), c.key.bytes.size());
  const auto time = static_cast<std::uint64_t>(c.not_after_s);
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(time >> (8 * i)));
  out.push_back(static_cast<std::byte>(c.name.size()));
  put(out, c.name.data(), c.name.size());
  return out;
}

std::vector<std::byte> signed_text(const Certificate& c) {
  std::vector<std::byte> text;
  put(text, kDomain.data(), kDomain.size());
  const auto body = unsigned_bytes(c);
  put(text, body.data(), body.size());
  return text;
}

}  // namespace

Certificate sign_certificate(const KeyPair& authority, const std::string& name, const PublicKey& key,
                             std::int64_t not_after_s) {
  assert(authority.kind == KeyKind::authority && !name.empty() && name.size() <= Certificate::kMostName);
  Certificate c{.name = name, .key = key, .not_after_s = not_after_s};
  Secret whole(crypto_sign_SECRETKEYBYTES);
  PublicKey own;
  crypto_sign_seed_keypair(own.bytes.data(), whole.bytes().data(), authority.secret.bytes().data());
  const auto text = signed_text(c);
  crypto_sign_detached(c.signature.data(), nullptr, reinterpret_cast<const unsigned char*>(text.data()),
                       text.size(), whole.bytes().data());
  return c;
}

bool is_signed_by(const Certificate& c, const PublicKey& authority) {
  const auto text = signed_text(c);
  return crypto_sign_verify_detached(c.signature.data(), reinterpret_cast<const unsigned char*>(text.data()),
                                     text.size(), authority.bytes.data()) == 0;
}

std::vector<std::byte> encode_certificate(const Certificate& c) {
  auto out = unsigned_bytes(c);
  put(out, c.signature.data(), c.signature.size());
  return out;
}

std::optional<Certificate> decode_certificate(std::span<const std::byte> bytes) {
  if (bytes.size() < kFixed + 1 + Certificate::kSignature || bytes.size() > Certificate::kMostBytes ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return std::nullopt;
  const auto length = std::to_integer<std::size_t>(bytes[kFixed - 1]);
  if (length == 0 || length > Certificate::kMostName ||
      bytes.size() != kFixed + length + Certificate::kSignature)
    return std::nullopt;
  Certificate c;
  std::memcpy(c.key.bytes.data(), bytes.data() + kMagic.size(), PublicKey::kSize);
  std::uint64_t time = 0;
  for (int i = 7; i >= 0; --i)
    time = time << 8 | std::to_integer<std::uint64_t>(
                           bytes[kMagic.size() + PublicKey::kSize + static_cast<std::size_t>(i)]);
  c.not_after_s = static_cast<std::int64_t>(time);
  c.name.assign(reinterpret_cast<const char*>(bytes.data()) + kFixed, length);
  std::memcpy(c.signature.data(), bytes.data() + kFixed + length, Certificate::kSignature);
  return c;
}

std::string text_of(const Certificate& c) {
  const auto bytes = encode_certificate(c);
  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), kVariant);
  text.pop_back();
  return std::string(kPrefix) + text;
}

std::optional<Certificate> certificate_of(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  std::vector<std::byte> bytes(Certificate::kMostBytes);
  std::size_t size = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, &end, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
      end != text.data() + text.size())
    return std::nullopt;
  return decode_certificate(std::span(bytes).first(size));
}

Certificate read_certificate_file(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    throw ConfigError(
        fmt::format("{}: {}; expected a certificate: gossamer keys sign", path, std::strerror(errno)));
  std::string line(4096, '\0');
  for (std::size_t number = 1; in.getline(line.data(), static_cast<std::streamsize>(line.size())); ++number) {
    const std::string_view text(line.data());
    if (text.empty() || text.front() == '#') continue;
    if (auto certificate = certificate_of(text)) return *certificate;
    throw ConfigError(fmt::format("{}:{}: no certificate; expected '{}...' as 'gossamer keys sign' writes it",
                                  path, number, kPrefix));
  }
  throw ConfigError(fmt::format(
      "{}: holds no certificate; expected '{}...' as 'gossamer keys sign' writes it", path, kPrefix));
}

void write_certificate_file(const std::string& path, const Certificate& c) {
  std::ofstream out(path, std::ios::trunc);
  out << "# admits " << c.name << ", whose key is " << text_of(c.key) << ", until "
      << time_text(c.not_after_s) << '\n'
      << text_of(c) << '\n';
  out.close();
  if (!out) throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
}

std::int64_t unix_now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string time_text(std::int64_t unix_s) {
  constexpr std::int64_t kLast = 253402300799;  // of year 9999
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(static_cast<std::time_t>(std::clamp<std::int64_t>(unix_s, 0, kLast))));
}

}  // namespace gossamer::node

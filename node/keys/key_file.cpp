#include "key_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>

#include "gossamer/node/errors.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostBytes = 4096;
constexpr std::array kWords{std::string_view("kind"), std::string_view("name"), std::string_view("public"),
                            std::string_view("secret")};

/// A file's number, closed when the object goes.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

void start_library() {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be used on this machine");
}

PublicKey public_of(KeyKind kind, const Secret& secret) {
  PublicKey key;
  if (kind == KeyKind::peer) {
    if (crypto_scalarmult_base(key.bytes.data(), secret.bytes().data()) != 0)
      throw std::runtime_error("libsodium refuses a secret key");
    return key;
  }
  Secret whole(crypto_sign_SECRETKEYBYTES);
  crypto_sign_seed_keypair(key.bytes.data(), whole.bytes().data(), secret.bytes().data());
  return key;
}

void check_owner(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode))
    throw ConfigError(fmt::format("{}: not a regular file; expected a key file", path));
  if (status.st_uid != geteuid() && status.st_uid != 0)
    throw ConfigError(
        fmt::format("{}: belongs to another user (number {}); expected your own: copy it, with mode 0600",
                    path, status.st_uid));
  if ((status.st_mode & 077) != 0)
    throw ConfigError(fmt::format("{0}: others may use it (mode {1:04o}); expected 0600: chmod 600 {0}", path,
                                  status.st_mode & 07777));
}

/// The whole file, and not what lies behind kMostBytes.
std::size_t read_all(const File& file, std::span<unsigned char> into, const std::string& path) {
  std::size_t size = 0;
  while (size < into.size()) {
    const ssize_t n = ::read(file.number(), into.data() + size, into.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
    if (n == 0) return size;
    size += static_cast<std::size_t>(n);
  }
  throw ConfigError(
      fmt::format("{}: longer than any key file; expected one that 'gossamer keys new' made", path));
}

/// word = "value"; empty where the line is none such.
struct Entry {
  std::string_view word, value;
};
std::optional<Entry> entry_of(std::string_view line) {
  const std::size_t equals = line.find(" = \"");
  if (equals == std::string_view::npos || line.size() < equals + 5 || line.back() != '"') return std::nullopt;
  return Entry{line.substr(0, equals), line.substr(equals + 4, line.size() - equals - 5)};
}

}  // namespace

std::string_view name_of(KeyKind kind) { return kind == KeyKind::peer ? "peer" : "authority"; }

KeyPair make_key_pair(KeyKind kind, const std::string& name) {
  start_library();
  KeyPair pair;
  pair.kind = kind;
  pair.name = name;
  randombytes_buf(pair.secret.bytes().data(), pair.secret.bytes().size());
  pair.public_key = public_of(kind, pair.secret);
  return pair;
}

void write_key_file(const std::string& path, const KeyPair& pair) {
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.number() < 0 && errno == EEXIST)
    throw ConfigError(fmt::format(
        "{}: is there already, and keys are not written over; expected a new name (--out)", path));
  if (file.number() < 0) throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
  const std::string head = fmt::format(
      "# A secret key of Gossamer: who reads this file can {}.\nkind = \"{}\"\nname = \"{}\"\npublic = "
      "\"{}\"\nsecret = \"",
      pair.kind == KeyKind::peer ? "speak as this peer" : "admit peers", name_of(pair.kind), pair.name,
      text_of(pair.public_key));
  Secret text(head.size() + 2 * pair.secret.bytes().size() + 2);
  std::copy(head.begin(), head.end(), text.bytes().begin());
  auto* digits = reinterpret_cast<char*>(text.bytes().data() + head.size());
  sodium_bin2hex(digits, 2 * pair.secret.bytes().size() + 1, pair.secret.bytes().data(),
                 pair.secret.bytes().size());
  std::memcpy(text.bytes().data() + text.bytes().size() - 2, "\"\n", 2);
  std::size_t done = 0;
  while (done < text.bytes().size()) {
    const ssize_t n = ::write(file.number(), text.bytes().data() + done, text.bytes().size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (done == text.bytes().size() && ::fsync(file.number()) == 0) return;
  const int error = errno;
  ::unlink(path.c_str());
  throw ConfigError(fmt::format("{}: {}; nothing is left there", path, std::strerror(error)));
}

KeyPair read_key_file(const std::string& path) {
  start_library();
  const File file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0)
    throw ConfigError(
        fmt::format("{}: {}; expected a key file: gossamer keys new NAME", path, std::strerror(errno)));
  check_owner(path, status);
  Secret text(kMostBytes);
  const std::size_t size = read_all(file, text.bytes(), path);
  std::map<std::string_view, std::string_view> entries;
  std::string_view rest(reinterpret_cast<const char*>(text.bytes().data()), size);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    const auto entry = entry_of(line);
    if (!entry || std::find(kWords.begin(), kWords.end(), entry->word) == kWords.end() ||
        !entries.emplace(entry->word, entry->value).second)
      throw ConfigError(fmt::format("{}:{}: no line of a key file; expected one each of {} = \"...\"", path,
                                    number, fmt::join(kWords, ", ")));
  }
  for (const std::string_view word : kWords)
    if (!entries.contains(word))
      throw ConfigError(
          fmt::format("{}: there is no '{}'; expected a file that 'gossamer keys new' made", path, word));
  KeyPair pair;
  if (entries["kind"] == name_of(KeyKind::authority))
    pair.kind = KeyKind::authority;
  else if (entries["kind"] != name_of(KeyKind::peer))
    throw ConfigError(
        fmt::format("{}: the kind is another than \"peer\" and \"authority\"; expected a file "
                    "that 'gossamer keys new' made",
                    path));  // not shown: in a damaged file it may be the secret
  pair.name = entries["name"];
  const auto key = public_key_of(entries["public"]);
  const std::string_view digits = entries["secret"];
  std::size_t bytes = 0;
  const bool right = digits.size() == 2 * pair.secret.bytes().size() &&
                     sodium_hex2bin(pair.secret.bytes().data(), pair.secret.bytes().size(), digits.data(),
                                    digits.size(), nullptr, &bytes, nullptr) == 0 &&
                     bytes == pair.secret.bytes().size();
  if (!right)
    throw ConfigError(fmt::format("{}: the secret is not 64 hexadecimal digits; make another key", path));
  pair.public_key = public_of(pair.kind, pair.secret);
  if (!key || *key != pair.public_key)
    throw ConfigError(fmt::format("{}: the public key is not that of the secret one, which is {}", path,
                                  text_of(pair.public_key)));
  return pair;
}

}  // namespace gossamer::node

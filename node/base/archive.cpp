#include "archive.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "hash.h"

namespace gossamer::node {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::array<char, 8> kStateMark{'g', 's', 's', 't', 'a', 't', 'e', '1'};
constexpr std::array kElement{1, 8, 4, 8};  ///< bytes, by kind
constexpr std::array kKindNames{"bytes", "numbers", "floats", "doubles"};

std::size_t element(NamedArray::Kind kind) {
  return static_cast<std::size_t>(kElement[static_cast<std::size_t>(kind)]);
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void append(std::vector<std::byte>& out, std::uint64_t number) {
  append(out, std::as_bytes(std::span(&number, 1)));
}

/// Reads on from where it stands; never beyond the end.
class StateReader {
 public:
  explicit StateReader(std::span<const std::byte> bytes) : left_(bytes) {}
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > left_.size())
      throw StateError(
          fmt::format("a saved state ends after {} bytes, and {} more were expected", at_, size));
    const auto taken = left_.first(size);
    left_ = left_.subspan(size);
    at_ += size;
    return taken;
  }
  std::uint64_t number() {
    std::uint64_t n;
    std::memcpy(&n, take(sizeof n).data(), sizeof n);
    return n;
  }
  bool done() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
  std::uint64_t at_ = 0;
};

}  // namespace

std::vector<std::byte> to_bytes(const State& state) {
  std::vector<std::byte> out;
  append(out, std::as_bytes(std::span(kStateMark)));
  append(out, state.size());
  for (const auto& [name, array] : state) {
    append(out, name.size());
    append(out, std::as_bytes(std::span(name)));
    append(out, static_cast<std::uint64_t>(array.kind));
    append(out, array.bytes.size());
    append(out, array.bytes);
  }
  append(out, hash_bytes(out));
  return out;
}

State state_from_bytes(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0;
  if (bytes.size() < kStateMark.size() + sizeof hash ||
      std::memcmp(bytes.data(), kStateMark.data(), kStateMark.size()) != 0)
    throw StateError(fmt::format("these {} bytes are no saved state", bytes.size()));
  const auto body = bytes.first(bytes.size() - sizeof hash);
  std::memcpy(&hash, bytes.data() + body.size(), sizeof hash);
  if (hash_bytes(body) != hash) throw StateError("a saved state was changed or cut short");
  StateReader reader(body.subspan(kStateMark.size()));
  State state;
  for (std::uint64_t n = reader.number(); n > 0; --n) {
    const auto name = reader.take(reader.number());
    const std::uint64_t kind = reader.number();
    if (kind >= kElement.size()) throw StateError(fmt::format("a saved state has an array of kind {}", kind));
    const auto values = reader.take(reader.number());
    state[std::string(reinterpret_cast<const char*>(name.data()), name.size())] = {
        static_cast<NamedArray::Kind>(kind), {values.begin(), values.end()}};
  }
  if (!reader.done()) throw StateError("a saved state goes on behind its last array");
  return state;
}

void Archive::put(std::string_view name, NamedArray::Kind kind, std::span<const std::byte> bytes) {
  (*to_)[prefix_ + std::string(name)] = {kind, {bytes.begin(), bytes.end()}};
}

std::span<const std::byte> Archive::get(std::string_view name, NamedArray::Kind kind,
                                        std::size_t length) const {
  const auto at = from_->find(prefix_ + std::string(name));
  if (at == from_->end()) refuse(name, "is missing");
  const NamedArray& array = at->second;
  if (array.kind != kind || array.bytes.size() % element(kind) != 0)
    refuse(name, fmt::format("holds {}; expected {}", kKindNames[static_cast<std::size_t>(array.kind)],
                             kKindNames[static_cast<std::size_t>(kind)]));
  if (const std::size_t found = array.bytes.size() / element(kind); length != kAnyLength && found != length)
    refuse(name, fmt::format("holds {} {}; expected {}", found, kKindNames[static_cast<std::size_t>(kind)],
                             length));
  return array.bytes;
}

void Archive::refuse(std::string_view name, const std::string& why) const {
  throw StateError(fmt::format("the saved state does not fit this run: '{}{}' {}", prefix_, name, why));
}

void Archive::out_of_range(std::string_view name) const { refuse(name, "holds a number that is too large"); }

template <class T>
void Archive::array(std::string_view name, NamedArray::Kind kind, std::vector<T>& v, std::size_t length) {
  if (!restores()) return put(name, kind, std::as_bytes(std::span(v)));
  const auto bytes = get(name, kind, length);
  v.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(v.data(), bytes.data(), bytes.size());
}

void Archive::floats(std::string_view name, std::span<float> v) {
  if (!restores()) return put(name, NamedArray::Kind::floats, std::as_bytes(v));
  const auto bytes = get(name, NamedArray::Kind::floats, v.size());
  if (!bytes.empty()) std::memcpy(v.data(), bytes.data(), bytes.size());
}
void Archive::numbers(std::string_view name, std::span<std::uint64_t> v) {
  if (!restores()) return put(name, NamedArray::Kind::numbers, std::as_bytes(v));
  const auto bytes = get(name, NamedArray::Kind::numbers, v.size());
  if (!bytes.empty()) std::memcpy(v.data(), bytes.data(), bytes.size());
}
void Archive::floats(std::string_view name, std::vector<float>& v) {
  array(name, NamedArray::Kind::floats, v, kAnyLength);
}
void Archive::numbers(std::string_view name, std::vector<std::uint64_t>& v, std::size_t length) {
  array(name, NamedArray::Kind::numbers, v, length);
}
void Archive::doubles(std::string_view name, std::vector<double>& v, std::size_t length) {
  array(name, NamedArray::Kind::doubles, v, length);
}
void Archive::bytes(std::string_view name, std::vector<std::byte>& v) {
  array(name, NamedArray::Kind::bytes, v, kAnyLength);
}

}  // namespace gossamer::node

#include "archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "hash.h"

namespace gossamer::node {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::array<char, 8> kStateMark{'g', 's', 's', 't', 'a', 't', 'e', '1'};  ///< the last: the version
constexpr std::array kElement{1, 8, 4, 8};                                         ///< bytes, by kind
constexpr std::array kKindNames{"bytes", "numbers", "floats", "doubles"};

/// Reads on from where it stands; never beyond the end of what the state's hash is of.
class StateReader {
 public:
  explicit StateReader(const ByteSource& source) : source_(source) {
    std::array<char, kStateMark.size()> mark{};
    if (source.size >= mark.size() + sizeof(std::uint64_t))
      source.read(0, std::as_writable_bytes(std::span(mark)));
    if (!std::equal(mark.begin(), mark.end() - 1, kStateMark.begin()) || mark.back() < kStateMark.back())
      throw StateError(fmt::format("these {} bytes are no saved state", source.size));
    if (mark.back() > kStateMark.back())
      throw StateError(fmt::format("version {} of a saved state; this program reads {}; use a newer gossamer",
                                   mark.back(), kStateMark.back()));
    end_ = source.size - sizeof(std::uint64_t);
    at_ = mark.size();
    hash_.add(std::as_bytes(std::span(mark)));
  }

  void take(std::span<std::byte> into) {
    source_.read(at_, into);
    hash_.add(into);
    skip(into.size());
  }
  void skip(std::uint64_t size) { at_ += size; }
  std::uint64_t number() {
    std::uint64_t n = 0;
    require(sizeof n);
    take(std::as_writable_bytes(std::span(&n, 1)));
    return n;
  }
  /// A number of bytes that follow.
  std::uint64_t size() {
    const std::uint64_t n = number();
    require(n);
    return n;
  }
  bool done() const { return at_ == end_; }
  /// Whether all that was taken has the hash that stands at the end.
  bool intact() const {
    std::uint64_t hash = 0;
    source_.read(end_, std::as_writable_bytes(std::span(&hash, 1)));
    return hash_.value() == hash;
  }

 private:
  void require(std::uint64_t size) const {
    if (size > end_ - at_)
      throw StateError(
          fmt::format("a saved state ends after {} bytes, and {} more were expected", at_, size));
  }

  const ByteSource& source_;
  std::uint64_t at_ = 0, end_ = 0;
  Hasher hash_;
};

/// Calls function(outline) of each array, which takes or skips its bytes.
template <class Function>
void for_each_array(StateReader& reader, Function function) {
  for (std::uint64_t n = reader.number(); n > 0; --n) {
    ArrayOutline outline;
    outline.name.resize(reader.size());
    reader.take(std::as_writable_bytes(std::span(outline.name)));
    const std::uint64_t kind = reader.number();
    if (kind >= kElement.size()) throw StateError(fmt::format("a saved state has an array of kind {}", kind));
    outline.kind = static_cast<NamedArray::Kind>(kind);
    outline.bytes = reader.size();
    function(std::move(outline));
  }
  if (!reader.done()) throw StateError("a saved state goes on behind its last array");
}

ByteSource source_of(std::span<const std::byte> bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> into) {
            std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
          }};
}

}  // namespace

std::string_view kind_name(NamedArray::Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::size_t element_bytes(NamedArray::Kind kind) {
  return static_cast<std::size_t>(kElement[static_cast<std::size_t>(kind)]);
}

void write_state(const State& state, const ByteSink& sink, std::string_view without) {
  Hasher hash;
  const auto put = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    sink(bytes);
  };
  const auto put_number = [&](std::uint64_t number) { put(std::as_bytes(std::span(&number, 1))); };
  const bool omits = !without.empty() && state.contains(std::string(without));
  put(std::as_bytes(std::span(kStateMark)));
  put_number(state.size() - (omits ? 1 : 0));
  for (const auto& [name, array] : state) {
    if (omits && name == without) continue;
    put_number(name.size());
    put(std::as_bytes(std::span(name)));
    put_number(static_cast<std::uint64_t>(array.kind));
    put_number(array.bytes.size());
    put(array.bytes);
  }
  const std::uint64_t total = hash.value();
  sink(std::as_bytes(std::span(&total, 1)));
}

State read_state(const ByteSource& source) {
  StateReader reader(source);
  State state;
  for_each_array(reader, [&](ArrayOutline outline) {
    NamedArray array{outline.kind, std::vector<std::byte>(outline.bytes)};
    reader.take(array.bytes);
    state[std::move(outline.name)] = std::move(array);
  });
  if (!reader.intact()) throw StateError("a saved state was changed or cut short");
  return state;
}

std::vector<ArrayOutline> outline_of_state(const ByteSource& source) {
  StateReader reader(source);
  std::vector<ArrayOutline> outlines;
  for_each_array(reader, [&](ArrayOutline outline) {
    reader.skip(outline.bytes);
    outlines.push_back(std::move(outline));
  });
  return outlines;
}

std::vector<std::byte> to_bytes(const State& state) {
  std::vector<std::byte> out;
  write_state(state,
              [&](std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); });
  return out;
}

State state_from_bytes(std::span<const std::byte> bytes) { return read_state(source_of(bytes)); }

void Archive::put(std::string_view name, NamedArray::Kind kind, std::span<const std::byte> bytes) {
  std::string whole = prefix_ + std::string(name);
  if (used_) to_->insert(used_->extract(whole));
  NamedArray& array = (*to_)[std::move(whole)];
  array.kind = kind;
  array.bytes.assign(bytes.begin(), bytes.end());
}

std::span<const std::byte> Archive::get(std::string_view name, NamedArray::Kind kind,
                                        std::size_t length) const {
  const auto at = from_->find(prefix_ + std::string(name));
  if (at == from_->end()) refuse(name, "is missing");
  const NamedArray& array = at->second;
  if (array.kind != kind || array.bytes.size() % element_bytes(kind) != 0)
    refuse(name, fmt::format("holds {}; expected {}", kind_name(array.kind), kind_name(kind)));
  if (const std::size_t found = array.bytes.size() / element_bytes(kind);
      length != kAnyLength && found != length)
    refuse(name, fmt::format("holds {} {}; expected {}", found, kind_name(kind), length));
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

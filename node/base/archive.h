#pragma once
// An Archive writes what an object keeps into a State, a list of named arrays, or reads it back from one: the
// object's archive() names each piece once, for both ways.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "byte_stream.h"
#include "gossamer/node/errors.h"

namespace gossamer::node {

struct NamedArray {
  enum class Kind : std::uint8_t { bytes, numbers, floats, doubles } kind = Kind::bytes;
  std::vector<std::byte> bytes;  ///< of its elements, little-endian: 1, 8, 4 or 8 each
  bool operator==(const NamedArray&) const = default;
};
/// By name; a scalar is an array of one.
using State = std::map<std::string, NamedArray>;
/// One whose memory is used again when nobody reads it any more.
using SharedState = std::shared_ptr<State>;

/// With an XXH3 of the whole, so that what was cut short or changed is seen.
std::vector<std::byte> to_bytes(const State& state);
/// Throws StateError.
State state_from_bytes(std::span<const std::byte> bytes);
/// The same bytes, piece by piece; of the state without the array of a name, if one is given.
void write_state(const State& state, const ByteSink& sink, std::string_view without = {});
/// Throws StateError, and what the source throws.
State read_state(const ByteSource& source);

struct ArrayOutline {
  std::string name;
  NamedArray::Kind kind = NamedArray::Kind::bytes;
  std::uint64_t bytes = 0;
};
std::string_view kind_name(NamedArray::Kind kind);
std::size_t element_bytes(NamedArray::Kind kind);
/// What read_state would find, without the arrays' bytes, and so without a look at the hash.
std::vector<ArrayOutline> outline_of_state(const ByteSource& source);

class Archive {
 public:
  /// used: a state that nobody needs, of much the same arrays; their memory is taken (memory that is new to a
  /// process takes many times as long to fill), the rest is left in it.
  static Archive saving(State& state, State* used = nullptr) { return Archive(&state, nullptr, used, ""); }
  static Archive restoring(const State& state) { return Archive(nullptr, &state, nullptr, ""); }
  bool restores() const { return from_ != nullptr; }
  /// The pieces of a part, whose names begin with the part's.
  Archive part(std::string_view name) const {
    return Archive(to_, from_, used_, prefix_ + std::string(name) + "/");
  }
  Archive part(std::string_view name, std::size_t number) const {
    return part(std::string(name) + std::to_string(number));
  }

  // When restoring each throws StateError where there is no such array, or one of another kind or size.

  /// An integer, a bool or an enumeration; or a double.
  template <class T>
  void value(std::string_view name, T& v) {
    if constexpr (std::is_floating_point_v<T>) {
      std::vector<double> one{static_cast<double>(v)};
      doubles(name, one, 1);
      v = static_cast<T>(one[0]);
    } else {
      std::vector<std::uint64_t> one{static_cast<std::uint64_t>(v)};
      numbers(name, one, 1);
      if (static_cast<std::uint64_t>(static_cast<T>(one[0])) != one[0]) out_of_range(name);
      v = static_cast<T>(one[0]);
    }
  }
  /// As long as it is.
  void floats(std::string_view name, std::span<float> v);
  void numbers(std::string_view name, std::span<std::uint64_t> v);
  /// Of any length; where restoring, of that length alone if one is given.
  static constexpr std::size_t kAnyLength = static_cast<std::size_t>(-1);
  void floats(std::string_view name, std::vector<float>& v);
  void numbers(std::string_view name, std::vector<std::uint64_t>& v, std::size_t length = kAnyLength);
  void doubles(std::string_view name, std::vector<double>& v, std::size_t length = kAnyLength);
  void bytes(std::string_view name, std::vector<std::byte>& v);
  /// A container of integers or bools, written as numbers. length: as above.
  template <class List>
  void list(std::string_view name, List& v, std::size_t length = kAnyLength) {
    using T = typename List::value_type;
    std::vector<std::uint64_t> all;
    if (!restores())
      for (const auto& x : v) all.push_back(static_cast<std::uint64_t>(x));
    numbers(name, all, length);
    if (!restores()) return;
    v.clear();
    for (const std::uint64_t x : all) {
      if (static_cast<std::uint64_t>(static_cast<T>(x)) != x) out_of_range(name);
      v.push_back(static_cast<T>(x));
    }
  }
  /// Whether restoring finds an array of this name; saving, always.
  bool has(std::string_view name) const { return !from_ || from_->contains(prefix_ + std::string(name)); }
  /// Throws StateError: what the array of this name holds is not as expected.
  [[noreturn]] void refuse(std::string_view name, const std::string& why) const;

 private:
  Archive(State* to, const State* from, State* used, std::string prefix)
      : to_(to), from_(from), used_(used), prefix_(std::move(prefix)) {}
  void put(std::string_view name, NamedArray::Kind kind, std::span<const std::byte> bytes);
  std::span<const std::byte> get(std::string_view name, NamedArray::Kind kind, std::size_t length) const;
  [[noreturn]] void out_of_range(std::string_view name) const;
  template <class T>
  void array(std::string_view name, NamedArray::Kind kind, std::vector<T>& v, std::size_t length);

  State* to_;
  const State* from_;
  State* used_;
  std::string prefix_;
};

}  // namespace gossamer::node

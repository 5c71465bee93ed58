#pragma once
// What senders and receivers of rows share: numbers of keys, changes in order of their keys, and the bytes of
// a saved state.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gossamer/compress/rows.h"

namespace gossamer::compress {

/// Keys that went in full get the next numbers, as long as there are any.
inline void give_numbers(const RowsSpec& spec, const std::vector<std::uint64_t>& keys,
                         std::vector<std::uint64_t>& numbered) {
  for (const std::uint64_t key : keys)
    if (numbered.size() < spec.most_numbered) numbered.push_back(key);
}

/// places: a key and where its row begins in values.
inline void sort_changes(std::vector<std::pair<std::uint64_t, std::size_t>>& places,
                         const std::vector<float>& values, std::size_t width, RowChanges& changes) {
  std::sort(places.begin(), places.end());
  changes.keys.clear();
  changes.values.clear();
  for (const auto& [key, begin] : places) {
    changes.keys.push_back(key);
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(begin);
    changes.values.insert(changes.values.end(), row, row + static_cast<std::ptrdiff_t>(width));
  }
}

using StateMark = std::array<char, 4>;

inline void require_saved(bool holds, const char* found) {
  if (!holds) throw StateError(std::string("not the saved state of a table's exchange: ") + found);
}

class StateWriter {
 public:
  explicit StateWriter(const StateMark& mark) { put(mark); }
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes(&value, sizeof value);
  }
  template <class T>
  void put_all(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    bytes(values.data(), values.size() * sizeof(T));
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void bytes(const void* from, std::size_t count) {
    const auto* const begin = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), begin, begin + count);
  }
  std::vector<std::byte> out_;
};

/// Trusts nothing, and allocates no more than the bytes given.
class StateReader {
 public:
  StateReader(std::span<const std::byte> in, const StateMark& mark) : in_(in) {
    StateMark found{};
    get(found);
    require_saved(found == mark, "it is of another kind or version");
  }
  template <class T>
  void get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  template <class T>
  void get_all(std::vector<T>& values) {
    std::uint64_t count = 0;
    get(count);
    require_saved(count <= in_.size() / sizeof(T), "it is cut short");
    const auto from = take(static_cast<std::size_t>(count) * sizeof(T));
    values.resize(static_cast<std::size_t>(count));
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
  }
  void finish() const { require_saved(in_.empty(), "something stands behind its end"); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    require_saved(count <= in_.size(), "it is cut short");
    const auto taken = in_.first(count);
    in_ = in_.subspan(count);
    return taken;
  }
  std::span<const std::byte> in_;
};

}  // namespace gossamer::compress

#include "view.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "hash.h"
#include "varint.h"

namespace gossamer::node {
namespace {

constexpr std::uint64_t kMost = (std::uint64_t{1} << 62) - 1;
constexpr std::uint64_t kMostSeat = 0xffff;

/// The highest bits get lost in numbers of 63 bits.
void put_all(std::uint64_t value, std::vector<std::byte>& bytes) {
  put_varint(value >> 32, bytes);
  put_varint(value & 0xffffffff, bytes);
}

std::optional<std::uint64_t> take_all(std::span<const std::byte>& bytes) {
  const auto high = take_varint(bytes, 0xffffffff), low = take_varint(bytes, 0xffffffff);
  return high && low ? std::optional(*high << 32 | *low) : std::nullopt;
}

}  // namespace

std::uint64_t View::id() const {
  std::vector<std::string> lines;
  for (const Seat& seat : seats) lines.push_back(seat.name + '\n' + std::to_string(seat.start) + '\n');
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const auto& line : lines) all += line;
  return hash_text(all) | 1;
}

std::vector<std::string> View::names() const {
  std::vector<std::string> all;
  for (const Seat& seat : seats) all.push_back(seat.name);
  return all;
}

std::vector<Incarnation> View::incarnations() const {
  std::vector<Incarnation> all;
  for (const Seat& seat : seats) all.push_back({seat.name, seat.start});
  return all;
}

std::vector<std::string> View::diallers() const {
  std::vector<std::string> some;
  for (const Seat& seat : seats)
    if (seat.dials) some.push_back(seat.name);
  return some;
}

bool View::has(const std::string& name) const {
  return std::any_of(seats.begin(), seats.end(), [&](const Seat& s) { return s.name == name; });
}

std::vector<std::byte> Standing::to_bytes() const {
  std::vector<std::byte> out;
  put_varint((begun ? 1u : 0u) | (whole ? 2u : 0u), out);
  put_all(view, out);
  put_varint(attempt, out);
  put_all(std::bit_cast<std::uint64_t>(share), out);
  put_all(hash, out);
  put_varint(bytes, out);
  put_varint(owed.size(), out);
  for (std::uint32_t before = 0; const std::uint32_t seat : owed)
    put_varint(seat - std::exchange(before, seat), out);
  return out;
}

Standing standing_from(std::span<const std::byte> bytes) {
  Standing s;
  const auto flags = take_varint(bytes, 3);
  const auto view = take_all(bytes);
  const auto attempt = take_varint(bytes, kMost);
  const auto share = take_all(bytes), hash = take_all(bytes);
  const auto size = take_varint(bytes, kMost);
  const auto owed = take_varint(bytes, kMostOwed);
  if (!flags || !view || !attempt || !share || !hash || !size || !owed) return {};
  s = {(*flags & 1) != 0, (*flags & 2) != 0, *view, *attempt, std::bit_cast<double>(*share), *hash, *size};
  for (std::uint64_t k = 0, seat = 0; k < *owed; ++k) {
    const auto more = take_varint(bytes, kMostSeat);
    if (!more || (seat += *more) > kMostSeat) return {};
    s.owed.push_back(static_cast<std::uint32_t>(seat));
  }
  if (!bytes.empty()) return {};
  return s.share >= 0 && s.share <= 1 ? s : Standing{};
}

}  // namespace gossamer::node

#include "view.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "hash.h"
#include "swim_body.h"
#include "varint.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostSeats = 1 << 16;
constexpr std::uint64_t kMost = (std::uint64_t{1} << 62) - 1;

/// The highest bits get lost in numbers of 63 bits.
void put_all(std::uint64_t value, std::vector<std::byte>& bytes) {
  put_varint(value >> 32, bytes);
  put_varint(value & 0xffffffff, bytes);
}

std::optional<std::uint64_t> take_all(std::span<const std::byte>& bytes) {
  const auto high = take_varint(bytes, 0xffffffff), low = take_varint(bytes, 0xffffffff);
  return high && low ? std::optional(*high << 32 | *low) : std::nullopt;
}

void put_seats(const std::vector<std::uint32_t>& seats, std::vector<std::byte>& out) {
  put_varint(seats.size(), out);
  for (std::uint32_t before = 0; const std::uint32_t seat : seats)
    put_varint(seat - std::exchange(before, seat), out);
}

std::optional<std::vector<std::uint32_t>> take_seats(std::span<const std::byte>& bytes) {
  const auto count = take_varint(bytes, kMostOwed);
  if (!count) return std::nullopt;
  std::vector<std::uint32_t> seats;
  for (std::uint64_t k = 0, seat = 0; k < *count; ++k) {
    const auto more = take_varint(bytes, kMostSeats);
    if (!more || (seat += *more) >= kMostSeats) return std::nullopt;
    seats.push_back(static_cast<std::uint32_t>(seat));
  }
  return seats;
}

void put_keys(const std::vector<std::uint32_t>& keys, std::vector<std::byte>& out) {
  put_varint(keys.size(), out);
  for (const std::uint32_t key : keys) put_varint(key, out);
}

/// At least one.
std::optional<std::vector<std::uint32_t>> take_keys(std::span<const std::byte>& bytes) {
  const auto count = take_varint(bytes, kMostDeafTo);
  if (!count || *count == 0) return std::nullopt;
  std::vector<std::uint32_t> keys;
  while (keys.size() < *count) {
    const auto key = take_varint(bytes, ~std::uint32_t{0});
    if (!key || (!keys.empty() && *key <= keys.back())) return std::nullopt;
    keys.push_back(static_cast<std::uint32_t>(*key));
  }
  return keys;
}

/// Runs of equal numbers, which a side has as many of as it has members with the same past; 0 ends them.
void put_runs(const Trained& trained, std::vector<std::byte>& out) {
  for (std::size_t k = 0, next = 0; k < trained.size(); k = next) {
    while (next < trained.size() && trained[next] == trained[k]) ++next;
    put_varint(next - k, out);
    put_varint(trained[k], out);
  }
  put_varint(0, out);
}

std::optional<Trained> take_runs(std::span<const std::byte>& bytes) {
  Trained trained;
  while (true) {
    const auto count = take_varint(bytes, kMostSeats - trained.size());
    if (!count) return std::nullopt;
    if (*count == 0) return trained;
    const auto rounds = take_varint(bytes, kMost);
    if (!rounds) return std::nullopt;
    trained.insert(trained.end(), static_cast<std::size_t>(*count), *rounds);
  }
}

using Others = std::map<std::uint32_t, std::uint64_t>;

void put_others(const Others& others, std::vector<std::byte>& out) {
  for (const auto& [key, rounds] : others) {
    put_varint(key, out);
    put_varint(rounds, out);
  }
}

std::optional<Others> take_others(std::span<const std::byte>& bytes) {
  Others others;
  while (!bytes.empty()) {
    const auto key = take_varint(bytes, ~std::uint32_t{0}), rounds = take_varint(bytes, kMost);
    if (!key || !rounds || !others.emplace(static_cast<std::uint32_t>(*key), *rounds).second)
      return std::nullopt;
  }
  return others;
}

}  // namespace

std::uint32_t start_key(const Seat& seat) { return static_cast<std::uint32_t>(View{.seats = {seat}}.id()); }

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
  put_varint((begun ? 1u : 0u) | (whole ? 2u : 0u) | (holds ? 4u : 0u) | (deaf_to.empty() ? 0u : 8u), out);
  put_all(view, out);
  put_varint(attempt, out);
  put_all(std::bit_cast<std::uint64_t>(share), out);
  put_all(hash, out);
  put_varint(bytes, out);
  put_all(std::bit_cast<std::uint64_t>(base), out);
  put_all(std::bit_cast<std::uint64_t>(part), out);
  put_all(last, out);
  put_seats(owed, out);
  if (!deaf_to.empty()) put_keys(deaf_to, out);
  const std::size_t without = out.size();
  put_runs(trained, out);
  put_others(others, out);
  if (out.size() > kMostWordBytes) {
    out.resize(without);
    put_runs({}, out);
  }
  return out;
}

Standing standing_from(std::span<const std::byte> bytes) {
  Standing s;
  const auto flags = take_varint(bytes, 15);
  const auto view = take_all(bytes);
  const auto attempt = take_varint(bytes, kMost);
  const auto share = take_all(bytes), hash = take_all(bytes);
  const auto size = take_varint(bytes, kMost);
  const auto base = take_all(bytes), part = take_all(bytes), last = take_all(bytes);
  auto owed = last ? take_seats(bytes) : std::nullopt;
  const bool is_deaf = flags && (*flags & 8) != 0;
  auto deaf_to = owed && is_deaf ? take_keys(bytes) : std::optional(std::vector<std::uint32_t>());
  if (!flags || !view || !attempt || !share || !hash || !size || !base || !part || !owed || !deaf_to)
    return {};
  auto trained = take_runs(bytes);
  auto others = trained ? take_others(bytes) : std::nullopt;
  if (!others) return {};
  s = {.begun = (*flags & 1) != 0,
       .whole = (*flags & 2) != 0,
       .view = *view,
       .attempt = *attempt,
       .share = std::bit_cast<double>(*share),
       .hash = *hash,
       .bytes = *size,
       .holds = (*flags & 4) != 0,
       .base = std::bit_cast<double>(*base),
       .part = std::bit_cast<double>(*part),
       .last = *last,
       .owed = std::move(*owed),
       .trained = std::move(*trained),
       .others = std::move(*others),
       .deaf_to = std::move(*deaf_to)};
  const auto is_share = [](double x) { return x >= 0 && x <= 1; };
  return is_share(s.share) && is_share(s.base) && s.part >= 0 && std::isfinite(s.part) ? s : Standing{};
}

}  // namespace gossamer::node

#pragma once
// Quantised levels as a string of bytes shorter than their packed fields. A vector is cut into slices that
// are coded each by itself, so that threads can share the work.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "gossamer/compress/threads.h"
#include "level_form.h"
#include "parameters.h"
#include "prefix_code.h"
#include "wire.h"

namespace gossamer::compress {

/// A form, or for each slice the smallest; of equally small forms the first.
using FieldCoding = std::optional<LevelForm>;
/// coding=packed (packed, elias, elias_dense, rice, rans, auto).
FieldCoding field_coding_parameter(Parameters& parameters);
std::string_view field_coding_name(FieldCoding coding);

/// Bytes of a slice of 1 … kSlice fields at most.
std::size_t slice_max_bytes(FieldCoding coding, std::size_t count, LevelRange range);
/// Codes 1 … kSlice fields of 0 … top to the front of out, which holds slice_max_bytes; returns the bytes
/// written.
std::size_t write_slice(FieldCoding coding, std::span<const std::uint8_t> fields, LevelRange range,
                        std::span<std::byte> out);
/// Reads what write_slice wrote, all of `in`; throws PayloadError for all else.
void read_slice(std::span<const std::byte> in, LevelRange range, std::span<std::uint8_t> fields);
/// The same of fields that no byte holds, top > 255: packed and both Elias forms, each in one string.
std::size_t write_slice(FieldCoding coding, std::span<const std::uint32_t> fields, LevelRange range,
                        std::span<std::byte> out);
void read_slice(std::span<const std::byte> in, LevelRange range, std::span<std::uint32_t> fields);

std::size_t coded_max_bytes(FieldCoding coding, std::size_t n, LevelRange range);

/// Codes n fields to the front of out, which holds coded_max_bytes: for each slice but the last a u32 of its
/// bytes, then the slices. fetch(first, fields, thread) gives those of a slice; returns the bytes written,
/// which do not depend on the number of threads.
template <class Field = std::uint8_t, class Fetch>
std::size_t write_coded(FieldCoding coding, std::size_t n, LevelRange range, Threads* threads,
                        std::span<std::byte> out, const Fetch& fetch) {
  if (n == 0) return 0;
  const std::size_t slices = wire::ceil_div(n, kSlice), front = (slices - 1) * sizeof(std::uint32_t);
  // Beside each other where several threads write, then moved together.
  const std::size_t room = slice_max_bytes(coding, kSlice, range);
  const bool apart = threads != nullptr && threads->count() > 1;
  std::size_t at = front, last = 0;
  for_each_piece(threads, slices, [&](std::size_t p, std::size_t thread) {
    std::array<Field, kSlice> all;
    const auto fields = std::span(all).first(std::min(kSlice, n - p * kSlice));
    fetch(p * kSlice, fields, thread);
    const std::size_t start = apart ? front + p * room : at;
    const auto bytes =
        static_cast<std::uint32_t>(write_slice(coding, std::span<const Field>(fields), range,
                                               out.subspan(start, std::min(room, out.size() - start))));
    if (!apart) at += bytes;
    if (p + 1 == slices) last = bytes;
    if (p + 1 < slices) std::memcpy(out.data() + p * sizeof bytes, &bytes, sizeof bytes);
  });
  if (!apart) return at;
  for (std::size_t p = 0; p < slices; ++p) {
    auto length = static_cast<std::uint32_t>(last);
    if (p + 1 < slices) std::memcpy(&length, out.data() + p * sizeof length, sizeof length);
    std::memmove(out.data() + at, out.data() + front + p * room, length);
    at += length;
  }
  return at;
}

/// Reads all of `in`, which holds n fields: work(first, fields) for each slice, from several threads. Throws
/// PayloadError, some of the work done, where it does not.
template <class Field = std::uint8_t, class Work>
void read_coded(std::span<const std::byte> in, std::size_t n, LevelRange range, Threads* threads,
                const Work& work) {
  const std::size_t slices = wire::ceil_div(n, kSlice);
  if (n == 0 && !in.empty()) throw PayloadError("payload holds bytes after its last level");
  if (n == 0) return;
  wire::Reader reader(in);
  const auto lengths = reader.take((slices - 1) * sizeof(std::uint32_t));
  const auto length_of = [&](std::size_t p) {
    std::uint32_t length;
    std::memcpy(&length, lengths.data() + p * sizeof length, sizeof length);
    return std::size_t{length};
  };
  // In groups, so that where each slice starts is known without memory for all of them.
  constexpr std::size_t kGroup = 256;
  std::array<std::span<const std::byte>, kGroup> part;
  for (std::size_t base = 0; base < slices; base += kGroup) {
    const std::size_t count = std::min(kGroup, slices - base);
    for (std::size_t j = 0; j < count; ++j)
      part[j] = reader.take(base + j + 1 < slices ? length_of(base + j) : reader.left());
    for_each_piece(threads, count, [&](std::size_t j, std::size_t) {
      std::array<Field, kSlice> all;
      const std::size_t first = (base + j) * kSlice;
      const auto fields = std::span(all).first(std::min(kSlice, n - first));
      read_slice(part[j], range, fields);
      work(first, std::span<const Field>(fields));
    });
  }
}

}  // namespace gossamer::compress

#include <algorithm>
#include <array>

#include "codecs.h"
#include "segments.h"

namespace gossamer::compress {

void decode_onebit_scaled(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  const std::size_t bucket = wire::read_bucket(in);
  const std::uint64_t mode_bytes = in.varint();
  if (mode_bytes > in.left()) throw PayloadError("payload truncated: fewer bytes of modes than it claims");
  const wire::Reader modes(in.take(static_cast<std::size_t>(mode_bytes)));
  SegmentDecoder decoder(modes, in, weight);
  const std::size_t n = acc.size(), slice = wire::slice_of(bucket);
  if (threads == nullptr || threads->count() == 1 || n <= slice) {
    decoder.add(acc, bucket);
    in = decoder.finish();
    return;
  }
  // Where a slice begins in the payload is known when those in front of it have been gone through.
  std::array<SegmentDecoder, 32> begin;
  for (std::size_t start = 0; start < n;) {
    const std::size_t group = start;
    std::size_t count = 0;
    for (; count < begin.size() && start < n; ++count) {
      begin[count] = decoder;
      const std::size_t end = std::min(start + slice, n);
      for (; start < end; start += std::min(bucket, end - start)) decoder.skip(std::min(bucket, end - start));
    }
    threads->for_each(count, [&](std::size_t s, std::size_t) {
      const std::size_t at = group + s * slice;
      begin[s].add(acc.subspan(at, std::min(slice, n - at)), bucket);
    });
  }
  in = decoder.finish();
}

}  // namespace gossamer::compress

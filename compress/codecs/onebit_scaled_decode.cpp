#include <algorithm>
#include <array>

#include "codecs.h"
#include "segments.h"

namespace gossamer::compress {
namespace {

/// How far a bucket went from the rule.
enum class Way { as_asked, at_another, dense };

/// Reads the modes of one bucket of d entries.
Way read_way(ModeReader& modes, std::size_t d) {
  switch (modes.next(d)) {
    case Mode::scaled:
    case Mode::zero:
      return Way::as_asked;
    case Mode::mean:
      return Way::at_another;
    case Mode::dense:
    case Mode::sparse:
      return Way::dense;
    case Mode::split:
      break;
  }
  const Way first = read_way(modes, first_half(d));
  return std::max({Way::at_another, first, read_way(modes, d - first_half(d))});
}

/// Of what follows the bucket's size.
SegmentDecoder decoder_of(wire::Reader& in, float weight) {
  const std::uint64_t mode_bytes = in.varint();
  if (mode_bytes > in.left()) throw PayloadError("payload truncated: fewer bytes of modes than it claims");
  const wire::Reader modes(in.take(static_cast<std::size_t>(mode_bytes)));
  return {modes, in, weight};
}

class Pieces final : public PieceDecoder {
 public:
  Pieces(wire::Reader in, float weight) : bucket_(wire::read_bucket(in)), decoder_(decoder_of(in, weight)) {}
  void add(std::span<float> acc) override { decoder_.add(acc, bucket_); }
  std::size_t step() const override { return bucket_; }
  void finish() override { decoder_.finish().expect_left(0); }

 private:
  std::size_t bucket_;
  SegmentDecoder decoder_;
};

}  // namespace

void check_onebit_scaled(wire::Reader& in, std::size_t n) {
  const std::size_t bucket = wire::read_bucket(in);
  SegmentDecoder decoder = decoder_of(in, 0);
  for (std::size_t left = n; left > 0; left -= std::min(left, bucket)) decoder.skip(std::min(left, bucket));
  in = decoder.finish();
}

std::unique_ptr<PieceDecoder> pieces_onebit_scaled(wire::Reader in, float weight) {
  return std::make_unique<Pieces>(in, weight);
}

std::vector<PayloadShare> shares_onebit_scaled(wire::Reader& in, std::uint64_t n) {
  const std::uint64_t bucket = wire::read_bucket(in), mode_bytes = in.varint();
  if (mode_bytes > in.left()) throw PayloadError("payload truncated: fewer bytes of modes than it claims");
  ModeReader modes(wire::Reader(in.take(static_cast<std::size_t>(mode_bytes))));
  std::array<double, 3> count{};
  for (std::uint64_t left = n; left > 0; left -= std::min(left, bucket))
    ++count[static_cast<std::size_t>(read_way(modes, static_cast<std::size_t>(std::min(left, bucket))))];
  const double all = count[0] + count[1] + count[2];
  if (all == 0) return {};
  return {{"buckets at lambda", count[0] / all},
          {"buckets at another", count[1] / all},
          {"buckets dense", count[2] / all}};
}

void decode_onebit_scaled(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  const std::size_t bucket = wire::read_bucket(in);
  SegmentDecoder decoder = decoder_of(in, weight);
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

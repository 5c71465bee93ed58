#pragma once
// What each codec family gives to the table in codec.cpp: a factory and a decoder.
#include <memory>
#include <span>

#include "gossamer/compress/codec.h"
#include "parameters.h"
#include "wire.h"

namespace gossamer::compress {

/// Takes its parameters; the caller calls finish().
using Factory = std::unique_ptr<const Codec> (*)(Parameters&);
/// Adds weight · decoded to acc, whose size is the payload's n; leaves nothing of the payload unread. threads
/// may be null.
using Decoder = void (*)(wire::Reader& in, float weight, std::span<float> acc, Threads* threads);

/// A payload of n entries decoded piece by piece, in order.
class PieceDecoder {
 public:
  virtual ~PieceDecoder() = default;
  /// acc += weight · the next acc.size() entries; of all pieces but the last a multiple of step().
  virtual void add(std::span<float> acc) = 0;
  virtual std::size_t step() const = 0;
  /// After the last piece: throws where something is left.
  virtual void finish() = 0;
};
using PieceMaker = std::unique_ptr<PieceDecoder> (*)(wire::Reader in, float weight);

/// Reads a payload of n entries and throws as its decoder does, without making anything of it.
using Checker = void (*)(wire::Reader& in, std::size_t n);

/// payload_shares of what follows the header. Its time and memory are bounded by the payload's length,
/// whatever n it claims.
using Sharer = std::vector<PayloadShare> (*)(wire::Reader& in, std::uint64_t n);

std::unique_ptr<const Codec> make_dense(Parameters&);
std::unique_ptr<const Codec> make_fp16(Parameters&);
std::unique_ptr<const Codec> make_onebit(Parameters&);
std::unique_ptr<const Codec> make_onebit_scaled(Parameters&);
std::unique_ptr<const Codec> make_qsgd(Parameters&);
std::unique_ptr<const Codec> make_topk(Parameters&);
std::unique_ptr<const Codec> make_bf16(Parameters&);
std::unique_ptr<const Codec> make_onebit_two(Parameters&);
std::unique_ptr<const Codec> make_terngrad(Parameters&);
std::unique_ptr<const Codec> make_intq(Parameters&);
std::unique_ptr<const Codec> make_randk(Parameters&);
std::unique_ptr<const Codec> make_threshold(Parameters&);
std::unique_ptr<const Codec> make_sign_vote(Parameters&);

void decode_dense(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_fp16(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_onebit(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_onebit_scaled(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_qsgd(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_topk(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_bf16(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_onebit_two(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_terngrad(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_intq(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_randk(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_threshold(wire::Reader& in, float weight, std::span<float> acc, Threads*);
void decode_sign_vote(wire::Reader& in, float weight, std::span<float> acc, Threads*);

/// decode_to, read_in_blocks and encode_sum of what is behind a dense payload's header. in: null where
/// nothing is added.
void read_dense(wire::Reader& in, std::span<float> acc, Threads* threads);
void read_dense(wire::Reader& in, std::size_t n, const UseEntries& use, Threads* threads);
std::size_t write_dense_sum(wire::Reader* in, float factor, std::span<const float> x,
                            std::span<std::byte> out, Threads* threads);

void check_dense(wire::Reader& in, std::size_t n);
void check_onebit_scaled(wire::Reader& in, std::size_t n);
std::unique_ptr<PieceDecoder> pieces_onebit_scaled(wire::Reader in, float weight);
std::vector<PayloadShare> shares_onebit_scaled(wire::Reader& in, std::uint64_t n);

/// Throws PayloadError where decode_add of weight 1 to n zeros does. scratch: what codecs without a checker
/// decode to.
void check(std::span<const std::byte> payload, std::size_t n, std::vector<float>& scratch);

}  // namespace gossamer::compress

#include "gossamer/compress/codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "codecs.h"
#include "feedback_state.h"
#include "parameters.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

using wire::CodecId;

/// Entries of a piece of several payloads that are decoded together: stays in the first-level cache.
constexpr std::size_t kPiece = std::size_t{1} << 13;

struct Row {
  CodecRow shown;
  CodecId id;
  Factory factory;
  Decoder decoder;
  Sharer sharer = nullptr;
  PieceMaker pieces = nullptr;  ///< null: it is decoded as a whole
  Checker checker = nullptr;    ///< null: it is decoded to see whether it can be
};

/// A new codec is one .cpp, one id in wire.h and one row here.
constexpr std::array kRows = {
    Row{{"dense", "", "32-bit floats as they are; exact"},
        CodecId::dense,
        make_dense,
        decode_dense,
        nullptr,
        nullptr,
        check_dense},
    Row{{"fp16", "", "16-bit floats, one shared exponent where their range is too small; contractive"},
        CodecId::fp16,
        make_fp16,
        decode_fp16},
    Row{{"onebit", "bucket=512 (a multiple of 32)", "sign times mean magnitude of each bucket; contractive"},
        CodecId::onebit,
        make_onebit,
        decode_onebit},
    Row{{"onebit_scaled",
         "lambda=1 (0 < lambda <= 1, auto), bound=0.9 (0 < bound < 1), bound_abs (> 0; in place of bound), "
         "bucket=512 (a multiple of 32)",
         "sign times lambda * root mean square of each bucket; error <= bound * norm or <= bound_abs, "
         "enforced"},
        CodecId::onebit_scaled,
        make_onebit_scaled,
        decode_onebit_scaled,
        shares_onebit_scaled,
        pieces_onebit_scaled,
        check_onebit_scaled},
    Row{{"qsgd",
         "bits=4 (2, 4, 8; short for levels=2^(bits-1)-1), levels=7 (1 to 65535, sqrt; not beside bits), "
         "bucket=512 (a multiple of 32), norm=max (max, l2), coding=packed (packed, elias, elias_dense, "
         "rice, rans, auto), random=philox (philox, hash)",
         "stochastic rounding to so many levels on each side of zero in each bucket; unbiased",
         "bits=4 bits=2 bits=8,norm=l2"},
        CodecId::qsgd,
        make_qsgd,
        decode_qsgd},
    Row{{"topk",
         "density=0.01 (0 < density <= 1), values=fp32 (fp32, fp16, int8, sign, two_bit), select=exact "
         "(exact, sampled, trimmed, bisect, ldte_bs, reuse, ldte_bs_paper, radix, hierarchical), coding=auto "
         "(auto, rice, fixed, packed, elias, runs, bitmap)",
         "the ceil(density * n) entries of largest magnitude, to 1.5 times as many by threshold; "
         "contractive",
         "density=0.1 density=0.02"},
        CodecId::topk,
        make_topk,
        decode_topk},
    Row{{"bf16", "", "the upper 16 bits of a float, rounded; contractive"},
        CodecId::bf16,
        make_bf16,
        decode_bf16},
    Row{{"onebit_two", "bucket=512 (a multiple of 32)",
         "signs with the means of the entries >= 0 and of those < 0 of each bucket; contractive"},
        CodecId::onebit_two,
        make_onebit_two,
        decode_onebit_two},
    Row{{"terngrad", "clip=2.5 (> 0, none), coding=packed (as qsgd), random=philox (as qsgd)",
         "0 or +-max by chance, after clipping at clip * root mean square; unbiased on the clipped vector"},
        CodecId::terngrad,
        make_terngrad,
        decode_terngrad},
    Row{{"intq",
         "bits=8 (2, 4, 8), bucket=512 (a multiple of 32), rounding=nearest (nearest, stochastic), "
         "coding=packed (as qsgd), random=philox (as qsgd; where rounding is stochastic)",
         "2^bits even levels from least to greatest entry of each bucket; error <= (max-min)/(2^bits-1)",
         "bits=4"},
        CodecId::intq,
        make_intq,
        decode_intq},
    Row{{"randk", "density=0.01 (0 < density <= 1), scale=0 (0, 1)",
         "ceil(density * n) random entries, indices not sent; contractive, times n/k (scale=1) unbiased",
         "density=0.2"},
        CodecId::randk,
        make_randk,
        decode_randk},
    Row{{"threshold", "tau=0.01 (> 0), coding=auto (as topk)",
         "the entries with |v| >= tau, exact; error < tau per entry"},
        CodecId::threshold,
        make_threshold,
        decode_threshold},
    Row{{"sign_vote", "", "bare signs, decoded as +-1, for a majority vote"},
        CodecId::sign_vote,
        make_sign_vote,
        decode_sign_vote},
};

constexpr auto kShown = [] {
  std::array<CodecRow, kRows.size()> shown{};
  for (std::size_t i = 0; i < kRows.size(); ++i) shown[i] = kRows[i].shown;
  return shown;
}();

const Row& row_of(const wire::Header& header) {
  for (const Row& row : kRows) {
    if (static_cast<std::uint8_t>(row.id) == header.id) return row;
  }
  throw PayloadError("payload of unknown codec id " + std::to_string(header.id) +
                     "; the sender may run a newer version");
}

/// Of a payload of n entries, past its header.
const Row& row_for(wire::Reader& in, std::size_t n) {
  const wire::Header header = wire::read_header(in);
  const Row& row = row_of(header);
  if (header.entries != n)
    throw PayloadError("payload holds " + std::to_string(header.entries) + " entries, expected " +
                       std::to_string(n));
  return row;
}

void demand_dense(wire::Reader& in, std::size_t n) {
  if (const Row& row = row_for(in, n); row.id != CodecId::dense)
    throw PayloadError("payload of codec " + std::string(row.shown.name) + ", expected dense");
}

using PieceDecoders = std::vector<std::unique_ptr<PieceDecoder>>;

/// Of payloads of n entries; none where one of them cannot be, or not in the pieces of the others.
PieceDecoders in_pieces(std::span<const WeightedPayload> payloads, std::size_t n) {
  PieceDecoders decoders;
  for (const WeightedPayload& p : payloads) {
    wire::Reader in(p.payload);
    const Row& row = row_for(in, n);
    if (row.pieces == nullptr) return {};
    decoders.push_back(row.pieces(in, p.weight));
    if (decoders.back()->step() != decoders.front()->step()) return {};
  }
  return decoders;
}

}  // namespace

std::size_t Codec::encode_selecting(std::span<const float> x, SelectionState&, RandomKey key,
                                    Workspace& workspace, std::span<std::byte> out) const {
  return encode(x, key, workspace, out);
}

std::size_t Codec::encode_feedback(std::span<const float> g, FeedbackState& state, RandomKey key,
                                   Workspace& workspace, std::span<std::byte> out) const {
  require_feedback(*this);
  const std::size_t n = g.size();
  require_size(state, n);
  state.materialise();
  // encode may use every scratch array but floats(), which holds v from here on.
  const std::span<float> v = workspace.floats(n);
  const bool first = state.residual.empty();
  const std::size_t slices = wire::ceil_div(n, kSlice);
  for_each_piece(workspace.threads(), slices, [&](std::size_t piece, std::size_t) {
    const std::size_t end = std::min((piece + 1) * kSlice, n);
    if (first) {
      std::copy(g.data() + piece * kSlice, g.data() + end, v.data() + piece * kSlice);
    } else {
      for (std::size_t i = piece * kSlice; i < end; ++i) v[i] = g[i] + state.residual[i];
    }
  });
  const std::size_t bytes = encode(v, key, workspace, out);
  state.residual.resize(n);
  for_each_piece(workspace.threads(), slices, [&](std::size_t piece, std::size_t) {
    const std::size_t end = std::min((piece + 1) * kSlice, n);
    std::copy(v.data() + piece * kSlice, v.data() + end, state.residual.data() + piece * kSlice);
  });
  // v + −1·m is v − m to the bit.
  decode_add(out.first(bytes), -1.0f, state.residual, workspace.threads());
  return bytes;
}

std::size_t Codec::encode_difference(std::span<const float> x, std::span<float> estimate, RandomKey key,
                                     Workspace& workspace, std::span<std::byte> out, const Make& make) const {
  const std::size_t n = x.size();
  const std::span<float> v = workspace.floats(n);  // encode leaves it alone
  for_each_piece(workspace.threads(), wire::ceil_div(n, kSlice), [&](std::size_t piece, std::size_t) {
    const std::size_t end = std::min((piece + 1) * kSlice, n);
    if (make) make(piece * kSlice, end - piece * kSlice);
    for (std::size_t i = piece * kSlice; i < end; ++i) v[i] = x[i] - estimate[i];
  });
  const std::size_t bytes = encode(v, key, workspace, out);
  decode_add(out.first(bytes), 1.0f, estimate, workspace.threads());
  return bytes;
}

std::optional<std::size_t> Codec::encode_sparse_sum(std::span<const std::byte>, std::span<const std::byte>,
                                                    std::size_t, Workspace&, std::span<std::byte>,
                                                    LeftOut&) const {
  return std::nullopt;
}

void decode_add(std::span<const std::byte> payload, float weight, std::span<float> acc, Threads* threads) {
  wire::Reader in(payload);
  row_for(in, acc.size()).decoder(in, weight, acc, threads);
  in.expect_left(0);
}

JointDecoder::JointDecoder(std::span<const WeightedPayload> payloads, std::span<float> acc, After after)
    : decoders_(in_pieces(payloads, acc.size())), acc_(acc), after_(std::move(after)) {}
JointDecoder::~JointDecoder() = default;

void JointDecoder::reach(std::size_t end) {
  const std::size_t step = decoders_.front()->step(), most = std::max(step, kPiece / step * step);
  while (done_ < end) {
    const std::size_t asked = wire::ceil_div(end - done_, step) * step;
    const std::size_t begin = done_, size = std::min({asked, most, acc_.size() - begin});
    for (const auto& decoder : decoders_) decoder->add(acc_.subspan(begin, size));
    after_(begin, size);
    done_ += size;
  }
  if (done_ < acc_.size() || std::exchange(finished_, true)) return;
  for (const auto& decoder : decoders_) decoder->finish();
}

void decode_add(std::span<const WeightedPayload> payloads, std::span<float> acc, const After& after,
                Threads* threads) {
  if (threads == nullptr)
    if (JointDecoder joint(payloads, acc, after); joint) return joint.reach(acc.size());
  for (const WeightedPayload& p : payloads) decode_add(p.payload, p.weight, acc, threads);
  after(0, acc.size());
}

void check(std::span<const std::byte> payload, std::size_t n, std::vector<float>& scratch) {
  wire::Reader in(payload);
  const Row& row = row_for(in, n);
  if (row.checker != nullptr) {
    row.checker(in, n);
  } else {
    if (scratch.size() < n) scratch.resize(n);
    row.decoder(in, 0.0f, std::span(scratch).first(n), nullptr);
  }
  in.expect_left(0);
}

void decode_to(std::span<const std::byte> payload, std::span<float> acc, Threads* threads) {
  wire::Reader in(payload);
  const Row& row = row_for(in, acc.size());
  if (row.id == CodecId::dense) return read_dense(in, acc, threads);
  std::fill(acc.begin(), acc.end(), 0.0f);
  row.decoder(in, 1.0f, acc, threads);
  in.expect_left(0);
}

std::size_t encode_sum(std::span<const std::byte> payload, float factor, std::span<const float> x,
                       std::span<std::byte> out, Threads* threads) {
  wire::Reader in(payload);
  demand_dense(in, x.size());
  return write_dense_sum(&in, factor, x, out, threads);
}

std::size_t encode_multiple(float factor, std::span<const float> x, std::span<std::byte> out,
                            Threads* threads) {
  return write_dense_sum(nullptr, factor, x, out, threads);
}

void read_in_blocks(std::span<const std::byte> payload, std::size_t n, const UseEntries& use,
                    Threads* threads) {
  wire::Reader in(payload);
  demand_dense(in, n);
  read_dense(in, n, use, threads);
}

PayloadInfo inspect(std::span<const std::byte> payload) {
  wire::Reader in(payload);
  const wire::Header header = wire::read_header(in);
  return {row_of(header).shown.name, header.entries};
}

std::vector<PayloadShare> payload_shares(std::span<const std::byte> payload) {
  wire::Reader in(payload);
  const wire::Header header = wire::read_header(in);
  const Row& row = row_of(header);
  return row.sharer == nullptr ? std::vector<PayloadShare>() : row.sharer(in, header.entries);
}

std::span<const CodecRow> codec_table() { return kShown; }

std::unique_ptr<const Codec> make_codec(std::string_view spec) {
  const std::string_view name = spec.substr(0, spec.find(':'));
  const std::string_view text =
      name.size() == spec.size() ? std::string_view() : spec.substr(name.size() + 1);
  for (const Row& row : kRows) {
    if (name != row.shown.name) continue;
    Parameters parameters(spec, text);
    auto codec = row.factory(parameters);
    parameters.finish();
    return codec;
  }
  std::vector<std::string> names;
  std::string all;
  for (const Row& row : kRows) {
    all += (names.empty() ? "" : ", ") + std::string(row.shown.name);
    names.emplace_back(row.shown.name);
  }
  throw CodecError(
      "codec spec \"" + std::string(spec) + "\": no codec \"" + std::string(name) + "\"; there are " + all,
      name, std::move(names));
}

}  // namespace gossamer::compress

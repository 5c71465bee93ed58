#pragma once
// A Codec says what a vector looks like on the wire.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "gossamer/compress/threads.h"

namespace gossamer::compress {

/// Key of the counter-based generator (Philox4x32): entry i of a vector is rounded by counter i, so every
/// thread count and instruction set rounds the same way.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t peer = 0;
  std::uint32_t layer = 0;
  std::uint64_t round = 0;
};

/// Memory that begins at a cache line, as vectors of any instruction set want it.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{kLine}));
  }
  void deallocate(T* p, std::size_t) { ::operator delete (p, std::align_val_t{kLine}); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
  static constexpr std::size_t kLine = 64;
};
template <class T>
using LineVector = std::vector<T, LineAllocator<T>>;

/// Scratch memory of one call at a time; grows to the largest vector seen, then allocates no more. encode
/// leaves floats() alone, so that the vector may lie there.
class Workspace {
 public:
  /// Long vectors are worked on by `threads`, where given; the caller keeps them alive. The same bytes come
  /// out.
  explicit Workspace(Threads* threads = nullptr) : threads_(threads) {
    for (std::size_t i = 1; threads != nullptr && i < threads->count(); ++i)
      others_.push_back(std::make_unique<Workspace>());
  }
  Threads* threads() const { return threads_; }
  /// Scratch of one of the threads; that of thread 0 is this.
  Workspace& of(std::size_t thread) { return thread == 0 ? *this : *others_[thread - 1]; }

  std::span<float> floats(std::size_t n) { return grow(floats_, n); }
  std::span<float> more_floats(std::size_t n) { return grow(more_floats_, n); }
  std::span<std::uint32_t> words(std::size_t n) { return grow(words_, n); }
  /// n values of one plain type, all zero.
  template <class T>
  std::span<T> records(std::size_t n) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));
    T* const first = reinterpret_cast<T*>(grow(records_, n * sizeof(T)).data());
    std::uninitialized_value_construct_n(first, n);
    return {first, n};
  }

 private:
  template <class T>
  static std::span<T> grow(LineVector<T>& v, std::size_t n) {
    if (v.size() < n) v.resize(n);
    return {v.data(), n};
  }
  LineVector<float> floats_, more_floats_;
  LineVector<std::uint32_t> words_;
  LineVector<std::byte> records_;
  Threads* threads_;
  std::vector<std::unique_ptr<Workspace>> others_;
};

/// What the search for the largest entries remembers of one layer from call to call. 0 = nothing.
struct SelectionState {
  float threshold = 0;  ///< what every selected entry reached
};

/// What a bucket's signs stand for, sign(0) = sign(−0) = +1.
struct SignPair {
  float plus = 0, minus = 0;
};

/// Error feedback of one layer: e in v = g + e; m = C[v]; e ← v − decode(m) (Karimireddy 2019). Empty = zero.
/// e is keyed by layer alone: it may go on under any other codec or bucket size. The sign codecs keep it
/// lazily, since sign(v) does not depend on what was sent: residual then holds v as it was, pending what each
/// bucket of it has sent, and entry i of e is fl(v_i − (v_i ≥ 0 ? plus : minus)), to be formed when v is read
/// next.
struct FeedbackState {
  LineVector<float> residual;     ///< e, or where pending is not empty v
  std::vector<SignPair> pending;  ///< of each bucket of residual; {0, 0} where that is e already
  std::size_t bucket = 0;         ///< entries of one; no meaning where pending is empty
  SelectionState selection{};

  /// Forms e: residual holds it to the bit, and nothing is pending.
  void materialise();
};

/// Bytes that are not a saved state: cut short, of another version, or with numbers that no state holds.
class StateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// A checkpoint of e and selection, little-endian: after restore all goes on to the bit as if it had never
/// been saved.
std::vector<std::byte> save(const FeedbackState& state);
/// Throws StateError. Trusts nothing, and allocates no more than the bytes given.
FeedbackState restore_feedback(std::span<const std::byte> saved);

/// Entries of a vector that were not sent, or not all of them: index, and what is left there; each once.
using LeftOut = std::vector<std::pair<std::uint32_t, float>>;

/// A codec spec that cannot be used ("qsgd:bits=5"): what was found, what was expected, the nearest right
/// name.
class CodecError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  /// found is none of the names; whoever shows the message can add the one that was meant.
  CodecError(const std::string& message, std::string_view word, std::vector<std::string> known)
      : invalid_argument(message), found(word), names(std::move(known)) {}
  std::string found;
  std::vector<std::string> names;
};
/// A vector that cannot be encoded (NaN or Inf; names the first index).
class EncodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// A payload that is not what encode wrote: truncated, index out of range, trailing bytes …
class PayloadError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Traits {
  bool exact = false;     ///< decode(encode(x)) == x in every entry (−0 may come back as 0)
  bool unbiased = false;  ///< E[decode(encode(x))] = x
  /// May run under error feedback and in CHOCO-SGD, because with some δ > 0 for every x either E‖C[x]−x‖₂² ≤
  /// (1−δ)‖x‖₂², or surely ‖C[x]−x‖∞ ≤ (1−δ)‖x‖∞ (qsgd with max norm from two levels a side on).
  bool contractive = false;
  /// Surely |C[x]_i − x_i| stays under a constant for every x (threshold): residuals stay bounded, which is
  /// enough for error feedback in a full reduce, but nothing contracts.
  bool bounded = false;
  /// How much of a vector one message takes in, as the step of compressed gossip goes by it; 0 where nothing
  /// contracts. δ above where it is promised and tight (topk, randk: the density; onebit_scaled: at least 1 −
  /// bound²); (1−ω)/(1+ω) where unbiased of relative variance ω; (1−ε)² where only ‖C[x]−x‖∞ ≤ ε‖x‖∞ is sure;
  /// and for signs what holds of magnitudes spread evenly, as feedback and estimates make them in the long
  /// run (¾; onebit_two ½).
  double delta = 0;
  double promised = 0;   ///< of that, what holds of every vector (of its largest entry where delta does)
  bool sparse = false;   ///< entries that are not sent decode to 0
  bool largest = false;  ///< what is left out is smaller, entry by entry, than what is sent (topk)
  bool votes = false;    ///< signs without a magnitude, for a majority vote (sign_vote)
  bool merges = false;   ///< encode_sparse_sum tells the sum of any two of its payloads

  /// Whether encode_feedback may be used, which throws CodecError otherwise: residuals could grow without end
  /// (for example l2 QSGD with few levels, whose relative variance is above 1).
  constexpr bool feedback() const { return contractive || bounded; }
};

/// Immutable; all state is the caller's. Thread-safe.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string spec()
      const = 0;  ///< canonical, with every parameter: "qsgd:bits=4,bucket=512,norm=max"
  virtual std::string_view name() const = 0;  ///< "qsgd"
  virtual Traits traits() const = 0;
  /// Upper bound of encode's bytes for n entries, header included.
  virtual std::size_t max_bytes(std::size_t n) const = 0;
  /// Writes the self-described payload of x to the front of out (≥ max_bytes(x.size())); returns its bytes.
  /// Throws EncodeError for NaN or Inf, naming the first index.
  virtual std::size_t encode(std::span<const float> x, RandomKey key, Workspace& workspace,
                             std::span<std::byte> out) const = 0;
  /// The same, with what selection remembers of this layer (topk:select=reuse); other codecs leave it alone.
  virtual std::size_t encode_selecting(std::span<const float> x, SelectionState& selection, RandomKey key,
                                       Workspace& workspace, std::span<std::byte> out) const;
  /// Encodes v = g + e and leaves e = fl(v − decode(payload)) in state, to the bit (as decode_add of weight
  /// −1 onto v makes it). On a throw nothing was sent, and nothing is lost: e stands, or, where a codec works
  /// in one pass (dense, fp16, bf16, onebit, onebit_two, onebit_scaled) and v is not finite, e has taken in g
  /// wherever v is finite and stands in all other entries; under qsgd, intq, topk, randk and threshold e
  /// stands up to rounding.
  virtual std::size_t encode_feedback(std::span<const float> g, FeedbackState& state, RandomKey key,
                                      Workspace& workspace, std::span<std::byte> out) const;
  /// Encodes x − estimate and adds to estimate what that decodes to, to the bit as encode and decode_add do.
  /// Throws as encode; the estimate is then partly added to. `make`, where there is one, first makes entries
  /// [first, first + n) of x: it is called for stretches that together are all of x, each before it is read
  /// and while it is near, by any of the workspace's threads, in ascending order where there are none; after
  /// a throw perhaps not for all.
  using Make = std::function<void(std::size_t first, std::size_t n)>;
  virtual std::size_t encode_difference(std::span<const float> x, std::span<float> estimate, RandomKey key,
                                        Workspace& workspace, std::span<std::byte> out,
                                        const Make& make = {}) const;
  /// The bytes that encode makes of the sum of what two payloads of n entries decode to, from these payloads
  /// alone: in time of what they hold, not of n. left: sum − decoded, where that is not zero. None: they are
  /// no payloads of this codec's, or it has to see all entries. Throws PayloadError.
  virtual std::optional<std::size_t> encode_sparse_sum(std::span<const std::byte> first,
                                                       std::span<const std::byte> second, std::size_t n,
                                                       Workspace& workspace, std::span<std::byte> out,
                                                       LeftOut& left) const;
};

/// acc += weight · decode(payload), for a payload of any codec. Throws PayloadError, with acc unchanged or
/// partly added to, where the payload is malformed or does not hold exactly acc.size() entries. Never reads
/// past payload. `threads` share a long vector, with the same result.
void decode_add(std::span<const std::byte> payload, float weight, std::span<float> acc,
                Threads* threads = nullptr);

struct WeightedPayload {
  float weight;
  std::span<const std::byte> payload;
};
/// What becomes of entries [begin, begin + size) next, of all in ascending pieces.
using After = std::function<void(std::size_t begin, std::size_t size)>;
class PieceDecoder;
/// decode_add of several payloads that are gone through together, a piece after the other, each of them while
/// it is in the cache. Spans live as long.
class JointDecoder {
 public:
  JointDecoder(std::span<const WeightedPayload> payloads, std::span<float> acc, After after);
  ~JointDecoder();
  JointDecoder(const JointDecoder&) = delete;
  JointDecoder& operator=(const JointDecoder&) = delete;
  /// false: they are not all of onebit_scaled with the same buckets, and cannot be gone through so.
  explicit operator bool() const { return !decoders_.empty(); }
  /// Adds what is before `end` and was not added yet, to the next border of buckets; then `after` of that.
  /// Throws as decode_add.
  void reach(std::size_t end);

 private:
  std::vector<std::unique_ptr<PieceDecoder>> decoders_;
  std::span<float> acc_;
  After after_;
  std::size_t done_ = 0;
  bool finished_ = false;
};
/// decode_add of each, together where a JointDecoder can, else, and where threads share them, one after the
/// other; and then after.
void decode_add(std::span<const WeightedPayload> payloads, std::span<float> acc, const After& after,
                Threads* threads = nullptr);

/// Entries of a vector whose others are 0.
struct FewEntries {
  std::vector<std::uint32_t> indices;  ///< ascending
  std::vector<float> values;           ///< of each index
  struct Told {
    std::uint32_t index;
    float value;
  };
  std::vector<Told> told{};  ///< of payload after payload: memory of add_few's
};
/// sum ← Σ weight · decode(payload) of n entries, to the bit as decode_add of each in turn to zeros makes it,
/// in time of what the payloads hold: the entries that any of them tells. false: one is of a codec that tells
/// all, or they tell too many. Throws PayloadError.
bool add_few(std::span<const WeightedPayload> payloads, std::size_t n, FewEntries& sum);

/// acc ← decode(payload), to the bit as decode_add to zeros makes it; of a dense payload in one pass.
void decode_to(std::span<const std::byte> payload, std::span<float> acc, Threads* threads = nullptr);

/// Writes to the front of out the dense payload of factor·x + decode(payload), and returns its bytes; what is
/// decoded is a dense payload of as many entries. The same bytes as decode_add (weight 1) to factor·x + 0 and
/// encode make, in one pass over each. Throws as both.
std::size_t encode_sum(std::span<const std::byte> payload, float factor, std::span<const float> x,
                       std::span<std::byte> out, Threads* threads = nullptr);

/// The same of x alone: the dense payload of factor·x + 0.
std::size_t encode_multiple(float factor, std::span<const float> x, std::span<std::byte> out,
                            Threads* threads = nullptr);

/// Is given entries [first, first + values.size()).
using UseEntries = std::function<void(std::size_t first, std::span<const float> values)>;
/// What decode_to leaves of a dense payload of n entries goes to `use`, a few thousand at a time, on any of
/// the threads. Throws PayloadError, where an entry is wrong when others have been used.
void read_in_blocks(std::span<const std::byte> payload, std::size_t n, const UseEntries& use,
                    Threads* threads = nullptr);

/// Codec name and number of entries that a payload claims; throws PayloadError for an unknown or short
/// header.
struct PayloadInfo {
  std::string_view codec;
  std::uint64_t entries;
};
PayloadInfo inspect(std::span<const std::byte> payload);

/// How a payload's buckets were sent, where its codec has several ways: each way's name and share of the
/// buckets, which add up to 1. None of other codecs and of no buckets. Throws PayloadError as inspect does,
/// and where the payload ends early.
struct PayloadShare {
  std::string_view name;  ///< "buckets dense"
  double share;
};
std::vector<PayloadShare> payload_shares(std::span<const std::byte> payload);

struct CodecRow {
  const char* name;
  const char* parameters;  ///< "bits=4 (2, 4, 8), bucket=512, norm=max (max, l2)"
  const char* help;        ///< one line: rule and guarantee
  /// Parameters under which swarms run it, on small models: "bits=4 bits=8,norm=l2"; empty: its defaults.
  const char* drawn = "";
};
std::span<const CodecRow> codec_table();

/// Sends floats as they are.
inline constexpr const char* kDense = "dense";

/// From "name" or "name:key=value,key=value". Throws CodecError.
std::unique_ptr<const Codec> make_codec(std::string_view spec);

}  // namespace gossamer::compress

#pragma once
// Changes of a table's rows as payloads: a RowSender keeps what has not been sent of the rows that it was
// told of, and says when a row has changed enough; a RowReceiver gives back what was sent. Keys have 64 bits;
// one that has been sent before goes as the number that both ends then gave it, so that rows that change
// often take a few bits each.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

struct RowsSpec {
  std::size_t width = 1;  ///< floats of a row, in [1, 4096]
  std::size_t linear = 1;  ///< the first ones, coded apart from the others: they are of another size; ≤ width
  std::string codec = "onebit_scaled";  ///< of the floats: one that may run under error feedback, not sparse
  /// Share of the rows told of that is to be sent, in (0, 1]; 1: all, at once.
  double density = 0.04;
  /// Rows with something unsent, at least 16; where there are more, those not touched for longest are sent
  /// whole.
  std::size_t most_unsent = std::size_t{1} << 20;
  std::size_t most_numbered = std::size_t{1} << 20;  ///< keys that get a number; others go in full each time
};
/// Throws CodecError for an unknown codec and one that cannot carry changes, and for numbers out of range.
void check_rows_spec(const RowsSpec& spec);

struct RowCounters {
  std::uint64_t touched = 0;     ///< rows told of, in each message once
  std::uint64_t sent = 0;        ///< because they passed the threshold
  std::uint64_t flushed = 0;     ///< whole, to make room
  std::uint64_t introduced = 0;  ///< of both, those whose key went in full
  std::uint64_t bytes = 0;       ///< of payloads
};

/// Keys ascend; row i is values[i·width, (i+1)·width).
struct RowChanges {
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
};

/// Error feedback by key (Karimireddy et al. 2019, Error Feedback Fixes SignSGD, for rows that are touched):
/// e_k += change; where max |e_k| ≥ τ, C(e_k) is sent and e_k −= C(e_k); a key that must go in full waits for
/// 1.2 τ. τ follows the density. Rows that changed by more than the mean of those sent are coded apart,
/// outliers go exactly. One thread at a time.
class RowSender {
 public:
  /// Throws as check_rows_spec.
  explicit RowSender(const RowsSpec& spec);
  ~RowSender();
  RowSender(RowSender&&) noexcept;

  /// Keys of one call are distinct; values are finite, or EncodeError is thrown and nothing added.
  void add(std::span<const std::uint64_t> keys, std::span<const float> values);
  /// The next message; tells in `sent`, where given, what the receivers will make of it.
  std::vector<std::byte> encode(RandomKey key, Workspace& workspace, RowChanges* sent = nullptr);
  const RowCounters& counters() const;
  /// Shows every row of which something is unsent.
  void visit(const std::function<void(std::uint64_t key, std::span<const float> unsent)>& visitor) const;

  /// All that it keeps between messages.
  std::vector<std::byte> save() const;
  /// Throws StateError.
  void restore(std::span<const std::byte> saved);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Messages of one sender, each once and in order. One thread at a time.
class RowReceiver {
 public:
  explicit RowReceiver(const RowsSpec& spec) : spec_(spec) {}
  /// Replaces `changes`. Throws PayloadError for a malformed payload; what goes under a number that was never
  /// given is left out and counted.
  void decode(std::span<const std::byte> payload, RowChanges& changes);
  std::uint64_t unknown() const { return unknown_; }

  std::vector<std::byte> save() const;
  void restore(std::span<const std::byte> saved);  ///< throws StateError

 private:
  RowsSpec spec_;
  std::vector<std::uint64_t> numbered_;
  std::uint64_t unknown_ = 0;
};

/// Whether decode takes it, whatever was sent before.
bool decodes_rows(const RowsSpec& spec, std::span<const std::byte> payload);

}  // namespace gossamer::compress

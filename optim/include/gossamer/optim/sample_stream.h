#pragma once
// A SampleStream reads sparse samples ahead from text that need not fit into memory nor ever end.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/optim/sparse.h"

namespace gossamer::optim {

/// csv: the first lines of whichever text was begun first, by which the columns of all are known.
/// Thread-safe.
class SampleHead {
 public:
  struct Text {
    std::string name, lines;
  };
  /// These, unless it holds others already; returns those that it holds.
  Text hold(Text text) {
    const std::lock_guard lock(mutex_);
    if (!text_) text_ = std::move(text);
    return *text_;
  }
  std::optional<Text> held() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Text> text_;
};

struct SampleStreamSpec {
  std::string format = "libsvm";  ///< a name of sample_format_table()
  /// A file, "-" for standard input, or a folder, whose files are read in the order of their names (those
  /// that begin with a dot are passed over). Text is plain or gzip.
  std::string path{};
  /// In place of path: a command for /bin/sh whose standard output is read; "hdfs dfs -cat /logs/part-*".
  std::string command{}, command_key = "data.command";  ///< the key: for messages
  /// Does not end where the text does: waits for lines that are appended to plain files, for new files of the
  /// folder (a gzip file that breaks off is read on once it has grown, for a minute). A file that takes
  /// another's name is a new one; one that is renamed is not, and one that is removed is forgotten.
  bool follow = false;
  double patience_s = 0.5;      ///< follow: how long next() waits before it returns fewer samples
  std::string label = "first";  ///< csv: label column: first, last, a 0-based index or a header name
  /// csv: columns hashed as text, by index or name; "*" for all; none: those whose first value, in the first
  /// 100 rows (64 KiB, or all of a text that has ended, or has not grown for 5 s), is no number. No row is
  /// given out before that is known.
  std::vector<std::string> text{};
  std::shared_ptr<SampleHead> head{};  ///< csv: of all streams whose columns are the same; null: of this one
  std::vector<std::string> namespaces{};  ///< vw: field i is the i-th of these; none: a hash below `fields`
  std::size_t fields = 64;                ///< vw
  std::size_t most_fields = 0;            ///< libffm: fields are below it, or the line is bad; 0: any
  std::size_t threads = 1;                ///< that read and parse ahead; 0: next() does
  std::uint64_t memory = 64 << 20;        ///< bytes of text and samples at any moment, at least 1 MiB
  bool shuffle = true;                    ///< else in the order of the text
  std::size_t shuffle_rows = 0;       ///< to draw from, if memory holds ten times as many; 0: what it holds
  std::uint64_t seed = 1, epoch = 0;  ///< of the order; of the peers' shares, the seed alone
  std::size_t peer = 0, peers = 1;    ///< reads the share of this one of so many peers
  double alpha = 0;                   ///< above 0: label skew of the shares, as split dirichlet:ALPHA
  /// As SplitSpec's: names of the peers, and of all that the samples were dealt to at first.
  std::vector<std::string> names{}, homes{};
  bool stays = false;           ///< the same
  std::uint64_t max_bad = 100;  ///< lines that cannot be understood before next() throws
};

struct StreamCounters {
  std::uint64_t lines = 0, text_bytes = 0;  ///< read, unpacked, of all peers' shares
  std::uint64_t samples = 0, entries = 0;   ///< handed out
  std::uint64_t bad_lines = 0;              ///< of this peer's share
  std::vector<std::string> bad{};  ///< the first of them: "file:line:column: found …, expected …"
  std::uint64_t memory = 0, peak_memory = 0;  ///< bytes of text and samples held: now, at most
};

/// Deterministic where the text comes from files that do not grow: equal specifications, equal samples in
/// equal order, however many threads. Which peer a sample belongs to depends on seed, content, and position
/// (byte offset of its line; in a folder its file's name too), so that peers that read the same text share it
/// out, each line to one: all are dealt to the homes alike, and those of homes that are not there to the
/// others by rendezvous. One thread at a time.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  /// batch ← the next samples, at most `size`, after clear(bias). Fewer mark the end, or with `follow` that
  /// patience_s passed (there may be none). False at the end, when the batch is empty. Throws OptimError:
  /// what cannot be read or unpacked, a command whose exit status is not 0, a line longer than memory/256 (at
  /// most 512 KiB), more bad lines than max_bad; then every later call throws it too.
  virtual bool next(std::size_t size, bool bias, SparseBatch& batch) = 0;
  virtual StreamCounters counters() const = 0;
  /// With `follow`, before any next(): at most so many samples of those that are there are passed over, which
  /// another stream gave; of these so many first ones in the order of the text, as its in_order() says, the
  /// others as next() would give them. Returns how many were.
  virtual std::uint64_t skip(std::uint64_t, std::uint64_t) { return 0; }
  /// So many samples that were handed out or passed over are the text's first, in whatever order; later ones
  /// were drawn from more than were handed out.
  virtual std::uint64_t in_order() const { return 0; }
  /// What has not been read yet is shared out as seed, peer, peers, alpha, names, homes and stays of that
  /// specification say.
  virtual void share_anew(const SampleStreamSpec& spec) = 0;
  /// next() calls it, many times a second, where it waits for more than patience_s says, or at_once for
  /// anything. What it throws ends that call; the next one, of the same size and bias, begins with what was
  /// there. Empty: nothing is called.
  virtual void while_waiting(std::function<void()>, bool /*at_once*/) {}
};
std::span<const NamedHelp> sample_format_table();  ///< libsvm, libffm, vw, csv
/// Throws OptimError for unknown names, values out of range, and what cannot be opened.
std::unique_ptr<SampleStream> open_samples(const SampleStreamSpec& spec);

/// csv: puts the first lines of spec.path into spec.head; false where there are none, or with `follow` none
/// yet. Throws OptimError as open_samples and next.
bool note_head(const SampleStreamSpec& spec);

/// What a text that ends holds, whoever reads it.
struct SampleCensus {
  std::uint64_t lines = 0;  ///< that are not blank, nor (libsvm, libffm) comments
  std::uint64_t hash = 0;   ///< of the bytes, unpacked: equal text, equal hash
};
/// Reads all of the files of spec.path once. Throws OptimError as open_samples and next.
SampleCensus count_lines(const SampleStreamSpec& spec);

}  // namespace gossamer::optim

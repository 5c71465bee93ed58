#include "gossamer/optim/sample_stream.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <utility>

#include "block_queue.h"
#include "line_format.h"
#include "scan.h"
#include "shuffle_pool.h"
#include "text.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kMostBadKept = 5;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // of text that is only looked at
constexpr double kPatienceFirst = 10;  // as long for a text's first block, where there is to be one
constexpr std::uint64_t kLeastMemory = 1U << 20;
constexpr std::uint64_t kPassedOver = 1024;                                   // samples at once
constexpr BlockQueue::Clock::duration kLook = std::chrono::milliseconds(50);  // of whoever waits

void require_stream(bool good, const char* what, double found, const char* expected) {
  if (good) return;
  throw OptimError(std::string("data ") + what + ": found " + std::to_string(found) + ", expected " +
                   expected);
}

const SampleStreamSpec& checked(const SampleStreamSpec& spec) {
  require_stream(spec.memory >= kLeastMemory, "memory", static_cast<double>(spec.memory),
                 "at least 1 MiB (1048576)");
  require_stream(std::isfinite(spec.patience_s) && spec.patience_s >= 0, "patience_s", spec.patience_s,
                 "at least 0");
  require_stream(spec.peers >= 1, "peers", 0, "at least 1");
  require_stream(spec.peer < spec.peers, "peer", static_cast<double>(spec.peer), "less than peers");
  require_stream(std::isfinite(spec.alpha) && spec.alpha >= 0, "alpha", spec.alpha, "at least 0");
  require_stream(spec.threads <= 64, "threads", static_cast<double>(spec.threads), "at most 64");
  return spec;
}

/// Memory: a quarter for the queue, 9/16 for the pool, the rest for the block between them (at most 33/256).
class ParsedStream final : public SampleStream {
 public:
  explicit ParsedStream(const SampleStreamSpec& spec)
      : spec_(checked(spec)),
        pool_(spec.shuffle, spec.shuffle_rows, spec.memory / 16 * 9,
              make_key(spec.seed, Use::stream, spec.epoch, spec.peer), meter_),
        queue_(spec, spec.memory / 4, meter_) {}

  bool next(std::size_t size, bool bias, SparseBatch& batch) override {
    batch.clear(bias);
    refuse_bad();
    if (begun_.size() > 0) std::swap(batch, begun_);
    try {
      draw(size, after_patience(at_once_ ? 0 : 1), batch);
    } catch (...) {
      std::swap(batch, begun_);
      batch.clear(bias);
      throw;
    }
    begun_.clear(bias);
    counters_.samples += batch.size();
    counters_.entries += batch.entries();
    return batch.size() > 0 || size == 0 || !ended_;
  }

  std::uint64_t skip(std::uint64_t samples, std::uint64_t in_order) override {
    std::uint64_t left = spec_.shuffle ? std::min(in_order, samples) : samples;
    auto until = after_patience(kPatienceFirst);
    for (; left > 0 && !ended_ && take(until); until = after_patience()) {
      skipped_ = static_cast<std::size_t>(std::min<std::uint64_t>(left, pending_->rows()));
      left -= skipped_;
      taken_ += skipped_;
    }
    for (SparseBatch batch; left == 0 && taken_ < samples; until = after_patience()) {
      batch.clear(false);
      draw(static_cast<std::size_t>(std::min<std::uint64_t>(kPassedOver, samples - taken_)), until, batch);
      if (batch.size() == 0) break;
    }
    return taken_;
  }
  std::uint64_t in_order() const override { return pool_.empty() ? taken_ : in_order_; }

  void share_anew(const SampleStreamSpec& spec) override { queue_.share_anew(spec); }
  void while_waiting(std::function<void()> f, bool at_once) override {
    waits_ = std::move(f);
    at_once_ = at_once;
  }

  StreamCounters counters() const override {
    StreamCounters now = counters_;
    now.memory = meter_.held();
    now.peak_memory = meter_.most();
    return now;
  }

 private:
  BlockQueue::Clock::time_point after_patience(double times = 1) const {
    return BlockQueue::Clock::now() + std::chrono::duration_cast<BlockQueue::Clock::duration>(
                                          std::chrono::duration<double>(times * spec_.patience_s));
  }

  void draw(std::size_t size, BlockQueue::Clock::time_point deadline, SparseBatch& batch) {
    while (batch.size() < size) {
      fill(deadline);
      const ShufflePool::Pick* pick = pool_.next();
      if (!pick) break;
      batch.add(pick->block->at(pick->row));
      ++taken_;
    }
  }

  /// Adds blocks while the pool wants them. What is drawn from text that grows goes by what came since the
  /// pool was empty last, so that skip() can draw it again.
  void fill(BlockQueue::Clock::time_point deadline) {
    if (spec_.follow && pool_.empty() && taken_ > in_order_) pool_.begin_anew(in_order_ = taken_);
    while (!ended_ && pool_.wants()) {
      if (!pending_ && !take(deadline)) return;
      if (!pool_.make_room(*pending_)) return;
      pool_.add(std::move(pending_), std::exchange(skipped_, 0));
    }
  }

  bool take(BlockQueue::Clock::time_point deadline) {
    drop_pending();
    std::optional<BlockQueue::Clock::time_point> until;
    // Once nothing more comes, what is there is handed out without waiting for each batch again.
    if (spec_.follow) until = quiet_ && !pool_.empty() ? BlockQueue::Clock::now() : deadline;
    const BlockQueue::Found found = until || !waits_ ? queue_.next(until, pending_) : wait();
    quiet_ = found == BlockQueue::Found::nothing_yet;
    ended_ = found == BlockQueue::Found::end;
    if (found == BlockQueue::Found::block) count(*pending_);
    return found == BlockQueue::Found::block;
  }

  BlockQueue::Found wait() {
    for (auto look = at_once_ ? BlockQueue::Clock::duration() : kLook;; look = kLook, waits_()) {
      const BlockQueue::Found found = queue_.next(BlockQueue::Clock::now() + look, pending_);
      if (found != BlockQueue::Found::nothing_yet) return found;
    }
  }

  /// A block that was passed over whole.
  void drop_pending() {
    if (pending_) meter_.remove(pending_->bytes());
    pending_.reset();
    skipped_ = 0;
  }

  void count(const SampleBlock& block) {
    counters_.lines += block.lines;
    counters_.text_bytes += block.text_bytes;
    counters_.bad_lines += block.bad_lines;
    for (const std::string& message : block.bad)
      if (counters_.bad.size() < kMostBadKept) counters_.bad.push_back(message);
    refuse_bad();
  }

  void refuse_bad() const {
    if (counters_.bad_lines <= spec_.max_bad) return;
    std::string message = "data: found " + std::to_string(counters_.bad_lines) +
                          " bad lines, expected at most " + std::to_string(spec_.max_bad) +
                          " (max_bad); the first:";
    for (const std::string& line : counters_.bad) message += "\n  " + line;
    throw OptimError(message);
  }

  SampleStreamSpec spec_;
  MemoryMeter meter_;
  ShufflePool pool_;
  BlockQueue queue_;
  SparseBatch begun_;                       ///< by a call that while_waiting ended
  std::unique_ptr<SampleBlock> pending_;    ///< that the pool had no room for
  std::size_t skipped_ = 0;                 ///< its first samples, which are passed over
  std::uint64_t taken_ = 0, in_order_ = 0;  ///< samples; of these the text's first, when it was empty last
  bool ended_ = false, quiet_ = false, at_once_ = false;
  std::function<void()> waits_;
  StreamCounters counters_;
};

/// Lines that are not blank, and no comments.
std::uint64_t lines_of(std::string_view text, bool comments) {
  std::uint64_t lines = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    while (at < text.size() && (is_blank(text[at]) || text[at] == '\r')) ++at;
    if (at == text.size()) break;
    if (text[at] != '\n' && !(comments && text[at] == '#')) ++lines;
    at = std::min(text.size(), text.find('\n', at));
  }
  return lines;
}

}  // namespace

std::unique_ptr<SampleStream> open_samples(const SampleStreamSpec& spec) {
  return std::make_unique<ParsedStream>(spec);
}

bool note_head(const SampleStreamSpec& spec) {
  if (spec.format != "csv") return true;  // no other's lines tell what the others are
  const std::atomic<bool> stop{false};
  TextPiece piece;
  const auto format = make_line_format(spec);
  const auto text = open_text(spec, stop, [&](std::string_view lines) { return format->can_start(lines); });
  if (text->next(kPieceBytes, piece) != TextSource::Found::piece) return false;
  format->start(piece);
  return true;
}

SampleCensus count_lines(const SampleStreamSpec& spec) {
  const std::atomic<bool> stop{false};
  SampleStreamSpec whole = spec;
  whole.follow = false;
  const auto text = open_text(whole, stop);
  const bool comments = spec.format == "libsvm" || spec.format == "libffm";
  SampleCensus census;
  TextPiece piece;
  while (text->next(kPieceBytes, piece) == TextSource::Found::piece) {
    census.lines += lines_of(piece.view(), comments);
    census.hash = XXH3_64bits_withSeed(piece.bytes.get(), piece.size, census.hash);
  }
  return census;
}

}  // namespace gossamer::optim

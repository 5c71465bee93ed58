#include "block_queue.h"

#include <algorithm>
#include <utility>

namespace gossamer::optim {
namespace {

constexpr std::size_t kLeastPiece = 1U << 12;
constexpr auto kLook = std::chrono::milliseconds(50);  // between looks for text that was appended

/// Empty lines are none.
std::size_t most_rows(const TextPiece& piece) {
  return std::min<std::size_t>(piece.line_breaks, piece.size / 2) + 1;
}

}  // namespace

// A piece takes its text and, parsed, at most 32 times as much (lines of a separator alone), and all of that
// has to fit in a quarter of the stream's memory even where it is: 1/256 of the whole for the text.
BlockQueue::BlockQueue(const SampleStreamSpec& spec, std::size_t memory, MemoryMeter& meter)
    : memory_(memory),
      piece_bytes_(std::clamp<std::size_t>(spec.memory / 256, kLeastPiece, kMostPiece)),
      meter_(meter),
      format_(make_line_format(spec)),
      text_(open_text(spec, stop_, [this](std::string_view text) { return format_->can_start(text); })),
      share_(std::make_shared<const SampleShare>(spec)) {
  for (std::size_t i = 0; i < spec.threads; ++i) threads_.emplace_back([this] { work(); });
}

BlockQueue::~BlockQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void BlockQueue::work() {
  while (!stop_ && step(true)) {
  }
}

void BlockQueue::share_anew(const SampleStreamSpec& spec) {
  auto share = std::make_shared<const SampleShare>(spec);
  const std::lock_guard lock(mutex_);
  share_ = std::move(share);
}

std::shared_ptr<const SampleShare> BlockQueue::share() {
  const std::lock_guard lock(mutex_);
  return share_;
}

void BlockQueue::pause(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [this] { return stop_.load(); });
}

/// Waits for room, but for what the caller itself holds; false if stopped.
bool BlockQueue::reserve(std::size_t bytes, std::size_t own) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || reserved_ + bytes <= memory_ || reserved_ == own; });
  reserved_ += bytes;
  meter_.add(bytes);
  return !stop_;
}

void BlockQueue::release(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    reserved_ -= bytes;
    meter_.remove(bytes);
  }
  changed_.notify_all();
}

void BlockQueue::deliver(std::uint64_t turn, Ready ready) {
  {
    const std::lock_guard lock(mutex_);
    ready_[turn] = std::move(ready);
  }
  changed_.notify_all();
}

/// The next piece, with room for what it becomes; none at the end, and where there is nothing yet and the
/// caller will not wait. Whoever has `reading_`.
std::optional<BlockQueue::Piece> BlockQueue::read(bool wait) {
  Piece piece{.turn = read_, .reserved = piece_bytes_ + kTextPadding};
  if (!reserve(piece.reserved, 0)) return std::nullopt;
  TextSource::Found found = text_->next(piece_bytes_, piece.text);
  while (found == TextSource::Found::nothing_yet && wait && !stop_) {
    pause(Clock::now() + kLook);
    found = text_->next(piece_bytes_, piece.text);
  }
  if (found == TextSource::Found::end) {
    ended_ = true;
    const std::lock_guard lock(mutex_);
    end_ = read_;
  }
  if (found != TextSource::Found::piece || stop_) {  // then a text may seem to end here
    release(piece.reserved);
    return std::nullopt;
  }
  ++read_;
  if (piece.text.starts_text) piece.text.skip = format_->start(piece.text);
  piece.entries = format_->most_entries(piece.text);
  const std::size_t room = SampleBlock::bytes_of(most_rows(piece.text), piece.entries, format_->has_fields());
  if (!reserve(room, piece.reserved)) return std::nullopt;
  piece.reserved += room;
  return piece;
}

/// Reads and parses one piece. False where there is none.
bool BlockQueue::step(bool wait) {
  std::optional<Piece> piece;
  {
    const std::lock_guard reading(reading_);
    if (ended_) return false;
    const std::uint64_t turn = read_;
    try {
      piece = read(wait);
    } catch (...) {
      ended_ = true;  // before anybody else reads on
      deliver(turn, {nullptr, std::current_exception()});
    }
  }
  if (!piece) return false;
  try {
    deliver(piece->turn, {parse(*piece), nullptr});
  } catch (...) {
    deliver(piece->turn, {nullptr, std::current_exception()});
  }
  return true;
}

/// The piece's reserved bytes become the block's.
std::unique_ptr<SampleBlock> BlockQueue::parse(Piece& piece) {
  TextPiece& text = piece.text;
  auto block = std::make_unique<SampleBlock>(most_rows(text), piece.entries, format_->has_fields());
  block->lines = text.line_breaks + (text.view().ends_with('\n') ? 0 : 1);
  block->text_bytes = text.size;
  format_->parse(text, *share(), *block);
  text.bytes.reset();
  block->shrink();
  release(piece.reserved - block->bytes());
  return block;
}

BlockQueue::Found BlockQueue::next(std::optional<Clock::time_point> deadline,
                                   std::unique_ptr<SampleBlock>& block) {
  std::unique_lock lock(mutex_);
  const auto known = [this] { return ready_.contains(turn_) || (end_ && *end_ == turn_); };
  while (threads_.empty() && !known()) {
    lock.unlock();
    if (!step(false)) {
      lock.lock();
      if (known() || (deadline && Clock::now() >= *deadline)) break;
      lock.unlock();
      pause(std::min(deadline.value_or(Clock::time_point::max()), Clock::now() + kLook));
    }
    lock.lock();
  }
  if (!deadline)
    changed_.wait(lock, known);
  else if (!changed_.wait_until(lock, *deadline, known))
    return Found::nothing_yet;
  const auto ready = ready_.find(turn_);
  if (ready == ready_.end()) return Found::end;
  if (ready->second.error) std::rethrow_exception(ready->second.error);
  block = std::move(ready->second.block);
  ready_.erase(ready);
  ++turn_;
  reserved_ -= block->bytes();
  lock.unlock();
  changed_.notify_all();
  return Found::block;
}

void SampleBlock::shrink() {
  const std::size_t used = bytes_of(rows_, entries_, fields_ != nullptr);
  if (used * 4 >= bytes() * 3) return;
  const auto copy = [](auto& from, std::size_t n) {
    using Element = std::remove_reference_t<decltype(from[0])>;
    auto to = std::make_unique_for_overwrite<Element[]>(n);
    std::copy_n(from.get(), n, to.get());
    from = std::move(to);
  };
  copy(heads_, rows_);
  copy(keys_, entries_);
  copy(values_, entries_);
  if (fields_) copy(fields_, entries_);
  most_rows_ = rows_;
  most_entries_ = entries_;
}

}  // namespace gossamer::optim

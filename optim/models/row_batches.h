#pragma once
// RowBatches are the batches of the rows that were dealt to a peer, step by step.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/optim/course.h"
#include "gossamer/optim/objective.h"

namespace gossamer::optim {

/// Of all peers' data together.
inline std::uint64_t hash_of_rows(const RowObjectiveParts& parts) {
  return parts.train->hash() ^ (parts.test->hash() * 3);
}

class RowBatches {
 public:
  /// model and teachers are not looked at.
  explicit RowBatches(const RowObjectiveParts& parts)
      : train_(parts.train),
        split_(parts.split),
        peer_(parts.peer),
        batch_(parts.batch),
        prefetch_(parts.prefetch),
        course_(parts.course) {
    if (course_) course_->enter(*split_, peer_, parts.first_step);
  }

  /// Steps ascend, but for where they first begin. flip: as BatchKey's flip_labels. Valid until the next.
  Batch take(std::uint64_t step, bool flip) {
    was_ahead_ = std::exchange(is_ahead_, false) && step == next_ && !flip;
    if (!stream_ || step != next_)
      stream_ = std::make_unique<BatchStream>(train_, course_ ? course_->sampler() : split_->sampler(peer_),
                                              batch_, step, prefetch_);
    next_ = step + 1;
    if (course_) course_->took(step);
    Batch batch = stream_->next();
    if (flip) flip_labels(batch);
    return batch;
  }
  /// What take gives for the step after its last, where it has been gathered already; else null.
  const Batch* ahead() {
    const Batch* const next = stream_ ? stream_->ahead() : nullptr;
    is_ahead_ = next != nullptr;
    return next;
  }
  /// What was taken last is what ahead gave before.
  bool was_ahead() const { return was_ahead_; }
  /// Numbers of the rows that were taken last.
  std::span<const std::uint32_t> rows() const {
    return stream_ ? stream_->rows() : std::span<const std::uint32_t>();
  }
  std::uint64_t steps_per_epoch() const {
    return std::max<std::uint64_t>(1, split_->sampler(peer_)->steps_per_epoch());
  }
  std::size_t classes() const { return train_->classes(); }

 private:
  void flip_labels(Batch& batch) {
    flipped_.resize(batch.labels.size());
    const auto last = static_cast<std::int32_t>(classes()) - 1;
    std::transform(batch.labels.begin(), batch.labels.end(), flipped_.begin(),
                   [last](std::int32_t c) { return last - c; });
    batch.labels = flipped_;
  }

  std::shared_ptr<const Dataset> train_;
  const Split* split_;
  std::size_t peer_, batch_;
  bool prefetch_;
  std::shared_ptr<DataCourse> course_;
  std::unique_ptr<BatchStream> stream_;
  std::uint64_t next_ = 0;  ///< the step that stream_ stands before
  bool is_ahead_ = false, was_ahead_ = false;
  std::vector<std::int32_t> flipped_;
};

}  // namespace gossamer::optim

#pragma once
// A PassSampler reads its rows as one endless sequence of passes.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/optim/data.h"

namespace gossamer::optim {

constexpr std::uint64_t kNoPass = std::numeric_limits<std::uint64_t>::max();

class PassSampler : public Sampler {
 public:
  /// steps: per epoch. length: rows of a pass.
  PassSampler(std::size_t batch, std::size_t steps, std::size_t length)
      : batch_(batch), steps_(steps), length_(length) {
    assert(length >= 1);
  }

  /// Begins with those rows at that step; then comes the pass after theirs.
  void go_on(std::uint64_t first_step, RowsLeft left) {
    first_step_ = first_step;
    first_ = std::move(left);
  }

  std::size_t steps_per_epoch() const override { return steps_; }
  void rows_of(std::uint64_t step, std::span<std::uint32_t> rows) override {
    assert(rows.size() == batch_ && step >= first_step_);
    for (std::size_t j = 0; j < rows.size(); ++j) rows[j] = at((step - first_step_) * batch_ + j);
  }
  RowsLeft left(std::uint64_t step) override {
    assert(step >= first_step_);
    const std::uint64_t q = (step - first_step_) * batch_, first = first_.rows.size();
    if (q < first)
      return {{first_.rows.begin() + static_cast<std::ptrdiff_t>(q), first_.rows.end()}, first_.next_pass};
    const std::uint64_t pass = first_.next_pass + (q - first) / length_;
    RowsLeft left{{}, pass};
    const auto taken = static_cast<std::size_t>((q - first) % length_);
    if (taken == 0) return left;
    ++left.next_pass;
    for (std::size_t entry = taken; entry < length_; ++entry) left.rows.push_back(row(pass, entry));
    return left;
  }

 protected:
  std::size_t batch() const { return batch_; }
  /// Entry of a pass; passes mostly ascend.
  virtual std::uint32_t row(std::uint64_t pass, std::size_t entry) = 0;

 private:
  std::uint32_t at(std::uint64_t q) {
    const std::uint64_t first = first_.rows.size();
    if (q < first) return first_.rows[q];
    return row(first_.next_pass + (q - first) / length_, static_cast<std::size_t>((q - first) % length_));
  }

  std::size_t batch_, steps_, length_;
  std::uint64_t first_step_ = 0;
  RowsLeft first_{};
};

}  // namespace gossamer::optim

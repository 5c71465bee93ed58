#pragma once
// A DataCourse is where a peer stands in its data, from one deal of them to the next: a pass over its rows,
// or over a stream that ends, is finished as it began, and the next one is over what the peer has then.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "gossamer/optim/data.h"
#include "gossamer/optim/sample_stream.h"

namespace gossamer::optim {

/// One peer's. Objectives that are given it take it one from another: the next is made when the former
/// computes no more.
class DataCourse {
 public:
  /// Of rows: the split, and the peer's number in it, from the step first_step on. The first time, the split
  /// alone says which rows those are; so it does where the former objective had no step.
  void enter(const Split& split, std::size_t peer, std::uint64_t first_step) {
    if (next_) {
      RowsLeft left = here_->left(*next_);
      make_ = [&split, peer, first_step, left] { return split.sampler(peer, first_step, left); };
      next_ = first_step;
    } else {
      make_ = [&split, peer] { return split.sampler(peer); };
    }
    here_ = make_();
  }
  /// Another one of those rows.
  std::unique_ptr<Sampler> sampler() const { return make_(); }
  void took(std::uint64_t step) { next_ = step + 1; }

  // of samples that are streamed
  std::shared_ptr<SampleStream> stream;  ///< null: none was opened
  std::uint64_t epoch = 0, samples = 0;  ///< the stream's, and taken from it

 private:
  std::function<std::unique_ptr<Sampler>()> make_;
  std::unique_ptr<Sampler> here_;
  std::optional<std::uint64_t> next_;  ///< step; none was taken yet
};

}  // namespace gossamer::optim

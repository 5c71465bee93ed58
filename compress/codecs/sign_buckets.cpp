#include "sign_buckets.h"

namespace gossamer::compress {

void SignInput::scan(Sums kind, std::size_t start, SignScan scan) {
  scan.g = g_.data() + start;
  if (state_ == nullptr) return scan_signs(kind, scan);
  const std::size_t at =
      scan_signs(kind, scan, residual(start), state_->pending.data() + start / scan.bucket);
  if (at == scan.n) return;
  std::size_t first = bad_.load();
  while (start + at < first && !bad_.compare_exchange_weak(first, start + at)) {
  }
}

std::span<const float> SignInput::v(std::size_t start, std::size_t n) const {
  return (state_ == nullptr ? g_ : std::span<const float>(state_->residual)).subspan(start, n);
}

void SignInput::require_finite(std::size_t start, std::size_t n) const {
  // Finite entries may have a sum that is not, in every bucket: only where one is bad all are looked at.
  if (state_ == nullptr && wire::first_not_finite(g_.subspan(start, n)) != n) wire::require_finite(g_);
}

void SignInput::finish() {
  if (!failed()) return;
  state_->pending.clear();
  const std::size_t i = bad_.load();
  wire::refuse_entry(i, g_.size(), g_[i] + state_->residual[i]);
}

}  // namespace gossamer::compress

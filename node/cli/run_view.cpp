#include "run_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "records.h"

namespace gossamer::node {

void RunView::update(std::size_t peer, const Report& report) {
  if (report.test) {
    test_ = *report.test;
    return;
  }
  latest_[peer] = report;
  there_ = static_cast<std::size_t>(report.peers);
}

void RunView::ended(std::size_t peer) { latest_[peer].reset(); }

std::string RunView::text(double elapsed) const {
  std::string text = fmt::format("{:<12} {:>8} {:>6} {:>8} {:>10} {:>9} {:>9} {:>9}\n", "peer", "round",
                                 "epoch", "loss", "samples/s", "MB/s out", "MB/s in", "staleness");
  double samples = 0, epoch = 0, done = there_ == names_.size() ? 1 : 0;
  for (std::size_t p = 0; p < names_.size(); ++p) {
    const Report r = latest_[p].value_or(Report{});
    done = there_ == names_.size() ? std::min(done, r.share_done) : std::max(done, r.share_done);
    samples += r.rows_per_second;
    epoch = std::max(epoch, r.epoch);
    text += fmt::format("{:<12} {:>8} {:>6.1f} {:>8.4f} {:>10.0f} {:>9.2f} {:>9.2f} {:>9.0f}\n", names_[p],
                        r.round, r.epoch, r.loss, r.rows_per_second, r.bytes_out_per_second / 1e6,
                        r.bytes_in_per_second / 1e6, r.staleness);
  }
  const std::string eta = done > 0 ? fmt::format("{:.0f} s", elapsed * (1 - done) / done) : "–";
  text +=
      fmt::format("{:.0f} % done  epoch {:.1f}  {:.0f} samples/s  ETA {}", 100 * done, epoch, samples, eta);
  if (there_ < names_.size()) text += fmt::format("  {} of {} peers", there_, names_.size());
  if (!test_.empty()) text += "  " + figures_text(test_);
  return text;
}

}  // namespace gossamer::node

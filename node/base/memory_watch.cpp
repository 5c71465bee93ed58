#include "memory_watch.h"

#include <fmt/format.h>

#include "text.h"

namespace gossamer::node {
namespace {

constexpr double kLookEvery_s = 5;
constexpr double kLeastLeft = 0.05;  ///< of all memory
constexpr const char* kAdvice =
    "; what takes less: a smaller optimizer.batch, exchange.staleness or table.memory, or fewer peers on "
    "this machine";

std::string amount(std::uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

}  // namespace

std::optional<std::string> MemoryWatch::look(double now, const MemoryUse& use) {
  next_ = now + kLookEvery_s;
  const bool above = limit_ > 0 && use.resident > limit_;
  const bool scarce = static_cast<double>(use.available) < kLeastLeft * static_cast<double>(use.total);
  if (!above && !scarce) return std::nullopt;
  warned_ = true;
  return (above ? fmt::format("warning: this peer takes {} of memory, and run.memory is {}",
                              amount(use.resident), amount(limit_))
                : fmt::format("warning: {} of memory are left of {}, and this peer takes {}",
                              amount(use.available), amount(use.total), amount(use.resident))) +
         kAdvice;
}

}  // namespace gossamer::node

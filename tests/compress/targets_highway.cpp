#include <hwy/highway.h>

#include "targets.h"

namespace gossamer::compress::test {
namespace {

void use(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Puts the choice back, also where the body throws.
struct Restore {
  ~Restore() { use(0); }
};

}  // namespace

void for_each_target(const std::function<void(const std::string&)>& body) {
  const Restore restore;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    use(target);
    body(hwy::TargetName(target));
  }
}

}  // namespace gossamer::compress::test

#include "learned_state.h"

#include <algorithm>
#include <functional>
#include <span>

namespace gossamer::node {
namespace {

/// Bytes of the objective's, which may be none.
void archive_bytes(Archive archive, const char* name, const std::function<void(const optim::ByteSink&)>& save,
                   const std::function<void(const optim::ByteSource&)>& restore) {
  std::vector<std::byte> saved;
  if (!archive.restores())
    save([&](std::span<const std::byte> b) { saved.insert(saved.end(), b.begin(), b.end()); });
  archive.bytes(name, saved);
  if (!archive.restores() || saved.empty()) return;
  std::span<const std::byte> left(saved);
  restore([&](std::span<std::byte> to) {
    const std::size_t n = std::min(to.size(), left.size());
    std::copy_n(left.begin(), n, to.begin());
    left = left.subspan(n);
    return n;
  });
}

}  // namespace

void archive_objective(Archive archive, optim::Objective& objective) {
  archive_bytes(
      archive, "objective", [&](const optim::ByteSink& to) { objective.save(to); },
      [&](const optim::ByteSource& from) { objective.restore(from); });
}

void archive_private(Archive archive, optim::Objective& objective) {
  if (!objective.keeps_private()) return;
  archive_bytes(
      archive, "objective_private", [&](const optim::ByteSink& to) { objective.save_private(to); },
      [&](const optim::ByteSource& from) { objective.restore_private(from); });
}

void restore_own(Extension& extension, const State& state) {
  if (!has_own(state)) return;
  const Archive own = Archive::restoring(state).part("data").part("own");
  Passage passage;
  passage.archive(own.part("passage"));
  extension.restore_own(own, passage);
}

}  // namespace gossamer::node

#pragma once
// An Extension is what one exchange method keeps in the data plane beside floats in slots, with the commands
// that work on it: numbers in fixed point, a code of its own. Only that method and the extension know them;
// the data plane hands them over.
#include <any>
#include <functional>
#include <span>

#include "data_plane.h"
#include "own.h"

namespace gossamer::node {

/// What an extension may start from, beside the method's plan.
struct ExtensionInputs {
  std::span<const float> x0;            ///< initial parameters; valid during the call
  std::function<double(Round)> rate{};  ///< the learning rate of a round over its peak
};

/// The floats of a slot in that range; a data plane's own memory.
using SlotAt = std::function<std::span<float>(Slot, Range)>;

class Extension {
 public:
  virtual ~Extension() = default;
  /// One that the method submitted as op::Extended. Throws as the data plane's own ops do.
  virtual void run(const std::any& command, const SlotAt& at, const PostEvent& post) = 0;
  virtual void archive(Archive archive) = 0;
  /// What it takes along from a view to the next (own.h), list of who is owed something included; seats: of
  /// the view that is over, by their numbers. By default nothing: it starts anew.
  virtual void save_own(const Archive&, std::span<const Incarnation> /*seats*/) {}
  /// That, in an extension of the next view that was made from what was learned. Throws StateError.
  virtual void restore_own(const Archive&, const Passage&) {}
};

/// Calls what with the command where it is one of these; false where it is none.
template <class... Commands, class What>
bool visit_command(const std::any& command, What&& what) {
  const auto visit = [&]<class Command>(const Command* c) {
    if (c) what(*c);
    return c != nullptr;
  };
  return (visit(std::any_cast<Commands>(&command)) || ...);
}

}  // namespace gossamer::node

#include "gossamer/compress/codec.h"
#include "gossamer/compress/instruction_sets.h"

namespace gossamer::compress {

std::vector<std::string> instruction_sets() { return {"plain"}; }

void limit_instruction_set(std::string_view name) {
  if (name.empty() || name == "plain") return;
  throw CodecError("no instruction set \"" + std::string(name) +
                   "\" here; there is: plain (this build does not use Highway)");
}

}  // namespace gossamer::compress

#include "targets.h"

namespace gossamer::compress::test {

void for_each_target(const std::function<void(const std::string&)>& body) { body("plain"); }

}  // namespace gossamer::compress::test

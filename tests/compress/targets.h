#pragma once
#include <functional>
#include <string>

namespace gossamer::compress::test {

/// Runs body once for every instruction set that the kernels were built for and this machine has.
void for_each_target(const std::function<void(const std::string&)>& body);

}  // namespace gossamer::compress::test

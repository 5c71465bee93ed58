#pragma once
// These functions tell and set which vector instructions the kernels use; payloads and sums stay the same.
#include <string>
#include <string_view>
#include <vector>

namespace gossamer::compress {

/// Those that the kernels were built for and this machine has, in lower case, best first: "avx3_zen4",
/// "avx3", "avx2" …; "plain" where Highway is not used. The first is in use unless a limit was set.
std::vector<std::string> instruction_sets();
/// For measuring and tests: from now on kernels use `name` and nothing better, on all threads; the best one
/// again where it is empty. No kernel may run meanwhile. Throws CodecError for another name, with the list.
void limit_instruction_set(std::string_view name);

}  // namespace gossamer::compress

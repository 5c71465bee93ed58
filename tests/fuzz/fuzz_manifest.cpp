// libFuzzer target: reads the manifest of a checkpoint. Whatever the bytes are, StateError is thrown or what
// was read is written as what reads the same again, and names no file outside its folder.
#include <cmath>
#include <cstdio>
#include <string>

#include "checkpoint.h"
#include "checkpoint_names.h"
#include "gossamer/node/errors.h"
#include "hash.h"
#include "require.h"
#include "text.h"

using namespace gossamer::node;

namespace {

void read_manifest(const std::string& text) {
  CheckpointEntry entry;
  try {
    entry = parse_manifest(text);
  } catch (const StateError&) {
    return;
  }
  require(names_a_peer(entry.head.peer), "a peer's name is none for a file");
  for (const CheckpointFile& file : entry.files)
    require(file.name.starts_with(entry.head.peer) && file.name.find('/') == std::string::npos,
            "a manifest names a file elsewhere");
  const std::string written = to_json(entry);
  require(to_json(parse_manifest(written)) == written, "a manifest is read otherwise than it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_manifest(text);
  // with the right seal, which no fuzzer finds
  const std::string seal_begins = ",\n \"xxh3\": \"";
  std::string body = text.substr(0, text.rfind(seal_begins));
  char seal[64];
  std::snprintf(seal, sizeof seal, "%s%016llx\"\n}\n", seal_begins.c_str(),
                static_cast<unsigned long long>(hash_text(body)));
  read_manifest(body + seal);
  return 0;
}

// libFuzzer target: whatever comes as a message of rows or as what a sender or receiver had saved is refused
// by the error that stands for it, or used: decoded keys ascend and floats are finite, and a restored sender
// goes on.
#include <algorithm>
#include <cmath>
#include <span>

#include "require.h"
#include "row_specs.h"

namespace {

using namespace gossamer::compress;

void decode(const RowsSpec& spec, std::span<const std::byte> bytes) {
  const bool takes = decodes_rows(spec, bytes);
  RowReceiver receiver(spec);
  RowChanges changes;
  try {
    receiver.decode(bytes, changes);
    require(takes, "what is decoded was to be refused");
  } catch (const PayloadError&) {
    require(!takes, "what is refused was to be decoded");
    return;
  }
  require(changes.values.size() == changes.keys.size() * spec.width, "rows of another width");
  require(std::is_sorted(changes.keys.begin(), changes.keys.end()), "keys do not ascend");
  for (const float v : changes.values) require(std::isfinite(v), "a float is not finite");
}

void restore(const RowsSpec& spec, std::span<const std::byte> bytes) {
  try {
    RowReceiver receiver(spec);
    receiver.restore(bytes);
    require(std::ranges::equal(receiver.save(), bytes), "a receiver saves something else");
  } catch (const StateError&) {  // no state of a receiver
  }
  try {
    RowSender sender(spec);
    sender.restore(bytes);
    const std::uint64_t key = 7;
    const std::vector<float> change(spec.width, 1.0f);
    sender.add(std::span(&key, 1), change);
    Workspace workspace;
    RowChanges told;
    require(decodes_rows(spec, sender.encode({}, workspace, &told)),
            "what a restored sender tells is refused");
  } catch (const StateError&) {   // no state of a sender
  } catch (const EncodeError&) {  // sums of its floats are beyond what can be coded
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  if (bytes.empty()) return 0;
  const RowsSpec& spec = kRowSpecs[static_cast<std::size_t>(bytes[0]) / 2 % std::size(kRowSpecs)];
  if (static_cast<unsigned>(bytes[0]) % 2 == 0)
    decode(spec, bytes.subspan(1));
  else
    restore(spec, bytes.subspan(1));
  return 0;
}

// libFuzzer target: reads a peer's saved state and the messages that one may hold. Whatever the bytes are,
// StateError is thrown or what was read is written as the same bytes again.
#include <algorithm>
#include <cstring>
#include <vector>

#include "archive.h"
#include "hash.h"
#include "message_state.h"
#include "require.h"

using namespace gossamer::node;

namespace {

/// An outline is of the same arrays, whether the hash is right or not.
void outline(std::span<const std::byte> bytes, const State* state) {
  const ByteSource source{bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> into) {
                            require(offset <= bytes.size() && into.size() <= bytes.size() - offset,
                                    "a state is read beyond its end");
                            std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), into.size(),
                                        into.begin());
                          }};
  try {
    const auto arrays = outline_of_state(source);
    for (const ArrayOutline& array : arrays)
      require(!state || state->contains(array.name), "an outline has an array that the state lacks");
  } catch (const StateError&) {
    require(!state, "a state is read that has no outline");
  }
}

/// The arrays of every kind, by every name that there is and one that there is not.
void read_all(const State& state) {
  for (const auto& entry : state) {
    const std::string& name = entry.first;
    Archive archive = Archive::restoring(state);
    const auto quietly = [](auto&& read) {
      try {
        read();
      } catch (const StateError&) {
      }
    };
    std::vector<std::pair<PeerId, Message>> messages;
    std::vector<Payload> payloads(3);
    std::uint8_t small = 0;
    double real = 0;
    quietly([&] { archive.value(name, small); });
    quietly([&] { archive.value(name, real); });
    const std::string part = name.substr(0, name.find('/'));
    quietly([&] {
      archive_messages(
          archive.part(part), [](PeerId p) { return p % 4; }, messages);
    });
    quietly([&] { archive_payloads(archive.part(part), payloads); });
    for (const auto& [peer, m] : messages) require(m.parcel < peer % 4, "a message of no parcel was taken");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  try {
    state_from_bytes(bytes);
  } catch (const StateError&) {
  }
  outline(bytes, nullptr);
  // behind the right mark and with the right hash, which no fuzzer finds
  std::vector<std::byte> whole = to_bytes({});
  whole.resize(8);
  whole.insert(whole.end(), bytes.begin(), bytes.end());
  const std::uint64_t hash = hash_bytes(whole);
  const auto* end = reinterpret_cast<const std::byte*>(&hash);
  whole.insert(whole.end(), end, end + sizeof hash);
  State state;
  try {
    state = state_from_bytes(whole);
  } catch (const StateError&) {
    outline(whole, nullptr);
    return 0;
  }
  outline(whole, &state);
  require(state_from_bytes(to_bytes(state)) == state, "a state is read otherwise than it was written");
  read_all(state);
  return 0;
}

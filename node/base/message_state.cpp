#include "message_state.h"

#include <fmt/format.h>

#include <algorithm>

namespace gossamer::node {
namespace {

void append_all(std::vector<std::byte>& all, const Payload& payload) {
  if (payload) all.insert(all.end(), payload->begin(), payload->end());
}

/// Cuts the bytes of all payloads apart.
class PayloadReader {
 public:
  PayloadReader(const Archive& archive, std::span<const std::byte> left) : archive_(archive), left_(left) {}
  Payload next(std::uint64_t size) {
    if (size > left_.size())
      archive_.refuse("payloads", fmt::format("ends {} bytes early", size - left_.size()));
    const auto bytes = left_.first(size);
    left_ = left_.subspan(size);
    return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  }

 private:
  const Archive& archive_;
  std::span<const std::byte> left_;
};

}  // namespace

void archive_messages(Archive archive, const std::function<std::size_t(PeerId)>& parcels,
                      std::vector<std::pair<PeerId, Message>>& messages) {
  std::vector<std::uint64_t> from, rounds, of_parcel, tags, entries, sizes;
  std::vector<std::byte> payloads;
  if (!archive.restores())
    for (const auto& [peer, m] : messages) {
      from.push_back(peer);
      rounds.push_back(m.round);
      of_parcel.push_back(m.parcel);
      tags.push_back(m.tag);
      entries.push_back(m.entries);
      sizes.push_back(m.payload->size());
      append_all(payloads, m.payload);
    }
  archive.numbers("from", from);
  archive.numbers("rounds", rounds, from.size());
  archive.numbers("parcels", of_parcel, from.size());
  archive.numbers("tags", tags, from.size());
  archive.numbers("entries", entries, from.size());
  archive.numbers("sizes", sizes, from.size());
  archive.bytes("payloads", payloads);
  if (!archive.restores()) return;
  messages.clear();
  PayloadReader reader(archive, payloads);
  for (std::size_t n = 0; n < from.size(); ++n) {
    const auto peer = static_cast<PeerId>(from[n]);
    if (peer != from[n] || of_parcel[n] >= parcels(peer))
      archive.refuse("parcels", fmt::format("names parcel {} of peer {}", of_parcel[n], from[n]));
    messages.emplace_back(
        peer, Message{rounds[n], static_cast<ParcelId>(of_parcel[n]), static_cast<std::uint32_t>(tags[n]),
                      entries[n], reader.next(sizes[n]), 0});
  }
}

void archive_payloads(Archive archive, std::vector<Payload>& payloads) {
  std::vector<bool> there(payloads.size());
  std::vector<std::uint64_t> sizes(payloads.size());
  std::vector<std::byte> bytes;
  for (std::size_t n = 0; n < payloads.size(); ++n) {
    there[n] = static_cast<bool>(payloads[n]);
    sizes[n] = there[n] ? payloads[n]->size() : 0;
    append_all(bytes, payloads[n]);
  }
  archive.list("there", there, payloads.size());
  archive.numbers("sizes", sizes, payloads.size());
  archive.bytes("payloads", bytes);
  if (!archive.restores()) return;
  PayloadReader reader(archive, bytes);
  for (std::size_t n = 0; n < payloads.size(); ++n)
    payloads[n] = there[n] ? reader.next(sizes[n]) : Payload();
}

}  // namespace gossamer::node

#pragma once
// How messages and payloads that wait to be used are written into a State and read back.
#include <functional>
#include <utility>
#include <vector>

#include "archive.h"
#include "message.h"

namespace gossamer::node {

/// Messages and whom each is from. parcels: how many the peer's model has, 0 of one that sends nothing here;
/// where restoring, a message of another is refused. What is restored has no sequence number: the link that
/// it came over is gone.
void archive_messages(Archive archive, const std::function<std::size_t(PeerId)>& parcels,
                      std::vector<std::pair<PeerId, Message>>& messages);
/// Null ones stay null; where restoring, as many as there are.
void archive_payloads(Archive archive, std::vector<Payload>& payloads);

}  // namespace gossamer::node

#include "status_body.h"

#include <bit>
#include <limits>

#include "blob.h"

namespace gossamer::node {
namespace {

constexpr std::uint64_t kMostStaleness = std::uint64_t{1} << 48;

void put_real(double value, std::vector<std::byte>& bytes) {
  put_fixed(std::bit_cast<std::uint64_t>(value), bytes);
}
double take_real(BlobReader& from) { return std::bit_cast<double>(from.fixed()); }

/// One line of plain text, or empty.
std::string take_line(BlobReader& from, std::size_t most) {
  std::string line = from.text(most);
  from.demand(line.empty() || is_member_address(line));
  return line;
}

void put(const StatusBody::Member& m, std::vector<std::byte>& bytes) {
  put_blob(m.name, bytes);
  put_blob(m.address, bytes);
  put_fixed(m.start, bytes);
  put_varint(static_cast<std::uint64_t>(m.standing), bytes);
  put_real(m.since_s, bytes);
  put_varint((m.in_view ? 1U : 0U) | (m.neighbour ? 2U : 0U), bytes);
  put_varint(m.staleness ? *m.staleness + 1 : 0, bytes);
}

StatusBody::Member take_member(BlobReader& from) {
  StatusBody::Member m;
  m.name = take_line(from, kMostNameBytes);
  m.address = take_line(from, kMostAddressBytes);
  m.start = from.fixed();
  m.standing = static_cast<StatusBody::Standing>(
      from.number(static_cast<std::uint64_t>(StatusBody::Standing::waiting)));
  m.since_s = take_real(from);
  const std::uint64_t flags = from.number(3);
  m.in_view = (flags & 1) != 0;
  m.neighbour = (flags & 2) != 0;
  const std::uint64_t staleness = from.number(kMostStaleness + 1);
  if (staleness > 0) m.staleness = staleness - 1;
  return m;
}

}  // namespace

std::size_t StatusBody::most_bytes() const {
  std::size_t bytes =
      128 + run.size() + peer.size() + method.size() + codec.size() + graph.size() + waits.size();
  for (const Member& m : members) bytes += 48 + m.name.size() + m.address.size();
  return bytes;
}

std::vector<std::byte> StatusBody::to_bytes() const {
  std::vector<std::byte> bytes;
  bytes.reserve(most_bytes());
  for (const std::string* text : {&run, &peer, &method, &codec, &graph}) put_blob(*text, bytes);
  for (const std::uint64_t number : {view, attempt, round}) put_fixed(number, bytes);
  put_varint(trains ? 1 : 0, bytes);
  for (const double value : {share_done, epoch, loss.value_or(std::numeric_limits<double>::quiet_NaN())})
    put_real(value, bytes);
  put_varint(health, bytes);
  put_varint(peers, bytes);
  put_varint(members.size(), bytes);
  for (const Member& m : members) put(m, bytes);
  return bytes;
}

std::optional<StatusBody> StatusBody::from_bytes(std::span<const std::byte> bytes) {
  BlobReader from(bytes);
  StatusBody b;
  for (std::string* text : {&b.run, &b.peer, &b.method, &b.codec, &b.graph})
    *text = take_line(from, kMostStatusTextBytes);
  for (std::uint64_t* number : {&b.view, &b.attempt, &b.round}) *number = from.fixed();
  b.trains = from.number(1) != 0;
  for (double* value : {&b.share_done, &b.epoch}) *value = take_real(from);
  const double loss = take_real(from);
  if (loss == loss) b.loss = loss;
  b.health = from.number();
  b.peers = from.number();
  const std::uint64_t count = from.number(kMostStatusMembers);
  for (std::uint64_t n = 0; n < count && from.good(); ++n) b.members.push_back(take_member(from));
  if (!from.good() || !from.at_end()) return std::nullopt;
  return b;
}

}  // namespace gossamer::node

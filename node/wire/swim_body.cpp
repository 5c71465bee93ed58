#include "swim_body.h"

#include "blob.h"
#include "text.h"

namespace gossamer::node {
namespace {

bool is_line(const std::string& text, std::size_t most) {
  return text.size() <= most && text.find_first_of("\n\t") == std::string::npos && is_plain(text);
}

MemberRecord take_record(BlobReader& from) {
  MemberRecord r;
  r.name = from.text(kMostNameBytes);
  r.address = from.text(kMostAddressBytes);
  from.demand(names_a_peer(r.name) && is_member_address(r.address));
  r.start = from.fixed();
  r.refuted = from.number();
  r.status = static_cast<MemberStatus>(from.number(static_cast<std::uint64_t>(MemberStatus::left)));
  r.word_version = from.number();
  const auto word = from.blob(kMostWordBytes);
  r.word.assign(word.begin(), word.end());
  const auto doubts = from.number(kMostDoubts);
  for (std::uint64_t n = 0; n < doubts; ++n) {
    const std::uint64_t who = from.fixed();
    from.demand(r.doubted_by.empty() || r.doubted_by.back() < who);
    r.doubted_by.push_back(who);
  }
  return r;
}

}  // namespace

bool is_member_address(const std::string& address) { return is_line(address, kMostAddressBytes); }

std::size_t SwimBody::most_bytes() const {
  std::size_t bytes = 64 + from.size() + about.size();
  for (const auto& r : records) bytes += 81 + r.name.size() + r.address.size() + r.word.size();
  return bytes;
}

std::vector<std::byte> SwimBody::to_bytes() const {
  std::vector<std::byte> bytes;
  bytes.reserve(most_bytes());
  put_varint(static_cast<std::uint64_t>(kind), bytes);
  put_fixed(number, bytes);
  put_blob(from, bytes);
  put_fixed(from_start, bytes);
  put_blob(about, bytes);
  put_varint(records.size(), bytes);
  for (const auto& r : records) {
    put_blob(r.name, bytes);
    put_blob(r.address, bytes);
    put_fixed(r.start, bytes);
    put_varint(r.refuted, bytes);
    put_varint(static_cast<std::uint64_t>(r.status), bytes);
    put_varint(r.word_version, bytes);
    put_blob(r.word, bytes);
    put_varint(r.doubted_by.size(), bytes);
    for (const auto who : r.doubted_by) put_fixed(who, bytes);
  }
  return bytes;
}

std::vector<std::byte> SwimBody::ended() const {
  std::vector<std::byte> bytes;
  for (std::size_t k = 0; k < records.size(); ++k)
    if (records[k].ended) put_varint(k, bytes);
  return bytes;
}

bool SwimBody::take_ended(std::span<const std::byte> bytes) {
  BlobReader taker(bytes);
  while (taker.good() && !taker.at_end()) {
    const std::uint64_t k = taker.number(kMostRecords);
    taker.demand(k < records.size() && records[k].status == MemberStatus::dead && !records[k].ended);
    if (taker.good()) records[k].ended = true;
  }
  return taker.good();
}

std::optional<SwimBody> SwimBody::from_bytes(std::span<const std::byte> bytes) {
  BlobReader taker(bytes);
  SwimBody b;
  b.kind = static_cast<Kind>(taker.number(static_cast<std::uint64_t>(Kind::news)));
  b.number = taker.fixed();
  b.from = taker.text(kMostNameBytes);
  b.from_start = taker.fixed();
  b.about = taker.text(kMostNameBytes);
  taker.demand(names_a_peer(b.from) && (b.about.empty() || names_a_peer(b.about)));
  const auto count = taker.number(kMostRecords);
  for (std::uint64_t n = 0; n < count && taker.good(); ++n) b.records.push_back(take_record(taker));
  if (!taker.good() || !taker.at_end()) return std::nullopt;
  return b;
}

}  // namespace gossamer::node

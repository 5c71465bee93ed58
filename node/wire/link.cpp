#include "link.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "hash.h"
#include "priority.h"

namespace gossamer::node {
namespace {

constexpr std::uint64_t kMostOvertaken = 32;  ///< best-effort messages in a row that a later one was before
constexpr std::size_t kMostResentAtOnce = 16;
constexpr double kLongestResend_s = 5, kAfterBreak_s = 1;
/// Bytes per second from which on payloads need not be cut: kWholeBytes take a twentieth of one.
constexpr double kFast = 10e6;
constexpr double kMeasured_s = 0.05;
constexpr std::size_t kLeastMeasured = 2 * kChunkBytes;

}  // namespace

void Link::send(const Message& message, double now) {
  const Payload apart = share_ && delivery_ == Delivery::reliable ? share_(message.payload) : Payload();
  const Payload payload = apart ? apart : message.payload;  // one of them is kept
  const std::size_t size = payload->size();
  const bool whole = !apart && size <= kWholeBytes && bytes_per_s_ >= kFast;
  const std::uint32_t chunks = whole ? 1 : chunks_of(size);
  const auto part = [&](std::uint32_t c) {
    const std::size_t begin = c * kChunkBytes;
    return whole ? payload : payload.part(begin, std::min(kChunkBytes, size - begin));
  };
  std::vector<std::optional<std::uint64_t>> hashes(chunks);
  std::uint64_t digest = 0;
  if (apart && message.digest) {  // then no chunk is sent, but where it has to be sent again
    digest = *message.digest;
  } else {
    std::vector<std::uint64_t> all_hashes;
    for (std::uint32_t c = 0; c < chunks; ++c)
      hashes[c] = all_hashes.emplace_back(chunks == 1 && message.hash ? *message.hash : hash_bytes(*part(c)));
    digest = digest_of_chunks(all_hashes);
  }
  if (outstanding_.empty()) begin_measuring(now);
  for (std::uint32_t c = 0; c < chunks; ++c) {
    const Payload held = part(c);
    ParcelBody body{message.round, message.parcel, message.tag, message.entries, c,
                    chunks,        digest,         *held,       hashes[c],       held};
    Frame frame;
    frame.header.sequence = next_;
    frame.body = body;
    Outstanding o{next_++, std::move(frame), payload, now};
    if (!apart)
      put(o, priority::kMessages);
    else if (c == 0)
      put_whole(o, apart, priority::kMessages);
    if (delivery_ == Delivery::reliable) outstanding_.push_back(std::move(o));
  }
  if (delivery_ == Delivery::reliable) {
    unused_.emplace_back(next_ - 1, message.parcel);
    bytes_outstanding_ += size;
  }
  counters_.data_entries_out += message.entries;
}

void Link::put(const Outstanding& o, std::uint32_t priority) {
  counters_.data_bytes_out += send_(o.frame, priority);
}

/// The message of which this is the first chunk, in one frame.
void Link::put_whole(const Outstanding& first, Payload apart, std::uint32_t priority) {
  Frame frame = first.frame;
  auto& body = std::get<ParcelBody>(frame.body);
  body.payload = *apart;
  body.apart = std::move(apart);
  counters_.data_bytes_out += send_(std::move(frame), priority);
}

FrameHeader Link::stamp(FrameHeader header) {
  header.received = sent_received_ = intake_.received();
  if (planted_.is(Bug::early_acknowledgement)) header.received += intake_.received_ahead();
  header.consumed = sent_consumed_ = intake_.consumed();
  return header;
}

void Link::acknowledged(const FrameHeader& header, double now) {
  if (header.received >= next_ || header.consumed > header.received) return;  // never sent: not from our link
  peer_consumed_ = std::max(peer_consumed_, header.consumed);
  while (!unused_.empty() && unused_.front().first <= peer_consumed_) unused_.pop_front();
  if (header.received <= peer_received_) return;
  peer_received_ = header.received;
  quiet_since_ = now;
  while (!outstanding_.empty() && outstanding_.front().sequence <= peer_received_) {
    const Outstanding& o = outstanding_.front();
    if (!o.resent) {  // else it is not known which of the two came: patience stays as it is (RFC 6298, 5.7)
      measure(now - o.sent_at);
      backoff_ = 1;
    }
    const auto& body = std::get<ParcelBody>(o.frame.body);
    if (body.chunk + 1 == body.chunks) bytes_outstanding_ -= o.payload->size();
    bytes_measured_ += body.payload.size();
    if (o.lost) --lost_;
    outstanding_.pop_front();
  }
  if (now - measured_from_ >= (outstanding_.empty() ? 0 : kMeasured_s)) end_measuring(now);
}

void Link::begin_measuring(double now) {
  measured_from_ = now;
  bytes_measured_ = 0;
}

/// Of what little came nothing is told.
void Link::end_measuring(double now) {
  if (bytes_measured_ >= kLeastMeasured && now > measured_from_)
    bytes_per_s_ = static_cast<double>(bytes_measured_) / (now - measured_from_);
  begin_measuring(now);
}

std::size_t Link::unused(ParcelId parcel) const {
  return static_cast<std::size_t>(
      std::count_if(unused_.begin(), unused_.end(), [&](const auto& m) { return m.second == parcel; }));
}

/// Smoothed round trip and its deviation, as TCP keeps them (RFC 6298).
void Link::measure(double round_trip) {
  if (smoothed_ == 0) {
    smoothed_ = round_trip;
    deviation_ = round_trip / 2;
    return;
  }
  deviation_ += (std::abs(round_trip - smoothed_) - deviation_) / 4;
  smoothed_ += (round_trip - smoothed_) / 8;
}

double Link::resend_after() const {
  return std::min(std::max(kLongestResend_s, 2 * least_resend_s_),
                  backoff_ * std::max(least_resend_s_, smoothed_ + 4 * deviation_));
}

/// Of all that were under way none need have arrived, also those that later ones tell nothing of.
void Link::on_broken() {
  for (auto& o : outstanding_) o.lost = true;
  lost_ = outstanding_.size();
}

double Link::lost_overdue_at(const Outstanding& o) const {
  return std::max(o.sent_at, quiet_since_) + std::min(least_resend_s_, kAfterBreak_s);
}

/// Once: what does not come so comes in chunks. True where it was sent, and stands for all of them.
bool Link::send_whole_again(Outstanding& first, double now) {
  const auto& body = std::get<ParcelBody>(first.frame.body);
  if (first.resent || body.chunk != 0 || body.chunks == 1 || !share_) return false;
  Payload apart = share_(first.payload);
  if (!apart) return false;
  put_whole(first, std::move(apart), priority::kResent);
  ++counters_.resent;
  const std::uint64_t end = first.sequence + body.chunks;
  for (auto& o : outstanding_) {
    if (o.sequence < first.sequence || o.sequence >= end) continue;
    o.sent_at = now;
    o.resent = true;
    if (o.sequence != first.sequence && std::exchange(o.lost, false)) --lost_;
  }
  return true;
}

void Link::send_again(Outstanding& o, double now) {
  if (send_whole_again(o, now)) return;
  o.sent_at = now;
  o.resent = true;
  if (planted_.is(Bug::resent_renumbered)) o.frame.header.sequence = o.sequence = next_++;
  put(o, priority::kResent);
  ++counters_.resent;
}

/// Those that a broken connection may have lost; when it is to be called again.
double Link::resend_lost(double now) {
  std::size_t resent = 0;
  for (auto& o : outstanding_) {
    if (!o.lost) continue;
    if (resent == kMostResentAtOnce || now + 1e-9 < lost_overdue_at(o)) return lost_overdue_at(o);
    send_again(o, now);
    o.lost = false;
    --lost_;
    ++resent;
  }
  return overdue_at(outstanding_.front());
}

std::optional<double> Link::resend_due(double now, bool busy) {
  if (outstanding_.empty()) return std::nullopt;
  if (busy) quiet_since_ = now;
  if (lost_ > 0) return resend_lost(now);
  if (now + 1e-9 < overdue_at(outstanding_.front())) return overdue_at(outstanding_.front());
  std::size_t resent = 0;
  for (auto& o : outstanding_) {
    if (resent == kMostResentAtOnce || now + 1e-9 < overdue_at(o)) break;
    send_again(o, now);
    ++resent;
  }
  backoff_ = std::min(backoff_ * 2, 16.0);
  return overdue_at(outstanding_.front());
}

void Link::receive(const FrameHeader& header, const ParcelBody& body) {
  if (muted_) return refuse(Refusal::muted);
  if (delivery_ == Delivery::best_effort) return receive_newest(header, body);
  intake_.take(header, body);
  if (intake_.repeats_acknowledgement() && intake_.received() > 0) sent_received_ = intake_.received() - 1;
}

std::optional<Message> Link::next() {
  return delivery_ == Delivery::best_effort ? std::exchange(newest_, std::nullopt) : intake_.next();
}

void Link::receive_newest(const FrameHeader& header, const ParcelBody& body) {
  const Verdict verdict = rules_.judge ? rules_.judge(body) : Verdict::now(body.entries);
  if (verdict.when == Verdict::When::never) return refuse(verdict.why);
  if (verdict.when != Verdict::When::now) return void(++counters_.reordered);
  if (body.entries != verdict.entries) return refuse(Refusal::entries);
  if (!well_cut(header, body, verdict.entries)) return refuse(Refusal::chunks);
  const std::uint64_t first = header.sequence - body.chunk;
  Assembly& a = assemblies_[{body.parcel, body.tag}];
  const bool older = first <= a.delivered || first < a.first;
  if (older && first > a.newest_overtaken) {  // copies of what came before say nothing
    a.newest_overtaken = first;
    if (++a.overtaken > kMostOvertaken) a = {};  // then it is the later one that was out of place
  }
  const bool overtaken = first <= a.delivered || first < a.first;
  if (overtaken && !(planted_.is(Bug::older_delivered) && first != a.delivered && body.chunks == 1)) {
    ++(first == a.delivered ? counters_.duplicates : counters_.reordered);
    return;
  }
  a.overtaken = a.newest_overtaken = 0;
  if (first != a.first || body.digest != a.digest || body.chunks != a.of) {
    a.first = first;
    a.digest = body.digest;
    a.of = body.chunks;
    a.chunks.clear();
  }
  if (!a.chunks.try_emplace(body.chunk, body.payload.begin(), body.payload.end()).second)
    ++counters_.duplicates;
  if (a.chunks.size() < body.chunks) return;
  std::size_t length = 0;
  for (const auto& [chunk, bytes] : a.chunks) length += bytes.size();
  const ByteBlock block = take_block(length);
  auto end = block.bytes.begin();
  for (const auto& [chunk, bytes] : a.chunks) end = std::copy(bytes.begin(), bytes.end(), end);
  a.chunks.clear();
  const std::span<const std::byte> all(block.bytes.begin(), end);
  if (digest_of(all, body.chunks) != body.digest) return refuse(Refusal::digest);
  Message whole{body.round, body.parcel, body.tag, body.entries, {block.owner, all}, header.sequence};
  if (rules_.decodes && !rules_.decodes(whole, false)) return refuse(Refusal::payload);
  a.delivered = first;
  newest_ = std::move(whole);
}

std::size_t Link::bytes_held() const {
  std::size_t bytes = intake_.bytes();
  for (const auto& [lane, assembly] : assemblies_)
    for (const auto& [number, chunk] : assembly.chunks) bytes += chunk.size();
  return bytes;
}

void Link::consume(std::uint64_t sequence) {
  if (delivery_ == Delivery::reliable) intake_.consume(sequence);
}

}  // namespace gossamer::node

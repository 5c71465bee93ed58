#include "link.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace gossamer::node {
namespace {

constexpr std::uint32_t kMostTags = 16;          ///< of best-effort messages
constexpr std::size_t kMostEarlyFrames = 16384;  ///< held while an earlier one is missing
constexpr std::size_t kMostResentAtOnce = 16;
constexpr double kLongestResend_s = 5, kAfterBreak_s = 1;
// Messages are delivered in the order of their numbers, so that none may overtake an earlier one; a frame
// that was lost goes before all that waits, since everything behind it waits for it.
constexpr std::uint32_t kResendPriority = 1, kMessagePriority = 2;

}  // namespace

void Link::send(const Message& message, double now) {
  const std::span<const std::byte> all(*message.payload);
  const auto chunks =
      static_cast<std::uint32_t>(std::max<std::size_t>(1, (all.size() + kChunkBytes - 1) / kChunkBytes));
  for (std::uint32_t c = 0; c < chunks; ++c) {
    const std::size_t begin = c * kChunkBytes;
    ParcelBody body{message.round,
                    message.parcel,
                    message.tag,
                    message.entries,
                    c,
                    chunks,
                    all.subspan(begin, std::min(kChunkBytes, all.size() - begin))};
    Frame frame;
    frame.header.sequence = next_;
    frame.body = body;
    Outstanding o{next_++, std::move(frame), message.payload, now};
    put(o, kMessagePriority);
    if (delivery_ == Delivery::reliable) outstanding_.push_back(std::move(o));
  }
  if (delivery_ == Delivery::reliable) unused_.emplace_back(next_ - 1, message.parcel);
  counters_.data_entries_out += message.entries;
}

void Link::put(const Outstanding& o, std::uint32_t priority) {
  counters_.data_bytes_out += send_(o.frame, priority);
}

FrameHeader Link::stamp(FrameHeader header) {
  header.received = sent_received_ = received_;
  if (planted_.is(Bug::early_acknowledgement)) header.received += early_.size();
  header.consumed = sent_consumed_ = consumed_;
  return header;
}

void Link::acknowledged(const FrameHeader& header, double now) {
  if (header.received >= next_ || header.consumed > header.received) return;  // never sent: not from our link
  peer_consumed_ = std::max(peer_consumed_, header.consumed);
  while (!unused_.empty() && unused_.front().first <= peer_consumed_) unused_.pop_front();
  if (header.received <= peer_received_) return;
  peer_received_ = header.received;
  backoff_ = 1;
  broken_ = false;
  quiet_since_ = now;
  while (!outstanding_.empty() && outstanding_.front().sequence <= peer_received_) {
    if (!outstanding_.front().resent) measure(now - outstanding_.front().sent_at);
    outstanding_.pop_front();
  }
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
  if (broken_) return std::min(least_resend_s_, kAfterBreak_s) * backoff_;
  return std::min(std::max(kLongestResend_s, 2 * least_resend_s_),
                  backoff_ * std::max(least_resend_s_, smoothed_ + 4 * deviation_));
}

std::optional<double> Link::resend_due(double now, bool busy) {
  if (outstanding_.empty()) return std::nullopt;
  if (busy) quiet_since_ = now;
  if (now + 1e-9 < overdue_at(outstanding_.front())) return overdue_at(outstanding_.front());
  std::size_t resent = 0;
  for (auto& o : outstanding_) {
    if (resent == kMostResentAtOnce || now + 1e-9 < overdue_at(o)) break;
    o.sent_at = now;
    o.resent = true;
    if (planted_.is(Bug::resent_renumbered)) o.frame.header.sequence = o.sequence = next_++;
    put(o, kResendPriority);
    ++resent;
  }
  counters_.resent += resent;
  backoff_ = std::min(backoff_ * 2, 16.0);
  return overdue_at(outstanding_.front());
}

std::vector<Message> Link::receive(const FrameHeader& header, const ParcelBody& body) {
  if (delivery_ == Delivery::best_effort) return receive_newest(header, body);
  std::vector<Message> out;
  if (header.sequence <= received_) {
    ++counters_.duplicates;
    sent_received_ = received_ - 1;  // the other side has not heard: say it again
    if (planted_.is(Bug::duplicate_delivered)) append(body, body.payload, out);
    return out;
  }
  if (header.sequence > received_ + 1 && planted_.is(Bug::gap_passed)) received_ = header.sequence - 1;
  if (header.sequence > received_ + 1) {
    if (early_.size() >= kMostEarlyFrames) {  // the earlier is needed sooner; what is dropped is resent
      const auto last = std::prev(early_.end());
      if (last->first <= header.sequence) return out;
      early_.erase(last);
    }
    const auto [at, added] =
        early_.try_emplace(header.sequence, Early{body, {body.payload.begin(), body.payload.end()}});
    ++(added ? counters_.reordered : counters_.duplicates);
    return out;
  }
  ++received_;
  append(body, body.payload, out);
  for (auto next = early_.find(received_ + 1); next != early_.end(); next = early_.find(received_ + 1)) {
    ++received_;
    append(next->second.body, next->second.payload, out);
    early_.erase(next);
  }
  return out;
}

std::vector<Message> Link::receive_newest(const FrameHeader& header, const ParcelBody& body) {
  if (body.chunk >= body.chunks || body.chunk >= header.sequence || body.tag >= kMostTags) {
    ++counters_.refused;
    return {};
  }
  const std::uint64_t first = header.sequence - body.chunk;
  Assembly& a = assemblies_[{body.parcel, body.tag}];
  const bool overtaken = first <= a.delivered || first < a.first;
  if (overtaken && !(planted_.is(Bug::older_delivered) && first != a.delivered && body.chunks == 1)) {
    ++(first == a.delivered ? counters_.duplicates : counters_.reordered);
    return {};
  }
  if (first != a.first) {
    a.first = first;
    a.chunks.clear();
  }
  if (!a.chunks.try_emplace(body.chunk, body.payload.begin(), body.payload.end()).second)
    ++counters_.duplicates;
  if (a.chunks.size() < body.chunks) return {};
  auto payload = std::make_shared<std::vector<std::byte>>();
  for (const auto& [chunk, bytes] : a.chunks) payload->insert(payload->end(), bytes.begin(), bytes.end());
  a.chunks.clear();
  a.delivered = first;
  return {{body.round, body.parcel, body.tag, body.entries, std::move(payload), header.sequence}};
}

void Link::append(const ParcelBody& body, std::span<const std::byte> payload, std::vector<Message>& out) {
  if (body.chunk != next_chunk_ || body.chunks == 0 || body.chunk >= body.chunks) {
    ++counters_.refused;
    next_chunk_ = 0;
    partial_.clear();
    consume(received_);
    return;
  }
  partial_.insert(partial_.end(), payload.begin(), payload.end());
  if (++next_chunk_ < body.chunks - (planted_.is(Bug::chunks_unchecked) && body.chunks > 1 ? 1 : 0)) {
    consume(received_);
    return;
  }
  next_chunk_ = 0;
  out.push_back({body.round, body.parcel, body.tag, body.entries,
                 std::make_shared<const std::vector<std::byte>>(std::move(partial_)), received_});
  partial_.clear();
}

void Link::consume(std::uint64_t sequence) {
  if (delivery_ == Delivery::best_effort || sequence <= consumed_) return;
  consumed_ahead_.insert(sequence);
  while (!consumed_ahead_.empty() && *consumed_ahead_.begin() == consumed_ + 1) {
    consumed_ahead_.erase(consumed_ahead_.begin());
    ++consumed_;
  }
}

}  // namespace gossamer::node

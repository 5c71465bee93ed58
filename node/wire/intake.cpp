#include "intake.h"

#include <algorithm>
#include <cassert>

#include "hash.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostCandidates = 8;                   ///< that begin at one number
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 20;  ///< frames that can be under way
constexpr std::size_t kMostAhead = std::size_t{1} << 16;     ///< numbers kept of what came early
constexpr std::size_t kHopeless = 256;                       ///< frames behind a gap
constexpr std::size_t kRemembered = 128;                     ///< messages
constexpr std::size_t kOverhead = 256;                       ///< bytes beside a chunk's own
/// A payload is never longer than this: whatever the codec, an entry takes less than 9 bytes.
constexpr std::uint64_t most_payload(std::uint64_t entries) { return 4096 + 9 * entries; }

}  // namespace

bool well_cut(const FrameHeader& header, const ParcelBody& body, std::uint64_t entries) {
  const bool last = body.chunk + 1 == body.chunks;
  return body.chunk < body.chunks && header.sequence > body.chunk &&
         (last ? body.payload.size() <= kChunkBytes : body.payload.size() == kChunkBytes) &&
         (body.chunks - std::uint64_t{1}) * kChunkBytes <= most_payload(entries);
}

std::uint64_t digest_of(std::span<const std::byte> payload) { return hash_bytes(payload); }

void Intake::take(const FrameHeader& header, const ParcelBody& body) {
  const std::uint64_t first = header.sequence - body.chunk;
  const auto refused = [&](Refusal why) { refuse(header.sequence, why); };
  if (header.sequence > next_ + kFarthest) return refuse(Refusal::sequence);
  if (body.chunk < header.sequence && came_before(first, body.digest)) return duplicate(header, body);
  const Verdict verdict = rules_.judge ? rules_.judge(body) : Verdict::now(body.entries);
  if (verdict.when == Verdict::When::never) return refused(verdict.why);
  if (verdict.when == Verdict::When::past) {
    // A neighbour whose rounds are waited for does not go back. Where another's frame was taken for its own,
    // it comes a second time, and is acknowledged.
    if (!rules_.ordered && header.sequence >= next_) return refused(Refusal::round);
    ++counters_.duplicates;
    return pass(header.sequence);
  }
  if (body.entries != verdict.entries) return refused(Refusal::entries);
  if (!well_cut(header, body, verdict.entries)) return refused(Refusal::chunks);
  const std::size_t bytes = body.payload.size() + kOverhead;
  auto at = find(first, body);
  if (at != candidates_.end() && at->second.body.chunks != body.chunks) return refused(Refusal::digest);
  if (at != candidates_.end() && (at->second.payload || at->second.chunks.contains(body.chunk))) {
    ++counters_.duplicates;
    return;
  }
  if (!make_room(first, bytes)) return refuse(Refusal::memory);  // and it comes again
  if (at == candidates_.end()) {
    drop_oldest(first);
    at = candidates_.emplace(first, Candidate{body, {}, nullptr});
    at->second.body.payload = {};
  }
  Candidate& c = at->second;
  c.touched = ++clock_;
  c.bytes += bytes;
  held_ += bytes;
  c.chunks.emplace(body.chunk, std::vector<std::byte>(body.payload.begin(), body.payload.end()));
  if (header.sequence > received_ + 1) ++counters_.reordered;
  if (body.chunks == 1 && !complete(at)) return;  // nothing of it is acknowledged
  mark(header.sequence);
  if (body.chunks > 1) complete(at);
}

/// Frames that were delivered once: the other side has not heard that they came.
void Intake::duplicate(const FrameHeader& header, const ParcelBody& body) {
  ++counters_.duplicates;
  repeat_ = true;
  if (planted_.is(Bug::duplicate_delivered))
    again_.push_back(
        {body.round, body.parcel, body.tag, body.entries,
         std::make_shared<const std::vector<std::byte>>(body.payload.begin(), body.payload.end()),
         header.sequence});
}

void Intake::refuse(std::uint64_t sequence, Refusal why) {
  refuse(why);
  if (sequence >= next_ && refused_.size() < kMostAhead) refused_.insert(sequence);
}

void Intake::pass(std::uint64_t sequence) {
  repeat_ = true;
  if (sequence >= next_) {
    if (passed_.size() >= kMostAhead) return;
    passed_.insert(sequence);
  }
  mark(sequence);
  consume(sequence);
}

bool Intake::came_before(std::uint64_t first, std::uint64_t digest) const {
  if (first >= next_) return false;
  if (recent_.empty() || first < recent_.begin()->first) return recent_.size() >= kRemembered;
  const auto [begin, end] = recent_.equal_range(first);
  return std::any_of(begin, end, [&](const auto& m) { return m.second == digest; });
}

Intake::Candidates::iterator Intake::find(std::uint64_t first, const ParcelBody& body) {
  const auto [begin, end] = candidates_.equal_range(first);
  const auto at = std::find_if(begin, end, [&](const auto& entry) {
    const ParcelBody& b = entry.second.body;
    return b.digest == body.digest && b.round == body.round && b.parcel == body.parcel && b.tag == body.tag;
  });
  return at == end ? candidates_.end() : at;
}

/// Of too many candidates that begin at one number.
void Intake::drop_oldest(std::uint64_t first) {
  const auto [begin, end] = candidates_.equal_range(first);
  if (static_cast<std::size_t>(std::distance(begin, end)) >= kMostCandidates)
    erase(std::min_element(begin, end,
                           [](const auto& a, const auto& b) { return a.second.touched < b.second.touched; }));
}

/// What is due next always has room; what is due later gives way to what is due sooner.
bool Intake::make_room(std::uint64_t first, std::size_t bytes) {
  if (first < next_) return held_ + bytes <= rules_.most_bytes;
  while (held_ + bytes > rules_.most_bytes && first > next_) {
    const auto last = candidates_.empty() ? candidates_.end() : std::prev(candidates_.end());
    if (last == candidates_.end() || last->first <= first || last->first <= received_) return false;
    for (std::uint32_t c = 0; c < last->second.body.chunks; ++c) ahead_.erase(last->first + c);
    erase(last);
  }
  return true;
}

void Intake::erase(Candidates::iterator at) {
  held_ -= at->second.bytes;
  candidates_.erase(at);
}

/// Puts the payload together once all chunks are here. False where it is not what was announced, or does not
/// decode: then the candidate is no more.
bool Intake::complete(Candidates::iterator at) {
  Candidate& c = at->second;
  const bool short_of_one = planted_.is(Bug::chunks_unchecked) && c.body.chunks > 1;
  if (c.chunks.size() < c.body.chunks - (short_of_one ? 1 : 0)) return true;
  auto payload = std::make_shared<std::vector<std::byte>>();
  for (const auto& [number, bytes] : c.chunks) payload->insert(payload->end(), bytes.begin(), bytes.end());
  c.chunks.clear();
  const Message whole{c.body.round, c.body.parcel, c.body.tag, c.body.entries, payload};
  const bool announced = digest_of(*payload) == c.body.digest || short_of_one;
  if (!announced || (rules_.decodes && !rules_.decodes(whole) && !short_of_one)) {
    refuse(at->first, announced ? Refusal::payload : Refusal::digest);
    erase(at);
    return false;
  }
  c.payload = std::move(payload);
  return true;
}

void Intake::mark(std::uint64_t sequence) {
  if (sequence <= received_ || ahead_.size() >= kMostAhead) return;
  ahead_.insert(sequence);
  while (!ahead_.empty() && *ahead_.begin() == received_ + 1) {
    ahead_.erase(ahead_.begin());
    ++received_;
  }
}

std::optional<Message> Intake::next() {
  if (!again_.empty()) {
    Message m = std::move(again_.back());
    again_.pop_back();
    return m;
  }
  for (bool advanced = true; advanced;) {
    advanced = false;
    for (auto at = candidates_.begin(); at != candidates_.end();) {
      const bool due = at->first <= next_ || planted_.is(Bug::gap_passed);
      if (!due) break;
      const auto here = at++;
      if (!here->second.payload) continue;
      const Verdict v = rules_.judge ? rules_.judge(here->second.body) : Verdict::now(0);
      if (v.when == Verdict::When::now) return deliver(here);
      if (v.when == Verdict::When::later) continue;
      if (v.when == Verdict::When::never) refuse(v.why);
      for (std::uint32_t c = 0; c < here->second.body.chunks; ++c) pass(here->first + c);
      erase(here);
    }
    while (pass_next()) advanced = true;
  }
  return std::nullopt;
}

bool Intake::pass_next() {
  for (auto* numbers : {&passed_, &refused_})
    while (!numbers->empty() && *numbers->begin() < next_) numbers->erase(numbers->begin());
  const bool gap = refused_.contains(next_) && (!rules_.ordered || ahead_.size() >= kHopeless);
  if (!gap && !passed_.contains(next_)) return false;
  ++next_;
  return true;
}

Message Intake::deliver(Candidates::iterator at) {
  Candidate c = std::move(at->second);
  const std::uint64_t first = at->first, last = first + c.body.chunks - 1;
  candidates_.erase(at);  // its bytes are held until it is used
  remember(first, c.body.digest);
  if (first >= next_) next_ = last + 1;
  for (std::uint64_t s = first; s < last; ++s) consume(s);
  if (planted_.is(Bug::gap_passed)) received_ = std::max(received_, last);
  if (last > consumed_)
    unconsumed_[last] += c.bytes;
  else
    held_ -= c.bytes;
  return {c.body.round, c.body.parcel, c.body.tag, c.body.entries, std::move(c.payload), last};
}

void Intake::remember(std::uint64_t first, std::uint64_t digest) {
  recent_.emplace(first, digest);
  if (recent_.size() > kRemembered) recent_.erase(recent_.begin());
}

void Intake::consume(std::uint64_t sequence) {
  if (const auto bytes = unconsumed_.find(sequence); bytes != unconsumed_.end()) {
    held_ -= bytes->second;
    unconsumed_.erase(bytes);
  }
  if (sequence <= consumed_ || consumed_ahead_.size() >= kMostAhead) return;
  consumed_ahead_.insert(sequence);
  while (!consumed_ahead_.empty() && *consumed_ahead_.begin() == consumed_ + 1) {
    consumed_ahead_.erase(consumed_ahead_.begin());
    ++consumed_;
  }
}

}  // namespace gossamer::node

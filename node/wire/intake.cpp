#include "intake.h"

#include <algorithm>
#include <cassert>

#include "hash.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostCandidates = 8;                    ///< that begin at one number
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 20;   ///< frames that can be under way
constexpr std::size_t kMostAhead = std::size_t{1} << 16;      ///< numbers kept of what came early
constexpr std::size_t kHopeless = 256;                        ///< frames behind a gap
constexpr std::size_t kRemembered = 128;                      ///< messages
constexpr std::size_t kMostBlocks = 8;                        ///< messages that are put together at a time
constexpr std::size_t kMostReserved = std::size_t{16} << 20;  ///< bytes for one of which little has come
constexpr std::size_t kOverhead = 256;                        ///< bytes beside a chunk's own
/// A payload is never longer than this: whatever the codec, an entry takes less than 9 bytes.
constexpr std::uint64_t most_payload(std::uint64_t entries) { return 4096 + 9 * entries; }

}  // namespace

std::uint32_t chunks_of(std::size_t bytes) {
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, (bytes + kChunkBytes - 1) / kChunkBytes));
}

bool well_cut(const FrameHeader& header, const ParcelBody& body, std::uint64_t entries) {
  const bool last = body.chunk + 1 == body.chunks;
  const bool cut = body.apart ? body.chunk == 0 && body.chunks == chunks_of(body.payload.size())
                   : body.chunks == 1
                       ? body.payload.size() <= std::min(kWholeBytes, kChunkBytes + most_payload(entries))
                   : last ? body.payload.size() <= kChunkBytes
                          : body.payload.size() == kChunkBytes;
  return cut && body.chunk < body.chunks && header.sequence > body.chunk &&
         (body.chunks - std::uint64_t{1}) * kChunkBytes <= most_payload(entries);
}

std::uint64_t digest_of_chunks(std::span<const std::uint64_t> hashes) {
  return hashes.size() == 1 ? hashes[0] : hash_bytes(std::as_bytes(hashes));
}

std::uint64_t digest_of(std::span<const std::byte> payload, std::uint32_t chunks) {
  if (chunks == 1) return hash_bytes(payload);
  std::vector<std::uint64_t> hashes;
  do {
    const std::size_t size = std::min(kChunkBytes, payload.size());
    hashes.push_back(hash_bytes(payload.first(size)));
    payload = payload.subspan(size);
  } while (!payload.empty());
  return digest_of_chunks(hashes);
}

void Intake::take(const FrameHeader& header, const ParcelBody& body) {
  const std::uint64_t first = header.sequence - body.chunk;
  const std::uint32_t numbers = body.apart ? std::min(body.chunks, chunks_of(body.payload.size())) : 1;
  const auto refused = [&](Refusal why) { refuse(header.sequence, why, numbers); };
  if (header.sequence > next_ + kFarthest) return refuse(Refusal::sequence);
  if (body.chunk < header.sequence && came_before(first, body.digest)) return duplicate(header, body);
  const Verdict verdict = rules_.judge ? rules_.judge(body) : Verdict::now(body.entries);
  if (verdict.when == Verdict::When::never) return refused(verdict.why);
  if (verdict.when == Verdict::When::past) {
    // A neighbour whose rounds are waited for does not go back. Where another's frame was taken for its own,
    // it comes a second time, and is acknowledged.
    if (!rules_.ordered && header.sequence >= next_) return refused(Refusal::round);
    ++counters_.duplicates;
    for (std::uint32_t n = 0; n < numbers; ++n) pass(header.sequence + n);
    return;
  }
  if (body.entries != verdict.entries) return refused(Refusal::entries);
  if (!well_cut(header, body, verdict.entries)) return refused(Refusal::chunks);
  const auto at = find(first, body);
  if (at != candidates_.end() && at->second.body.chunks != body.chunks) return refused(Refusal::digest);
  if (at != candidates_.end() && (at->second.payload || (!body.apart && has(at->second, body.chunk)))) {
    ++counters_.duplicates;
    return;
  }
  // takes the place of chunks that came before it, once it is sure to stay
  if (body.apart && !decodes(body, body.apart, true)) return refused(Refusal::payload);
  const std::size_t bytes = body.payload.size() + kOverhead;
  if (!make_room(first, bytes)) return refuse(Refusal::memory);  // and it comes again
  if (header.sequence > received_ + 1) ++counters_.reordered;
  if (body.apart) {
    if (at != candidates_.end()) erase(at);
    Candidate& c = hold(candidates_.end(), first, body, bytes)->second;
    c.payload = body.apart;
    for (std::uint32_t n = 0; n < numbers; ++n) mark(header.sequence + n);
    return;
  }
  const auto held = hold(at, first, body, bytes);
  put(held->second, body);
  if (body.chunks == 1 && !complete(held)) return;  // nothing of it is acknowledged
  mark(header.sequence);
  if (body.chunks > 1) complete(held);
}

/// So many bytes more of a candidate, which is made where there is none.
Intake::Candidates::iterator Intake::hold(Candidates::iterator at, std::uint64_t first,
                                          const ParcelBody& body, std::size_t bytes) {
  if (at == candidates_.end()) {
    drop_oldest(first);
    at = candidates_.emplace(first, Candidate{.body = body});
    at->second.body.payload = {}, at->second.body.apart = {}, at->second.body.held = {};
  }
  at->second.touched = ++clock_;
  at->second.bytes += bytes;
  held_ += bytes;
  return at;
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

void Intake::refuse(std::uint64_t sequence, Refusal why, std::uint32_t numbers) {
  refuse(why);
  for (std::uint64_t n = sequence; n < sequence + numbers; ++n)
    if (n >= next_ && refused_.size() < kMostAhead) refused_.insert(n);
}

bool Intake::decodes(const ParcelBody& body, const Payload& payload, bool shared) const {
  return !rules_.decodes ||
         rules_.decodes({body.round, body.parcel, body.tag, body.entries, payload}, shared);
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

bool Intake::has(const Candidate& c, std::uint32_t chunk) {
  return chunk < c.joined || c.chunks.contains(chunk);
}

/// Chunks that come in their order go where they stay. Who announces many chunks and sends none of them takes
/// no memory for them: a few messages of a link are put together at a time.
void Intake::put(Candidate& c, const ParcelBody& body) {
  const std::size_t most = body.chunks == 1 ? body.payload.size() : body.chunks * kChunkBytes;
  const std::uint64_t hash = body.hash ? *body.hash : hash_bytes(body.payload);
  if (body.chunks == 1 && body.held) {  // stays where it is
    c.hashes.push_back(hash);
    c.alone = body.held;
    c.joined = 1;
    return;
  }
  if (body.chunk == 0 && blocks_ < kMostBlocks && most <= kMostReserved) {
    c.block = take_block(most);
    ++blocks_;
  }
  if (!c.block.owner || body.chunk != c.joined) {
    c.chunks.emplace(body.chunk, Early{{body.payload.begin(), body.payload.end()}, hash});
    return;
  }
  c.hashes.push_back(hash);
  std::copy(body.payload.begin(), body.payload.end(), c.block.bytes.begin() + c.joined++ * kChunkBytes);
  c.length += body.payload.size();
}

/// All chunks, one after another.
Payload Intake::join(Candidate& c) {
  if (c.alone) return std::move(c.alone);
  if (!c.block.owner) c.block = take_block(c.body.chunks * kChunkBytes);
  for (const auto& [number, chunk] : c.chunks) {
    std::copy(chunk.bytes.begin(), chunk.bytes.end(),
              c.block.bytes.begin() + static_cast<std::ptrdiff_t>(c.length));
    c.length += chunk.bytes.size();
    c.hashes.push_back(chunk.hash);
  }
  c.chunks.clear();
  return {std::move(c.block.owner), c.block.bytes.first(c.length)};
}

void Intake::erase(Candidates::iterator at) {
  held_ -= at->second.bytes;
  if (at->second.block.owner) --blocks_;
  candidates_.erase(at);
}

/// Puts the payload together once all chunks are here. False where it is not what was announced, or does not
/// decode: then the candidate is no more.
bool Intake::complete(Candidates::iterator at) {
  Candidate& c = at->second;
  const bool short_of_one = planted_.is(Bug::chunks_unchecked) && c.body.chunks > 1;
  if (c.joined + c.chunks.size() < c.body.chunks - (short_of_one ? 1 : 0)) return true;
  if (c.block.owner) --blocks_;
  Payload payload = join(c);
  if (short_of_one) {
    c.payload = std::move(payload);
    return true;
  }
  const bool announced = digest_of_chunks(c.hashes) == c.body.digest;
  if (!announced || !decodes(c.body, payload, false)) {
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
  const bool cut = c.body.chunks == chunks_of(c.payload->size());  // as it is where memory is shared
  return {c.body.round,
          c.body.parcel,
          c.body.tag,
          c.body.entries,
          std::move(c.payload),
          last,
          cut ? std::optional(c.body.digest) : std::nullopt,
          c.body.chunks == 1 && c.hashes.size() == 1 ? std::optional(c.hashes[0]) : std::nullopt};
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

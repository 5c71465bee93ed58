#include "gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gossamer::node {
namespace {

/// Keys that are no peer's: whoever makes keys without end must not fill memory with them.
constexpr std::size_t kMostStrangers = 1024;
constexpr std::size_t kMostNews = 256, kMostToldEach_s = 10;

}  // namespace

Gate::Gate(AccessList access, GateSpec spec) : spec_(spec), access_(std::move(access)) {}

void Gate::replace(AccessList access) {
  const std::lock_guard lock(mutex_);
  access_ = std::move(access);
}

/// A certificate that admits it no more is forgotten: another may.
Admission Gate::admission(const PublicKey& key, Known& known, std::int64_t clock_s) const {
  if (!known.certificate) return admit(access_, key);
  const Admission a = admit(access_, key, *known.certificate, clock_s);
  if (a.how == Admitted::no_expired || a.how == Admitted::no_forged) known.certificate.reset();
  return a;
}

bool Gate::knock(const PublicKey& key, const std::string& from, double now_s, std::int64_t clock_s) {
  const std::lock_guard lock(mutex_);
  if (!known_.contains(key)) forget_old(now_s);
  Known& known = known_[key];
  known.from = from;
  const Admission a = admission(key, known, clock_s);
  if (a.admitted()) return true;
  if (a.how == Admitted::on_probation && now_s >= known.turned_away_until) {
    if (known.on_probation_since && now_s < *known.on_probation_since + spec_.probation_s) return true;
    known.on_probation_since.reset();
    if (on_probation(now_s) < spec_.most_on_probation &&
        on_probation(now_s, &from) < spec_.most_of_one_address) {
      known.on_probation_since = now_s;
      return true;
    }
  }
  refuse(key, known, a.how, now_s);
  return false;
}

std::optional<std::string> Gate::speaker(const PublicKey& key, std::span<const std::byte> message,
                                         double now_s, std::int64_t clock_s) {
  const std::lock_guard lock(mutex_);
  Known& known = known_[key];
  Admission a = admission(key, known, clock_s);
  if (a.admitted() && known.certificate && message.size() <= Certificate::kMostBytes)
    if (auto later = decode_certificate(message); later &&
                                                  later->not_after_s > known.certificate->not_after_s &&
                                                  admit(access_, key, *later, clock_s).admitted())
      known.certificate = std::move(later);
  if (a.admitted()) return std::move(a.name);
  const bool in_time = a.how == Admitted::on_probation && known.on_probation_since &&
                       now_s <= *known.on_probation_since + spec_.probation_s;
  auto shown = in_time ? decode_certificate(message) : std::nullopt;
  if (in_time && !shown) {  // perhaps sent before its certificate, and certainly not read
    ++refused_[a.how];
    return std::nullopt;
  }
  if (shown) {
    a = admit(access_, key, *shown, clock_s);
    if (a.admitted()) {
      known.certificate = std::move(shown);
      known.on_probation_since.reset();
      if (news_.size() < kMostNews)
        news_.push_back(fmt::format("{} ({}) is admitted by a certificate until {}", a.name, known.from,
                                    time_text(a.until_s.value_or(0))));
      return std::nullopt;
    }
  }
  known.on_probation_since.reset();
  known.turned_away_until = now_s + spec_.turned_away_s;
  refuse(key, known, a.how, now_s);
  return std::nullopt;
}

bool Gate::turns_away(const PublicKey& key, double now_s) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(key);
  return known != known_.end() && now_s < known->second.turned_away_until;
}

void Gate::end_probation(double now_s) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, known] : known_) {
    if (!known.on_probation_since || now_s < *known.on_probation_since + spec_.probation_s) continue;
    known.on_probation_since.reset();
    known.turned_away_until = now_s + spec_.turned_away_s;
    refuse(key, known, Admitted::on_probation, now_s);
  }
}

void Gate::refuse(const PublicKey& key, Known& known, Admitted why, double now_s) {
  ++refused_[why];
  if (known.told_of == why && now_s < known.told + spec_.turned_away_s) return;
  known.told_of = why;
  known.told = now_s;
  if (now_s >= told_since_ + 1) told_since_ = now_s, told_ = 0;
  if (++told_ <= kMostToldEach_s && news_.size() < kMostNews)
    news_.push_back(fmt::format("{} was turned away: {} ({})", known.from.empty() ? "a peer" : known.from,
                                text_of(why), text_of(key)));
}

std::size_t Gate::on_probation(double now_s, const std::string* from) const {
  return static_cast<std::size_t>(std::count_if(known_.begin(), known_.end(), [&](const auto& entry) {
    const auto& since = entry.second.on_probation_since;
    return since && now_s < *since + spec_.probation_s && (!from || entry.second.from == *from);
  }));
}

/// Of strangers the ones of which nothing need be remembered, and where they are too many all that are not on
/// probation.
void Gate::forget_old(double now_s) {
  const auto is_stranger = [&](const auto& entry) {
    return !entry.second.certificate && !access_.allowed.contains(entry.first) &&
           !(entry.second.on_probation_since && now_s < *entry.second.on_probation_since + spec_.probation_s);
  };
  if (known_.size() < kMostStrangers) return;
  std::erase_if(known_, [&](const auto& entry) {
    return is_stranger(entry) &&
           now_s >= std::max(entry.second.turned_away_until, entry.second.told + spec_.turned_away_s);
  });
  if (known_.size() >= kMostStrangers) std::erase_if(known_, is_stranger);
}

std::vector<std::string> Gate::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

std::map<Admitted, std::uint64_t> Gate::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace gossamer::node

#pragma once
// One Swim, told what a test makes up.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "swim.h"

namespace gossamer::node {

inline MemberRecord record(const std::string& name, std::uint64_t start = 1,
                           MemberStatus status = MemberStatus::alive, std::uint32_t refuted = 0) {
  return {name, "at " + name, start, refuted, status};
}

/// The member "me" of start 10, and what it says.
struct Alone : SwimHost {
  using Kind = SwimBody::Kind;
  using Status = MemberStatus;
  explicit Alone(std::size_t others = 0, std::size_t indirect = 3) {
    SwimSpec spec;
    spec.name = "me", spec.address = "at me", spec.start = 10, spec.indirect = indirect;
    me.emplace(spec, *this, now);
    for (std::size_t k = 0; k < others; ++k) hears({record(name_of(k))});
    for (std::size_t k = 0; k < others; ++k) me->heard(name_of(k), 1, 0);
    until(0);  // it has told what it heard
    sent.clear(), changes.clear();
  }
  static std::string name_of(std::size_t k) { return "p" + std::to_string(k); }

  void send(const Contact& to, SwimBody body) override { sent.emplace_back(to, std::move(body)); }
  void changed(const MemberRecord& r, std::optional<Status> before) override {
    changes.push_back({r.name, before, r.status});
  }
  void superseded(std::uint64_t start) override { superseded_by.push_back(start); }

  /// Members send each other their own record first.
  void gets(Kind kind, const std::string& from, std::uint64_t number, const std::string& about = "me",
            std::vector<MemberRecord> records = {}) {
    me->on_body({kind, number, from, 1, about, std::move(records)}, now);
  }
  void hears(std::vector<MemberRecord> records, const std::string& from = "p0") {
    if (!me->members().contains(from)) records.insert(records.begin(), record(from));
    gets(Kind::news, from, 0, "me", std::move(records));
  }
  void until(double end) {
    while (me->next_deadline() <= end) now = me->next_deadline(), me->on_timer(now);
    now = end;
  }
  const MemberRecord& of(const std::string& name) const { return me->members().at(name); }
  Status status(std::size_t k) const { return of(name_of(k)).status; }
  /// What was sent of that kind since the last question.
  std::vector<std::pair<Contact, SwimBody>> take(Kind kind) {
    std::vector<std::pair<Contact, SwimBody>> those;
    for (const auto& s : sent)
      if (s.second.kind == kind) those.push_back(s);
    std::erase_if(sent, [&](const auto& s) { return s.second.kind == kind; });
    return those;
  }
  /// Until `k` is pinged: the number; all others are heard all the time.
  std::uint64_t pinged(std::size_t k, std::size_t others) {
    for (const double end = now + 10; now < end; until(now + 0.01)) {
      for (std::size_t j = 0; j < others; ++j)
        if (j != k) me->heard(name_of(j), 1, now);
      for (const auto& [to, body] : take(Kind::ping))
        if (to.name == name_of(k)) return body.number;
    }
    return 0;
  }
  bool tells_of(const std::string& name, Status status) const {
    return std::any_of(sent.begin(), sent.end(), [&](const auto& s) {
      return std::any_of(s.second.records.begin(), s.second.records.end(),
                         [&](const auto& r) { return r.name == name && r.status == status; });
    });
  }

  struct Change {
    std::string name;
    std::optional<Status> before;
    Status status;
    bool operator==(const Change&) const = default;
  };
  double now = -0.01;
  std::optional<Swim> me;
  std::vector<std::pair<Contact, SwimBody>> sent;
  std::vector<Change> changes;
  std::vector<std::uint64_t> superseded_by;
};

}  // namespace gossamer::node

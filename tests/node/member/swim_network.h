#pragma once
// A small network of Swims in virtual time, with faults that a seed draws.
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>

#include "swim.h"

namespace gossamer::node {

struct Network {
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Host : SwimHost {
    void send(const Contact& to, SwimBody body) override { network->carry(*this, to, std::move(body)); }
    void changed(const MemberRecord& r, std::optional<MemberStatus> before) override {
      network->on_changed(name, r, before);
      if (r.status == MemberStatus::dead && before != r.status) died[r.name] = network->now;
    }
    void superseded(std::uint64_t by) override { superseded_by = by; }
    Network* network = nullptr;
    std::string name;
    std::uint64_t start = 0;
    std::unique_ptr<Swim> swim;
    bool stopped = false;
    double slow_s = 0, frozen_until = 0;
    std::map<std::string, double> died;
    std::optional<std::uint64_t> superseded_by;
    double frames = 0, bytes = 0;
    double wakes = kNever;
  };
  struct Event {
    double at = 0;
    std::uint64_t order = 0;
    std::function<void()> run;
    bool operator<(const Event& o) const { return std::pair(at, order) > std::pair(o.at, o.order); }
  };

  explicit Network(std::uint64_t seed = 1) : random(seed) {}

  double draw(double from, double to) {
    return from + (to - from) * static_cast<double>(random() >> 11) * 0x1p-53;
  }
  void at(double when, std::function<void()> run) { events.push({when, order++, std::move(run)}); }

  void introduce(const std::string& name, const std::string& via) {
    hosts.at(name)->swim->contact({by_address ? "" : via, "at " + via}, now);
    wake(*hosts.at(name));
  }
  /// Starts a member, a later start of it where it has run before; it is told of `via`.
  Host& start(const std::string& name, const std::string& via = {}) {
    auto& slot = hosts[name];
    if (slot) old.push_back(std::move(slot));
    slot = std::make_unique<Host>();
    Host& h = *slot;
    h.network = this;
    h.name = name;
    h.start = ++starts[name];
    SwimSpec s = spec;
    s.name = name, s.address = dials_only(name) ? "" : "at " + name, s.start = h.start;
    s.seed = random();
    h.swim = std::make_unique<Swim>(s, h, now);
    wake(h);
    if (!via.empty()) introduce(name, via);
    return h;
  }
  void start_all(std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) start(name_of(k), k == 0 ? "" : name_of(0));
  }
  static std::string name_of(std::size_t k) { return "m" + std::to_string(k); }
  Host& host(std::size_t k) { return *hosts.at(name_of(k)); }
  Swim& swim(std::size_t k) { return *host(k).swim; }
  void kill(const std::string& name) { hosts.at(name)->stopped = true; }

  void carry(Host& from, const Contact& to, SwimBody body) {
    if (from.stopped) return;
    ++from.frames;
    const auto bytes = body.to_bytes(), ended = body.ended();
    from.bytes += static_cast<double>(bytes.size());
    const std::string name = to.address.empty() ? to.name : to.address.substr(3);
    if (to.address.empty() && !dialled.contains({name, from.name})) return;
    dialled.insert({from.name, name});
    const int copies = draw(0, 1) < duplication ? 2 : 1;
    for (int k = 0; k < copies; ++k) {
      if (draw(0, 1) < loss) continue;
      const double when = now + draw(latency, latency + jitter) + draw(0, from.slow_s);
      at(when, [this, name, sender = from.name, bytes, ended] {
        if (!cut(sender, name)) deliver(name, bytes, ended);
      });
    }
  }
  void deliver(const std::string& name, const std::vector<std::byte>& bytes,
               const std::vector<std::byte>& ended) {
    const auto h = hosts.find(name);
    if (h == hosts.end() || h->second->stopped) return;
    if (h->second->frozen_until > now)
      return at(h->second->frozen_until + 0.001, [this, name, bytes, ended] { deliver(name, bytes, ended); });
    SwimBody body = *SwimBody::from_bytes(bytes);
    body.take_ended(ended);
    h->second->swim->on_body(body, now);
    wake(*h->second);
  }
  /// Somebody's deadline may be another.
  void wake(Host& h) {
    const double due = h.swim->next_deadline();
    if (due >= h.wakes) return;
    h.wakes = std::max({due, now, h.frozen_until});
    at(h.wakes, [this, &h, when = h.wakes] {
      if (h.wakes != when) return;  // an earlier one has come since
      h.wakes = kNever;
      if (h.stopped) return;
      if (h.swim->next_deadline() <= now && h.frozen_until <= now) h.swim->on_timer(now);
      wake(h);
    });
  }
  void until(double end) {
    while (!events.empty() && events.top().at <= end) {
      const auto run = events.top().run;
      now = events.top().at;
      events.pop();
      run();
    }
    now = end;
  }

  std::vector<std::string> living() const {
    std::vector<std::string> names;
    for (const auto& [name, h] : hosts)
      if (!h->stopped) names.push_back(name);
    return names;
  }
  /// What differs between what the living members know and what is so; empty where nothing does.
  std::string differences() const {
    for (const auto& [name, h] : hosts) {
      if (h->stopped) continue;
      if (h->swim->alive() != living()) return name + " does not know who lives";
      for (const auto& other : living()) {
        const auto& known = h->swim->members().at(other);
        const auto& real = hosts.at(other)->swim->members().at(other);
        if (known.status != MemberStatus::alive) return name + " suspects " + other;
        if (known.start != real.start || known.word != real.word) return name + " knows an older " + other;
      }
    }
    return {};
  }
  /// The last of the living to learn of a death; infinity where one never did.
  double last_to_know(const std::string& dead) const {
    double last = 0;
    for (const auto& [name, h] : hosts) {
      if (h->stopped) continue;
      const auto at = h->died.find(dead);
      last = std::max(last, at == h->died.end() ? kNever : at->second);
    }
    return last;
  }

  SwimSpec spec;
  double latency = 0.001, jitter = 0.0005, loss = 0, duplication = 0;
  bool by_address = true;
  std::function<bool(const std::string&, const std::string&)> cut = [](const auto&, const auto&) {
    return false;
  };
  std::function<void(const std::string&, const MemberRecord&, std::optional<MemberStatus>)> on_changed =
      [](const auto&, const auto&, auto) {};
  std::function<bool(const std::string&)> dials_only = [](const auto&) { return false; };
  std::set<std::pair<std::string, std::string>> dialled;
  double now = 0;
  std::mt19937_64 random;
  std::priority_queue<Event> events;
  std::uint64_t order = 0;
  std::map<std::string, std::unique_ptr<Host>> hosts;
  std::vector<std::unique_ptr<Host>> old;
  std::map<std::string, std::uint64_t> starts;
};

}  // namespace gossamer::node

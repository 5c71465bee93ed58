#include "saver.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gossamer::node {
namespace {

/// News of a save has so long to reach everyone, before the peer that proposes it is there.
constexpr double kSpread_s = 0.5;
constexpr double kMostRoundsAhead = 1e5;  ///< that news may be ahead of a peer; more is none's

}  // namespace

Saver::Saver(const SaveSpec& spec, std::size_t peers, PeerId self) : spec_(spec), self_(self) {
  if (!on()) return;
  for (auto* of_all : {&news_.holding, &news_.taken, &news_.committed}) of_all->assign(peers, 0);
}

void Saver::begin(Round done, double now) {
  taken_ = done;
  next_s_ = spec_.every_s > 0 ? now + spec_.every_s : std::numeric_limits<double>::infinity();
}

Round Saver::soon(Round done, double took_s) const {
  if (!spec_.together) return done + 1;
  const double rounds = took_s > 0 ? std::min(kSpread_s / took_s, kMostRoundsAhead) : 0;
  return done + 1 + static_cast<Round>(rounds);
}

bool Saver::ask(Round done, double took_s) {
  const bool to_come = news_.at > taken_ && news_.at >= done;
  if (!on() || to_come) return false;
  news_.at = soon(done, took_s);
  return true;
}

bool Saver::on_round(Round done, double now, double took_s) {
  if (!on() || now < next_s_) return false;
  next_s_ = now + spec_.every_s;
  return ask(done, took_s);
}

bool Saver::merge(const SaveNews& theirs, Round done, bool under_way, double took_s) {
  if (!on() || theirs.greatest() > static_cast<Round>(2 * kMostRoundsAhead) + done) return false;
  const Round before = news_.at;
  bool news = false;
  if (spec_.together) {
    news = news_.merge(theirs, self_);
  } else {
    SaveNews others = theirs;
    others.at = 0;
    news = news_.merge(others, self_);
  }
  if (news_.at == before) return news;
  if (news_.at < done + (under_way ? 1 : 0)) news_.at = soon(done, took_s);
  return true;
}

bool Saver::leave() {
  if (!on() || news_.leaves(self_)) return false;
  SaveNews own;
  own.committed.resize(news_.committed.size());
  own.holding = own.taken = own.committed;
  own.leaving = {self_};
  return news_.merge(own, self_);
}

bool Saver::hold(Round name) {
  if (news_.holding[self_] >= name) return false;
  news_.holding[self_] = name;
  return true;
}

bool Saver::agreed(Round name) const { return !spec_.together || news_.all_hold(name); }

bool Saver::beyond(Round round) const {
  const auto name = on() && spec_.together ? next() : std::nullopt;
  return name && round >= *name;
}

std::optional<Round> Saver::next() const {
  std::optional<Round> next;
  if (spec_.every_rounds > 0) next = (taken_ / spec_.every_rounds + 1) * spec_.every_rounds;
  if (news_.at > taken_) next = std::min(next.value_or(news_.at), news_.at);
  return next;
}

std::optional<Round> Saver::due(Round done) const {
  const auto name = next();
  if (!name || done < *name) return std::nullopt;
  return spec_.together ? name : std::optional(done);
}

void Saver::taken(Round name, double now) {
  taken_ = std::max(taken_, name);
  news_.taken[self_] = taken_;
  if (spec_.every_s > 0) next_s_ = now + spec_.every_s;
}

bool Saver::committed(Round name) {
  Round& mine = news_.committed[self_];
  if (name <= mine) return false;
  mine = name;
  news_.look_whole();
  return true;
}

bool Saver::judge(Round best, Round as_of) {
  if (as_of <= news_.judged) return false;
  news_.best = best;
  news_.judged = as_of;
  return true;
}

}  // namespace gossamer::node

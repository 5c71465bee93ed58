#include "own.h"

#include <algorithm>

namespace gossamer::node {
namespace {

constexpr std::string_view kPart = "data/own/", kRowsPart = "data/own_rows/",
                           kGradientPart = "data/own_gradient/";
constexpr char kBetween = '\n';  // names are of one line

Archive part(const Archive& all) { return all.part("data").part("own"); }
bool has(const State& state, std::string_view prefix) {
  const auto first = state.lower_bound(std::string(prefix));
  return first != state.end() && first->first.starts_with(prefix);
}
bool is_own(std::string_view piece) {
  return piece.starts_with(kPart) || piece.starts_with(kRowsPart) || piece.starts_with(kGradientPart);
}

}  // namespace

void archive_incarnations(const Archive& archive, std::string_view name, std::vector<Incarnation>& all) {
  Archive list = archive.part(name);
  std::vector<std::byte> names;
  std::vector<std::uint64_t> starts;
  for (const Incarnation& one : all) {
    for (const char c : one.name) names.push_back(static_cast<std::byte>(c));
    names.push_back(static_cast<std::byte>(kBetween));
    starts.push_back(one.start);
  }
  list.bytes("names", names);
  list.numbers("starts", starts);
  if (!archive.restores()) return;
  all.assign(1, {});
  for (const std::byte b : names)
    if (static_cast<char>(b) == kBetween)
      all.emplace_back();
    else
      all.back().name += static_cast<char>(b);
  all.pop_back();
  if (all.size() != starts.size()) list.refuse("names", "are more or fewer than the starts beside them");
  for (std::size_t k = 0; k < all.size(); ++k) all[k].start = starts[k];
}

bool Passage::may_come_back(const Incarnation& one) const {
  const auto known = std::find_if(least.begin(), least.end(),
                                  [&](const Incarnation& other) { return other.name == one.name; });
  return known != least.end() && one.start >= known->start;
}

void Passage::archive(const Archive& archive) {
  archive_incarnations(archive, "seats", seats);
  archive_incarnations(archive, "least", least);
}

void add_passage(State& state, Passage passage) {
  if (has_own(state)) passage.archive(part(Archive::saving(state)).part("passage"));
}

bool has_own(const State& state) { return has(state, kPart); }
bool has_own_rows(const State& state) { return has(state, kRowsPart); }
Archive own_rows(const Archive& state) { return state.part("data").part("own_rows"); }
void drop_own_rows(State& state) {
  std::erase_if(state, [](const auto& piece) { return piece.first.starts_with(kRowsPart); });
}
bool has_own_gradient(const State& state) { return has(state, kGradientPart); }
Archive own_gradient(const Archive& state) { return state.part("data").part("own_gradient"); }

void archive_owed(const Archive& own, std::vector<Incarnation>& owed) {
  archive_incarnations(own, "owed", owed);
}

std::vector<Incarnation> owed_in(const State& state) {
  std::vector<Incarnation> owed;
  if (has_own(state)) archive_owed(part(Archive::restoring(state)), owed);
  return owed;
}

State without_own(const State& state) {
  State rest = state;
  std::erase_if(rest, [](const auto& piece) { return is_own(piece.first); });
  return rest;
}

State take_own(State& state) {
  State own;
  for (auto piece = state.begin(); piece != state.end();) {
    const auto next = std::next(piece);
    if (is_own(piece->first)) own.insert(state.extract(piece));
    piece = next;
  }
  return own;
}

}  // namespace gossamer::node

// Who has which rows while peers come and go.
#include "rendezvous.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "random.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using Rows = std::vector<std::uint32_t>;
constexpr const char* kSplits[] = {"local_shuffle", "global_shuffle", "dirichlet:0.3"};

std::vector<RowHome> peers(std::size_t count, std::size_t batch = 4) {
  std::vector<RowHome> all;
  for (std::size_t p = 0; p < count; ++p) all.push_back({"peer" + std::to_string(p), batch});
  return all;
}
std::vector<RowHome> without(std::vector<RowHome> all, const std::set<std::string>& gone) {
  std::erase_if(all, [&](const RowHome& h) { return gone.contains(h.name); });
  return all;
}
/// As local_shuffle deals them.
Rows homes_of(std::size_t rows, std::size_t homes) {
  Rows home(rows), order(rows);
  permutation(order, 17);
  for (std::size_t i = 0; i < rows; ++i) home[order[i]] = static_cast<std::uint32_t>(i * homes / rows);
  return home;
}
std::map<std::uint32_t, std::string> holders(const Rendezvous::Shards& shards,
                                             const std::vector<RowHome>& members) {
  std::map<std::uint32_t, std::string> holder;
  for (std::size_t m = 0; m < shards.size(); ++m)
    for (const std::uint32_t row : shards[m]) CHECK(holder.emplace(row, members[m].name).second);
  return holder;
}
std::map<std::uint32_t, std::string> dealt(const Rows& home, const std::vector<RowHome>& homes,
                                           const std::vector<RowHome>& members, bool even = true) {
  return holders(Rendezvous(3, homes, members).deal(home, even), members);
}
std::size_t moved(const std::map<std::uint32_t, std::string>& a,
                  const std::map<std::uint32_t, std::string>& b) {
  std::size_t count = 0;
  for (const auto& [row, name] : a) count += b.at(row) != name;
  return count;
}

SplitSpec spec_of(const std::string& kind, const std::vector<RowHome>& homes,
                  const std::vector<RowHome>& members) {
  SplitSpec spec{kind, 7, {}};
  spec.homes = homes;
  for (const auto& [name, batch] : members) spec.names.push_back(name), spec.batches.push_back(batch);
  return spec;
}
Rows rows_between(Sampler& sampler, std::uint64_t first, std::uint64_t last, std::size_t batch) {
  Rows all, step_rows(batch);
  for (std::uint64_t step = first; step < last; ++step) {
    sampler.rows_of(step, step_rows);
    all.insert(all.end(), step_rows.begin(), step_rows.end());
  }
  return all;
}

/// Its first one.
Rows whole_pass(Sampler& sampler, std::size_t batch) {
  Rows rows(batch);
  sampler.rows_of(0, rows);
  const Rows rest = sampler.left(1).rows;
  rows.insert(rows.end(), rest.begin(), rest.end());
  return rows;
}

}  // namespace

TEST_CASE("all rows have one peer each, as many as its batch is of all, whoever is there") {
  for (const std::size_t rows : {64, 301, 5000})
    for (const std::size_t count : {1, 2, 5, 16}) {
      std::vector<RowHome> homes = peers(count);
      if (count == 5) homes[1].batch = 9, homes[3].batch = 1;
      const Rows home = homes_of(rows, count);
      for (std::size_t seed = 0; seed < 12; ++seed) {
        std::vector<RowHome> members;
        for (std::size_t p = 0; p < count; ++p)
          if (bits(seed, p) % 3 != 0) members.push_back(homes[p]);
        for (std::size_t n = 0; n < bits(seed, 99) % 4; ++n)
          members.push_back({"new" + std::to_string(n), 1 + bits(seed, n) % 6});
        if (members.empty()) members.push_back(homes[0]);
        INFO(rows << " rows, " << count << " homes, seed " << seed);
        const auto shards = Rendezvous(seed, homes, members).deal(home, true);
        CHECK(holders(shards, members).size() == rows);
        const auto total =
            static_cast<double>(std::accumulate(members.begin(), members.end(), std::size_t{0},
                                                [](std::size_t s, const RowHome& m) { return s + m.batch; }));
        for (std::size_t m = 0; m < members.size(); ++m) {
          const double fair = static_cast<double>(rows * members[m].batch) / total;
          CHECK(static_cast<double>(shards[m].size()) == Approx(fair).margin(1.0001));
        }
        // whatever order they stand in
        auto reversed = members;
        std::reverse(reversed.begin(), reversed.end());
        CHECK(dealt(home, homes, members) == dealt(home, homes, reversed));
        CHECK(dealt(home, homes, members, false).size() == rows);
      }
    }
}

TEST_CASE("the rows of who is lost are spread, and no other row moves") {
  const auto homes = peers(8);
  const Rows home = homes_of(60000, 8);
  const auto all = dealt(home, homes, homes);
  for (std::uint32_t row = 0; row < 60000; ++row) CHECK(all.at(row) == homes[home[row]].name);
  const auto seven = without(homes, {"peer3"}), six = without(homes, {"peer3", "peer6"});
  const auto of_seven = dealt(home, homes, seven), of_six = dealt(home, homes, six);
  std::map<std::string, std::size_t> got;
  for (const auto& [row, name] : of_seven) {
    if (all.at(row) != "peer3") REQUIRE(name == all.at(row));
    got[name] += all.at(row) == "peer3";
  }
  for (const RowHome& m : seven) CHECK(std::abs(static_cast<int>(got[m.name]) - 7500 / 7) <= 2);
  // A second one: its rows, and few of those that had found too little room.
  const std::size_t least = 60000 / 7;
  CHECK(moved(of_seven, of_six) >= least);
  CHECK(moved(of_seven, of_six) < least + 400);
  // Back again, all is as before; a newcomer in its place has about what it had of each.
  CHECK(dealt(home, homes, homes) == all);
  // Where the shares need not be even nothing else moves at all.
  const auto loose = dealt(home, homes, seven, false), looser = dealt(home, homes, six, false);
  for (const auto& [row, name] : looser) CHECK((loose.at(row) == "peer6" || loose.at(row) == name));
}

TEST_CASE("a newcomer takes its share from all") {
  const auto homes = peers(8);
  const Rows home = homes_of(60000, 8);
  auto nine = homes;
  nine.push_back({"hal", 4});
  const auto before = dealt(home, homes, homes), after = dealt(home, homes, nine);
  std::map<std::string, std::size_t> taken;
  for (const auto& [row, name] : after)
    if (name == "hal") ++taken[before.at(row)];
  for (const RowHome& m : homes) CHECK(std::abs(static_cast<int>(taken[m.name]) - 60000 / 72) < 100);
  std::size_t else_moved = 0;
  for (const auto& [row, name] : after) else_moved += name != "hal" && name != before.at(row);
  CHECK(else_moved < 250);
  // Another one, and a loss beside it: about what they have.
  auto ten = nine;
  ten.push_back({"zoe", 4});
  CHECK(moved(after, dealt(home, homes, ten)) < 6000 + 800);
  CHECK(moved(after, dealt(home, homes, without(nine, {"peer0"}))) < 60000 / 9 + 800);
  // A loss undone by a newcomer of another name.
  auto instead = without(homes, {"peer5"});
  const auto seven = dealt(home, homes, instead);
  instead.push_back({"hal", 4});
  CHECK(moved(seven, dealt(home, homes, instead)) < 7500 + 800);
}

TEST_CASE("in every pass of every split each peer has its rows once, and all have all of them") {
  const Data data = blobs(1003, 2, 5);
  const auto homes = peers(6);
  for (const char* kind : kSplits)
    for (const auto& gone : std::vector<std::set<std::string>>{{}, {"peer0"}, {"peer1", "peer4", "peer5"}}) {
      auto members = without(homes, gone);
      if (gone.size() == 3) members.push_back({"hal", 4});
      INFO(kind << " without " << gone.size());
      const Split split(spec_of(kind, homes, members), data.train);
      std::set<std::uint32_t> seen;
      std::size_t read = 0;
      for (std::size_t p = 0; p < members.size(); ++p) {
        const auto sampler = split.sampler(p);
        const Rows pass = whole_pass(*sampler, 4);
        CHECK(std::set(pass.begin(), pass.end()).size() == pass.size());
        seen.insert(pass.begin(), pass.end());
        read += pass.size();
        CHECK(sampler->steps_per_epoch() == 1003 / (4 * members.size()));
        if (std::string(kind) != "dirichlet:0.3") {
          CHECK(pass.size() == sampler->steps_per_epoch() * 4);
          CHECK(pass == rows_between(*sampler, 0, sampler->steps_per_epoch(), 4));
        }
        auto again = split.sampler(p);
        CHECK(rows_between(*again, 60, 80, 4) == rows_between(*sampler, 60, 80, 4));
      }
      CHECK(seen.size() == read);
      CHECK(read > 1003 - 4 * members.size());
    }
}

TEST_CASE("a pass ends as it began, and the next one is over what there is then") {
  const Data data = blobs(1003, 2, 5);
  const auto homes = peers(6);
  const auto five = without(homes, {"peer2"});
  for (const char* kind : kSplits) {
    INFO(kind);
    const Split all(spec_of(kind, homes, homes), data.train), some(spec_of(kind, homes, five), data.train);
    for (const std::uint64_t at : {0, 1, 17, 41, 60}) {
      std::multiset<std::uint32_t> trained;
      for (std::size_t p = 0; p < five.size(); ++p) {
        const auto before = all.sampler(p < 2 ? p : p + 1);
        const RowsLeft left = before->left(at);
        const auto after = some.sampler(p, 1000, left);
        const std::size_t steps = left.rows.size() / 4;
        const Rows rest = rows_between(*after, 1000, 1000 + steps, 4);
        CHECK(std::equal(rest.begin(), rest.end(), left.rows.begin()));
        CHECK(rest == rows_between(*before, at, at + steps, 4));
        trained.insert(rest.begin(), rest.end());
        const RowsLeft same = after->left(1000);
        CHECK((same.next_pass == left.next_pass && same.rows == left.rows));
        // then whole passes of the new deal
        if (left.rows.size() % 4 == 0) {
          const Rows next = rows_between(*after, 1000 + steps, 1000 + steps + 5, 4);
          const auto fresh = some.sampler(p, 0, {{}, left.next_pass});
          CHECK(next == rows_between(*fresh, 0, 5, 4));
        }
      }
      CHECK(std::set(trained.begin(), trained.end()).size() == trained.size());
    }
  }
  // Drawn from all: no draw comes again.
  const Split all(spec_of("with_replacement", homes, homes), data.train),
      some(spec_of("with_replacement", homes, five), data.train);
  const auto before = all.sampler(3);
  const auto after = some.sampler(2, 9, before->left(25));
  CHECK(rows_between(*after, 9, 40, 4) == rows_between(*before, 25, 56, 4));
  CHECK(after->left(12).next_pass == 28);
}

TEST_CASE("rows that stay are lost with their peer, and found again with it") {
  const Data data = blobs(1003, 2, 5);
  const auto homes = peers(6);
  for (const char* kind : {"local_shuffle", "dirichlet:0.3"}) {
    INFO(kind);
    SplitSpec spec = spec_of(kind, homes, without(homes, {"peer0", "peer3"}));
    spec.stays = true;
    const Split split(spec, data.train), all(spec_of(kind, homes, homes), data.train);
    std::size_t rows = 0;
    for (const std::size_t home : {1, 2, 4, 5}) {
      const std::size_t p = home == 1 ? 0 : home == 2 ? 1 : home - 2;
      const Rows here = whole_pass(*split.sampler(p), 4), there = whole_pass(*all.sampler(home), 4);
      CHECK(std::set(here.begin(), here.end()) == std::set(there.begin(), there.end()));
      rows += here.size();
    }
    CHECK(split.sampler(0)->steps_per_epoch() == Approx(static_cast<double>(rows) / 16).margin(1));
    spec = spec_of(kind, homes, {{"peer1", 4}, {"hal", 4}});
    spec.stays = true;
    CHECK_THROWS_WITH(Split(spec, data.train), ContainsSubstring("\"hal\""));
  }
  CHECK_THROWS_WITH(check_split("global_shuffle", true), ContainsSubstring("private"));
  CHECK_THROWS_WITH(check_split("with_replacement", true), ContainsSubstring("private"));
}

TEST_CASE("many rows are dealt among many peers in little time") {
  const auto homes = peers(256);
  const Rows home = homes_of(60000, 256);
  std::set<std::string> gone;
  for (std::size_t p = 0; p < 256; p += 2) gone.insert(homes[p].name);
  auto members = without(homes, gone);
  members.push_back({"hal", 4});
  const auto begin = std::chrono::steady_clock::now();
  const auto shards = Rendezvous(1, homes, members).deal(home, true);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(holders(shards, members).size() == 60000);
  CHECK(took.count() < 5);
  WARN("60 000 rows, 256 homes, half of them gone, a newcomer: " << took.count() << " s");
}

}  // namespace gossamer::optim::test

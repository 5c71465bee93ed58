// Checkpoints come back bit for bit, and whatever is not as it was written is seen.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "checkpoint.h"
#include "checkpoint_names.h"
#include "checkpoint_rounds.h"
#include "checkpoint_writer.h"
#include "gossamer_test/catch.h"
#include "hash.h"
#include "replica.h"
#include "safetensors_format.h"
#include "simulated_storage.h"
#include "states.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const StateError& error) {
    return error.what();
  } catch (const StorageError& error) {
    return error.what();
  }
  return {};
}

/// A folder in memory with one checkpoint.
struct Written {
  Written() { folder.write(head, layers, state); }
  SimulatedStorage storage{1};
  CheckpointFolder folder{storage, "/run/checkpoints"};
  std::vector<optim::Layer> layers = layers_of();
  CheckpointHead head = head_of("ann", 120);
  State state = state_of(layers, 3);
};

void put_file(Storage& storage, const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const auto file = storage.create(path);
  file->write(bytes);
  file->sync();
}

/// A manifest with its seal made right again.
std::string sealed(std::string json) {
  const std::size_t seal = json.rfind(",\n \"xxh3\"");
  json.resize(seal);
  return json + fmt::format(",\n \"xxh3\": \"{:016x}\"\n}}\n", hash_text(json));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a checkpoint comes back bit for bit, whatever its sizes") {
  SimulatedStorage storage(1);
  CheckpointFolder folder(storage, "/run/checkpoints");
  for (const std::size_t extra : {1u, 2u, 15u, 16u, 17u, 1000u, 70000u}) {
    const auto layers = layers_of(extra);
    CheckpointHead head = head_of("ann", extra);
    head.learned = extra % 2 == 1;
    head.later_view = extra % 3 == 1;
    const State state = state_of(layers, extra, extra);
    const std::uint64_t bytes = folder.write(head, layers, state);
    const CheckpointEntry entry = folder.find(extra, "ann");
    CHECK(entry.head == head);
    CHECK(folder.damage(entry).empty());
    CHECK(folder.read(entry, layers) == state);
    std::vector<float> x(parameters_in(state).size(), 1.0f);
    folder.read_parameters(entry, layers, x);
    CHECK(std::ranges::equal(std::as_bytes(std::span(x)), state.at(kParametersArray).bytes));
    CHECK(bytes == entry.bytes() + to_json(entry).size());
    const auto outline = folder.outline(entry);
    REQUIRE(outline.size() == state.size() - 1);
    for (const ArrayOutline& array : outline) {
      CHECK(array.kind == state.at(array.name).kind);
      CHECK(array.bytes == state.at(array.name).bytes.size());
    }
  }
  CHECK(folder.list().size() == 7);
  CHECK(folder.list().front().head.round == 1);
}

TEST_CASE("a model without dense parameters is saved too") {
  SimulatedStorage storage(1);
  CheckpointFolder folder(storage, "checkpoints");
  State state{{kParametersArray, {NamedArray::Kind::floats, {}}}};
  folder.write(head_of("bob", 0), {}, state);
  CHECK(folder.read(folder.find(0, "bob"), {}) == state);
}

TEST_CASE("on disk a checkpoint takes little more than its state, and the same bytes as to_bytes would") {
  SimulatedStorage storage(1);
  CheckpointFolder folder(storage, "/c");
  const auto layers = layers_of(50000);
  const State state = state_of(layers, 4, 50000);
  std::size_t bytes = 0;
  for (const auto& [name, array] : state) bytes += array.bytes.size();
  CHECK(static_cast<double>(folder.write(head_of("ann", 1), layers, state)) <=
        1.05 * static_cast<double>(bytes));
  State rest = state;
  rest.erase(kParametersArray);
  std::vector<std::byte> file(storage.size("/c/round-000000000001/ann.state"));
  storage.read("/c/round-000000000001/ann.state", 0, file);
  CHECK(file == to_bytes(rest));
}

TEST_CASE("every bit that is changed in a file, and every byte that is missing, is seen") {
  Written w;
  const CheckpointEntry entry = w.folder.find(120, "ann");
  std::mt19937_64 random(9);
  for (const char* suffix : {".safetensors", ".state", ".json"}) {
    const auto file = w.folder.path_of(120) / (std::string("ann") + suffix);
    const std::uint64_t size = w.storage.size(file);
    const auto seen = [&] {
      std::vector<std::string> problems;
      const auto entries = w.folder.list(&problems);
      if (entries.empty()) return problems.size() == 1 && problems[0].find(suffix) != std::string::npos;
      const std::string damage = w.folder.damage(entries[0]);
      CHECK(damage == error_of([&] { w.folder.read(entries[0], w.layers); }));
      return damage.find(std::string("ann") + suffix) != std::string::npos;
    };
    CHECK_FALSE(seen());
    for (std::uint64_t n = 0; n < 600; ++n) {
      const std::uint64_t bit = n < 64 ? n : n < 128 ? 8 * size - 1 - (n - 64) : random() % (8 * size);
      CAPTURE(suffix, bit);
      w.storage.flip(file, bit);
      CHECK(seen());
      w.storage.flip(file, bit);
    }
    std::vector<std::byte> whole(size);
    w.storage.read(file, 0, whole);
    for (std::uint64_t left = 0; left < size; left += size < 2000 || left < 100 ? 1 : 37) {
      CAPTURE(suffix, left);
      w.storage.cut(file, left);
      CHECK(seen());
      put_file(w.storage, file, whole);
    }
    w.storage.remove(file);
    CHECK((w.folder.list().empty() || seen()));
    put_file(w.storage, file, whole);
    CHECK(w.folder.damage(entry).empty());
  }
}

TEST_CASE("where both files are damaged, both are named") {
  Written w;
  w.storage.flip(w.folder.path_of(120) / "ann.state", 9);
  w.storage.cut(w.folder.path_of(120) / "ann.safetensors", 9);
  const CheckpointEntry entry = w.folder.find(120, "ann");
  CHECK_THAT(w.folder.damage(entry), ContainsSubstring("ann.state: damaged"));
  CHECK_THAT(w.folder.damage(entry), ContainsSubstring("ann.safetensors: damaged: 9 bytes"));
  CHECK_THAT(w.folder.damage(entry, CheckpointFolder::Look::sizes), !ContainsSubstring("ann.state"));
}

TEST_CASE("what a later version wrote is refused by name") {
  Written w;
  const auto folder = w.folder.path_of(120);
  std::string json = to_json(w.folder.find(120, "ann"));
  CHECK(parse_manifest(json).head == w.head);
  const std::string later =
      error_of([&] { parse_manifest(replaced(json, "\"version\": 1", "\"version\": 2")); });
  CHECK_THAT(later, ContainsSubstring(
                        "version 2 of a checkpoint's manifest; this program reads 1; use a newer gossamer"));

  // the two other files, with a manifest that is theirs
  CheckpointEntry entry = w.folder.find(120, "ann");
  std::vector<std::byte> bytes(w.storage.size(folder / "ann.state"));
  w.storage.read(folder / "ann.state", 0, bytes);
  const auto whole = bytes;
  bytes[7] = std::byte{'2'};
  put_file(w.storage, folder / "ann.state", bytes);
  entry.files[1].hash = hash_bytes(bytes);
  std::string said = error_of([&] { w.folder.read(entry, w.layers); });
  CHECK_THAT(said, ContainsSubstring(
                       "ann.state: version 2 of a saved state; this program reads 1; use a newer gossamer"));
  put_file(w.storage, folder / "ann.state", whole);
  entry.files[1].hash = hash_bytes(whole);

  bytes.clear();
  write_safetensors([&](std::span<const std::byte> b) { bytes.insert(bytes.end(), b.begin(), b.end()); },
                    w.layers, w.state.at(kParametersArray).bytes, {{"format", "gossamer checkpoint 2"}});
  put_file(w.storage, folder / "ann.safetensors", bytes);
  entry.files[0].hash = hash_bytes(bytes);
  entry.files[0].bytes = bytes.size();
  said = error_of([&] { w.folder.read(entry, w.layers); });
  CHECK_THAT(said, ContainsSubstring("ann.safetensors: version 2 of a checkpoint's parameters; this program "
                                     "reads 1; use a newer gossamer"));
}

TEST_CASE("a manifest is taken as it was written alone") {
  CheckpointEntry entry{head_of("ann", 7), {{"ann.safetensors", 1, 2}, {"ann.state", 3, UINT64_MAX}}, "now"};
  entry.head.run = UINT64_MAX;
  entry.head.round = UINT64_MAX;
  entry.head.figures = {{"loss", std::numeric_limits<double>::infinity()}, {"auc", 0.1}};
  entry.head.share_done = 1.0 / 3;
  const std::string json = to_json(entry);
  CHECK(parse_manifest(json) == entry);
  CHECK(sealed(json) == json);
  const auto refused = [&](const std::string& from, const std::string& to) {
    CAPTURE(from, to);
    const std::string changed = replaced(json, from, to);
    CHECK_FALSE(error_of([&] { parse_manifest(changed); }).empty());
    return error_of([&] { parse_manifest(sealed(changed)); });
  };
  CHECK_THAT(refused("ann.state", "../ann.state"), ContainsSubstring("its files are not"));
  CHECK_THAT(refused("\"bytes\": 3", "\"bytes\": -3"), ContainsSubstring("'bytes' is of another kind"));
  CHECK_THAT(refused("\"bytes\": 3", "\"bytes\": 3.5"), ContainsSubstring("'bytes' is of another kind"));
  CHECK_THAT(refused("ffffffffffffffff", "FFFFFFFFFFFFFFFF"), ContainsSubstring("16 hexadecimal digits"));
  CHECK_THAT(refused("\"bob\"", "\"ann\""), ContainsSubstring("one twice"));
  CHECK_THAT(refused("\"peer\": \"ann\"", "\"peer\": \"eve\""), ContainsSubstring("none of its peers"));
  CHECK_THAT(refused("\"peer\": \"ann\"", "\"peer\": \"a/b\""), ContainsSubstring("none of its peers"));
  CHECK_THAT(refused("\"job\":", "\"jab\":"), ContainsSubstring("'job' is missing"));
  CHECK_THAT(refused("gossamer checkpoint", "gossamer"), ContainsSubstring("no manifest"));
  CHECK_THAT(refused("\"version\": 1", "\"version\": 0"), ContainsSubstring("version 0"));
  CHECK_THAT(refused("\"version\": 1", "\"version\": \"1\""), ContainsSubstring("another kind"));
  for (const char* text : {"", "{}", "[]", "null", "7", "\"\"", "{\"kind\": \"gossamer checkpoint\"}"})
    CHECK_FALSE(error_of([&] { parse_manifest(text); }).empty());
  CHECK_THAT(error_of([] { parse_manifest(std::string(kMostBytesOfManifest + 1, ' ')); }),
             ContainsSubstring("expected at most"));
}

TEST_CASE("a manifest that stands elsewhere is not taken, and does not hide the others") {
  Written w;
  w.folder.write(head_of("bob", 120), w.layers, w.state);
  const auto json = to_json(w.folder.find(120, "ann"));
  w.storage.make_folders(w.folder.path_of(121));
  put_file(w.storage, w.folder.path_of(121) / "ann.json", std::as_bytes(std::span(json)));
  std::vector<std::string> problems;
  const auto entries = w.folder.list(&problems);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].head.peer == "ann");
  CHECK(entries[1].head.peer == "bob");
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems[0], ContainsSubstring("round-000000000121/ann.json: is of round 120 of ann"));
  CHECK(w.folder.places().size() == 3);
}

TEST_CASE(
    "states that are none of the model's, and names that are none of a file's, are refused before anything "
    "is written") {
  SimulatedStorage storage(1);
  CheckpointFolder folder(storage, "/c");
  const auto layers = layers_of();
  const State state = state_of(layers, 1);
  CHECK_THAT(error_of([&] { folder.write(head_of("a/b", 1), layers, state); }),
             ContainsSubstring("no name of a peer"));
  CHECK_THAT(error_of([&] { folder.write(head_of("eve", 1), layers, state); }),
             ContainsSubstring("'eve' is none of its peers"));
  CHECK_THAT(error_of([&] { folder.write(head_of("ann", 1), layers_of(100), state); }),
             ContainsSubstring("nothing was saved"));
  CHECK_THAT(error_of([&] { folder.write(head_of("ann", 1), layers, {}); }),
             ContainsSubstring("nothing was saved"));
  CHECK(storage.names("/").empty());
  folder.write(head_of("ann", 1), layers, state);
  CHECK_THAT(error_of([&] { folder.read(folder.find(1, "ann"), layers_of(6)); }), ContainsSubstring("shape"));
}

TEST_CASE("one that is written again takes the place of the former, and one that is removed leaves nothing") {
  Written w;
  const State other = state_of(w.layers, 77);
  w.folder.write(w.head, w.layers, other);
  CHECK(w.folder.read(w.folder.find(120, "ann"), w.layers) == other);
  w.folder.write(head_of("bob", 120), w.layers, w.state);
  w.folder.remove(120, "ann");
  CHECK(w.folder.list().size() == 1);
  w.folder.remove(120, "ann");
  w.folder.remove(119, "ann");
  w.folder.remove(120, "bob");
  CHECK(w.storage.names("/run/checkpoints").empty());
  CHECK(w.storage.used() == 0);
}

TEST_CASE("what attempts have left is found and swept, of one peer alone") {
  Written w;
  const auto put = [&](Round round, const std::string& name) {
    w.storage.make_folders(w.folder.path_of(round));
    put_file(w.storage, w.folder.path_of(round) / name, std::as_bytes(std::span("12345", 5)));
  };
  put(120, ".ann.state.tmp");
  put(121, "ann.safetensors");
  put(121, ".ann.json.tmp");
  put(122, "bob.state");
  put(122, "notes.txt");
  w.storage.make_folders(w.folder.path_of(123));
  CHECK(w.folder.leftovers().size() == 4);
  CHECK(w.folder.leftovers("ann").size() == 3);
  w.folder.sweep("ann");
  CHECK(w.folder.leftovers().size() == 1);
  CHECK(w.storage.names("/run/checkpoints") ==
        std::vector<std::string>{"round-000000000120", "round-000000000122"});
  CHECK(w.folder.damage(w.folder.find(120, "ann")).empty());
}

TEST_CASE("names of files and folders are read back, and no others") {
  for (const Round round : {Round{0}, Round{1}, Round{999'999'999'999}, Round{1'000'000'000'000}, ~Round{0}})
    CHECK(round_of_folder(round_folder_name(round)) == round);
  for (const char* name :
       {"", "round-", "round-1", "round-0000000000001", "round--00000000001", "round-00000000000x", "x"})
    CHECK_FALSE(round_of_folder(name));
  for (const char* peer : {"ann", "a.state", ".", "-", "a.json"})
    for (const char* suffix : {".safetensors", ".state", ".json"}) {
      const std::string name = std::string(peer) + suffix;
      REQUIRE(parse_file_name(name));
      CHECK(parse_file_name(name)->peer == peer);
      REQUIRE(parse_file_name(temporary_name(name)));
      CHECK(parse_file_name(temporary_name(name))->temporary);
      CHECK(parse_file_name(temporary_name(name))->peer == peer);
    }
  for (const char* name : {"", ".", ".tmp", ".json", "ann", "ann.txt", "a b.json"})
    CHECK_FALSE(parse_file_name(name));
}

TEST_CASE(
    "of a peer's rounds all are superfluous but the newest that all have, the newest after those, and the "
    "best") {
  using Rounds = std::vector<Round>;
  CHECK(superfluous({1, 2, 3, 4, 5, 6}, 4, 2, std::nullopt) == Rounds{1, 2});
  CHECK(superfluous({1, 2, 3, 4, 5, 6, 7}, 4, 2, 1) == Rounds{2, 5});
  CHECK(superfluous({1, 2, 3}, std::nullopt, 2, std::nullopt) == Rounds{1});
  CHECK(superfluous({}, 3, 2, 1).empty());
  std::mt19937_64 random(5);
  for (int n = 0; n < 3000; ++n) {
    std::set<Round> drawn;
    for (std::uint64_t i = random() % 12; i > 0; --i) drawn.insert(random() % 30);
    const Rounds rounds(drawn.begin(), drawn.end());
    const std::optional<Round> common = random() % 3 ? std::optional<Round>(random() % 30) : std::nullopt;
    const std::optional<Round> best = random() % 2 ? std::optional<Round>(random() % 30) : std::nullopt;
    const std::size_t keep = random() % 4;
    const Rounds gone = superfluous(rounds, common, keep, best);
    CHECK(std::ranges::is_sorted(gone));
    std::size_t before = 0, after = 0;
    for (auto r = rounds.rbegin(); r != rounds.rend(); ++r) {
      std::size_t& rank = common && *r <= *common ? before : after;
      CHECK((std::ranges::count(gone, *r) == 0) == (rank++ < keep || *r == best));
    }
  }
}

TEST_CASE("a round is complete where every peer of one run has it") {
  const auto entry = [](const std::string& peer, Round round, std::uint64_t run, double accuracy) {
    CheckpointEntry e{head_of(peer, round, run), {}, ""};
    e.head.figures = {{"accuracy", accuracy}, {"loss", 1}};
    return e;
  };
  const std::vector<CheckpointEntry> entries{
      entry("bob", 1, 5, 0.5), entry("ann", 1, 5, 0.7), entry("ann", 2, 5, 1),   entry("ann", 3, 5, 1),
      entry("bob", 3, 6, 1),   entry("ann", 4, 6, 0.6), entry("bob", 4, 6, 0.5), entry("bob", 4, 5, 1)};
  const auto rounds = complete_rounds(entries);
  REQUIRE(rounds.size() == 2);
  CHECK(rounds[0].round == 1);
  CHECK(rounds[0].entries[0].head.peer == "ann");
  CHECK(rounds[0].entries[1].head.peer == "bob");
  CHECK(rounds[1].round == 4);
  CHECK(rounds[1].run == 6);
  CHECK(best_of(rounds) == 0);
  CHECK(mean_figures(rounds[0].entries)[0].value == Approx(0.6));
  CHECK_FALSE(best_of({}));

  CHECK(better({{"loss", 1}, {"accuracy", 0.9}}, {{"loss", 0.5}, {"accuracy", 0.8}}));
  CHECK(better({{"auc", 0.9}}, {{"auc", 0.8}}));
  CHECK(better({{"loss", 0.1}}, {{"loss", 0.2}}));
  CHECK_FALSE(better({{"loss", 0.2}}, {{"loss", 0.2}}));
  CHECK_FALSE(better({{"loss", std::nan("")}}, {{"loss", 0.2}}));
  CHECK_FALSE(better({}, {{"loss", 0.2}}));
}

TEST_CASE("a writer writes on a thread of its own, one at a time, and says what became of it") {
  SimulatedStorage storage(1);
  const auto layers = layers_of();
  {
    CheckpointWriter writer(storage, "/c", layers);
    const auto ended = [&] {
      while (writer.busy()) std::this_thread::yield();
      return writer.take();
    };
    for (Round round = 1; round <= 5; ++round) {
      writer.write(head_of("ann", round), std::make_shared<State>(state_of(layers, round)));
      const auto done = ended();
      REQUIRE(done.size() == 1);
      CHECK(done[0].round == round);
      CHECK(done[0].error.empty());
      CHECK(done[0].bytes > 0);
      if (round > 2) writer.remove("ann", {round - 2});
    }
    CHECK(writer.take().empty());
    writer.write(head_of("ann", 6), std::make_shared<State>());
    CHECK_THAT(ended().at(0).error, ContainsSubstring("nothing was saved"));
    writer.write(head_of("ann", 7), std::make_shared<State>(state_of(layers, 7)));
  }
  CheckpointFolder folder(storage, "/c");
  std::vector<Round> rounds;
  for (const CheckpointEntry& entry : folder.list()) rounds.push_back(entry.head.round);
  CHECK(rounds == std::vector<Round>{4, 5, 7});
}

// Files on a real disk, and errors that say what was tried.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "checkpoint.h"
#include "config_files.h"
#include "gossamer_test/catch.h"
#include "states.h"
#include "storage.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::Folder;

namespace {

template <class Work>
std::string storage_error(const Work& work) {
  try {
    work();
  } catch (const StorageError& error) {
    return error.what();
  }
  return {};
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("files are made, renamed, read, listed and removed") {
  const Folder folder;
  PosixStorage storage;
  const std::filesystem::path root = folder.path("deep");
  CHECK(storage.names(root).empty());
  storage.make_folders(root / "er");
  storage.make_folders(root / "er");
  {
    const auto file = storage.create(root / "b");
    file->write(bytes_of("some "));
    file->write({});
    file->write(bytes_of("bytes"));
    file->sync();
  }
  storage.create(root / "a")->write(bytes_of("x"));
  storage.sync_folder(root);
  CHECK(storage.names(root) == std::vector<std::string>{"a", "b", "er"});
  storage.rename(root / "b", root / "a");
  CHECK(storage.size(root / "a") == 10);
  std::string text(4, ' ');
  storage.read(root / "a", 5, std::as_writable_bytes(std::span(text)));
  CHECK(text == "byte");
  storage.create(root / "a");
  CHECK(storage.size(root / "a") == 0);
  storage.remove(root / "a");
  storage.remove(root / "a");
  storage.remove(root / "er");
  CHECK(storage.names(root).empty());
}

TEST_CASE("errors say the file, what was tried and what the system said") {
  const Folder folder;
  PosixStorage storage;
  const std::filesystem::path root = folder.path("");
  storage.create(root / "file")->write(bytes_of("x"));
  CHECK_THAT(storage_error([&] { storage.create(root / "none" / "file"); }),
             ContainsSubstring("none/file cannot be created: No such file or directory"));
  CHECK_THAT(storage_error([&] { storage.rename(root / "none", root / "other"); }),
             ContainsSubstring("none cannot be renamed to other: No such file"));
  CHECK_THAT(storage_error([&] { storage.sync_folder(root / "none"); }),
             ContainsSubstring("cannot be opened"));
  CHECK_THAT(storage_error([&] { storage.make_folders(root / "file" / "x"); }),
             ContainsSubstring("cannot be made: Not a directory"));
  CHECK_THAT(storage_error([&] { storage.size(root / "none"); }), ContainsSubstring("cannot be measured"));
  std::string text(4, ' ');
  CHECK_THAT(storage_error([&] { storage.read(root / "file", 0, std::as_writable_bytes(std::span(text))); }),
             ContainsSubstring("ends after 1 bytes; expected 3 more"));
  CHECK(storage.names(root / "file").empty());
  storage.make_folders(root / "full");
  storage.create(root / "full" / "x");
  CHECK_THAT(storage_error([&] { storage.remove(root / "full"); }), ContainsSubstring("not empty"));
  CHECK_THAT(storage_error([&] { storage.create("/dev/full")->write(bytes_of("x")); }),
             ContainsSubstring("/dev/full cannot be written: No space left on device; make room there"));
}

TEST_CASE("a checkpoint on a real disk comes back, by a relative path too") {
  const Folder folder;
  PosixStorage storage;
  const auto layers = layers_of(70000);
  const State state = state_of(layers, 3, 40000);
  const auto check = [&](const std::filesystem::path& path) {
    CheckpointFolder checkpoints(storage, path);
    checkpoints.write(head_of("ann", 5), layers, state);
    checkpoints.write(head_of("bob", 5), layers, state);
    checkpoints.write(head_of("ann", 5), layers, state);
    const auto entries = checkpoints.list();
    REQUIRE(entries.size() == 2);
    CHECK(checkpoints.read(entries[0], layers) == state);
    CHECK(checkpoints.leftovers().empty());
    checkpoints.remove(5, "ann");
    checkpoints.remove(5, "bob");
    CHECK(storage.names(path).empty());
  };
  check(folder.path("run/checkpoints/"));
  check(std::filesystem::relative(folder.path("run2/checkpoints")));
}

TEST_CASE("peers that share a folder do not stand in each other's way") {
  const Folder folder;
  constexpr Round kRounds = 60;
  const auto layers = layers_of();
  std::vector<std::string> errors(4);
  {
    std::vector<std::jthread> peers;
    for (std::size_t peer = 0; peer < errors.size(); ++peer)
      peers.emplace_back([&, peer] {
        errors[peer] = storage_error([&] {
          const std::string name = "peer" + std::to_string(peer);
          PosixStorage storage;
          CheckpointFolder checkpoints(storage, folder.path("checkpoints"));
          for (Round round = 1; round <= kRounds; ++round) {
            checkpoints.write(head_of(name, round, 1, {name}), layers, state_of(layers, round));
            if (round % 7 == 0) checkpoints.sweep(name);
            if (round < kRounds) checkpoints.remove(round, name);
          }
        });
      });
  }
  for (const std::string& error : errors) CHECK(error == "");
  PosixStorage storage;
  const CheckpointFolder checkpoints(storage, folder.path("checkpoints"));
  CHECK(storage.names(folder.path("checkpoints")).size() == 1);
  CHECK(checkpoints.list().size() == errors.size());
  for (const CheckpointEntry& entry : checkpoints.list())
    CHECK(checkpoints.read(entry, layers) == state_of(layers, kRounds));
}

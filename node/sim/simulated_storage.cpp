#include "simulated_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gossamer::node {

/// A file or a folder, as programs see it and as it is on the disk.
struct SimulatedStorage::Node {
  explicit Node(bool a_folder) : folder(a_folder) {}

  bool folder;
  std::vector<std::byte> bytes, durable;
  bool dirty = false;  ///< written to since it was synced

  struct Change {
    std::string removed;  ///< a name; empty: none
    std::string made;     ///< a name, which from then on is the node's; empty: none
    NodePtr node;
  };
  std::map<std::string, NodePtr> names, durable_names;
  std::vector<Change> changes;  ///< since it was synced

  static void apply(std::map<std::string, NodePtr>& names, const Change& change) {
    if (!change.removed.empty()) names.erase(change.removed);
    if (!change.made.empty()) names[change.made] = change.node;
  }
  void change(Change change) {
    apply(names, change);
    changes.push_back(std::move(change));
  }
};

class SimulatedStorage::File final : public StoredFile {
 public:
  File(SimulatedStorage& storage, NodePtr node, Path path)
      : storage_(storage), node_(std::move(node)), path_(std::move(path)), lifetime_(storage.lifetime_) {}
  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(kPiece, bytes.size()));
      require_alive();
      storage_.append(*node_, path_, piece);
      bytes = bytes.subspan(piece.size());
    }
  }
  void sync() override {
    require_alive();
    storage_.operation(path_, "synced");
    ++storage_.counts_.syncs;
    node_->durable = node_->bytes;
    node_->dirty = false;
  }

 private:
  void require_alive() const {
    if (storage_.lifetime_ != lifetime_) throw PowerFailure();
  }

  SimulatedStorage& storage_;
  NodePtr node_;
  Path path_;
  std::uint64_t lifetime_;
};

namespace {

std::filesystem::path normal(const std::filesystem::path& path) {
  const auto whole = (std::filesystem::path("/") / path).lexically_normal();
  return whole.has_filename() || whole == "/" ? whole : whole.parent_path();
}

[[noreturn]] void fail_simulated(const std::filesystem::path& path, const char* tried,
                                 const std::string& why) {
  throw StorageError(fmt::format("{} cannot be {}: {}", path.string(), tried, why));
}

}  // namespace

SimulatedStorage::SimulatedStorage(std::uint64_t seed) : root_(std::make_shared<Node>(true)), random_(seed) {}
SimulatedStorage::~SimulatedStorage() = default;

void SimulatedStorage::operation(const Path& path, const char* tried) const {
  if (crashed_) throw PowerFailure();
  const std::uint64_t number = ++counts_.operations;
  if (number == crash_at_) {
    ++counts_.crashes;
    crashed_ = true;
    throw PowerFailure();
  }
  if (number != fail_at_) return;
  ++counts_.failures;
  fail_simulated(path, tried, failure_);
}

void SimulatedStorage::fail(std::uint64_t n, std::string why) {
  fail_at_ = counts_.operations + n;
  failure_ = std::move(why);
}

SimulatedStorage::Node* SimulatedStorage::find(const Path& path) const {
  Node* node = root_.get();
  for (const Path& name : normal(path).relative_path()) {
    const auto at = node->names.find(name.string());
    if (at == node->names.end()) return nullptr;
    node = at->second.get();
  }
  return node;
}

SimulatedStorage::Node& SimulatedStorage::folder_of(const Path& path, const char* tried) const {
  Node* folder = find(normal(path).parent_path());
  if (!folder || !folder->folder) fail_simulated(path, tried, "no such folder");
  return *folder;
}

SimulatedStorage::Node& SimulatedStorage::file_at(const Path& path, const char* tried) const {
  Node* file = find(path);
  if (!file) fail_simulated(path, tried, "no such file");
  if (file->folder) fail_simulated(path, tried, "is a folder");
  return *file;
}

// --- Changes ---

std::unique_ptr<StoredFile> SimulatedStorage::create(const Path& file) {
  operation(file, "created");
  Node& folder = folder_of(file, "created");
  const std::string name = normal(file).filename().string();
  if (const auto at = folder.names.find(name); at != folder.names.end()) {
    Node& old = file_at(file, "created");
    old.bytes.clear();
    old.dirty = true;
    return std::make_unique<File>(*this, at->second, file);
  }
  ++counts_.names;
  const auto node = std::make_shared<Node>(false);
  folder.change({{}, name, node});
  return std::make_unique<File>(*this, node, file);
}

void SimulatedStorage::append(Node& file, const Path& path, std::span<const std::byte> bytes) {
  operation(path, "written");
  ++counts_.writes;
  if (capacity_ && used() + bytes.size() > *capacity_) {
    ++counts_.full;
    const std::uint64_t left = *capacity_ - std::min(*capacity_, used());
    file.bytes.insert(file.bytes.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(left));
    file.dirty = true;
    fail_simulated(path, "written", "no space left on the disk");
  }
  counts_.bytes += bytes.size();
  file.bytes.insert(file.bytes.end(), bytes.begin(), bytes.end());
  file.dirty = true;
}

void SimulatedStorage::rename(const Path& from, const Path& to) {
  operation(from, "renamed");
  Node& folder = folder_of(from, "renamed");
  if (&folder != &folder_of(to, "renamed"))
    fail_simulated(from, "renamed", "the other name is of another folder");
  const std::string name = normal(from).filename().string();
  const auto at = folder.names.find(name);
  if (at == folder.names.end()) fail_simulated(from, "renamed", "no such file");
  ++counts_.names;
  folder.change({name, normal(to).filename().string(), at->second});
}

void SimulatedStorage::sync_folder(const Path& folder) {
  operation(folder, "synced");
  Node* node = find(folder);
  if (!node || !node->folder) fail_simulated(folder, "synced", "no such folder");
  ++counts_.syncs;
  node->durable_names = node->names;
  node->changes.clear();
}

void SimulatedStorage::make_folders(const Path& folder) {
  operation(folder, "made");
  Node* node = root_.get();
  for (const Path& part : normal(folder).relative_path()) {
    const std::string name = part.string();
    if (!node->names.contains(name)) {
      ++counts_.names;
      node->change({{}, name, std::make_shared<Node>(true)});
    }
    node = node->names.at(name).get();
    if (!node->folder) fail_simulated(folder, "made", "a file has its name");
  }
}

void SimulatedStorage::remove(const Path& path) {
  operation(path, "removed");
  const Node* node = find(path);
  if (!node) return;
  if (node->folder && !node->names.empty()) fail_simulated(path, "removed", "the folder is not empty");
  ++counts_.names;
  folder_of(path, "removed").change({normal(path).filename().string(), {}, nullptr});
}

// --- Looks ---

std::vector<std::string> SimulatedStorage::names(const Path& folder) const {
  operation(folder, "listed");
  std::vector<std::string> names;
  if (const Node* node = find(folder); node && node->folder)
    for (const auto& entry : node->names) names.push_back(entry.first);
  return names;
}

std::uint64_t SimulatedStorage::size(const Path& file) const {
  operation(file, "measured");
  return file_at(file, "measured").bytes.size();
}

void SimulatedStorage::read(const Path& file, std::uint64_t offset, std::span<std::byte> into) const {
  operation(file, "read");
  const std::vector<std::byte>& bytes = file_at(file, "read").bytes;
  if (offset > bytes.size() || into.size() > bytes.size() - offset)
    fail_simulated(file, "read", "it ends before");
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
}

std::uint64_t SimulatedStorage::used() const {
  std::uint64_t total = 0;
  const auto add = [&](const auto& self, const Node& node) -> void {
    total += node.bytes.size();
    for (const auto& entry : node.names) self(self, *entry.second);
  };
  add(add, *root_);
  return total;
}

void SimulatedStorage::flip(const Path& file, std::uint64_t bit) {
  Node& node = file_at(file, "changed");
  node.bytes.at(bit / 8) ^= std::byte{1} << (bit % 8);
  node.durable = node.bytes;
}

void SimulatedStorage::cut(const Path& file, std::uint64_t bytes) {
  Node& node = file_at(file, "cut");
  node.bytes.resize(bytes);
  node.durable = node.bytes;
}

// --- Failures of power ---

void SimulatedStorage::restart() {
  constexpr double kShares[] = {0, 0.5, 0.5, 1};
  kept_share_ = kShares[random_() % 4];
  crashed_ = false;
  crash_at_ = fail_at_ = 0;
  ++lifetime_;
  survive(*root_);
}

void SimulatedStorage::survive(Node& node) {
  if (node.folder)
    survive_names(node);
  else
    survive_bytes(node);
  for (const auto& entry : node.names) survive(*entry.second);
}

void SimulatedStorage::survive_names(Node& folder) {
  std::bernoulli_distribution kept(kept_share_);
  for (const Node::Change& change : folder.changes)
    if (kept(random_))
      Node::apply(folder.durable_names, change);
    else
      ++counts_.lost_names;
  folder.changes.clear();
  folder.names = folder.durable_names;
}

void SimulatedStorage::survive_bytes(Node& file) {
  if (!std::exchange(file.dirty, false)) return;
  switch (random_() % 4) {
    case 0:
      break;
    case 1:
      file.durable = file.bytes;
      break;
    default:
      ++counts_.torn_files;
      file.durable = file.bytes;
      file.durable.resize(random_() % (file.bytes.size() + 1));
      for (std::size_t at = 0; at < file.durable.size(); at += kPiece)
        if (random_() % 3 == 0)
          std::fill_n(file.durable.begin() + static_cast<std::ptrdiff_t>(at),
                      std::min(kPiece, file.durable.size() - at), std::byte{});
  }
  file.bytes = file.durable;
}

}  // namespace gossamer::node

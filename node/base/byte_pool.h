#pragma once
// Memory for bytes that are about to be written. It is not cleared, and is used again when nobody reads it
// any more: what a run sends and receives in each round stands where the last round's stood, whose pages the
// machine has at hand.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gossamer::node {

/// Bytes that grow no more; their owner keeps them as long as a copy lives, on any thread.
struct ByteBlock {
  std::shared_ptr<std::byte[]> owner;
  std::span<std::byte> bytes;
};
/// At least so many, aligned to 64 where they are many, of any contents. Thread-safe.
ByteBlock take_block(std::size_t bytes);

/// Sizes of blocks: an eighth of a power of two apart, so that little of one is wasted; small ones are as
/// they are asked for.
std::size_t size_class(std::size_t bytes);

/// What is free, by size. Of more than `most` bytes the sizes that nobody has asked for longest go.
template <class Block>
class FreeBlocks {
 public:
  explicit FreeBlocks(std::size_t most) : most_(most) {}

  std::optional<Block> take(std::size_t size) {
    Size& of = sizes_[size];
    of.asked = ++clock_;
    if (of.blocks.empty()) return std::nullopt;
    Block block = std::move(of.blocks.back());
    of.blocks.pop_back();
    kept_ -= size;
    return block;
  }
  /// All, with their sizes.
  std::vector<std::pair<Block, std::size_t>> take_all() {
    std::vector<std::pair<Block, std::size_t>> all;
    for (auto& [size, of] : sizes_)
      for (Block& block : std::exchange(of.blocks, {})) all.emplace_back(std::move(block), size);
    kept_ = 0;
    return all;
  }
  /// Those that go instead, perhaps itself.
  std::vector<Block> give_back(Block block, std::size_t size) {
    std::vector<Block> gone;
    sizes_[size].blocks.push_back(std::move(block));
    kept_ += size;
    while (kept_ > most_) {
      auto oldest = sizes_.end();
      for (auto at = sizes_.begin(); at != sizes_.end(); ++at)
        if (!at->second.blocks.empty() && (oldest == sizes_.end() || at->second.asked < oldest->second.asked))
          oldest = at;
      gone.push_back(std::move(oldest->second.blocks.back()));
      oldest->second.blocks.pop_back();
      kept_ -= oldest->first;
    }
    return gone;
  }

 private:
  struct Size {
    std::vector<Block> blocks;
    std::uint64_t asked = 0;
  };
  std::map<std::size_t, Size> sizes_;
  std::size_t most_, kept_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace gossamer::node

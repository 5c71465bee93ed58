// Memory that is used again.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "byte_pool.h"
#include "gossamer_test/catch.h"

using namespace gossamer::node;

TEST_CASE("blocks hold what they were asked for, and little more") {
  for (std::size_t bytes = 0; bytes < (std::size_t{1} << 22); bytes += 1 + bytes / 7) {
    INFO(bytes);
    const ByteBlock block = take_block(bytes);
    CHECK(block.bytes.size() >= bytes);
    CHECK(block.bytes.size() <= bytes + bytes / 8 + 1);
    CHECK(size_class(block.bytes.size()) == block.bytes.size());
    if (!block.bytes.empty()) std::memset(block.bytes.data(), 7, block.bytes.size());
  }
}

TEST_CASE("of what is free the sizes go that nobody has asked for longest") {
  FreeBlocks<int> blocks(100);
  CHECK_FALSE(blocks.take(30));
  CHECK_FALSE(blocks.take(40));
  CHECK(blocks.give_back(1, 40).empty());
  CHECK(blocks.give_back(2, 30).empty());
  CHECK(blocks.give_back(3, 30).empty());
  CHECK(blocks.take(40) == 1);
  CHECK(blocks.give_back(1, 40).empty());
  CHECK(blocks.give_back(4, 40) == std::vector<int>{3, 2});  // 30 was asked for before 40
  CHECK_FALSE(blocks.take(30));
  CHECK(blocks.give_back(5, 1000) == std::vector<int>{5});  // nobody has
  CHECK(blocks.take(40) == 4);
  CHECK(blocks.take(40) == 1);
}

TEST_CASE("blocks go back from any thread") {
  std::atomic<bool> shared = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &shared] {
      std::vector<ByteBlock> held(16);
      for (std::size_t k = 0; k < 4000; ++k) {
        ByteBlock& block = held[k % held.size()];
        block = take_block(4096 + 1024 * ((k * 7 + static_cast<std::size_t>(t)) % 9));
        std::memset(block.bytes.data(), t, block.bytes.size());
        for (const ByteBlock& other : held)
          if (other.owner && other.bytes.front() != std::byte(t)) shared = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(shared);
}

// What waits to leave over a connection.
#include "frame_queue.h"

#include <memory>
#include <vector>

#include "gossamer_test/catch.h"

using namespace gossamer::node;

namespace {

FrameBytes frame(std::size_t bytes) { return std::make_shared<std::vector<std::byte>>(bytes); }

/// Sizes in the order in which they leave.
std::vector<std::size_t> left_in(FrameQueue queue) {
  std::vector<std::size_t> sizes;
  for (; !queue.empty(); queue.pop()) sizes.push_back(queue.front()->size());
  return sizes;
}

FrameQueue filled() {
  FrameQueue queue;
  queue.put(frame(1), priority::kMessages);
  queue.put(frame(2), priority::kStates);
  queue.put(frame(3), priority::kResent);
  queue.put(frame(4), priority::kControl);
  queue.put(frame(5), priority::kControl);
  queue.put(frame(6), priority::kMessages);
  return queue;
}

}  // namespace

TEST_CASE("frames leave by priority, and of one in the order in which they came") {
  CHECK(left_in(filled()) == std::vector<std::size_t>{4, 5, 2, 3, 1, 6});
  FrameQueue queue = filled();
  CHECK(queue.size() == 6);
  CHECK(queue.bytes() == 21);
  queue.drop_oldest(priority::kControl);
  CHECK(queue.size(priority::kControl) == 1);
  CHECK(left_in(queue) == std::vector<std::size_t>{5, 2, 3, 1, 6});
}

TEST_CASE("when a view ends its parcels are dropped, and nothing that outlives it") {
  FrameQueue queue = filled();
  queue.drop_parcels();
  CHECK(queue.size() == 3);
  CHECK(queue.bytes() == 11);
  CHECK(left_in(queue) == std::vector<std::size_t>{4, 5, 2});
}

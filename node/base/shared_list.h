#pragma once
// A SharedList does not change; copies share it. For what every peer of a simulation knows alike.
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace gossamer::node {

template <class T>
class SharedList {
 public:
  SharedList() : SharedList(std::vector<T>{}) {}
  SharedList(std::vector<T> items) : items_(std::make_shared<const std::vector<T>>(std::move(items))) {}
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}

  std::size_t size() const { return items_->size(); }
  bool empty() const { return items_->empty(); }
  const T& operator[](std::size_t i) const { return (*items_)[i]; }
  auto begin() const { return items_->begin(); }
  auto end() const { return items_->end(); }
  friend bool operator==(const SharedList& a, const SharedList& b) { return *a.items_ == *b.items_; }

 private:
  std::shared_ptr<const std::vector<T>> items_;
};

}  // namespace gossamer::node

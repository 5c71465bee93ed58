#pragma once
// Secret holds bytes that nobody else may see.
#include <cstddef>
#include <memory>
#include <span>

namespace gossamer::node {

/// Bytes in memory that is locked where the system allows it, is left out of core dumps, and is wiped when
/// the object goes. Cannot be copied.
class Secret {
 public:
  explicit Secret(std::size_t size);  ///< zeros
  std::span<unsigned char> bytes() { return {data_.get(), size_}; }
  std::span<const unsigned char> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(unsigned char* data) const;
  };
  std::unique_ptr<unsigned char, Free> data_;
  std::size_t size_;
};

}  // namespace gossamer::node

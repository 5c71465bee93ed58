#pragma once
// A Transfer brings a state from the members that have it, piece by piece and from several at once; whoever
// is silent is asked no more. What has come is taken when its hash is right.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planted.h"

namespace gossamer::node {

constexpr std::size_t kPieceBytes = std::size_t{128} << 10;

/// A state may have so many bytes; one that this machine could not hold is none.
bool can_be(std::uint64_t bytes);

class Transfer {
 public:
  /// sources: members that have the same bytes; at least one.
  Transfer(std::vector<std::string> sources, std::uint64_t hash, std::uint64_t bytes, Planted planted = {});

  struct Ask {
    std::string whom;
    std::uint64_t offset;
  };
  /// What is to be asked for now; pieces that did not come in time are asked for again, of another.
  std::vector<Ask> asks(double now);
  /// False where the piece was not awaited.
  bool take(std::uint64_t offset, std::span<const std::byte> piece);
  bool complete() const { return left_ == 0; }
  /// The whole, where its hash is right; all of it is asked for again where not.
  std::optional<std::vector<std::byte>> result();
  double next_deadline() const;
  bool comes_from(const std::string& name) const;
  std::uint64_t hash() const { return hash_; }

 private:
  struct Piece {
    bool here = false;
    double asked = -1;  ///< −1: never
    std::uint32_t times = 0;
  };
  std::vector<std::string> sources_;
  std::uint64_t hash_;
  std::vector<std::byte> bytes_;
  std::vector<Piece> pieces_;
  std::size_t left_, first_ = 0;  ///< first: all before are here
  [[no_unique_address]] Planted planted_;
};

}  // namespace gossamer::node

#include "transfer.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "hash.h"
#include "machine.h"

namespace gossamer::node {
namespace {

/// Pieces under way from one source: 1 MiB, which keeps a link of 1 Gbit/s busy over 8 ms.
constexpr std::size_t kAskedAtOnce = 8;
/// A piece takes as long at 1 Mbit/s.
constexpr double kPatience_s = 2;

}  // namespace

bool can_be(std::uint64_t bytes) { return bytes > 0 && bytes <= free_memory() / 2; }

Transfer::Transfer(std::vector<std::string> sources, std::uint64_t hash, std::uint64_t bytes, Planted planted)
    : sources_(std::move(sources)),
      hash_(hash),
      bytes_(bytes),
      pieces_((bytes + kPieceBytes - 1) / kPieceBytes),
      left_(pieces_.size()),
      planted_(planted) {
  assert(!sources_.empty());
}

std::vector<Transfer::Ask> Transfer::asks(double now) {
  while (first_ < pieces_.size() && pieces_[first_].here) ++first_;
  std::vector<Ask> asked;
  std::size_t under_way = 0;
  for (std::size_t k = first_; k < pieces_.size() && under_way < kAskedAtOnce * sources_.size(); ++k) {
    Piece& piece = pieces_[k];
    if (piece.here) continue;
    ++under_way;
    if (piece.asked >= 0 && now < piece.asked + kPatience_s) continue;
    asked.push_back({sources_[(k + piece.times++) % sources_.size()], k * kPieceBytes});
    piece.asked = now;
  }
  return asked;
}

bool Transfer::comes_from(const std::string& name) const {
  return std::find(sources_.begin(), sources_.end(), name) != sources_.end();
}

bool Transfer::take(std::uint64_t offset, std::span<const std::byte> piece) {
  const std::uint64_t k = offset / kPieceBytes;
  if (offset % kPieceBytes != 0 || k >= pieces_.size() || pieces_[k].here || pieces_[k].asked < 0 ||
      piece.size() != std::min<std::uint64_t>(kPieceBytes, bytes_.size() - offset))
    return false;
  std::copy(piece.begin(), piece.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  pieces_[k].here = true;
  --left_;
  return true;
}

std::optional<std::vector<std::byte>> Transfer::result() {
  if (planted_.is(Bug::piece_unchecked) || hash_bytes(bytes_) == hash_) return std::move(bytes_);
  const std::size_t count = pieces_.size();
  pieces_.assign(count, {});
  left_ = count;
  first_ = 0;
  return std::nullopt;
}

double Transfer::next_deadline() const {
  double next = std::numeric_limits<double>::infinity();
  for (std::size_t k = first_; k < pieces_.size(); ++k) {
    if (pieces_[k].here) continue;
    if (pieces_[k].asked < 0) break;
    next = std::min(next, pieces_[k].asked + kPatience_s);
  }
  return next;
}

}  // namespace gossamer::node

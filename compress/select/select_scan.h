#pragma once
// Passes over one vector that list its large entries, and what can be asked of such a list.
#include <cstddef>
#include <span>

#include "gossamer/compress/selection.h"
#include "select_kernels.h"

namespace gossamer::compress {

/// What to keep: every magnitude above `threshold`, and of those that equal it the first `ties`.
struct Cut {
  MagnitudeBits threshold;
  std::size_t ties;
};

/// Places of a list in which a search for k of n entries keeps what is large: a threshold is rarely so far
/// off that more reach it.
constexpr std::size_t list_room(std::size_t n, std::size_t k) { return k < n / 4 ? 3 * k + 1024 : n; }

struct Moments {
  double mean, mean_magnitude;
  /// Where the squares leave the range of floats, as far as one of a Laplace distribution may be told: its
  /// scale b is the mean magnitude too (the maximum-likelihood estimate for μ = 0).
  double variance;
  float largest;  ///< magnitude
};

/// mean and mean_magnitude are of n entries, l2_squared their sum of squares.
constexpr Moments moments_of(double mean, double mean_magnitude, float l2_squared, std::size_t n,
                             float largest) {
  // Within these limits no square overflows, and what underflows is nothing beside the sum.
  const bool told = l2_squared > 1e-25f && l2_squared < 1e35f;
  const double variance =
      told ? l2_squared / static_cast<double>(n) - mean * mean : 2 * mean_magnitude * mean_magnitude;
  return {mean, mean_magnitude, variance > 0 ? variance : 0, largest};
}

/// One vector under selection. The first pass forms it (Source); each pass lists the entries that reach some
/// threshold, as long as there are no more than `room`. Memory grows with room and the sample, not with the
/// vector. Pieces of kSlice entries are shared by the workspace's threads and joined in order.
///
/// A pass that meets NaN or Inf throws EncodeError naming the first, and takes back what it formed: to the
/// bit in vectors of up to kSlice entries, up to the rounding of what it had added in longer ones.
class Scan {
 public:
  /// room ≥ 1; sample: entries of the largest sample that may be drawn (more is taken where it turns out to
  /// be too few). Memory in workspace: words() and more_floats(), also of its threads.
  Scan(const Source& source, std::size_t room, Workspace& workspace, std::size_t sample = 0);

  std::size_t size() const { return source_.g.size(); }
  /// v, once it is formed.
  std::span<const float> vector() const { return source_.g; }
  /// How many entries reach threshold; reads the vector again only where the list does not tell.
  std::size_t count(MagnitudeBits threshold);
  /// Lists nothing from here on: the next count reads the vector.
  void forget() { complete_ = false; }
  /// How often the vector was read.
  int passes() const { return passes_; }
  /// True where the list holds every entry that reaches threshold.
  bool lists(MagnitudeBits threshold) const { return complete_ && threshold >= floor_; }
  /// Of v, from sums in floats; in the same pass lists what reaches threshold.
  Moments moments(MagnitudeBits threshold);

  /// A threshold from the sample of plan_sample (select_sample.h), which `draw` places. 0 where the sample is
  /// too small.
  MagnitudeBits sampled_threshold(double wanted, bool surely, double weight, std::uint64_t draw);
  /// The cut that keeps the k largest of those listed, which are at least k.
  Cut cut_in_list(std::size_t k);

  /// The entries that cut keeps; lists(cut.threshold).
  Selected take(Cut cut);
  /// The entries that cut keeps, where only those above its threshold are listed.
  Selected take_with_ties(Cut cut);

 private:
  /// What came of one piece.
  struct Piece {
    std::size_t thread, begin, end;  ///< where its entries stand
    std::size_t count;               ///< entries that reach the threshold
    std::size_t formed;              ///< entries formed; 0 where it was not worked on
    MomentSums sums;
  };
  struct Record {
    Piece piece;     ///< of the piece with this number
    EntryList list;  ///< of the thread with this number
  };
  void reserve(std::size_t sample);
  EntryList area(std::size_t index) const;
  std::size_t run(MagnitudeBits threshold, bool sums);
  void work_on(std::size_t index, std::size_t thread, MagnitudeBits threshold, bool sums);
  void join(std::size_t count);
  void refuse_slice() const;
  [[noreturn]] void refuse();
  void take_back();

  Source source_;
  std::size_t room_, capacity_, pieces_;
  Workspace& workspace_;
  std::span<std::uint32_t> words_;
  std::span<float> floats_;
  std::span<Record> records_;
  EntryList list_;
  MagnitudeBits floor_ = 0;
  bool complete_ = false;
  int passes_ = 0;
};

}  // namespace gossamer::compress

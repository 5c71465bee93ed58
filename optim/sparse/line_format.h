#pragma once
// How lines of text become samples. A LineFormat is shared by the threads that parse.
#include <cstddef>
#include <memory>
#include <string_view>

#include "gossamer/optim/sample_stream.h"
#include "sample_block.h"
#include "text.h"

namespace gossamer::optim {

class LineFormat {
 public:
  virtual ~LineFormat() = default;
  virtual bool has_fields() const { return false; }
  /// No piece has more entries.
  virtual std::size_t most_entries(const TextPiece& piece) const = 0;
  /// Whether a text that has not ended has begun with enough lines for start().
  virtual bool can_start(std::string_view) const { return true; }
  /// Called for the first piece of each text before any of it is parsed, by one thread at a time; what
  /// piece.skip should be.
  virtual std::size_t start(const TextPiece& piece) { return byte_order_mark(piece.view()); }
  /// Appends the samples that are this peer's; bad lines are counted.
  virtual void parse(const TextPiece& piece, const SampleShare& share, SampleBlock& out) const = 0;

 protected:
  static std::size_t byte_order_mark(std::string_view text) {
    return text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  }
};

std::unique_ptr<LineFormat> make_libsvm(const SampleStreamSpec& spec);
std::unique_ptr<LineFormat> make_libffm(const SampleStreamSpec& spec);
std::unique_ptr<LineFormat> make_vw(const SampleStreamSpec& spec);
std::unique_ptr<LineFormat> make_csv_lines(const SampleStreamSpec& spec);
/// Throws OptimError for an unknown name.
std::unique_ptr<LineFormat> make_line_format(const SampleStreamSpec& spec);

}  // namespace gossamer::optim

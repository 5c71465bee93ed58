#pragma once
// A text as its readers are given it.
#include <algorithm>
#include <memory>
#include <string>

#include "text.h"

namespace gossamer::optim::test {

inline TextPiece piece_of(const std::string& text) {
  TextPiece piece;
  piece.bytes = std::make_unique<char[]>(text.size() + kTextPadding);  // of zeros
  std::copy(text.begin(), text.end(), piece.bytes.get());
  piece.size = text.size();
  piece.line_breaks = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  return piece;
}

}  // namespace gossamer::optim::test

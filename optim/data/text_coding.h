#pragma once
// What becomes of text in the feature columns of CSV.
#include <cstddef>
#include <string_view>

#include "gossamer/optim/data.h"

namespace gossamer::optim {

struct TextCoding {
  enum class Kind {
    refuse,  ///< text is an error
    onehot,  ///< a feature for each text of the training rows
    hash     ///< a number of features for each column, of which its text's hash sets one
  };
  Kind kind = Kind::refuse;
  std::size_t features = 0;  ///< hash: of each column

  bool reads_text() const { return kind != Kind::refuse; }
};
/// Throws OptimError as check_text_coding.
TextCoding text_coding(std::string_view name);

/// Texts of a column that can have a feature each; where there are more, hashing is for it.
inline constexpr std::size_t kMostCategories = 1024;

}  // namespace gossamer::optim

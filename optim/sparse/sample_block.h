#pragma once
// A SampleBlock holds the samples of one piece of text, parsed.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/optim/sparse.h"
#include "prefetch.h"
#include "sample_share.h"

namespace gossamer::optim {

class SampleBlock {
 public:
  /// Keys and values that may be written beyond the entries.
  static constexpr std::size_t kSpareEntries = 8;
  /// Room for so many; with or without fields.
  SampleBlock(std::size_t rows, std::size_t entries, bool fields)
      : most_rows_(rows),
        most_entries_(entries),
        heads_(std::make_unique_for_overwrite<Head[]>(rows)),
        keys_(std::make_unique_for_overwrite<std::uint64_t[]>(entries + kSpareEntries)),
        fields_(fields ? std::make_unique_for_overwrite<std::uint32_t[]>(entries) : nullptr),
        values_(std::make_unique_for_overwrite<float[]>(entries + kSpareEntries)) {}
  static std::size_t bytes_of(std::size_t rows, std::size_t entries, bool fields) {
    return rows * sizeof(Head) +
           entries * (sizeof(std::uint64_t) + sizeof(float) + (fields ? sizeof(std::uint32_t) : 0));
  }
  std::size_t bytes() const { return bytes_of(most_rows_, most_entries_, fields_ != nullptr); }

  std::size_t rows() const { return rows_; }
  std::size_t entries() const { return entries_; }
  Sample at(std::size_t row) const {
    const Head& head = heads_[row];
    return {{keys_.get() + head.begin, head.count},
            {fields_ ? fields_.get() + head.begin : nullptr, fields_ ? head.count : 0},
            {values_.get() + head.begin, head.count},
            head.label,
            head.hash,
            head.position};
  }
  void prefetch_head(std::size_t row) const { __builtin_prefetch(&heads_[row]); }
  void prefetch_entries(std::size_t row) const {
    const std::size_t begin = heads_[row].begin, count = heads_[row].count;
    prefetch_bytes(keys_.get() + begin, count * sizeof keys_[0]);
    prefetch_bytes(values_.get() + begin, count * sizeof values_[0]);
    if (fields_) prefetch_bytes(fields_.get() + begin, count * sizeof fields_[0]);
  }

  /// Where a parser writes the next sample's entries; they count once end_row is called.
  class Writer {
   public:
    explicit Writer(SampleBlock& block)
        : keys(block.keys_.get() + block.entries_),
          fields(block.fields_ ? block.fields_.get() + block.entries_ : nullptr),
          values(block.values_.get() + block.entries_) {}
    void add(std::uint64_t key, float value) {
      *keys++ = key;
      *values++ = value;
    }
    void add(std::uint64_t key, float value, std::uint32_t field) {
      add(key, value);
      *fields++ = field;
    }
    /// Where the next entry is to stand, and after what somebody else writes there.
    std::uint64_t* key() const { return keys; }
    float* value() const { return values; }
    std::uint64_t* skip(std::size_t entries) {
      values += entries;
      return keys += entries;
    }

   private:
    friend class SampleBlock;
    std::uint64_t* keys;
    std::uint32_t* fields;
    float* values;
  };
  void end_row(const Writer& writer, float label, std::uint64_t hash, std::uint64_t position) {
    const auto end = static_cast<std::size_t>(writer.keys - keys_.get());
    heads_[rows_++] = {hash, position, static_cast<std::uint32_t>(entries_),
                       static_cast<std::uint32_t>(end - entries_), label};
    entries_ = end;
  }
  /// Gives back the room that was not needed, where it is much.
  void shrink();

  std::uint64_t lines = 0, text_bytes = 0, bad_lines = 0;  ///< of the text
  std::vector<std::string> bad;                            ///< messages of the first bad lines

 private:
  struct Head {
    std::uint64_t hash, position;
    std::uint32_t begin, count;
    float label;
  };
  std::size_t most_rows_, most_entries_, rows_ = 0, entries_ = 0;
  std::unique_ptr<Head[]> heads_;
  std::unique_ptr<std::uint64_t[]> keys_;
  std::unique_ptr<std::uint32_t[]> fields_;
  std::unique_ptr<float[]> values_;
};

}  // namespace gossamer::optim

#include <algorithm>
#include <bit>
#include <string>

#include "bits.h"
#include "elias.h"
#include "index_coding.h"

namespace gossamer::compress {
namespace {

constexpr unsigned kRiceMax = 31;
constexpr unsigned kWidthMax = 32;
constexpr std::uint64_t kRunMax = 0xffff;

[[noreturn]] void refuse_index() { throw PayloadError("payload holds an index past its last entry"); }
[[noreturn]] void refuse_short() { throw PayloadError("payload truncated: its indices end early"); }
[[noreturn]] void refuse_long() { throw PayloadError("payload holds bits after its last index"); }

unsigned take_parameter(std::span<const std::byte>& in, unsigned most) {
  if (in.empty()) refuse_short();
  const auto parameter = static_cast<unsigned>(in[0]);
  in = in.subspan(1);
  if (parameter > most) {
    throw PayloadError("payload claims an index width of " + std::to_string(parameter) +
                       " bits, expected at most " + std::to_string(most));
  }
  return parameter;
}

}  // namespace

IndexReader::IndexReader(std::span<const std::byte> in, unsigned form, std::size_t count, std::size_t n)
    : in_(in), form_(static_cast<IndexForm>(form)), n_(n) {
  if (form >= kIndexForms) {
    throw PayloadError("payload claims index form " + std::to_string(form) + ", expected one of 0 to " +
                       std::to_string(kIndexForms - 1));
  }
  if (count > n) refuse_index();
  if (n > wire::kIndexedMax)
    throw PayloadError("payload holds indices for a vector of 2^32 entries or more; slice the layer");
  if (form_ == IndexForm::rice) {
    width_ = take_parameter(in_, kRiceMax);
    const std::uint64_t bits = std::uint64_t{in_.size()} * 8, remainders = std::uint64_t{count} * width_;
    if (bits < remainders + count) refuse_short();
    // Quotients add up to no more than this, so that no sum of theirs below overflows.
    if (bits - remainders > count + (n_ >> width_) + 7) refuse_long();
    base_ = remainders & ~std::uint64_t{7};
    ones_ = remainders;
    word_ = load_word(in_, static_cast<std::size_t>(base_ / 8)) & ~low_bits(remainders % 8);
  } else if (form_ == IndexForm::packed) {
    width_ = take_parameter(in_, kWidthMax);
  } else if (form_ == IndexForm::bitmap) {
    if (in_.size() != wire::ceil_div(n, 8)) refuse_short();
    word_ = load_word(in_, 0);
  }
  if (form_ == IndexForm::packed || form_ == IndexForm::fixed) {
    const unsigned width = form_ == IndexForm::fixed ? 32 : width_;
    if (std::uint64_t{in_.size()} * 8 < std::uint64_t{count} * width) refuse_short();
  }
}

void IndexReader::read(std::span<std::uint32_t> out) {
  assert(out.size() <= kBlock);
  switch (form_) {
    case IndexForm::rice:
      read_rice(out);
      break;
    case IndexForm::fixed:
      read_fixed(out);
      break;
    case IndexForm::packed:
      read_packed(out);
      break;
    case IndexForm::elias:
      read_elias(out);
      break;
    case IndexForm::runs:
      read_runs(out);
      break;
    case IndexForm::bitmap:
      read_bitmap(out);
      break;
  }
  // Indices rise, in 64 bits, so that the last one speaks for all.
  if (next_ > n_) refuse_index();
}

void IndexReader::finish() const {
  const std::uint64_t bits = std::uint64_t{in_.size()} * 8;
  const std::uint64_t end = form_ == IndexForm::rice ? ones_ : form_ == IndexForm::bitmap ? bits : at_;
  if (bits - end >= 8 || load_bits(in_, end) != 0) refuse_long();
  if (form_ == IndexForm::bitmap) {
    // next_ is the bit after the last index.
    for (std::uint64_t at = next_; at < bits; at += 56) {
      if ((load_bits(in_, at) & low_bits(56)) != 0) refuse_long();
    }
  }
}

std::uint64_t IndexReader::next_one() {
  while (word_ == 0) {
    base_ += 64;
    if (base_ >= std::uint64_t{in_.size()} * 8) refuse_short();
    word_ = load_word(in_, static_cast<std::size_t>(base_ / 8));
  }
  const std::uint64_t at = base_ + static_cast<unsigned>(std::countr_zero(word_));
  word_ &= word_ - 1;
  ones_ = at + 1;
  return at;
}

void IndexReader::read_rice(std::span<std::uint32_t> out) {
  for (std::uint32_t& remainder : out) {
    remainder = static_cast<std::uint32_t>(load_bits(in_, at_) & low_bits(width_));
    at_ += width_;
  }
  for (std::uint32_t& index : out) {
    const std::uint64_t before = ones_;
    next_ += ((next_one() - before) << width_) + index + 1;
    index = static_cast<std::uint32_t>(next_ - 1);
  }
}

void IndexReader::read_fixed(std::span<std::uint32_t> out) {
  std::memcpy(out.data(), in_.data() + at_ / 8, out.size_bytes());
  at_ += 32 * out.size();
  for (const std::uint32_t index : out) {
    if (index < next_) throw PayloadError("payload holds indices that do not rise");
    next_ = std::uint64_t{index} + 1;
  }
}

void IndexReader::read_packed(std::span<std::uint32_t> out) {
  for (std::uint32_t& index : out) {
    next_ += (load_bits(in_, at_) & low_bits(width_)) + 1;
    at_ += width_;
    index = static_cast<std::uint32_t>(next_ - 1);
  }
}

void IndexReader::read_elias(std::span<std::uint32_t> out) {
  for (std::uint32_t& index : out) {
    const OmegaRead gap = read_omega(load_bits(in_, at_));
    if (gap.number == 0) refuse_index();
    at_ += gap.length;
    next_ += gap.number;
    index = static_cast<std::uint32_t>(next_ - 1);
  }
  if (at_ > std::uint64_t{in_.size()} * 8) refuse_short();
}

void IndexReader::read_runs(std::span<std::uint32_t> out) {
  for (std::uint32_t& index : out) {
    for (;;) {
      if (std::uint64_t{in_.size()} * 8 - at_ < 16) refuse_short();
      const std::uint64_t run = load_bits(in_, at_) & kRunMax;
      at_ += 16;
      next_ += run;
      if (run < kRunMax) break;
      if (next_ > n_) refuse_index();
    }
    index = static_cast<std::uint32_t>(next_++);
  }
}

void IndexReader::read_bitmap(std::span<std::uint32_t> out) {
  for (std::uint32_t& index : out) {
    const std::uint64_t at = next_one();
    next_ = at + 1;
    index = static_cast<std::uint32_t>(at);
  }
}

}  // namespace gossamer::compress

// Level coding beside a coder that moves one bit at a time: bits per entry beside the entropy, GB/s of the
// fp32 vector that the fields stand for. Usage: bench_coding [entries]
#include <chrono>
#include <cstdio>

#include "index_coding.h"
#include "level_coding.h"
#include "level_fields.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

template <class Work>
double best_seconds(Work work) {
  double best = 1e9;
  for (int run = 0; run < 7; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// The plain way to write and read QSGD's dense code.
class BitAtATime {
 public:
  void put(unsigned bit) {
    if (at_ / 8 == bytes_.size()) bytes_.push_back(0);
    bytes_[at_ / 8] = static_cast<std::uint8_t>(bytes_[at_ / 8] | bit << at_ % 8);
    ++at_;
  }
  unsigned get() {
    const unsigned bit = (bytes_[at_ / 8] >> at_ % 8) & 1u;
    ++at_;
    return bit;
  }
  void put_omega(unsigned number) {
    if (number > 1) put_group(number);
    put(0);
  }
  unsigned get_omega() {
    unsigned number = 1;
    while (get() == 1) {
      const unsigned width = number;
      number = 1;
      for (unsigned j = 0; j < width; ++j) number = number << 1 | get();
    }
    return number;
  }
  void clear() {
    bytes_.clear();
    at_ = 0;
  }
  void rewind() { at_ = 0; }

 private:
  void put_group(unsigned number) {
    const auto width = static_cast<unsigned>(std::bit_width(number));
    if (width - 1 > 1) put_group(width - 1);
    for (unsigned j = width; j-- > 0;) put((number >> j) & 1u);
  }
  std::vector<std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

void print(const char* what, double bits, double n, double encode_s, double decode_s) {
  std::printf("  %-14s %7.3f bits  encode %7.2f  decode %7.2f GB/s\n", what, bits, 4e-9 * n / encode_s,
              4e-9 * n / decode_s);
}

void bit_at_a_time(const FieldVector& fields, unsigned s) {
  BitAtATime coder;
  const auto n = static_cast<double>(fields.size());
  const double encode_s = best_seconds([&] {
    coder.clear();
    for (const std::uint8_t field : fields) {
      const int level = static_cast<int>(field) - static_cast<int>(s);
      coder.put_omega(static_cast<unsigned>(std::abs(level)) + 1);
      if (level != 0) coder.put(level < 0 ? 1 : 0);
    }
  });
  unsigned long sum = 0;
  const double decode_s = best_seconds([&] {
    coder.rewind();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const unsigned size = coder.get_omega() - 1;
      sum += size > 0 ? size + coder.get() : 0;
    }
  });
  print(sum == 1 ? "" : "bit at a time", 0, n, encode_s, decode_s);
}

void measure(const char* name, const FieldVector& fields, unsigned s) {
  const std::size_t n = fields.size();
  std::printf("%s, %zu entries: entropy %.3f\n", name, n, entropy(fields));
  bit_at_a_time(fields, s);
  for (std::size_t form = 0; form <= kLevelForms; ++form) {
    const FieldCoding coding =
        form == kLevelForms ? FieldCoding() : FieldCoding(static_cast<LevelForm>(form));
    Bytes out(coded_max_bytes(coding, n, levels_each_side(s)));
    std::size_t used = 0;
    const double encode_s = best_seconds([&] {
      used = write_coded(coding, n, levels_each_side(s), nullptr, out,
                         [&](std::size_t first, std::span<std::uint8_t> to, std::size_t) {
                           std::memcpy(to.data(), fields.data() + first, to.size());
                         });
    });
    unsigned sum = 0;
    const double decode_s = best_seconds([&] {
      read_coded(std::span(out).first(used), n, levels_each_side(s), nullptr,
                 [&](std::size_t, std::span<const std::uint8_t> got) { sum += got[0]; });
    });
    print(std::string(field_coding_name(coding)).c_str(),
          8.0 * static_cast<double>(used) / static_cast<double>(n) + (sum == 1 ? 1 : 0),
          static_cast<double>(n), encode_s, decode_s);
  }
}

void measure_indices(std::size_t n, double density) {
  std::mt19937_64 random(1);
  std::vector<std::uint32_t> indices;
  for (std::size_t i = 0; i < n; ++i) {
    if (uniform(random) < density) indices.push_back(static_cast<std::uint32_t>(i));
  }
  const double entropy_bits = -std::log2(density) - (1 - density) / density * std::log2(1 - density);
  std::printf("indices, %zu of %zu: entropy %.3f\n", indices.size(), n, entropy_bits);
  for (std::size_t form = 0; form <= kIndexForms; ++form) {
    const IndexCoding coding =
        form == kIndexForms ? IndexCoding() : IndexCoding(static_cast<IndexForm>(form));
    Bytes out(indices_max_bytes(coding, indices.size(), n));
    IndexPlan plan;
    const double encode_s = best_seconds([&] {
      plan = plan_indices(coding, indices, n);
      wire::Writer writer(out);
      write_indices(writer, plan, indices, n);
    });
    std::vector<std::uint32_t> block(IndexReader::kBlock);
    const double decode_s = best_seconds([&] {
      const auto written = std::span<const std::byte>(out).first(static_cast<std::size_t>(plan.bytes));
      IndexReader reader(written, static_cast<unsigned>(plan.form), indices.size(), n);
      for (std::size_t j = 0; j < indices.size(); j += block.size())
        reader.read(std::span(block).first(std::min(block.size(), indices.size() - j)));
    });
    const auto k = static_cast<double>(indices.size());
    std::printf("  %-8s %7.3f bits  encode %6.2f  decode %6.2f ns per index\n",
                std::string(index_coding_name(coding)).c_str(), 8.0 * static_cast<double>(plan.bytes) / k,
                1e9 * encode_s / k, 1e9 * decode_s / k);
  }
}

/// Not that of the entries: rounded by the draws they were made of, Laplacian ones have fewer bits.
constexpr std::uint64_t kRounding = 99;

}  // namespace

int main(int argc, char** argv) {
  const std::size_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size_t{1} << 20;
  if (n == 0) {
    std::fprintf(stderr, "usage: bench_coding [entries]\n");
    return 2;
  }
  const double root = std::sqrt(static_cast<double>(n));
  measure("gaussian, 4 bits, max norm", quantised(gaussian(n, 1), 7, 512, false, 7, kRounding), 7);
  measure("laplacian, 4 bits, max norm", quantised(laplacian(n, 1), 7, 512, false, 7, kRounding), 7);
  measure("gaussian, s = sqrt n, l2 norm", quantised(gaussian(n, 1), root, n, true, kLevelsMax, kRounding),
          kLevelsMax);
  measure("laplacian, s = sqrt n, l2 norm", quantised(laplacian(n, 1), root, n, true, kLevelsMax, kRounding),
          kLevelsMax);
  measure("gaussian, s = 1, l2 norm", quantised(gaussian(n, 1), 1, 512, true, 1, kRounding), 1);
  measure_indices(n, 0.001);
  measure_indices(n, 0.01);
}

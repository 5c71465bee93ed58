#include "sign_kernels.h"
#include "sign_kernels_inline.h"

namespace gossamer::compress {
namespace {

template <Sums kKind>
std::size_t scan_buckets(const SignScan& scan, float* p, const SignPair* pending) {
  std::size_t bad = scan.n;
  for (std::size_t start = 0, b = 0; start < scan.n; start += scan.bucket, ++b) {
    const std::size_t end = std::min(start + scan.bucket, scan.n);
    std::byte* const signs = scan.signs + b * scan.stride;
    plain::BlockTree tree;
    std::uint32_t positive = 0;
    for (std::size_t block = start; block < end; block += plain::kBlock) {
      plain::SignSums sums;
      for (std::size_t i = block; i < std::min(block + plain::kBlock, end); i += 32) {
        const std::size_t d = std::min<std::size_t>(32, end - i);
        const std::size_t at =
            plain::scan_word<kKind>(scan.g + i, p == nullptr ? nullptr : p + i,
                                    p == nullptr ? SignPair{} : pending[b], d, sums, signs + (i - start) / 8);
        if (at != d) bad = std::min(bad, i + at);
      }
      const BucketSums combined = sums.combine();
      tree.add(combined.first, combined.second);
      positive += combined.positive;
    }
    scan.sums[b] = {tree.l1(), tree.l2_squared(), positive};
  }
  return bad;
}

}  // namespace

void scan_signs(Sums kind, const SignScan& scan) { (void)scan_signs(kind, scan, nullptr, nullptr); }

std::size_t scan_signs(Sums kind, const SignScan& scan, float* p, const SignPair* pending) {
  switch (kind) {
    case Sums::l1:
      return scan_buckets<Sums::l1>(scan, p, pending);
    case Sums::norms:
      return scan_buckets<Sums::norms>(scan, p, pending);
    case Sums::sides:
      return scan_buckets<Sums::sides>(scan, p, pending);
  }
  return scan.n;
}

void subtract(const float* x, const float* y, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] - y[i];
}

void add_leaves(std::span<const SignLeaf> leaves, float* acc) {
  for (const SignLeaf& leaf : leaves) {
    plain::add_leaf_tail(leaf.signs, leaf.pair, acc, leaf.n);
    acc += leaf.n;
  }
}

}  // namespace gossamer::compress

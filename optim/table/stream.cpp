// A saved table is a row of blocks. A block is its kind, the bytes of its payload (4 bytes each, little
// endian) and the XXH3 hash of these two, its number in the stream and the payload; then the payload:
//   head: format version, width, what a row keeps (Columns), 0; then steps and places, 8 bytes each; from
//         version 2 on the optimizer's numbers (Rule), 8 bytes each; then its name
//   rows: a key, 8 bytes, and its row's words, any number of times
//   end: the number of rows, 8 bytes
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "local_table.h"
#include "random.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gossamer::optim {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are written as they stand in memory");

constexpr std::array<char, 8> kMagic{'G', 'O', 'S', 'S', 'R', 'O', 'W', 'S'};
constexpr std::uint32_t kFormatVersion = 2, kWithoutRule = 1;
constexpr std::size_t kMostPayload = std::size_t{1} << 20;
// Memory is taken as bytes come, not as they are claimed.
constexpr std::size_t kReadAtOnce = std::size_t{1} << 16;
enum BlockKind : std::uint32_t { kHead = 1, kRows, kEnd };
enum Columns : std::uint32_t { kHasStatistics = 1, kHasVersions = 2, kHasTouches = 4 };

struct BlockFront {
  std::uint32_t kind = 0, bytes = 0;
  std::uint64_t hash = 0;
};

struct Head {
  std::uint32_t format = kFormatVersion, width = 0, columns = 0, reserved = 0;
  std::uint64_t steps = 0, places = 0;
};

/// Numbers of the optimizer without which what a row keeps says no weights.
struct Rule {
  double learning_rate, beta, l1, l2;
  bool operator==(const Rule&) const = default;
};
Rule rule_of(const TableSpec& spec) { return {spec.learning_rate, spec.beta, spec.l1, spec.l2}; }

std::uint64_t block_hash(const BlockFront& front, std::uint64_t number, std::span<const std::byte> payload) {
  const std::array<std::uint64_t, 3> place{front.kind, front.bytes, number};
  return XXH3_64bits_withSeed(payload.data(), payload.size(), XXH3_64bits(place.data(), sizeof place));
}

class BlockWriter {
 public:
  explicit BlockWriter(const ByteSink& sink) : sink_(sink) { sink_(std::as_bytes(std::span(kMagic))); }
  void write(BlockKind kind, std::span<const std::byte> payload) {
    BlockFront front{kind, static_cast<std::uint32_t>(payload.size()), 0};
    front.hash = block_hash(front, number_++, payload);
    sink_(std::as_bytes(std::span(&front, 1)));
    sink_(payload);
  }

 private:
  const ByteSink& sink_;
  std::uint64_t number_ = 0;
};

class BlockReader {
 public:
  explicit BlockReader(const ByteSource& source) : source_(source) {
    std::array<char, kMagic.size()> magic{};
    fill(std::as_writable_bytes(std::span(magic)));
    if (magic != kMagic) fail("found other first bytes than \"GOSSROWS\": expected a saved table");
  }
  /// The next block; its payload holds until the one after.
  std::uint32_t read(std::span<const std::byte>& payload) {
    BlockFront front;
    fill(std::as_writable_bytes(std::span(&front, 1)));
    if (front.kind < kHead || front.kind > kEnd || front.bytes > kMostPayload)
      fail("found a block of kind " + std::to_string(front.kind) + " with " + std::to_string(front.bytes) +
           " bytes, expected kinds 1 to 3 and at most 1048576 bytes: the stream is damaged");
    payload_.clear();
    while (payload_.size() < front.bytes) {
      const std::size_t have = payload_.size();
      payload_.resize(std::min<std::size_t>(front.bytes, have + kReadAtOnce));
      fill(std::span(payload_).subspan(have));
    }
    payload = payload_;
    if (front.hash != block_hash(front, number_, payload))
      fail("found a block whose hash is not that of its bytes: the stream is damaged");
    ++number_;
    return front.kind;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw OptimError("table: at byte " + std::to_string(bytes_) + ", block " + std::to_string(number_) +
                     ": " + what);
  }

 private:
  void fill(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t n = source_(bytes);
      if (n == 0)
        fail("found the end, expected " + std::to_string(bytes.size()) +
             " more bytes: the stream is truncated");
      bytes = bytes.subspan(n);
      bytes_ += n;
    }
  }
  const ByteSource& source_;
  std::vector<std::byte> payload_;
  std::uint64_t number_ = 0, bytes_ = 0;
};

std::uint32_t columns_of(const RowShape& shape) {
  return (shape.statistics ? kHasStatistics : 0U) | (shape.versions ? kHasVersions : 0U) |
         (shape.touches ? kHasTouches : 0U);
}

/// The first block. rule ← the saved one, where there is one.
Head read_head(BlockReader& reader, Rule& rule, std::string& optimizer) {
  Head head;
  std::span<const std::byte> payload;
  if (reader.read(payload) != kHead || payload.size() < sizeof head)
    reader.fail("found no head in the first block: the stream is damaged");
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.format != kFormatVersion && head.format != kWithoutRule)
    reader.fail("found format " + std::to_string(head.format) +
                ", expected 1 or 2: saved by another version");
  auto rest = payload.subspan(sizeof head);
  if (head.format != kWithoutRule) {
    if (rest.size() < sizeof rule) reader.fail("found a head that ends early: the stream is damaged");
    std::memcpy(&rule, rest.data(), sizeof rule);
    rest = rest.subspan(sizeof rule);
  }
  optimizer.assign(reinterpret_cast<const char*>(rest.data()), rest.size());
  return head;
}

/// Which says the weights of rows that were saved under another rule; null where they are this spec's, too.
std::unique_ptr<RowOptimizer> former_optimizer(const BlockReader& reader, const TableSpec& spec,
                                               const Rule& rule, const RowShape& shape) {
  if (shape.part->in_front || rule == rule_of(spec)) return nullptr;
  TableSpec former = spec;
  former.learning_rate = rule.learning_rate;
  former.beta = rule.beta;
  former.l1 = rule.l1;
  former.l2 = rule.l2;
  const bool good = rule.learning_rate > 0 && rule.beta >= 0 && rule.l1 >= 0 && rule.l2 >= 0 &&
                    std::isfinite(rule.learning_rate + rule.beta + rule.l1 + rule.l2);
  if (!good) reader.fail("found numbers of the optimizer that are none: the stream is damaged");
  return shape.part->make(former);
}

void check_shape(const BlockReader& reader, const Head& head, const std::string& optimizer,
                 const RowShape& shape) {
  if (optimizer != shape.part->info.name || head.width != shape.width)
    reader.fail("found rows of " + std::to_string(head.width) + " weights for " + optimizer + ", expected " +
                std::to_string(shape.width) + " for " + shape.part->info.name);
  const std::uint32_t kept = kHasStatistics | kHasVersions;
  if ((head.columns & kept) != (columns_of(shape) & kept))
    reader.fail(
        "found other columns than expected: versions and statistics must be set as they were when saved");
}

}  // namespace

void LocalTable::copy_rows(std::size_t shard, std::uint64_t& first, std::size_t most,
                           std::vector<std::byte>& rows) const {
  rows.clear();
  const std::shared_lock lock(shards_[shard]->mutex());
  shards_[shard]->each(first, [&](std::uint64_t r, const float* row) {
    if (rows.size() + record_bytes() > most) return false;
    const std::uint64_t key = key_of(shard, r);
    const auto front = std::as_bytes(std::span(&key, 1));
    rows.insert(rows.end(), front.begin(), front.end());
    const auto words = std::as_bytes(std::span(row, shape_.words));
    rows.insert(rows.end(), words.begin(), words.end());
    first = r + 1;
    return true;
  });
}

void LocalTable::put(std::uint64_t key, std::span<const float> words) {
  const std::uint64_t mixed = mix(key ^ salt_);
  Shard& shard = *shards_[shard_of(mixed)];
  const std::unique_lock lock(shard.mutex());
  std::byte* place = shard.find(number(mixed));
  if (!place) place = shard.make(number(mixed), static_cast<std::uint32_t>(steps_));
  if (place) std::copy(words.begin(), words.end(), row_at(place));
}

void LocalTable::visit(const std::function<void(const TableRow&)>& visitor) const {
  std::vector<std::byte> rows;
  std::vector<float> words(shape_.words), weights(shape_.width);
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    for (std::uint64_t first = 0;;) {
      copy_rows(shard, first, kMostPayload, rows);
      if (rows.empty()) break;
      for (std::size_t at = 0; at < rows.size(); at += record_bytes()) {
        TableRow row;
        std::memcpy(&row.key, &rows[at], sizeof row.key);
        std::memcpy(words.data(), &rows[at + sizeof row.key], shape_.bytes());
        shape_.optimizer->read(words.data(), weights);
        row.weights = weights;
        row.version = shape_.version(words.data());
        if (shape_.statistics) row.shows = words[shape_.shows_at], row.clicks = words[shape_.shows_at + 1];
        visitor(row);
      }
    }
}

void LocalTable::save(const ByteSink& sink) const {
  BlockWriter writer(sink);
  const Head head{.width = static_cast<std::uint32_t>(shape_.width),
                  .columns = columns_of(shape_),
                  .steps = steps_,
                  .places = spec_.places};
  const std::string name = shape_.part->info.name;
  const Rule rule = rule_of(spec_);
  std::vector<std::byte> rows(sizeof head + sizeof rule + name.size());
  std::memcpy(rows.data(), &head, sizeof head);
  std::memcpy(rows.data() + sizeof head, &rule, sizeof rule);
  std::memcpy(rows.data() + sizeof head + sizeof rule, name.data(), name.size());
  writer.write(kHead, rows);
  std::uint64_t count = 0;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    for (std::uint64_t first = 0;;) {
      copy_rows(shard, first, kMostPayload, rows);
      if (rows.empty()) break;
      count += rows.size() / record_bytes();
      writer.write(kRows, rows);
    }
  writer.write(kEnd, std::as_bytes(std::span(&count, 1)));
}

std::unique_ptr<Table> load_table(const TableSpec& spec, const ByteSource& source) {
  BlockReader reader(source);
  std::string optimizer;
  Rule rule = rule_of(spec);
  const Head head = read_head(reader, rule, optimizer);
  TableSpec apart = spec;
  if (apart.places == head.places) ++apart.places;  // rows come in the order of their old places
  auto table = std::make_unique<LocalTable>(apart);
  const RowShape& shape = table->shape();
  check_shape(reader, head, optimizer, shape);
  table->set_steps(head.steps);
  const bool touched = (head.columns & kHasTouches) != 0;
  const std::size_t kept = shape.words - (shape.touches ? 1 : 0);
  const std::size_t record = sizeof(std::uint64_t) + (kept + (touched ? 1 : 0)) * sizeof(float);
  const auto now = static_cast<std::uint32_t>(head.steps);
  const auto former = former_optimizer(reader, spec, rule, shape);
  std::vector<float> words(kept + 1), weights(shape.width);
  std::uint64_t count = 0;
  std::span<const std::byte> payload;
  for (;;) {
    const std::uint32_t kind = reader.read(payload);
    if (kind == kEnd) break;
    if (kind != kRows || payload.size() % record != 0)
      reader.fail("found a block that holds no whole rows: the stream is damaged");
    for (; !payload.empty(); payload = payload.subspan(record), ++count) {
      std::uint64_t key;
      std::memcpy(&key, payload.data(), sizeof key);
      std::memcpy(&words[kept], &now, sizeof now);
      std::memcpy(words.data(), payload.data() + sizeof key, record - sizeof key);
      if (former) {
        former->read(words.data(), weights);
        shape.optimizer->adopt(words.data(), weights);
      }
      table->put(key, {words.data(), shape.words});
    }
  }
  std::uint64_t expected = 0;
  if (payload.size() == sizeof expected) std::memcpy(&expected, payload.data(), sizeof expected);
  if (payload.size() != sizeof expected || count != expected)
    reader.fail("found " + std::to_string(count) + " rows, expected " + std::to_string(expected) +
                ": the stream is damaged");
  return table;
}

}  // namespace gossamer::optim

// A table beside std::unordered_map, and Boost's flat map where there is one: memory per entry at the end and
// while it grows, batched lookups, updates per second. bench_table [entries, default 10^7 [lookups|updates,
// one part alone]]; 10^8 need 9 GB.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#if __has_include(<boost/unordered/unordered_flat_map.hpp>)
#include <boost/unordered/unordered_flat_map.hpp>
#define GOSSAMER_BOOST_FLAT 1
#endif

#include "gossamer/optim/table.h"
#include "random.h"

namespace {

using namespace gossamer::optim;
using Keys = std::vector<std::uint64_t>;

constexpr std::size_t kBatch = 100000;  // 200 items × 500 features
constexpr int kRounds = 15;
constexpr std::uint64_t kWarm = 40;

/// Seconds of the clock on the wall, for what threads do together.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds that this thread has run: other load on the machine takes no part in it.
double spent() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Bytes of this process that are in memory.
double resident() {
  std::FILE* file = std::fopen("/proc/self/smaps_rollup", "r");
  double bytes = 0;
  char line[256];
  while (file && std::fgets(line, sizeof line, file))
    if (std::strncmp(line, "Rss:", 4) == 0) bytes = std::atof(line + 4) * 1024;
  if (file) std::fclose(file);
  return bytes;
}

std::uint64_t key(std::uint64_t i) { return bits(1, i); }

/// kBatch keys that are there (of the first n), or none of which is.
Keys draw(std::uint64_t round, std::uint64_t n, bool there) {
  Keys keys(kBatch);
  for (std::size_t i = 0; i < kBatch; ++i)
    keys[i] = key(bits(round + 7, i) % n + (there ? 0 : std::uint64_t{1} << 40));
  return keys;
}

/// What is resident per entry, at the end and at most while it grew (from a million entries on).
struct Filled {
  double seconds, end, peak;
};

/// add(first, last) inserts these entries.
template <class Add>
Filled fill(std::uint64_t n, const Add& add) {
  constexpr std::uint64_t kPart = 20000;
  const double before = resident();
  double seconds = 0, peak = 0, end = 0;
  for (std::uint64_t first = 0; first < n; first += kPart) {
    const std::uint64_t last = std::min(n, first + kPart);
    const double start = spent();
    add(first, last);
    seconds += spent() - start;
    if (last != n && (last < 1000000 || last / kPart % 5 != 0)) continue;
    end = (resident() - before) / static_cast<double>(last);
    peak = std::max(peak, end);
  }
  return {seconds, end, peak};
}

void print(const char* name, std::uint64_t n, const Filled& f) {
  std::printf("%-20s %6.2f bytes/entry at the end  %6.2f at most while growing  %6.0f ns per insertion\n",
              name, f.end, f.peak, f.seconds / static_cast<double>(n) * 1e9);
  std::fflush(stdout);
}

template <class Map>
Filled fill_map(Map& map, std::uint64_t n) {
  return fill(n, [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; ++i) map[key(i)] = 1;
  });
}

template <class Map>
float look_up(const Map& map, const Keys& keys) {
  float sum = 0;
  for (const std::uint64_t k : keys)
    if (const auto it = map.find(k); it != map.end()) sum += it->second;
  return sum;
}

/// ns per independent read of a random cache line of so many bytes, read ahead by prefetch: what any lookup
/// costs at least.
struct RandomLines {
  explicit RandomLines(std::size_t bytes) : size(((bytes >> 21) + 1) << 21) {
    memory = static_cast<char*>(std::aligned_alloc(std::size_t{1} << 21, size));
    madvise(memory, size, MADV_HUGEPAGE);
    std::memset(memory, 1, size);
  }
  ~RandomLines() { std::free(memory); }
  int read(const Keys& keys) const {
    int sum = 0;
    constexpr std::size_t kAhead = 32;
    const auto at = [&](std::size_t i) { return memory + (keys[i] >> 32) * (size >> 6) / (1ULL << 32) * 64; };
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i + kAhead < keys.size()) __builtin_prefetch(at(i + kAhead));
      sum += *at(i);
    }
    return sum;
  }
  std::size_t size;
  char* memory;
};

volatile float sink;

/// Medians of ns per key; the rivals take turns, so that other load on the machine meets all. Each looks up
/// two batches: the first one finds caches, those of addresses too, full of what the rival before it read.
void bench_lookups(const Table& table, const std::unordered_map<std::uint64_t, float>& standard,
                   std::uint64_t n) {
  const RandomLines lines(table.statistics().bytes);
  std::vector<float> out(kBatch);
  const auto at_once = [&](const Keys& keys) { table.pull(keys, out); };
  const auto in_parts = [&](const Keys& keys) {
    for (std::size_t i = 0; i < kBatch; i += 500)
      table.pull(std::span(keys).subspan(i, 500), std::span(out).subspan(i, 500));
  };
  const auto of_standard = [&](const Keys& keys) { sink = look_up(standard, keys); };
  const auto of_lines = [&](const Keys& keys) { sink = static_cast<float>(lines.read(keys)); };
  for (std::uint64_t round = 0; round < kWarm; ++round) {  // memory that has long lain idle comes back slowly
    const Keys keys = draw(round + 1000, n, true);
    at_once(keys);
    of_standard(keys);
    of_lines(keys);
  }
  struct Times {
    std::vector<double> first, then;
  };
  for (const bool there : {true, false}) {
    Times ours, small, theirs, floor;
    std::uint64_t draws = there ? 0 : 500;
    const auto timed = [&](Times& times, const auto& work) {
      for (std::vector<double>* const each : {&times.first, &times.then}) {
        const Keys keys = draw(draws++, n, there);
        const double start = spent();
        work(keys);
        each->push_back(spent() - start);
      }
    };
    for (int round = 0; round < kRounds; ++round) {
      timed(ours, at_once);
      timed(floor, of_lines);
      timed(small, in_parts);
      timed(theirs, of_standard);
    }
    constexpr double kPer = 1e9 / static_cast<double>(kBatch);
    const double standards = median(theirs.then);
    std::printf(
        "lookups of keys %-9s table, batches of 100000: %5.1f ns  of 500: %5.1f ns  std::unordered_map: "
        "%6.1f ns  "
        "%.1f and %.1f times  a random line alone: %.1f ns\n"
        "  the first batch after another rival's: %.1f ns  %.1f ns  %.1f ns  %.1f ns\n",
        there ? "there:" : "missing:", median(ours.then) * kPer, median(small.then) * kPer, standards * kPer,
        standards / median(ours.then), standards / median(small.then), median(floor.then) * kPer,
        median(ours.first) * kPer, median(small.first) * kPer, median(theirs.first) * kPer,
        median(floor.first) * kPer);
    std::fflush(stdout);
  }
}

void bench_memory(std::uint64_t n) {
  const auto table = make_table({.optimizer = "sgd", .versions = false});
  const std::vector<float> gradients(kBatch, 1.0f);
  Keys keys;
  print("table", n, fill(n, [&](std::uint64_t first, std::uint64_t last) {
          keys.resize(last - first);
          for (std::uint64_t i = first; i < last; ++i) keys[i - first] = key(i);
          table->push(keys, std::span(gradients).first(keys.size()));
        }));
  const TableStatistics s = table->statistics();
  std::printf("  by its own count: %.2f at the end, %.2f at most\n",
              static_cast<double>(s.bytes) / static_cast<double>(s.rows),
              static_cast<double>(s.peak_bytes) / static_cast<double>(s.rows));
  std::unordered_map<std::uint64_t, float> standard;
  print("std::unordered_map", n, fill_map(standard, n));
  bench_lookups(*table, standard, n);
#ifdef GOSSAMER_BOOST_FLAT
  standard = {};
  boost::unordered_flat_map<std::uint64_t, float> flat;
  print("boost flat map", n, fill_map(flat, n));
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const Keys found = draw(static_cast<std::uint64_t>(round), n, true);
    const double start = spent();
    sink = look_up(flat, found);
    times.push_back(spent() - start);
  }
  std::printf("  lookups %.1f ns\n", median(times) / static_cast<double>(kBatch) * 1e9);
#endif
}

/// Batches of keys that are there, pushed by so many threads, each its own: rows/s by the clock on the wall.
double rows_per_second(Table& table, const std::vector<Keys>& batches, std::size_t width,
                       std::size_t threads) {
  const std::vector<float> gradients(batches[0].size() * width, 0.01f);
  const double start = now();
  std::vector<std::thread> running;
  for (std::size_t thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] {
      for (std::size_t b = thread; b < batches.size(); b += threads) table.push(batches[b], gradients);
    });
  for (std::thread& thread : running) thread.join();
  return static_cast<double>(batches.size() * batches[0].size()) / (now() - start);
}

/// FTRL over a map of {z, n}, key by key.
double plain_rows_per_second(std::unordered_map<std::uint64_t, std::pair<float, float>>& map,
                             const std::vector<Keys>& batches) {
  const double start = spent();
  for (const Keys& keys : batches)
    for (const std::uint64_t k : keys) {
      auto& [z, n] = map[k];
      const float g = 0.01f, root = std::sqrt(n), next = std::sqrt(n + g * g);
      z += g + (next - root) / 0.05f * (z / ((1 + root) / 0.05f));
      n += g * g;
    }
  return static_cast<double>(batches.size() * batches[0].size()) / (spent() - start);
}

void bench_push(std::uint64_t n) {
  std::printf("updates of %llu rows in batches of 10000 keys, million rows/s:\n",
              static_cast<unsigned long long>(n));
  std::vector<Keys> batches(200, Keys(10000));
  for (std::size_t b = 0; b < batches.size(); ++b)
    for (std::size_t i = 0; i < batches[b].size(); ++i) batches[b][i] = key(bits(b + 1000, i) % n);
  std::unordered_map<std::uint64_t, std::pair<float, float>> plain;
  for (std::uint64_t i = 0; i < n; ++i) plain[key(i)] = {};
  std::vector<double> loop;
  for (int round = 0; round < 3; ++round) loop.push_back(plain_rows_per_second(plain, batches));
  plain = {};
  std::printf("  plain loop over std::unordered_map, ftrl, width 1: %.2f\n", median(loop) * 1e-6);
  for (const std::size_t width : {std::size_t{1}, std::size_t{16}})
    for (const RowOptimizerInfo& info : row_optimizer_table()) {
      const auto table = make_table({.width = width, .linear = width, .optimizer = info.name});
      Keys keys(10000);
      const std::vector<float> gradients(keys.size() * width, 0.01f);
      for (std::uint64_t first = 0; first + keys.size() <= n; first += keys.size()) {
        for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = key(first + i);
        table->push(keys, gradients);
      }
      std::vector<double> one, two, alone;
      for (int round = 0; round < 5; ++round) {
        const std::vector<float> pushed(keys.size() * width, 0.01f);
        const double start = spent();
        for (const Keys& batch : batches) table->push(batch, pushed);
        alone.push_back(static_cast<double>(batches.size() * keys.size()) / (spent() - start));
        one.push_back(rows_per_second(*table, batches, width, 1));
        two.push_back(rows_per_second(*table, batches, width, 2));
      }
      std::printf(
          "  width %2zu  %-8s %6.2f per second of a core, %4.1f times the plain loop; by the clock, 1 and 2 "
          "threads: "
          "%6.2f %6.2f  %.2f times;  %.1f bytes/row\n",
          width, info.name, median(alone) * 1e-6, median(alone) / median(loop), median(one) * 1e-6,
          median(two) * 1e-6, median(two) / median(one),
          static_cast<double>(table->statistics().bytes) / static_cast<double>(table->statistics().rows));
      std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10000000;
  const std::string only = argc > 2 ? argv[2] : "";
  std::printf("%llu entries of an 8-byte key and a 4-byte value\n", static_cast<unsigned long long>(n));
  if (only != "updates") bench_memory(n);
  if (only != "lookups") bench_push(std::min<std::uint64_t>(n, 5000000));
  return 0;
}

// Streams of samples: sources, errors, shuffling in bounded memory, peers' shares.
#include <chrono>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "gossamer/optim/sample_stream.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

struct Seen {
  std::vector<std::uint64_t> positions, first_keys;
  StreamCounters counters;
};

Seen read_all(const SampleStreamSpec& spec, std::size_t batch_size = 100) {
  const auto stream = open_samples(spec);
  Seen seen;
  for (SparseBatch batch; stream->next(batch_size, false, batch);)
    for (std::size_t b = 0; b < batch.size(); ++b) {
      seen.positions.push_back(batch.positions()[b]);
      if (batch.begins()[b] < batch.begins()[b + 1])
        seen.first_keys.push_back(batch.keys()[batch.index()[batch.begins()[b]]]);
    }
  seen.counters = stream->counters();
  return seen;
}

/// Lines whose first index is their number.
std::string numbered(std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = first; i < first + count; ++i)
    text += std::string(i % 3 == 0 ? "+1 " : "-1 ") + std::to_string(i) + ":1 " + std::to_string(i % 7) +
            ":0.5\n";
  return text;
}

std::vector<std::uint64_t> counting(std::size_t n) {
  std::vector<std::uint64_t> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> v) {
  std::sort(v.begin(), v.end());
  return v;
}

}  // namespace

TEST_CASE("a stream gives the same samples of plain and gzip files, from a command, with any threads") {
  const TemporaryDirectory dir;
  const std::string text = numbered(0, 60000);
  write_plain(dir.file("a"), text);
  write_gz(dir.file("b"), text);
  write_gz(dir.file("two"), numbered(0, 1000));
  std::ofstream(dir.file("two"), std::ios::app | std::ios::binary) << [&] {
    write_gz(dir.file("second"), numbered(1000, 59000));
    std::ifstream in(dir.file("second"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  for (const std::size_t threads : {0, 1, 3}) {
    SampleStreamSpec spec{.threads = threads, .memory = 4 << 20, .shuffle = false};
    for (const char* name : {"a", "b", "two"}) {
      spec.path = dir.file(name);
      const Seen seen = read_all(spec);
      CHECK(seen.first_keys == counting(60000));
      CHECK(seen.counters.lines == 60000);
      CHECK(seen.counters.text_bytes == text.size());
      CHECK(seen.counters.samples == 60000);
      CHECK(seen.counters.entries == 120000);
      CHECK(std::is_sorted(seen.positions.begin(), seen.positions.end()));
    }
    spec.path.clear();
    spec.command = "cat '" + dir.file("b") + "'";
    CHECK(read_all(spec).first_keys == counting(60000));
    spec.command = "head -n 7 '" + dir.file("a") + "'; printf '+1 7:1'";
    CHECK(read_all(spec).first_keys == counting(8));
  }
}

TEST_CASE("shuffling gives every sample once, in another order, within its memory") {
  const TemporaryDirectory dir;
  const std::size_t rows = 300000;
  write_plain(dir.file("a"), numbered(0, rows));
  SampleStreamSpec spec{.path = dir.file("a"), .threads = 2, .memory = 4 << 20};
  const Seen seen = read_all(spec);
  CHECK(sorted(seen.first_keys) == counting(rows));
  CHECK(seen.first_keys != counting(rows));
  CHECK(seen.counters.peak_memory <= spec.memory);
  CHECK(seen.counters.peak_memory > spec.memory / 4);
  spec.threads = 0;
  CHECK(read_all(spec, 77).first_keys == seen.first_keys);  // the same with other threads, other batches
  spec.epoch = 1;
  const Seen other = read_all(spec);
  CHECK(other.first_keys != seen.first_keys);
  CHECK(sorted(other.first_keys) == counting(rows));
  spec.memory = 64 << 20;  // all at once: places and numbers are independent
  const Seen whole = read_all(spec);
  double product = 0;
  for (std::size_t i = 0; i < rows; ++i)
    product +=
        (static_cast<double>(i) / rows - 0.5) * (static_cast<double>(whole.first_keys[i]) / rows - 0.5);
  CHECK(std::abs(product / rows * 12) < 0.01);
}

TEST_CASE("a shuffle buffer of so many rows moves no sample further ahead") {
  const TemporaryDirectory dir;
  const std::size_t rows = 50000;
  write_plain(dir.file("a"), numbered(0, rows));
  const Seen seen = read_all({.path = dir.file("a"), .shuffle_rows = 4000});
  CHECK(sorted(seen.first_keys) == counting(rows));
  std::size_t displaced = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    REQUIRE(seen.first_keys[i] < i + 4016);
    displaced += seen.first_keys[i] > i + 1000 || i > seen.first_keys[i] + 1000;
  }
  CHECK(displaced > rows / 4);
  // More rows than memory holds: as many as it does.
  const Seen most = read_all({.path = dir.file("a"), .memory = 1 << 20, .shuffle_rows = 1000000});
  CHECK(sorted(most.first_keys) == counting(rows));
  CHECK(most.counters.peak_memory <= 1 << 20);
}

TEST_CASE("a stream of the least memory holds it, whatever the lines are like") {
  const TemporaryDirectory dir;
  std::string bare, dense = "1";
  for (int i = 0; i < 400000; ++i) bare += i % 5 ? "0\n" : "\n";
  for (int i = 0; i < 900; ++i) dense += " 1:1";
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += dense + "\n";
  write_plain(dir.file("bare"), bare);
  write_plain(dir.file("wide"), wide);
  for (const char* name : {"bare", "wide"})
    for (const std::size_t threads : {0, 4}) {
      const Seen seen = read_all({.path = dir.file(name), .threads = threads, .memory = 1 << 20});
      CHECK(seen.counters.samples == (name[0] == 'b' ? 320000 : 2000));
      CHECK(seen.counters.peak_memory <= 1 << 20);
    }
  write_plain(dir.file("long"), dense + dense + "\n");
  CHECK(
      message_of([&] { read_all({.path = dir.file("long"), .memory = 1 << 20}); }) ==
      dir.file("long") +
          ":1:1: found a line of more than 4096 bytes, expected line breaks, or more memory for such lines");
  write_plain(dir.file("long"), std::string(600000, ' ') + "\n");
  CHECK(message_of([&] { read_all({.path = dir.file("long"), .memory = 1 << 30}); }) ==
        dir.file("long") +
            ":1:1: found a line of more than 524288 bytes, expected line breaks: none may be longer");
}

TEST_CASE("peers share a stream: disjoint, complete, nearly even, the same however they read it") {
  const TemporaryDirectory dir;
  std::string text = numbered(0, 20000);
  for (int i = 0; i < 5000; ++i) text += "0 3:1\n";  // equal content is told apart by position
  write_plain(dir.file("a"), text);
  const Seen all = read_all({.path = dir.file("a")});
  std::vector<std::uint64_t> positions;
  for (std::size_t peer = 0; peer < 3; ++peer) {
    SampleStreamSpec spec{.path = dir.file("a"), .peer = peer, .peers = 3};
    const Seen share = read_all(spec);
    spec.shuffle = false;
    spec.epoch = 5;
    CHECK(sorted(read_all(spec).positions) == sorted(share.positions));
    CHECK(share.positions.size() == Approx(25000 / 3.0).epsilon(0.03));
    positions.insert(positions.end(), share.positions.begin(), share.positions.end());
  }
  CHECK(sorted(positions) == sorted(all.positions));
}

TEST_CASE("samples of a peer that is not there go to the others, or to nobody, and none of theirs moves") {
  const TemporaryDirectory dir;
  write_plain(dir.file("a"), numbered(0, 20000));
  const std::vector<std::string> homes{"ada", "bob", "eve", "hal"}, names{"ada", "eve", "hal", "zoe"};
  for (const double alpha : {0.0, 0.5})
    for (const bool stays : {false, true}) {
      std::vector<std::uint64_t> positions, at_home;
      for (std::size_t peer = 0; peer < (stays ? 3 : 4); ++peer) {
        SampleStreamSpec spec{.path = dir.file("a"), .peer = peer, .peers = 4, .alpha = alpha};
        spec.homes = homes;
        spec.names = names;
        spec.stays = stays;
        const auto share = sorted(read_all(spec).positions);
        positions.insert(positions.end(), share.begin(), share.end());
        if (peer == 3) continue;
        spec.names = homes;
        spec.peer = peer == 0 ? 0 : peer + 1;
        const auto home = sorted(read_all(spec).positions);
        at_home.insert(at_home.end(), home.begin(), home.end());
        CHECK((!stays || share == home));
        if (alpha == 0 && !stays) {
          CHECK(share.size() == Approx(5000).epsilon(0.1));
          std::vector<std::uint64_t> kept;
          std::set_intersection(share.begin(), share.end(), home.begin(), home.end(),
                                std::back_inserter(kept));
          CHECK(kept.size() == Approx(4000).epsilon(0.1));
        }
      }
      positions = sorted(positions);
      CHECK(positions == (stays ? sorted(at_home) : sorted(read_all({.path = dir.file("a")}).positions)));
    }
}

TEST_CASE("a stream under way is shared anew from what it has not read") {
  const TemporaryDirectory dir;
  for (const std::size_t threads : {0, 2}) {
    const std::string path = dir.file("follow" + std::to_string(threads));
    write_plain(path, numbered(0, 500));
    SampleStreamSpec spec{.path = path, .follow = true, .patience_s = 0.05, .threads = threads};
    spec.peers = 2;
    spec.names = spec.homes = {"ada", "bob"};
    const auto stream = open_samples(spec);
    std::size_t got = 0;
    const auto read = [&] {
      SparseBatch batch;
      for (int quiet = 0; quiet<5; quiet = batch.size()> 0 ? 0 : quiet + 1) {
        REQUIRE(stream->next(64, false, batch));
        got += batch.size();
      }
    };
    read();
    CHECK(static_cast<double>(got) == Approx(250).margin(60));
    spec.names = {"ada"};
    spec.peers = 1;
    stream->share_anew(spec);
    std::ofstream(path, std::ios::app) << numbered(500, 300);
    const std::size_t before = got;
    read();
    CHECK(got == before + 300);
  }
}

TEST_CASE("a folder is read in the order of names; equal lines of its files are different samples") {
  const TemporaryDirectory dir;
  write_gz(dir.file("2.gz"), numbered(1000, 500));
  write_plain(dir.file("1"), numbered(0, 1000));
  write_plain(dir.file("3"), numbered(0, 1000));
  write_plain(dir.file(".hidden"), "nonsense\n");
  write_plain(dir.file("0"), "");
  const Seen seen = read_all({.path = dir.path(), .shuffle = false});
  std::vector<std::uint64_t> expected = counting(1500);
  for (std::uint64_t i = 0; i < 1000; ++i) expected.push_back(i);
  CHECK(seen.first_keys == expected);
  CHECK(std::set<std::uint64_t>(seen.positions.begin(), seen.positions.end()).size() == 2500);
}

TEST_CASE("a followed folder gives appended lines and new files, and never half a line") {
  const TemporaryDirectory dir;
  write_plain(dir.file("a"), numbered(0, 10));
  for (const std::size_t threads : {0, 2}) {
    const TemporaryDirectory folder;
    const auto append = [&](const char* name, const std::string& text) {
      std::ofstream(folder.file(name), std::ios::app | std::ios::binary) << text;
    };
    append("b", numbered(0, 100));
    const auto stream =
        open_samples({.path = folder.path(), .follow = true, .patience_s = 0.02, .threads = threads});
    std::vector<std::uint64_t> got;
    const auto read_until = [&](std::size_t count) {
      SparseBatch batch;
      for (int i = 0; i < 500 && got.size() < count; ++i) {
        REQUIRE(stream->next(64, false, batch));
        for (std::size_t b = 0; b < batch.size(); ++b)
          got.push_back(batch.keys()[batch.index()[batch.begins()[b]]]);
      }
      REQUIRE(got.size() == count);
    };
    read_until(100);
    append("b", numbered(100, 50) + "+1 150:1 3:");
    read_until(150);
    append("b", "0.5\n");
    read_until(151);
    append("a", numbered(151, 20));
    write_gz(dir.file("moved"), numbered(171, 9));
    std::filesystem::rename(dir.file("moved"), folder.file("c.gz"));
    read_until(180);
    CHECK(sorted(got) == counting(180));
    SparseBatch batch;
    CHECK(stream->next(64, false, batch));
    CHECK(batch.size() == 0);
    write_plain(folder.file("b"), "");
    CHECK(message_of([&] {
            for (int i = 0; i < 100; ++i) stream->next(64, false, batch);
          }).find("expected that files only grow") != std::string::npos);
  }
}

TEST_CASE("followed files may come bit by bit, be renamed, replaced and removed") {
  const TemporaryDirectory folder, other;
  const auto replace = [&](const char* name, const std::string& text) {
    write_plain(other.file("new"), text);
    std::filesystem::rename(other.file("new"), folder.file(name));
  };
  write_gz(other.file("whole"), numbered(0, 20000));
  std::ifstream in(other.file("whole"), std::ios::binary);
  const std::string packed(std::istreambuf_iterator<char>(in), {});
  write_plain(folder.file("a.gz"), packed.substr(0, packed.size() / 2));
  const auto stream = open_samples(
      {.path = folder.path(), .follow = true, .patience_s = 0.02, .threads = 0, .shuffle = false});
  std::vector<std::uint64_t> got;
  const auto read = [&] {
    SparseBatch batch;
    REQUIRE(stream->next(4096, false, batch));
    for (std::size_t b = 0; b < batch.size(); ++b)
      got.push_back(batch.keys()[batch.index()[batch.begins()[b]]]);
  };
  const auto read_until = [&](std::size_t count) {
    for (int i = 0; i < 500 && got.size() < count; ++i) read();
    REQUIRE(got.size() == count);
  };
  for (int i = 0; i < 5; ++i) read();  // what is whole of the half
  std::ofstream(folder.file("a.gz"), std::ios::app | std::ios::binary) << packed.substr(packed.size() / 2);
  read_until(20000);
  write_plain(folder.file("b"), numbered(20000, 50) + "+1 3:1");  // no whole line
  read_until(20050);
  std::filesystem::rename(folder.file("b"), folder.file("b.1"));
  replace("b", numbered(20050, 10));  // shorter
  read_until(20060);
  replace("b", numbered(20060, 90));  // longer
  read_until(20150);
  std::filesystem::remove(folder.file("b.1"));
  std::filesystem::remove(folder.file("a.gz"));
  write_plain(folder.file("c"), numbered(20150, 5));
  read_until(20155);
  CHECK(got == counting(20155));
}

TEST_CASE("lines are counted that may hold samples") {
  const TemporaryDirectory dir;
  write_plain(dir.file("a"), "1 2:1\n\n  \r\n# comment\n0 3:1\n \t# another\n\n0 4:1");
  CHECK(count_lines({.path = dir.file("a")}).lines == 3);
  CHECK(count_lines({.format = "vw", .path = dir.file("a")}).lines == 5);
}

TEST_CASE("files of a folder whose columns stand in another order are refused") {
  const TemporaryDirectory dir;
  write_plain(dir.file("a.csv"), "label,x,y\n1,0.5,3\n");
  write_plain(dir.file("b.csv"), "label,x,y\n1,0.25,3\n");
  const SampleStreamSpec spec{.format = "csv", .path = dir.path(), .threads = 0, .shuffle = false};
  CHECK(read_all(spec).positions.size() == 2);
  write_plain(dir.file("c.csv"), "0,0.25,3\n");
  CHECK(read_all(spec).positions.size() == 3);
  write_plain(dir.file("d.csv"), "label,y,x\n1,3,0.25\n");
  CHECK(message_of([&] { read_all(spec); }).find("d.csv:1: found the header") != std::string::npos);
}

TEST_CASE("an error of reading ends a stream whichever thread meets it") {
  for (const std::size_t threads : {2, 4, 8})
    for (int run = 0; run < 40; ++run) {
      const SampleStreamSpec spec{.command = "yes '1 2:1' | head -c 200000; exit 1",
                                  .threads = threads,
                                  .memory = 1 << 20,
                                  .shuffle = false};
      INFO(threads << " threads, run " << run);
      REQUIRE(message_of([&] { read_all(spec); }).find("exit status 1, expected 0") != std::string::npos);
    }
}

TEST_CASE("a command's exit status is an error at its end") {
  const auto error = [](const std::string& command, std::size_t threads = 1) {
    return message_of([&] { read_all({.command = command, .threads = threads}); });
  };
  for (const std::size_t threads : {0, 1}) {
    CHECK(error("echo '1 2:1'; exit 3", threads) ==
          "data.command \"echo '1 2:1'; exit 3\": ended with exit status 3, expected 0");
    CHECK(error("kill -9 $$", threads) ==
          "data.command \"kill -9 $$\": was ended by signal 9, expected exit status 0");
  }
  CHECK(
      error("/nonexistent/program 2>/dev/null").find("exit status 127, expected 0; the shell did not find") !=
      std::string::npos);
  CHECK(error("true").empty());
  const auto before = std::chrono::steady_clock::now();
  {
    const auto stream = open_samples({.command = "echo '1 2:1'; sleep 60"});
    const auto waiting = open_samples({.command = "sleep 60; echo"});
    const auto followed =
        open_samples({.command = "echo '1 2:1'; sleep 60", .follow = true, .patience_s = 0.2});
    SparseBatch batch;
    while (followed->next(10, false, batch) && batch.size() == 0) {
    }
    CHECK(batch.size() == 1);
  }
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(20));
}

TEST_CASE("what cannot be read is said") {
  const TemporaryDirectory dir;
  const auto error = [](const SampleStreamSpec& spec) { return message_of([&] { read_all(spec); }); };
  CHECK(error({.path = dir.file("none")}) ==
        dir.file("none") + ": cannot be opened: No such file or directory");
  CHECK(error({}) == "data: found neither a path nor a command, expected one of them");
  CHECK(error({.path = "a", .command = "b"}) ==
        "data: found both a path and a command, expected one of them");
  CHECK(offers([] { open_samples({.format = "libsvn", .path = "a"}); }, "libsvn", "libsvm"));
  write_gz(dir.file("z"), numbered(0, 10000));
  std::filesystem::resize_file(dir.file("z"), 1000);
  CHECK(error({.path = dir.file("z")}).find("truncated: the compressed data breaks off") !=
        std::string::npos);
  CHECK(error({.path = dir.file("z"), .memory = 1000}).find("data memory: found 1000") == 0);
  CHECK(error({.path = dir.file("z"), .peer = 2, .peers = 2}).find("data peer: found 2") == 0);
  write_plain(dir.file("bad"), "1 1:1\nx\n1 2:2\n1 3:x\n0 4:1\n");
  CHECK(error({.path = dir.file("bad"), .max_bad = 2}).empty());
  CHECK(error({.path = dir.file("bad"), .max_bad = 1}) ==
        "data: found 2 bad lines, expected at most 1 (max_bad); the first:\n  " + dir.file("bad") +
            ":2:1: found \"x\", expected a label: 1, 0 or -1\n  " + dir.file("bad") +
            ":4:5: found \"x\", expected a finite number");
  const Seen seen = read_all({.path = dir.file("bad"), .shuffle = false});
  CHECK(seen.first_keys == std::vector<std::uint64_t>{1, 2, 4});
  CHECK(seen.counters.bad_lines == 2);
  CHECK(seen.counters.bad.size() == 2);
}

}  // namespace gossamer::optim::test

// The codec commands: arrays there and back, payload files from strangers, speeds, advice.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "gossamer_test/catch.h"
#include "npy.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;
using Shape = std::vector<std::size_t>;
constexpr int kBadInput = 2;

Words codec(const Words& words) {
  Words all{"codec"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

json json_of(const Folder& folder, Words words) {
  words.push_back("--json");
  const auto ended = gossamer(folder, codec(words));
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return json::parse(ended.out);
}

void refuses(const Folder& folder, const Words& words, const Words& expected) {
  const auto ended = gossamer(folder, codec(words));
  INFO(ended.err);
  CHECK(ended.status == kBadInput);
  CHECK(ended.out.empty());
  for (const auto& e : expected) CHECK(says(ended.err, e));
}

std::vector<float> gaussian(std::size_t n) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

/// A folder with x.npy, 20 × 50 Gaussian entries.
struct Bench {
  Bench() { node::write_npy(folder.path("x.npy"), Shape{20, 50}, x); }
  const Folder folder;
  const std::vector<float> x = gaussian(1000);
};

double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], b = y[i];
    errors += (b - a) * (b - a);
    squares += a * a;
  }
  return std::sqrt(errors / squares);
}

/// The codecs that the program has.
Words all_codecs(const Folder& folder) {
  Words specs;
  for (const json& row : json_of(folder, {"list"})) specs.push_back(row["default"]);
  return specs;
}

TEST_CASE("every codec's payload decodes to what the round trip gave") {
  const Bench bench;
  for (const std::string& spec : all_codecs(bench.folder)) {
    INFO(spec);
    const json trip = json_of(bench.folder, {"roundtrip", "--codec", spec, "--in", "x.npy", "--out", "y.npy",
                                             "--payload", "p.bin", "--seed", "7"});
    const node::NpyArray y = node::read_npy(bench.folder.path("y.npy"));
    CHECK(y.shape == Shape{20, 50});
    CHECK(trip["codec"] == spec);
    CHECK(trip["entries"] == 1000);
    CHECK(trip["payload_bytes"] == read_text(bench.folder.path("p.bin")).size());
    CHECK(trip["bits_per_entry"].get<double>() == Approx(trip["payload_bytes"].get<double>() * 8 / 1000));
    CHECK(trip["relative_error"].get<double>() == Approx(relative_error(bench.x, y.values)));
    CHECK(trip["cosine"].get<double>() > 0);
    CHECK(trip["bias_z"].is_null());
    CHECK(trip["encode_gb_per_s"].get<double>() > 0);
    CHECK(trip["decode_gb_per_s"].get<double>() > 0);
    const json decoded = json_of(bench.folder, {"decode", "--payload", "p.bin", "--out", "z.npy"});
    CHECK(decoded["entries"] == 1000);
    CHECK(decoded["payload_bytes"] == trip["payload_bytes"]);
    const node::NpyArray z = node::read_npy(bench.folder.path("z.npy"));
    CHECK(z.shape == Shape{1000});
    CHECK(z.values == y.values);
  }
}

TEST_CASE("a round trip reports bias where the codec draws lots") {
  const Bench bench;
  const auto trip = [&](const std::string& spec, const std::string& repeats) {
    return json_of(bench.folder, {"roundtrip", "--codec", spec, "--in", "x.npy", "--repeat", repeats});
  };
  CHECK(std::fabs(trip("qsgd", "200")["bias_z"].get<double>()) < 5);
  CHECK(trip("onebit", "3")["bias_z"].is_null());
  CHECK(trip("dense", "3")["relative_error"] == 0);
  CHECK(trip("dense", "3")["cosine"].get<double>() == Approx(1));
  const auto seeded = [&](const std::string& seed) {
    const auto ended = gossamer(bench.folder, codec({"roundtrip", "--codec", "qsgd", "--in", "x.npy",
                                                     "--payload", seed + ".bin", "--seed", seed}));
    CHECK(ended.status == 0);
    CHECK(says(ended.out, "bits per entry"));
    return read_text(bench.folder.path(seed + ".bin"));
  };
  CHECK(seeded("1") != seeded("2"));
}

TEST_CASE("a round trip tells how many buckets kept to lambda, and how many were sent dense") {
  const Bench bench;
  const std::string spec = "onebit_scaled:lambda=0.8,bound_abs=";
  const auto shares = [&](const std::string& bound) {
    return json_of(bench.folder, {"roundtrip", "--codec", spec + bound, "--in", "x.npy"})["shares"];
  };
  CHECK(shares("1e9")["buckets at lambda"] == 1);
  CHECK(shares("1e-9")["buckets dense"] == 1);
  CHECK(shares("1e-9")["buckets at another"] == 0);
  const auto text = gossamer(bench.folder, codec({"roundtrip", "--codec", spec + "1e9", "--in", "x.npy"}));
  CHECK(says(text.out, "buckets at lambda   100 %"));
  CHECK_FALSE(json_of(bench.folder, {"roundtrip", "--codec", "onebit", "--in", "x.npy"}).contains("shares"));
}

TEST_CASE("arrays without entries and of zeros make the round trip") {
  const Folder folder;
  node::write_npy(folder.path("none.npy"), Shape{0, 4}, {});
  node::write_npy(folder.path("zeros.npy"), Shape{64}, std::vector<float>(64));
  for (const std::string& spec : all_codecs(folder)) {
    INFO(spec);
    const auto trip = [&](const std::string& file) {
      return json_of(folder, {"roundtrip", "--codec", spec, "--in", file, "--out", "y.npy", "--repeat", "2"});
    };
    CHECK(trip("none.npy")["bits_per_entry"].is_null());
    CHECK(node::read_npy(folder.path("y.npy")).shape == Shape{0, 4});
    const json zeros = trip("zeros.npy");
    if (!spec.starts_with("sign_vote")) CHECK(zeros["relative_error"] == 0);  // bare signs have no zero
    CHECK(zeros["cosine"].is_null());
  }
}

TEST_CASE("what cannot be encoded is refused") {
  const Bench bench;
  node::write_npy(bench.folder.path("nan.npy"), Shape{2},
                  std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()});
  bench.folder.write("text.npy", "1 2 3 4 5 6 7 8");
  const auto trip = [](const std::string& spec, const std::string& file) {
    return Words{"roundtrip", "--codec", spec, "--in", file};
  };
  refuses(bench.folder, trip("dense", "nan.npy"), {"nan.npy: cannot encode: entry 1 of 2"});
  refuses(bench.folder, trip("dense", "text.npy"), {"text.npy: no .npy file"});
  refuses(bench.folder, trip("dense", "no.npy"), {"no.npy: no such file"});
  refuses(bench.folder, trip("onebti", "x.npy"), {"did you mean 'onebit'?"});
  Words words = trip("dense", "x.npy");
  words.insert(words.end(), {"--out", "no/such/y.npy"});
  refuses(bench.folder, words, {"no/such/y.npy: cannot be written"});
  refuses(bench.folder, {"roundtrip", "--in", "x.npy"}, {"--codec is required", "codec roundtrip --help"});
}

/// A payload's magic, version, codec id and claim of entries.
std::string claim(int id, std::uint64_t entries) {
  std::string bytes{'g', '\1', static_cast<char>(id)};
  for (; entries >= 128; entries >>= 7) bytes += static_cast<char>(entries | 128);
  return bytes + static_cast<char>(entries);
}

TEST_CASE("payload files from strangers are refused at no cost") {
  const Bench bench;
  const auto decode = [&](const std::string& bytes, const Words& expected) {
    bench.folder.write("p.bin", bytes);
    refuses(bench.folder, {"decode", "--payload", "p.bin", "--out", "y.npy"}, expected);
  };
  decode("", {"p.bin: payload truncated"});
  decode("hello", {"p.bin: not a payload"});
  refuses(bench.folder, {"decode", "--payload", "p.bin", "--out", "./p.bin"},
          {"--out ./p.bin: is the payload"});
  decode("g\7", {"p.bin: payload version 7, expected 1"});
  decode(claim(255, 3), {"p.bin: payload of unknown codec id 255"});
  for (int id = 1; id <= 6; ++id) {
    // Memory is no matter: 8 GiB that are never touched, and a claim that is refused before.
    decode(claim(id, std::uint64_t{1} << 31), {"p.bin: payload"});
    decode(claim(id, std::uint64_t{1} << 40),
           {"p.bin: claims 1099511627776 entries in 9 bytes", "at most 2147483648", "--max-entries"});
  }
  const Words trip{"roundtrip", "--codec", "topk", "--in", "x.npy", "--payload", "good.bin", "--json"};
  CHECK(gossamer(bench.folder, codec(trip)).status == 0);
  const std::string good = read_text(bench.folder.path("good.bin"));
  decode(good.substr(0, good.size() - 1), {"p.bin: payload"});
  decode(good + "x", {"p.bin: payload"});
  refuses(bench.folder, {"decode", "--payload", "good.bin", "--out", "y.npy", "--max-entries", "999"},
          {"claims 1000 entries", "at most 999"});
  refuses(bench.folder, {"decode", "--payload", "good.bin", "--out", "y.npy", "--max-entries", "all"},
          {"--max-entries all: expected a whole number"});
  CHECK(!std::filesystem::exists(bench.folder.path("y.npy")));
}

TEST_CASE("the list names every parameter of each codec on a line that fits a screen") {
  const Folder folder;
  const auto ended = gossamer(folder, codec({"list"}));
  REQUIRE(ended.status == 0);
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() < 120);
  for (const json& row : json_of(folder, {"list"})) {
    const std::string spec = row["default"];  // name:key=value,key=value
    std::istringstream keys(spec.substr(std::min(spec.size(), spec.find(':') + 1)));
    CHECK(says("\n" + ended.out, "\n" + row["name"].get<std::string>() + " "));
    if (spec.find(':') == std::string::npos) continue;
    for (std::string key; std::getline(keys, key, ',');) CHECK(says(ended.out, "  " + key));
  }
}

TEST_CASE("bench measures every codec beside the memory of the machine") {
  const Folder folder;
  const json out = json_of(folder, {"bench", "--size", "1Ki,4000"});
  REQUIRE(out["sizes"].size() == 2);
  const json list = json_of(folder, {"list"});
  for (const json& table : out["sizes"]) {
    for (const json& limit : table["memory_gb_per_s"]) CHECK(limit.get<double>() > 0);
    REQUIRE(table["codecs"].size() == list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const json& row = table["codecs"][i];
      INFO(row.dump(2));
      CHECK(row["codec"] == list[i]["default"]);
      for (const char* what : {"encode", "encode_feedback", "decode", "decode_add"}) {
        if (what == std::string("encode_feedback") && !list[i]["contractive"].get<bool>()) continue;
        CHECK(row[what]["gb_per_s"].get<double>() > 0);
        CHECK(row[what]["percent_of_floor"].get<double>() ==
              Approx(100 * row[what]["gb_per_s"].get<double>() / row[what]["floor_gb_per_s"].get<double>()));
      }
    }
  }
  CHECK(out["sizes"][0]["entries"] == 1024);
  CHECK(out["sizes"][1]["entries"] == 4000);
}

TEST_CASE("bench shows a table and its progress") {
  const Folder folder;
  const auto ended = gossamer(folder, codec({"bench", "--size", "2Ki", "--threads", "2", "--codec", "onebit",
                                             "--codec", "qsgd:bits=2,norm=l2"}));
  CHECK(ended.status == 0);
  for (const char* words : {"2048 entries", "this machine's memory", "WITH FEEDBACK", "onebit:bucket=512",
                            "2 threads", "%)", "(x"})
    CHECK(says(ended.out, words));
  CHECK(!says(ended.out, "\ndense"));
  CHECK(!says(ended.out, "topk"));
  CHECK(says(ended.err, "2048 entries: qsgd:bits=2"));
  const json l2 = json_of(folder, {"bench", "--size", "1k", "--codec", "qsgd:bits=2,norm=l2"});
  CHECK(l2["sizes"][0]["codecs"][0]["encode_feedback"]["gb_per_s"].is_null());  // not contractive
}

TEST_CASE("bench compares with more threads and lesser instructions") {
  const Folder folder;
  const json sets = json_of(folder, {"bench", "--size", "1Ki", "--codec", "dense"})["instruction_sets"];
  const std::string least = sets.back();
  const json out = json_of(folder, {"bench", "--size", "1Ki", "--codec", "topk", "--threads", "2", "--isa",
                                    sets.front(), "--isa", least});
  const json& row = out["sizes"][0]["codecs"][0];
  REQUIRE(row["others"].size() == 2);
  CHECK(row["others"][0]["threads"] == 2);
  CHECK(row["others"][1]["instruction_set"] == least);
  for (const json& other : row["others"])
    CHECK(other["encode"]["ratio_to_first"].get<double>() ==
          Approx(other["encode"]["gb_per_s"].get<double>() / row["encode"]["gb_per_s"].get<double>()));
}

TEST_CASE("advice follows the bandwidth") {
  const Folder folder;
  const json slow = json_of(folder, {"recommend", "--bandwidth", "1mbit", "--size", "20k"});
  CHECK(slow["entries"] == 20000);
  CHECK(slow["dense_seconds"].get<double>() == Approx(0.64));
  CHECK(slow["best"] != "dense");
  CHECK(slow["best"] == slow["codecs"][0]["codec"]);
  double last = 0;
  for (const json& row : slow["codecs"]) {
    const auto seconds = row["seconds"].get<double>();
    CHECK(seconds >= last);
    last = seconds;
    CHECK(seconds == Approx(row["encode_seconds"].get<double>() + row["transfer_seconds"].get<double>() +
                            row["decode_seconds"].get<double>()));
    CHECK(row["transfer_seconds"].get<double>() == Approx(row["bits_per_entry"].get<double>() * 0.02));
    CHECK(row["faster_than_dense"] == (row["pays_below_bit_per_s"].get<double>() > 1e6));
  }
  const json fast = json_of(folder, {"recommend", "--bandwidth", "900tbit", "--size", "20k"});
  CHECK(fast["best"] == "dense");
  const auto text = gossamer(folder, codec({"recommend", "--bandwidth", "1mbit", "--size", "4Ki", "--codec",
                                            "onebit", "--codec", "dense"}));
  CHECK(text.status == 0);
  for (const char* words : {"PAYS BELOW", "Best: onebit", "times as fast as dense", "Laplacian"})
    CHECK(says(text.out, words));
  const auto dense = gossamer(folder, codec({"recommend", "--bandwidth", "900tbit", "--size", "4Ki"}));
  CHECK(says(dense.out, "Best: dense. At 900tbit"));
}

TEST_CASE("wrong words to the codec commands are refused") {
  const Folder folder;
  refuses(folder, {"bench", "--size", "64KiB"}, {"--size 64KiB: expected a whole number of entries"});
  refuses(folder, {"bench", "--size", "1Ki,"}, {"--size : expected"});
  refuses(folder, {"bench", "--size", "2", "--threads", "4"}, {"--size 2: fewer entries than --threads 4"});
  refuses(folder, {"bench", "--threads", "0"}, {"--threads"});
  refuses(folder, {"bench", "--isa", "avx9"}, {"--isa avx9: the kernels have"});
  refuses(folder, {"bench", "--codec", "qsgd:bits=5"}, {"qsgd:bits=5"});
  refuses(folder, {"bench", "--sizes", "1Ki"}, {"did you mean '--size'?"});
  refuses(folder, {"recommend", "--bandwidth", "fast", "--size", "1k"},
          {"--bandwidth fast: expected a bandwidth such as 100mbit"});
  refuses(folder, {"recommend", "--bandwidth", "0mbit", "--size", "1k"}, {"--bandwidth 0mbit"});
  refuses(folder, {"recommend", "--bandwidth", "1mbit", "--size", "0"}, {"--size 0: expected"});
  refuses(folder, {"recommend", "--bandwidth", "1mbit"}, {"--size is required"});
  refuses(folder, {"benhc"}, {"unknown command 'benhc'", "did you mean 'bench'?"});
}

TEST_CASE("the codec commands have help") {
  const Folder folder;
  const auto mentions = [&](const Words& words, const Words& expected) {
    const auto ended = gossamer(folder, codec(words));
    CHECK(ended.status == 0);
    for (const auto& e : expected) CHECK(says(ended.out, e));
  };
  mentions({"--help"}, {"list", "roundtrip", "decode", "bench", "recommend"});
  mentions({"roundtrip", "--help"}, {"--codec", "--in", "--out", "--payload", "--repeat", "bias z"});
  mentions({"decode", "--help"}, {"--payload", "--out", "--max-entries"});
  mentions({"bench", "--help"}, {"--codec", "--size", "--threads", "--isa", "--json"});
  mentions({"recommend", "--help"}, {"--bandwidth", "--size", "pays below"});
}

}  // namespace
}  // namespace gossamer::test

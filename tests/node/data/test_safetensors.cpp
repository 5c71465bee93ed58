// Models as safetensors files: written, read, and refused where they are damaged.
#include <gossamer_test/catch.h>

#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>

#include "config_files.h"
#include "gossamer/node/job.h"
#include "gossamer/node/safetensors.h"

using namespace gossamer;
using gossamer::test::Folder;
using gossamer::test::says;

namespace {

/// Two layers with padding between: a [2,3] and b [3] at 0, c [1] at 16.
std::vector<optim::Layer> layers() {
  return {{"one", 0, 9, {{"a", {2, 3}, 0}, {"b", {3}, 6}}}, {"two", 16, 1, {{"c", {1}, 16}}}};
}

std::vector<float> values() {
  std::vector<float> x(32, 7.0f);  // the padding of what is written is not 0 either
  for (std::size_t i = 0; i < 9; ++i) x[i] = static_cast<float>(i) / 3.0f;
  x[8] = std::numeric_limits<float>::denorm_min();
  x[16] = -0.0f;
  return x;
}

std::string file_of(std::string header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

/// A header for the layers above with one part replaced.
std::string header(const std::string& from = "", const std::string& to = "") {
  std::string text = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                     R"("b":{"dtype":"F32","shape":[3],"data_offsets":[24,36]},)"
                     R"("c":{"dtype":"F32","shape":[1],"data_offsets":[36,40]}})";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string message_of(const std::string& path) {
  std::vector<float> x(32);
  try {
    node::read_safetensors(path, layers(), x);
  } catch (const node::ConfigError& error) {
    return error.what();
  }
  return "nothing was wrong";
}

std::string float_bytes(const std::vector<float>& x) {
  std::string bytes(4 * x.size(), '\0');
  std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("a model written reads back to the bit with its padding zero") {
  const Folder folder;
  const std::string path = folder.path("model.safetensors");
  node::write_safetensors(path, layers(), values(), {{"round", "12"}, {"text", "a \"b\" \\ c"}});
  std::vector<float> x(32, 99.0f), expected(32, 0.0f);
  node::read_safetensors(path, layers(), x);
  const std::vector<float> source = values();
  for (const std::size_t i : {0, 1, 2, 3, 4, 5, 6, 7, 8, 16}) expected[i] = source[i];
  CHECK(float_bytes(x) == float_bytes(expected));
}

TEST_CASE("a written file has the public layout") {
  const Folder folder;
  const std::string path = folder.path("model.safetensors");
  node::write_safetensors(path, layers(), values(), {});
  const std::string bytes = contents(path);
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), 8);
  CHECK(size % 8 == 0);
  CHECK(bytes.size() == 8 + size + 40);
  const std::string expected = header();
  CHECK(bytes.substr(8, expected.size()) == expected);
  CHECK(bytes.substr(8 + expected.size(), size - expected.size()).find_first_not_of(' ') ==
        std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path("")), {}) == 1);
}

TEST_CASE("a file made by hand is read whatever the order of its tensors") {
  const Folder folder;
  const std::string text =
      R"({"c":{"shape":[1],"data_offsets":[0,4],"dtype":"F32"},"__metadata__":{"by":"hand"},)"
      R"("b":{"dtype":"F32","shape":[3],"data_offsets":[28,40]},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]}}  )";
  const std::string path = folder.write("m", file_of(text, float_bytes({9, 1, 2, 3, 4, 5, 6, -1, -2, -3})));
  std::vector<float> x(32);
  node::read_safetensors(path, layers(), x);
  CHECK(std::vector<float>(x.begin(), x.begin() + 9) == std::vector<float>{1, 2, 3, 4, 5, 6, -1, -2, -3});
  CHECK(x[16] == 9.0f);
}

TEST_CASE("damaged models are refused with the reason") {
  struct Damage {
    std::string file, expected;
  };
  const std::string data(40, '\0');
  const std::string whole = file_of(header(), data);
  std::string huge = whole, long_header = whole;
  huge[7] = '\x7f';
  long_header[1] = '\x10';
  const Damage damages[] = {
      {"", "0 bytes; expected a header"},
      {"1234567", "7 bytes; expected a header"},
      {huge, "its header claims"},
      {long_header, "truncated: its header claims"},
      {whole.substr(0, whole.size() - 1), "truncated: 39 bytes of data; its header speaks of 40"},
      {whole + "x", "damaged: 41 bytes of data; its header speaks of 40"},
      {file_of("[1, 2]", data), "its header is no JSON object"},
      {file_of("{\"a\":", data), "its header is no JSON"},
      {file_of("{\"a\":\"\xff\"}", data), "its header is no JSON"},
      {file_of(header("\"c\"", "\"a\""), data), "tensor 'a' stands twice"},
      {file_of(header("\"c\"", "\"d\""), data), "has no tensor 'c'; expected it with shape [1]"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", data.substr(0, 24)),
       "has no tensor 'b'"},
      {file_of(header("}}", R"(},"z":{"dtype":"F32","shape":[],"data_offsets":[40,44]}})"), data + "1234"),
       "holds a tensor 'z' that the model does not have; expected a, b, c"},
      {file_of(header("F32", "F64"), data), "tensor 'a' is of type F64; expected F32"},
      {file_of(header("[2,3]", "[3,2]"), data), "tensor 'a' has shape [3, 2]; expected [2, 3]"},
      {file_of(header("[24,36]", "[20,36]"), data),
       "tensor 'b' stands at bytes 20 to 36 of the data; expected it to start at 24"},
      {file_of(header("[24,36]", "[28,36]"), data), "expected it to start at 24"},
      {file_of(header("[24,36]", "[24,20]"), data), "expected it to start at"},
      {file_of(header("[24,36]", "[24,32]").replace(header().find("[36,40]"), 7, "[32,40]"), data),
       "tensor 'b' has 8 bytes; expected 12 for shape [3]"},
      {file_of(header("[24,36]", "[24]"), data), "tensor 'b' lacks two data_offsets"},
      {file_of(header("[24,36]", "[24,-36]"), data), "tensor 'b' holds -36 for a size"},
      {file_of(header("[24,36]", "[24,36.5]"), data), "tensor 'b' holds 36.5 for a size"},
      {file_of(header("\"shape\":[3]", "\"shape\":3"), data), "tensor 'b' lacks shape"},
      {file_of(header("\"dtype\":\"F32\",", ""), data), "tensor 'a' lacks dtype"},
      {file_of("{\"a\":7}", ""), "tensor 'a' lacks dtype"},
      {file_of("{\"a\":{\"x\":{\"y\":{\"z\":{}}}}}", ""), "nests too deeply"},
      {file_of("{}", ""), "has no tensor 'a'"},
  };
  const Folder folder;
  for (const Damage& damage : damages) {
    INFO(damage.expected);
    CHECK(says(message_of(folder.write("m", damage.file)), damage.expected));
  }
  CHECK(says(message_of(folder.path("none")), "no such file"));
  CHECK(says(message_of(folder.path("")), "no regular file"));
}

TEST_CASE("a model that cannot be written says so and leaves the old one") {
  const Folder folder;
  CHECK_THROWS_AS(node::write_safetensors(folder.path("no/such/m"), layers(), values(), {}),
                  std::runtime_error);
  std::filesystem::create_directory(folder.path("taken"));
  folder.write("taken/file", "x");
  CHECK_THROWS_AS(node::write_safetensors(folder.path("taken"), layers(), values(), {}), std::runtime_error);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path("")), {}) == 1);
}

TEST_CASE("a model goes where a symbolic link leads, and in place of nothing but files") {
  namespace fs = std::filesystem;
  const Folder folder;
  folder.write("real", "old");
  fs::create_symlink("real", folder.path("near"));
  fs::create_symlink(folder.path("near"), folder.path("link"));
  node::check_replaceable(folder.path("link"));
  CHECK(fs::file_size(folder.path("real")) == 3);
  node::write_safetensors(folder.path("link"), layers(), values(), {});
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(fs::is_symlink(folder.path("near")));
  CHECK(fs::file_size(folder.path("real")) > 3);
  const auto refused = [&](const char* name, const std::string& words) {
    CHECK_THROWS_WITH(node::check_replaceable(folder.path(name)), ContainsSubstring(words));
    CHECK_THROWS_WITH(node::write_safetensors(folder.path(name), layers(), values(), {}),
                      ContainsSubstring(words));
  };
  REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  fs::create_symlink("/dev/null", folder.path("device"));
  fs::create_symlink("round", folder.path("round"));
  fs::create_symlink("later", folder.path("before"));
  refused("pipe", "pipe: is no regular file");
  refused("device", "device: is no regular file");
  refused("round", "round: is a symbolic link that leads to itself");
  node::write_safetensors(folder.path("before"), layers(), values(), {});
  CHECK(fs::is_regular_file(folder.path("later")));
  CHECK(fs::is_symlink(folder.path("before")));
  CHECK(fs::is_fifo(folder.path("pipe")));
  CHECK(fs::is_character_file(folder.path("device")));
}

TEST_CASE("a model of 40 000 tensors is written, read and refused in little time") {
  std::vector<optim::Layer> many{{"all", 0, 40'000, {}}};
  for (std::size_t i = 0; i < 40'000; ++i) many[0].tensors.push_back({"tensor" + std::to_string(i), {1}, i});
  std::vector<float> x(40'000), y(40'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Folder folder;
  const std::string path = folder.path("m");
  node::write_safetensors(path, many, x, {{"round", "1"}});
  node::read_safetensors(path, many, y);
  CHECK(y == x);
  many[0].tensors.back().name = "another";
  CHECK_THROWS_WITH(node::read_safetensors(path, many, y), ContainsSubstring("has no tensor 'another'"));
  many[0].tensors.pop_back();
  try {
    node::read_safetensors(path, many, y);
    FAIL("a tensor too many");
  } catch (const node::ConfigError& error) {
    CHECK(
        says(error.what(), "holds a tensor 'tensor39999' that the model does not have; expected tensor0, "));
    CHECK(std::string(error.what()).size() < 1000);
  }
}

TEST_CASE("a model with an entry that is not finite is refused with its file and tensor") {
  std::vector<float> x = values();
  x[31] = std::numeric_limits<float>::quiet_NaN();  // padding
  CHECK_NOTHROW(node::check_finite("m.safetensors", layers(), x));
  const auto refused = [&](std::size_t at, float value, const std::string& words) {
    std::vector<float> wrong = x;
    wrong[at] = value;
    try {
      node::check_finite("m.safetensors", layers(), wrong);
      FAIL("nothing was wrong");
    } catch (const node::ConfigError& error) {
      INFO(error.what());
      CHECK(says(error.what(), words));
    }
  };
  refused(7, std::numeric_limits<float>::quiet_NaN(),
          "m.safetensors: tensor 'b' holds nan at entry 1; expected finite numbers");
  refused(16, -std::numeric_limits<float>::infinity(), "tensor 'c' holds -inf at entry 0");
}

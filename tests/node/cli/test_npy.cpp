// Arrays as .npy files: written, read, and refused where they are not what they say.
#include "npy.h"

#include <gossamer_test/catch.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "config_files.h"
#include "gossamer/node/job.h"
#include "text.h"

using namespace gossamer;
using gossamer::test::Folder;
using gossamer::test::says;

namespace {

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
  std::string bytes(values.size() * sizeof(Value), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A .npy file by hand.
std::string file_of(const std::string& header, const std::string& data, int version = 1) {
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + std::string(1, '\0');
  const std::size_t size_bytes = version == 1 ? 2 : 4;
  for (std::size_t i = 0; i < size_bytes; ++i) file += static_cast<char>(header.size() >> (8 * i) & 255);
  return file + header + data;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string message_of(const std::string& path) {
  try {
    (void)node::read_npy(path);
  } catch (const node::ConfigError& error) {
    return error.what();
  }
  return "nothing was wrong";
}

using Shape = std::vector<std::size_t>;

}  // namespace

TEST_CASE("an array written reads back to the bit in its shape") {
  const Folder folder;
  const std::string path = folder.path("x.npy");
  const std::vector<float> six{1, -0.0f, 3e38f, std::numeric_limits<float>::denorm_min(), -5, 6};
  for (const Shape& shape : {Shape{6}, Shape{2, 3}, Shape{1, 6, 1}}) {
    node::write_npy(path, shape, six);
    const node::NpyArray array = node::read_npy(path);
    CHECK(array.shape == shape);
    CHECK(bytes_of(array.values) == bytes_of(six));
  }
  node::write_npy(path, Shape{}, std::vector<float>{7});
  CHECK(node::read_npy(path).shape.empty());
  CHECK(node::read_npy(path).values == std::vector<float>{7});
  node::write_npy(path, Shape{3, 0}, {});
  CHECK(node::read_npy(path).shape == Shape{3, 0});
  CHECK(node::read_npy(path).values.empty());
}

TEST_CASE("a written array has the layout of numpy") {
  const Folder folder;
  node::write_npy(folder.path("x.npy"), Shape{2, 3}, std::vector<float>(6, 1.5f));
  std::ifstream file(folder.path("x.npy"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  REQUIRE(bytes.size() == 128 + 24);
  CHECK(bytes.substr(0, 10) == std::string("\x93NUMPY\1\0\x76\0", 10));
  CHECK(bytes.substr(10, text.size()) == text);
  CHECK(bytes.substr(10 + text.size(), 117 - text.size()) == std::string(117 - text.size(), ' '));
  CHECK(bytes[127] == '\n');
}

TEST_CASE("arrays made elsewhere are read") {
  const Folder folder;
  const std::vector<double> doubles{0.1, -2.5, std::numeric_limits<double>::infinity()};
  const auto read = [&](const std::string& file) { return node::read_npy(folder.write("x", file)); };
  const auto narrowed = read(file_of(header("<f8", "(3,)"), bytes_of(doubles)));
  CHECK(narrowed.values == std::vector<float>{0.1f, -2.5f, std::numeric_limits<float>::infinity()});
  const std::vector<float> floats{1, 2, 3, 4};
  const std::string data = bytes_of(floats);
  CHECK(read(file_of(header("<f4", "(2, 2)"), data, 2)).shape == Shape{2, 2});
  CHECK(read(file_of(header("<f4", "(4,)", "True"), data)).values == floats);  // the same in either order
  CHECK(read(file_of("{\"shape\":(2,2),\"fortran_order\":False,\"descr\":\"<f4\"}", data)).values == floats);
}

TEST_CASE("a file that is no such array says what it is") {
  struct Damage {
    std::string file, expected;
  };
  const std::string data(24, '\0');
  const std::vector<Damage> damages{
      {"", "no .npy file: it has 0 bytes"},
      {"PK\x03\x04 archive of arrays", "no .npy file: it starts with \"PK\\u0003\\u0004 a\""},
      {file_of(header("<f4", "(6,)"), data, 3), "is .npy version 3.0; expected 1.0 or 2.0"},
      {file_of("", "", 2).substr(0, 10), "truncated: it ends before the size of its header"},
      {file_of(header("<f4", "(6,)"), "").substr(0, 40), "its header should have 58 bytes; there are 30"},
      {std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12) + data,
       "its header should have 4294967295 bytes; there are 24"},
      {file_of(header(">f4", "(6,)"), data), "holds entries of type \">f4\"; expected \"<f4\" or \"<f8\""},
      {file_of(header("|O", "(6,)"), data), "holds entries of type \"|O\""},
      {file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", data),
       "has \"[('a', '<f4')], 'for\" at byte 10; expected a plain type"},
      {file_of(header("<f4", "(2, 3)", "True"), data), "is in Fortran order; expected C order"},
      {file_of(header("<f4", "(2, 3)", "Maybe"), data), "expected True or False"},
      {file_of(header("<f4", "(-6,)"), data), "expected an extent of the shape"},
      {file_of(header("<f4", "6"), data), "expected '('"},
      {file_of(header("<f4", "(99999999999999999999,)"), data), "expected an extent of the shape"},
      {file_of(header("<f4", "(7,)"), data), "truncated: 24 bytes of data; shape (7,) of <f4 takes 28"},
      {file_of(header("<f8", "(2, 3)"), data), "truncated: 24 bytes of data; shape (2, 3) of <f8 takes 48"},
      {file_of(header("<f4", "(5,)"), data), "damaged: 24 bytes of data; shape (5,) of <f4 takes 20"},
      {file_of(header("<f4", "(0, 9)"), data), "damaged: 24 bytes of data"},
      {file_of(header("<f4", "(4294967296, 4294967296, 6)"), data), "is more than a file can hold"},
      {file_of("[]", data), "has \"[]\" at byte 0; expected '{'"},
      {file_of("{'descr", data), "expected a string that ends"},
      {file_of("{'descr': '<f4'", data), "has nothing at byte 15; expected '}'"},
      {file_of("{'descr': '<f4', 'descr': '<f4'}", data), "has the key 'descr' twice"},
      {file_of("{'order': '<f4'}", data), "has a key 'order'; expected descr, fortran_order, shape"},
      {file_of("{}", data), "lacks descr"},
      {file_of("{'descr': '<f4', 'shape': (6,)}", data), "lacks fortran_order"},
      {file_of("{'descr': '<f4', 'fortran_order': False}", data), "lacks shape"},
      {file_of(header("<f4", "(6,)") + "x", data), "expected the end of the header"},
      {file_of(header("<f8", "(2,)"), bytes_of(std::vector<double>{1, -1e300})), "entry 1 is -1e+300"},
  };
  const Folder folder;
  for (const Damage& damage : damages) {
    INFO(damage.expected);
    CHECK(says(message_of(folder.write("x", damage.file)), damage.expected));
  }
  CHECK(says(message_of(folder.path("none")), "none: no such file"));
  CHECK(says(message_of(folder.path("")), "no regular file"));
  CHECK_THROWS_AS(node::write_npy(folder.path("no/such/x"), Shape{}, std::vector<float>{1}),
                  node::ConfigError);
}

TEST_CASE("counts are read with decimal and binary units") {
  using node::parse_count;
  CHECK(parse_count("1000") == 1000u);
  CHECK(parse_count("64Ki") == 65536u);
  CHECK(parse_count("1.5Mi") == 1572864u);
  CHECK(parse_count("25M") == 25'000'000u);
  CHECK(parse_count("2Gi") == 2147483648u);
  for (const char* wrong : {"", "0", "-3", "1.5", "64KiB", "many", "1e30", "nan"})
    CHECK(parse_count(wrong) == std::nullopt);
}

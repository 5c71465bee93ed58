// libFuzzer target: reads frames and certificates as peers send them. Whatever the bytes are, nothing comes
// of them, or what is written again as what reads the same.
#include <cstring>
#include <vector>

#include "certificate.h"
#include "frame.h"
#include "require.h"

using namespace gossamer::node;

namespace {

void write_again(const Frame& frame) {
  const FrameBytes written = encode_frame(frame, true);
  const auto again = decode_frame(*written, written.beside);
  require(again.has_value(), "a frame that was read cannot be read again");
  const FrameBytes twice = encode_frame(*again, true);
  require(twice == written && twice.beside == written.beside,
          "a frame is read otherwise than it was written");
}

void read_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return;
  std::vector<std::uint64_t> aligned(bytes.size() / sizeof(std::uint64_t));
  const std::span whole(reinterpret_cast<std::byte*>(aligned.data()), aligned.size() * sizeof(std::uint64_t));
  std::memcpy(whole.data(), bytes.data(), whole.size());
  if (const auto frame = decode_frame(whole, false)) write_again(*frame);  // a right checksum no fuzzer finds
  const Payload beside = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  if (const auto frame = decode_frame(whole, beside, false)) write_again(*frame);
}

void read_certificate(std::span<const std::byte> bytes) {
  const auto certificate = decode_certificate(bytes);
  if (!certificate) return;
  require(bytes.size() <= Certificate::kMostBytes, "a certificate is too long");
  const auto written = encode_certificate(*certificate);
  require(std::equal(written.begin(), written.end(), bytes.begin(), bytes.end()),
          "a certificate is written otherwise than it was read");
  require(certificate_of(text_of(*certificate)) == certificate, "a certificate's text is another one's");
  require(!is_signed_by(*certificate, PublicKey{}), "a certificate is signed by nobody");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  read_frame(bytes);
  read_certificate(bytes);
  return 0;
}

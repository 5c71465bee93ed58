// The table of device codecs, and what each call of theirs starts with.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "host_codec.h"

namespace gossamer::compress::cuda {
namespace {

struct Row {
  std::string_view name;
  DeviceFactory factory;
};

constexpr std::array kRows = {
    Row{"dense", make_device_dense},
    Row{"fp16", make_device_fp16},
    Row{"bf16", make_device_bf16},
    Row{"sign_vote", make_device_sign_vote},
    Row{"onebit", make_device_onebit},
    Row{"onebit_two", make_device_onebit_two},
    Row{"onebit_scaled", make_device_onebit_scaled},
    Row{"qsgd", make_device_qsgd},
    Row{"intq", make_device_intq},
    Row{"terngrad", make_device_terngrad},
    Row{"topk", make_device_topk},
    Row{"threshold", make_device_threshold},
    Row{"randk", make_device_randk},
};

__global__ void begin_encode_kernel(Front front, unsigned long long bytes, std::byte* out,
                                    DeviceResult* result, std::uint32_t* zero) {
  if (threadIdx.x == 0) *result = {bytes, ~0ull, DeviceError::none};
  if (threadIdx.x == 0 && zero != nullptr) *zero = 0;
  for (unsigned i = threadIdx.x; i < front.size; i += blockDim.x)
    out[i] = static_cast<std::byte>(front.bytes[i]);
}

__global__ void begin_decode_kernel(Front front, DeviceError sizes, const std::byte* payload,
                                    DeviceResult* result) {
  DeviceError error = sizes;
  for (unsigned i = 0; error == DeviceError::none && i < front.size; ++i) {
    if (payload[i] != static_cast<std::byte>(front.bytes[i])) error = DeviceError::front;
  }
  if (threadIdx.x == 0) *result = {0, ~0ull, error};
}

void start_begin_decode(const Front& front, bool right_size, const DecodeCall& call) {
  launch(begin_decode_kernel, 1, kWarp, call.stream, front,
         right_size ? DeviceError::none : DeviceError::size, call.payload_dev, call.result_dev);
}

}  // namespace

void begin_encode(const Front& front, std::size_t bytes, const EncodeCall& call, std::uint32_t* zero_dev) {
  launch(begin_encode_kernel, 1, kWarp, call.stream, front, bytes, call.out_dev, call.result_dev, zero_dev);
}

void begin_decode(const Front& front, std::size_t expected, const DecodeCall& call) {
  start_begin_decode(front, call.bytes == expected, call);
}

void begin_decode_at_least(const Front& front, std::size_t least, const DecodeCall& call) {
  start_begin_decode(front, call.bytes >= least, call);
}

void refuse_decode(const DecodeCall& call) { start_begin_decode({}, false, call); }

void require_started(const char* doing) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + doing + " failed: " + cudaGetErrorString(error));
}

void require_device_form(const Codec& host, Parameters& parameters, std::string_view key,
                         std::initializer_list<std::string_view> known) {
  const std::string_view found = parameters.text(key);
  if (found.empty() || std::find(known.begin(), known.end(), found) != known.end()) return;
  std::string all;
  for (const std::string_view one : known) all += (all.empty() ? "" : " or ") + std::string(one);
  throw CodecError("codec spec \"" + host.spec() + "\": " + std::string(key) + "=" + std::string(found) +
                   " runs on the host only; a device takes " + std::string(key) + "=" + all);
}

std::unique_ptr<const DeviceCodec> make_device_codec(std::string_view spec) {
  auto host = make_codec(spec);
  const std::string canonical = host->spec();
  for (const Row& row : kRows) {
    if (host->name() != row.name) continue;
    const std::string_view text = std::string_view(canonical).substr(row.name.size());
    Parameters parameters(canonical, text.empty() ? text : text.substr(1));
    return row.factory(std::move(host), parameters);
  }
  throw CodecError("codec spec \"" + std::string(spec) + "\": " + std::string(host->name()) +
                   " runs on the host only; encode it there");
}

}  // namespace gossamer::compress::cuda

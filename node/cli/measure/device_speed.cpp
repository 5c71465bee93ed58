#include "device_speed.h"

#include <charconv>
#include <limits>
#include <stdexcept>
#include <vector>

#include "gossamer/compress/device.h"
#include "gossamer/compress/device_vectors.h"
#include "gossamer/compress/kernels.h"

namespace gossamer::node {

namespace cuda = compress::cuda;

namespace {

/// Submitted at once and waited for together: what starting costs is the host's, and overlaps.
constexpr std::size_t kAtOnce = 8;

template <class Submit>
double seconds_of(const cuda::Stream& stream, const Submit& submit) {
  return median_seconds(1,
                        [&](std::size_t) {
                          for (std::size_t k = 0; k < kAtOnce; ++k) submit();
                          stream.wait();
                        }) /
         static_cast<double>(kAtOnce);
}

/// One message in a device's memory, there and back.
class DeviceMessage {
 public:
  DeviceMessage(const compress::Codec& codec, std::span<const float> x)
      : codec_(cuda::make_device_codec(codec.spec())),
        n_(x.size()),
        x_(bytes()),
        residual_(bytes()),
        y_(bytes()),
        workspace_(codec_->workspace_bytes(n_)),
        out_(codec_->max_bytes(n_)) {
    const compress::RandomKey key{.seed = 1};
    const compress::SelectionState none{};
    cuda::copy_to_device(x_.data(), x.data(), x.size_bytes(), stream());
    cuda::copy_to_device(key_.data(), &key, sizeof key, stream());
    cuda::copy_to_device(selection_.data(), &none, sizeof none, stream());
    cuda::clear(residual_.data(), bytes(), stream());
    clear();
    stream_.wait();
  }

  void encode() { codec_->encode(floats(x_), n_, call()); }
  void encode_feedback() {
    codec_->encode_feedback(floats(x_), floats(residual_), floats(residual_), n_, call());
  }
  void decode_add(float weight) {
    codec_->decode_add(payload(), used_, weight, floats(y_), n_, workspace_.data(), result(), stream());
  }
  void clear() { cuda::clear(y_.data(), bytes(), stream()); }
  /// The payload that was encoded last is what is decoded from now on.
  void keep() {
    const cuda::DeviceResult made = found();
    cuda::require_success(made, n_);
    used_ = made.bytes;
  }
  void check() { cuda::require_success(found(), n_); }
  double bytes_per_entry() const { return static_cast<double>(used_) / static_cast<double>(n_); }
  const cuda::Stream& in() const { return stream_; }

 private:
  static float* floats(const cuda::Buffer& memory) { return static_cast<float*>(memory.data()); }
  std::size_t bytes() const { return n_ * sizeof(float); }
  std::byte* payload() const { return static_cast<std::byte*>(out_.data()); }
  cuda::DeviceResult* result() const { return static_cast<cuda::DeviceResult*>(result_.data()); }
  void* stream() const { return stream_.get(); }
  cuda::EncodeCall call() const {
    return {static_cast<const compress::RandomKey*>(key_.data()),
            workspace_.data(),
            payload(),
            result(),
            stream(),
            static_cast<compress::SelectionState*>(selection_.data())};
  }
  cuda::DeviceResult found() const {
    cuda::DeviceResult here{};
    cuda::copy_to_host(&here, result_.data(), sizeof here, stream());
    stream_.wait();
    return here;
  }

  std::unique_ptr<const cuda::DeviceCodec> codec_;
  std::size_t n_, used_ = 0;
  cuda::Stream stream_;
  cuda::Buffer x_, residual_, y_, workspace_, out_;
  cuda::Buffer key_{sizeof(compress::RandomKey)}, selection_{sizeof(compress::SelectionState)},
      result_{sizeof(cuda::DeviceResult)};
};

}  // namespace

void use_device_named(const std::string& device) {
  constexpr std::string_view kFront = "cuda:";
  int number = -1;
  const char* const end = device.data() + device.size();
  if (!device.starts_with(kFront) || std::from_chars(device.data() + kFront.size(), end, number).ptr != end ||
      number < 0)
    throw std::runtime_error("expected cuda:N, for example cuda:0");
  cuda::use_device(number);
}

CodecSpeed measure_device_codec(const compress::Codec& codec, std::span<const float> x) {
  DeviceMessage message(codec, x);
  const double gigabytes = 4e-9 * static_cast<double>(x.size());
  const auto speed = [&](auto&& submit) { return gigabytes / seconds_of(message.in(), submit); };
  CodecSpeed result{};
  result.encode = speed([&] { message.encode(); });
  message.keep();
  result.bytes_per_entry = message.bytes_per_entry();
  result.decode = speed([&] {
    message.clear();
    message.decode_add(1.0f);
  });
  result.decode_add = speed([&] { message.decode_add(0.25f); });
  message.check();
  result.written_lines = 1;  // a floor that a sparse payload need not keep to
  result.feedback = std::numeric_limits<double>::quiet_NaN();
  if (!codec.traits().feedback()) return result;
  result.feedback = speed([&] { message.encode_feedback(); });
  message.check();
  return result;
}

MemoryLimits measure_device_memory(std::size_t entries) {
  const std::size_t bytes = entries * sizeof(float);
  const cuda::Stream stream;
  const cuda::Buffer from(bytes), to(bytes);
  cuda::clear(from.data(), bytes, stream.get());
  const double seconds =
      seconds_of(stream, [&] { cuda::copy_on_device(to.data(), from.data(), bytes, stream.get()); });
  const double touched = 2e-9 * static_cast<double>(bytes) / seconds;
  return {.read = touched, .write = touched, .modify = touched / 2, .feedback = touched / 3};
}

}  // namespace gossamer::node

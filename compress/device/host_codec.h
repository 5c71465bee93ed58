#pragma once
// What the device codecs share on the host, and their factories.
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "call.h"
#include "device.cuh"
#include "feedback_state.h"
#include "parameters.h"

namespace gossamer::compress::cuda {

/// A device codec beside the host's of the same spec.
class BesideHost : public DeviceCodec {
 public:
  explicit BesideHost(std::unique_ptr<const Codec> host) : host_(std::move(host)) {}
  std::string spec() const final { return host_->spec(); }
  std::size_t max_bytes(std::size_t n) const final { return host_->max_bytes(n); }

  void encode(const float* x_dev, std::size_t n, const EncodeCall& call) const final {
    start_encode({.g = x_dev}, n, call);
    require_started("encoding");
  }
  void encode_feedback(const float* g_dev, const float* residual_dev, float* next_dev, std::size_t n,
                       const EncodeCall& call) const final {
    require_feedback(*host_);
    start_encode({.g = g_dev, .residual = residual_dev, .next = next_dev}, n, call);
    require_started("encoding with feedback");
  }
  void encode_momentum(const float* g_dev, float momentum, const DeviceMomentum& state, std::size_t n,
                       const EncodeCall& call) const final {
    start_encode({.g = g_dev,
                  .residual = state.unsent_dev,
                  .next = state.next_unsent_dev,
                  .velocity = state.velocity_dev,
                  .next_velocity = state.next_velocity_dev,
                  .momentum = momentum},
                 n, call);
    require_started("encoding with momentum correction");
  }
  void decode_add(const std::byte* payload_dev, std::size_t bytes, float weight, float* acc_dev,
                  std::size_t n, void* workspace_dev, DeviceResult* result_dev, void* stream) const final {
    start_decode({payload_dev, bytes, weight, acc_dev, n, workspace_dev, result_dev, stream});
    require_started("decoding");
  }

 protected:
  virtual void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const = 0;
  virtual void start_decode(const DecodeCall& call) const = 0;

 private:
  std::unique_ptr<const Codec> host_;
};

/// Throws CodecError where the canonical spec has a value of key that no device knows; `known` are those that
/// do.
void require_device_form(const Codec& host, Parameters& parameters, std::string_view key,
                         std::initializer_list<std::string_view> known);

/// From the host's codec and its canonical parameters.
using DeviceFactory = std::unique_ptr<const DeviceCodec> (*)(std::unique_ptr<const Codec>, Parameters&);

std::unique_ptr<const DeviceCodec> make_device_dense(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_fp16(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_bf16(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_sign_vote(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_onebit(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_onebit_two(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_onebit_scaled(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_qsgd(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_intq(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_terngrad(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_topk(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_threshold(std::unique_ptr<const Codec>, Parameters&);
std::unique_ptr<const DeviceCodec> make_device_randk(std::unique_ptr<const Codec>, Parameters&);

}  // namespace gossamer::compress::cuda

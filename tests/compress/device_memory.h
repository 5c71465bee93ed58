#pragma once
// Device memory and calls of the device codecs, for tests and the device's check program.
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "gossamer/compress/device.h"
#include "gossamer/compress/kernels.h"

namespace gossamer::compress::test {

/// An array on the device of exactly the size asked for.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count), memory_(count * sizeof(T)) {}
  explicit OnDevice(const std::vector<T>& from) : OnDevice(from.size()) { set(from); }
  T* data() const { return static_cast<T*>(memory_.data()); }
  void set(const std::vector<T>& from) { memory_.from_host(from.data(), from.size() * sizeof(T)); }
  std::vector<T> get(std::size_t count) const {
    std::vector<T> to(count);
    memory_.to_host(to.data(), count * sizeof(T));
    return to;
  }
  std::vector<T> get() const { return get(count_); }

 private:
  std::size_t count_;
  cuda::Buffer memory_;
};

/// All device memory of one vector's encoding.
class DeviceEncoder {
 public:
  DeviceEncoder(const cuda::DeviceCodec& codec, std::size_t n)
      : codec_(codec),
        n_(n),
        x_(n),
        residual_(n),
        next_(n),
        key_(1),
        selection_(1),
        workspace_(codec.workspace_bytes(n)),
        out_(codec.max_bytes(n)),
        result_(1) {
    set_key({});
    forget_selection();
  }
  void set_key(RandomKey key) { key_.set({key}); }
  /// select=reuse starts anew.
  void forget_selection() { selection_.set({SelectionState{}}); }
  void set_vector(const std::vector<float>& x) { x_.set(x); }
  cuda::EncodeCall call(void* stream = nullptr) const {
    return {key_.data(), workspace_.data(), out_.data(), result_.data(), stream};
  }
  cuda::EncodeCall selecting_call(void* stream = nullptr) const {
    cuda::EncodeCall with_state = call(stream);
    with_state.selection_dev = selection_.data();
    return with_state;
  }
  void start(void* stream = nullptr) const { codec_.encode(x_.data(), n_, call(stream)); }
  void start_selecting() const { codec_.encode(x_.data(), n_, selecting_call()); }
  void start_feedback(void* stream = nullptr) const {
    codec_.encode_feedback(x_.data(), residual_.data(), next_.data(), n_, selecting_call(stream));
  }
  void start_momentum(float momentum, const OnDevice<float>& velocity) const {
    codec_.encode_momentum(x_.data(), momentum,
                           {velocity.data(), residual_.data(), velocity.data(), residual_.data()}, n_,
                           selecting_call());
  }
  SelectionState selection() const { return selection_.get()[0]; }
  std::vector<float> residual() const { return residual_.get(); }
  void set_residual(const std::vector<float>& residual) { residual_.set(residual); }
  std::vector<float> next_residual() const { return next_.get(); }
  cuda::DeviceResult result() const { return result_.get()[0]; }
  /// Throws what the result says.
  std::vector<std::byte> payload() const {
    cuda::require_success(result(), n_);
    return out_.get(result().bytes);
  }
  std::vector<std::byte> encode(const std::vector<float>& x) {
    set_vector(x);
    start();
    return payload();
  }

 private:
  const cuda::DeviceCodec& codec_;
  std::size_t n_;
  OnDevice<float> x_, residual_, next_;
  OnDevice<RandomKey> key_;
  OnDevice<SelectionState> selection_;
  OnDevice<std::byte> workspace_, out_;
  OnDevice<cuda::DeviceResult> result_;
};

/// acc += weight · decoded on the device; throws what the result says.
inline void decode_add_on_device(const cuda::DeviceCodec& codec, const std::vector<std::byte>& payload,
                                 float weight, std::vector<float>& acc) {
  const OnDevice<std::byte> payload_dev(payload), workspace(codec.workspace_bytes(acc.size()));
  const OnDevice<float> acc_dev(acc);
  const OnDevice<cuda::DeviceResult> result(1);
  codec.decode_add(payload_dev.data(), payload.size(), weight, acc_dev.data(), acc.size(), workspace.data(),
                   result.data(), nullptr);
  cuda::require_success(result.get()[0], acc.size());
  acc = acc_dev.get();
}

}  // namespace gossamer::compress::test

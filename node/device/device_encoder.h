#pragma once
// DeviceEncoder is Encoder on a device: payloads are made there, and their bytes alone leave it.
#include <map>
#include <memory>
#include <utility>

#include "codec_schedule.h"
#include "data_plane.h"
#include "device_memory.h"
#include "gossamer/compress/device.h"
#include "gossamer/compress/feedback.h"
#include "parcel.h"
#include "shared_list.h"

namespace gossamer::node {

class DeviceEncoder {
 public:
  /// stream: outlives it.
  DeviceEncoder(std::shared_ptr<const CodecSchedule> codecs, SharedList<Parcel> parcels, std::uint64_t seed,
                std::uint32_t peer, const compress::cuda::Stream& stream);
  /// As Encoder's, of v in device memory; where apply_to_dev is not null, that += what the payload says.
  /// Waits for the stream.
  Payload encode(const op::Encode& o, const float* v_dev, float* apply_to_dev);
  /// acc += weight · decode(payload). layer: that the range belongs to.
  void decode_add(const Payload& payload, float weight, float* acc_dev, std::size_t n, Round round,
                  std::size_t layer);
  /// As Encoder's, and to the same bytes.
  void archive(Archive archive);
  /// Bytes of payloads that were decoded on the host, since their parameters are not those of this peer's
  /// codec.
  std::uint64_t decoded_on_host() const { return decoded_on_host_; }

 private:
  /// As of Encoder; arrays of n floats that are there where has is set.
  struct Kept {
    std::unique_ptr<DeviceFloats> residual, velocity, unsent;
    compress::cuda::Buffer selection{sizeof(compress::SelectionState)};
  };
  const compress::cuda::DeviceCodec& of(const compress::Codec& host);
  Kept& kept(int number, std::size_t begin);
  DeviceFloats& zeros(std::unique_ptr<DeviceFloats>& floats, std::size_t n);
  void write(const op::Encode& o, const compress::Codec& host, const compress::cuda::DeviceCodec& codec,
             const float* v_dev, const compress::cuda::EncodeCall& call);
  void add_error(const op::Encode& o, const compress::cuda::DeviceCodec& codec, const float* v_dev,
                 std::size_t bytes);
  /// Of what was submitted last, once the stream has been waited for.
  compress::cuda::DeviceResult result();
  void copy_result();
  void* stream() const { return stream_.get(); }

  std::shared_ptr<const CodecSchedule> codecs_;
  SharedList<Parcel> parcels_;
  std::uint64_t seed_;
  std::uint32_t peer_;
  const compress::cuda::Stream& stream_;
  std::map<const compress::Codec*, std::unique_ptr<const compress::cuda::DeviceCodec>> device_codecs_;
  std::map<std::pair<int, std::size_t>, Kept> states_;  ///< by number and range begin
  compress::cuda::Buffer key_{sizeof(compress::RandomKey)}, result_{sizeof(compress::cuda::DeviceResult)};
  compress::cuda::PinnedMemory key_here_{sizeof(compress::RandomKey)},
      result_here_{sizeof(compress::cuda::DeviceResult)};
  DeviceScratch out_, workspace_, in_, left_;
  std::map<std::pair<ParcelId, std::uint32_t>, std::size_t>
      usual_;  ///< bytes of a parcel's last payload, by tag
  PinnedPool payloads_;
  std::uint64_t decoded_on_host_ = 0;
};

}  // namespace gossamer::node

#pragma once
// The encoding side of a replica: which codec a parcel goes through, and what earlier payloads left out.
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "data_plane.h"
#include "gossamer/compress/codec.h"
#include "planted.h"

namespace gossamer::node {

struct EncoderParts {
  std::shared_ptr<const compress::Codec> codec;
  std::vector<bool> dense_parcels;  ///< parcels that go dense whatever the codec
  std::uint64_t seed = 0;
  std::uint32_t peer = 0;
  [[no_unique_address]] Planted planted{};
};

class Encoder {
 public:
  explicit Encoder(EncoderParts parts);
  /// The payload of v as the command says; keeps what it leaves out. Throws std::runtime_error where v is not
  /// finite.
  Payload encode(const op::Encode& o, std::span<const float> v, compress::Workspace& workspace);
  /// What the command's feedback has not sent yet; null where it has none, or keeps nothing so far.
  const compress::FeedbackState* unsent(const op::Encode& o) const;
  /// total (a buffer of the parameters' size) += what the feedback states of this number hold.
  void add_unsent(int feedback, std::span<float> total) const;

 private:
  std::size_t write(const op::Encode& o, const compress::Codec& codec, std::span<const float> v,
                    compress::Workspace& workspace);
  void keep_undelivered(const op::Encode& o, std::span<const float> v, const Payload& payload);

  EncoderParts parts_;
  std::unique_ptr<const compress::Codec> dense_;
  std::map<std::pair<int, std::size_t>, compress::FeedbackState> states_;  ///< by number and range begin
  std::vector<std::byte> encoded_;
  std::vector<float> left_;
};

}  // namespace gossamer::node

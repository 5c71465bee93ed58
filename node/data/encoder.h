#pragma once
// Encoder knows which codec a parcel goes through, and keeps what earlier payloads left out.
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "codec_schedule.h"
#include "data_plane.h"
#include "gossamer/compress/feedback.h"
#include "parcel.h"
#include "planted.h"
#include "shared_list.h"

namespace gossamer::node {

class Encoder {
 public:
  Encoder(std::shared_ptr<const CodecSchedule> codecs, SharedList<Parcel> parcels, std::uint64_t seed,
          std::uint32_t peer, Planted planted = {});
  /// The payload of v as the command says; keeps what it leaves out. Throws std::runtime_error where v is not
  /// finite.
  Payload encode(const op::Encode& o, std::span<const float> v, compress::Workspace& workspace);
  /// Of one whose src is x, and minus and apply_to the same estimate; without feedback.
  /// make: as of Codec.
  Payload encode_difference(const op::Encode& o, std::span<const float> x, std::span<float> estimate,
                            compress::Workspace& workspace, const compress::Codec::Make& make);
  /// As the command says; x: the range of its src.
  Payload pass_on(const op::PassOn& o, std::span<const float> x, compress::Threads* threads);
  /// None: the payloads have to be decoded to entries.
  std::optional<Payload> merge(const op::Merge& o, compress::Workspace& workspace);
  /// What the command's feedback has not sent yet; null where it has none, or keeps nothing so far.
  const compress::FeedbackState* unsent(const op::Encode& o) const;
  /// total (a buffer of the parameters' size) += what the feedback states of this number hold.
  void add_unsent(int feedback, std::span<float> total) const;
  void archive(Archive archive);

 private:
  template <class Write>
  Payload written(Round round, std::size_t most, const Write& write) const;
  const compress::Codec& codec_of(const op::Encode& o) const;
  compress::RandomKey key_of(const op::Encode& o) const;
  struct Kept {
    compress::FeedbackState feedback;
    compress::MomentumState momentum;  ///< in its place where the command says so
  };
  std::size_t write(const op::Encode& o, const compress::Codec& codec, std::span<const float> v,
                    compress::Workspace& workspace, std::span<std::byte> out);
  std::size_t write_with_momentum(float momentum, const compress::Codec& codec, std::span<const float> v,
                                  compress::MomentumState& state, compress::RandomKey key,
                                  compress::Workspace& workspace, std::span<std::byte> out);
  std::span<float> error(const op::Encode& o);
  void add_error(const op::Encode& o, std::span<const float> v, const Payload& payload);

  std::shared_ptr<const CodecSchedule> codecs_;
  SharedList<Parcel> parcels_;
  std::uint64_t seed_;
  std::uint32_t peer_;
  [[no_unique_address]] Planted planted_;
  std::map<std::pair<int, std::size_t>, Kept> states_;  ///< by number and range begin
  std::vector<float> left_;
  compress::LeftOut left_out_;
};

}  // namespace gossamer::node

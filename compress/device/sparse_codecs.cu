// topk and threshold on the device: exact selection, Rice-coded indices, fp32 values.
#include <algorithm>
#include <cmath>
#include <limits>

#include "host_codec.h"
#include "index_code.h"
#include "selection.h"

namespace gossamer::compress::cuda {
namespace {

/// What was sent exactly leaves nothing behind; all else the search left in the residual already.
__global__ void keep_sent_kernel(Input input, const std::uint32_t* indices, const float* values,
                                 const unsigned long long* count) {
  for (std::size_t j = thread_of_grid(); j < *count; j += threads_in_grid())
    input.sent(indices[j], values[j], values[j]);
}

/// One vector's memory.
struct Room {
  SearchRoom search;
  IndexRoom index;
};

class SparseCodec : public BesideHost {
 public:
  using BesideHost::BesideHost;
  std::size_t workspace_bytes(std::size_t n) const final {
    Arena encoding(nullptr), decoding(nullptr);
    take_encoding(encoding, n);
    take_decoding_room(decoding, n, most(n));
    return std::max(encoding.bytes(), decoding.bytes());
  }

 protected:
  /// Most entries that are sent.
  virtual std::size_t most(std::size_t n) const = 0;
  virtual Front front(std::size_t n) const = 0;
  virtual bool writes_count() const = 0;
  virtual void select(const Input& input, std::size_t n, const SearchRoom& room, DeviceResult* result,
                      void* stream) const = 0;

  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const final {
    if (n > 0xffffffffu)
      throw EncodeError("cannot encode: sparse codecs take vectors under 2^32 entries; slice the layer");
    const Front known = front(n);
    begin_encode(known, known.size, call);
    if (n == 0) return;
    Arena arena(call.workspace_dev);
    const Room room = take_encoding(arena, n);
    select(input, n, room.search, call.result_dev, call.stream);
    const Chosen& chosen = room.search.chosen;
    write_sparse(chosen, {known.size, writes_count()}, room.index, call);
    if (input.next == nullptr) return;
    launch(keep_sent_kernel, blocks_for(most(n), kThreads), kThreads, call.stream, input, chosen.indices,
           chosen.values, chosen.count);
  }
  void start_decode(const DecodeCall& call) const final {
    const Front known = front(call.n);
    if (call.n == 0) return begin_decode(known, known.size, call);
    // Nothing longer is made by an encoder, nor has it room here.
    begin_decode_at_least(known, call.bytes <= max_bytes(call.n) ? known.size + 1 : call.bytes + 1, call);
    Arena arena(call.workspace_dev);
    add_sparse(call, {known.size, writes_count()}, most(call.n),
               take_decoding_room(arena, call.n, most(call.n)));
  }

 private:
  Room take_encoding(Arena& arena, std::size_t n) const {
    return {take_search_room(arena, n, most(n)), take_encoding_room(arena, n, most(n))};
  }
};

class TopK final : public SparseCodec {
 public:
  TopK(std::unique_ptr<const Codec> host, double density) : SparseCodec(std::move(host)), density_(density) {}

 protected:
  std::size_t most(std::size_t n) const override {
    const double k = std::ceil(density_ * static_cast<double>(n));
    return n == 0 ? 0 : std::clamp<std::size_t>(static_cast<std::size_t>(k), 1, n);
  }
  Front front(std::size_t n) const override {
    return make_front(wire::CodecId::topk, n, [&](wire::Writer& writer) {
      writer.varint(most(n));
      if (n > 0) writer.u8(0);  // Rice code, fp32
    });
  }
  bool writes_count() const override { return false; }
  void select(const Input& input, std::size_t n, const SearchRoom& room, DeviceResult* result,
              void* stream) const override {
    select_largest(input, n, most(n), room, result, stream);
  }

 private:
  double density_;
};

class Threshold final : public SparseCodec {
 public:
  Threshold(std::unique_ptr<const Codec> host, double tau)
      : SparseCodec(std::move(host)), cut_(least_float(tau)) {}

 protected:
  std::size_t most(std::size_t n) const override { return n; }
  Front front(std::size_t n) const override {
    return make_front(wire::CodecId::threshold, n, [&](wire::Writer& writer) {
      if (n == 0) writer.varint(0);
    });
  }
  bool writes_count() const override { return true; }
  void select(const Input& input, std::size_t n, const SearchRoom& room, DeviceResult* result,
              void* stream) const override {
    select_reaching(input, n, cut_, room, result, stream);
  }

 private:
  /// The least float that is not below tau.
  static float least_float(double tau) {
    const auto near = static_cast<float>(tau);
    return static_cast<double>(near) < tau ? std::nextafter(near, std::numeric_limits<float>::max()) : near;
  }
  float cut_;
};

bool any(double) { return true; }

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_topk(std::unique_ptr<const Codec> host,
                                                    Parameters& parameters) {
  require_device_form(*host, parameters, "coding", {"rice"});
  require_device_form(*host, parameters, "values", {"fp32"});
  require_device_form(*host, parameters, "select", {"exact", "trimmed"});
  return std::make_unique<TopK>(std::move(host), parameters.real("density", 0.01, "", any));
}

std::unique_ptr<const DeviceCodec> make_device_threshold(std::unique_ptr<const Codec> host,
                                                         Parameters& parameters) {
  require_device_form(*host, parameters, "coding", {"rice"});
  return std::make_unique<Threshold>(std::move(host), parameters.real("tau", 0.01, "", any));
}

}  // namespace gossamer::compress::cuda

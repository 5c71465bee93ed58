// topk and threshold on the device: which entries are sent (selection.h), their indices (index_code.h) and
// values (values.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "host_codec.h"
#include "index_code.h"
#include "selection.h"
#include "threshold_search.h"

namespace gossamer::compress::cuda {
namespace {

/// One vector's memory.
struct Room {
  ThresholdRoom selection;
  EncodingRoom index;
};

class SparseCodec : public BesideHost {
 public:
  SparseCodec(std::unique_ptr<const Codec> host, const SparseForm& form)
      : BesideHost(std::move(host)), form_(form) {}
  std::size_t workspace_bytes(std::size_t n) const final {
    Arena encoding(nullptr), decoding(nullptr);
    take_encoding(encoding, n);
    take_decoding_room(decoding, form_, n, most(n));
    return std::max(encoding.bytes(), decoding.bytes());
  }

 protected:
  /// Most entries that are sent.
  virtual std::size_t most(std::size_t n) const = 0;
  virtual Front front(std::size_t n) const = 0;
  virtual ThresholdRoom take_room(Arena& arena, std::size_t n) const = 0;
  virtual void select(const Input& input, std::size_t n, const ThresholdRoom& room,
                      const EncodeCall& call) const = 0;

  const SparseForm& form() const { return form_; }

  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const final {
    wire::require_indexable(n, spec().substr(0, spec().find(':')).c_str());
    const Front known = front(n);
    begin_encode(known, known.size, call);
    if (n == 0) return;
    Arena arena(call.workspace_dev);
    const Room room = take_encoding(arena, n);
    select(input, n, room.selection, call);
    write_sparse(input, room.selection.search.chosen, known.size, form_, room.index, call);
  }
  void start_decode(const DecodeCall& call) const final {
    if (call.n > wire::kIndexedMax) return refuse_decode(call);
    const Front known = front(call.n);
    if (call.n == 0) return begin_decode(known, known.size, call);
    // Nothing longer is made by an encoder, nor has it room here.
    begin_decode_at_least(known, call.bytes <= max_bytes(call.n) ? known.size + 1 : call.bytes + 1, call);
    Arena arena(call.workspace_dev);
    add_sparse(call, known.size, form_, most(call.n), take_decoding_room(arena, form_, call.n, most(call.n)));
  }

 private:
  Room take_encoding(Arena& arena, std::size_t n) const {
    return {take_room(arena, n), take_encoding_room(arena, form_, n, most(n))};
  }
  SparseForm form_;
};

class TopK final : public SparseCodec {
 public:
  TopK(std::unique_ptr<const Codec> host, const SparseForm& form, Selection selection, double density)
      : SparseCodec(std::move(host), form), selection_(selection), density_(density) {}

 protected:
  std::size_t most(std::size_t n) const override { return selection_max(selection_, kept(n), n); }
  Front front(std::size_t n) const override {
    return make_front(wire::CodecId::topk, n, [&](wire::Writer& writer) {
      if (n == 0 || !form().writes_count) writer.varint(kept(n));
    });
  }
  ThresholdRoom take_room(Arena& arena, std::size_t n) const override {
    return take_threshold_room(arena, selection_, n, kept(n), most(n));
  }
  void select(const Input& input, std::size_t n, const ThresholdRoom& room,
              const EncodeCall& call) const override {
    select_by(selection_, input, n, kept(n), room, call);
  }

 private:
  std::size_t kept(std::size_t n) const { return kept_entries(density_, n); }
  Selection selection_;
  double density_;
};

class Threshold final : public SparseCodec {
 public:
  Threshold(std::unique_ptr<const Codec> host, const SparseForm& form, double tau)
      : SparseCodec(std::move(host), form), cut_(least_float(tau)) {}

 protected:
  std::size_t most(std::size_t n) const override { return n; }
  Front front(std::size_t n) const override {
    return make_front(wire::CodecId::threshold, n, [&](wire::Writer& writer) {
      if (n == 0) writer.varint(0);
    });
  }
  ThresholdRoom take_room(Arena& arena, std::size_t n) const override {
    ThresholdRoom room{};
    room.search = take_search_room(arena, n, most(n), 0);
    return room;
  }
  void select(const Input& input, std::size_t n, const ThresholdRoom& room,
              const EncodeCall& call) const override {
    select_reaching(input, n, cut_, room.search, call.result_dev, call.stream);
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
  const auto values = static_cast<ValueForm>(parameters.choice("values", value_form_names()));
  const auto selection = static_cast<Selection>(parameters.choice("select", selection_names()));
  // How many are kept is known beforehand where it is exactly k.
  const SparseForm form{coding_number(index_coding_parameter(parameters)), values,
                        !selects_exactly(selection), false};
  return std::make_unique<TopK>(std::move(host), form, selection, parameters.real("density", 0.01, "", any));
}

std::unique_ptr<const DeviceCodec> make_device_threshold(std::unique_ptr<const Codec> host,
                                                         Parameters& parameters) {
  const SparseForm form{coding_number(index_coding_parameter(parameters)), ValueForm::fp32, true, true};
  return std::make_unique<Threshold>(std::move(host), form, parameters.real("tau", 0.01, "", any));
}

}  // namespace gossamer::compress::cuda

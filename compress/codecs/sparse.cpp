#include "sparse.h"

#include <string>

#include "feedback_state.h"
#include "select_scan.h"

namespace gossamer::compress {
namespace {

/// A state that was empty is so again if the encoder throws.
class Grown {
 public:
  Grown(LineVector<float>& state, std::size_t n, float none) : state_(state), was_empty_(state.empty()) {
    state.resize(n, none);
  }
  ~Grown() {
    if (was_empty_ && !kept_) state_.clear();
  }
  Grown(const Grown&) = delete;
  Grown& operator=(const Grown&) = delete;
  void keep() { kept_ = true; }

 private:
  LineVector<float>& state_;
  bool was_empty_, kept_ = false;
};

/// what(index, decoded value) for each entry sent.
template <class What>
void for_each_sent(const Sent& sent, const What& what) {
  ValueReader values(sent.values, sent.form, sent.indices.size());
  for (const std::uint32_t i : sent.indices) what(i, values.next());
}

}  // namespace

std::size_t SparseCodec::encode(std::span<const float> x, RandomKey key, Workspace& workspace,
                                std::span<std::byte> out) const {
  SelectionState fresh;
  return encode_sparse({.g = x}, fresh, key, workspace, out).bytes;
}

std::size_t SparseCodec::encode_selecting(std::span<const float> x, SelectionState& selection, RandomKey key,
                                          Workspace& workspace, std::span<std::byte> out) const {
  return encode_sparse({.g = x}, selection, key, workspace, out).bytes;
}

std::size_t SparseCodec::encode_feedback(std::span<const float> g, FeedbackState& state, RandomKey key,
                                         Workspace& workspace, std::span<std::byte> out) const {
  require_feedback(*this);
  require_size(state, g.size());
  state.materialise();
  // g + −0 is g to the bit, which g + 0 is not.
  Grown grown(state.residual, g.size(), -0.0f);
  float* const e = state.residual.data();
  const Sent sent = encode_sparse({.g = g, .sum = e}, state.selection, key, workspace, out);
  for_each_sent(sent, [&](std::uint32_t i, float decoded) { e[i] -= decoded; });
  grown.keep();
  return sent.bytes;
}

std::size_t SparseCodec::encode_momentum(std::span<const float> g, float momentum, MomentumState& state,
                                         RandomKey key, Workspace& workspace,
                                         std::span<std::byte> out) const {
  require_size(state.velocity, g.size(), "velocity");
  require_size(state.unsent, g.size(), "unsent part");
  Grown grown_velocity(state.velocity, g.size(), 0), grown_unsent(state.unsent, g.size(), 0);
  float* const u = state.velocity.data();
  float* const v = state.unsent.data();
  const Sent sent = encode_sparse({.g = g, .sum = v, .velocity = u, .momentum = momentum}, state.selection,
                                  key, workspace, out);
  for_each_sent(sent, [&](std::uint32_t i, float decoded) {
    if (decoded == 0) return;
    u[i] = 0;
    v[i] -= decoded;
  });
  grown_velocity.keep();
  grown_unsent.keep();
  return sent.bytes;
}

void require_size(const LineVector<float>& state, std::size_t n, const char* what) {
  if (state.empty() || state.size() == n) return;
  throw EncodeError("cannot encode: the " + std::string(what) + " has " + std::to_string(state.size()) +
                    " entries, the vector " + std::to_string(n) + "; each layer needs a state of its own");
}

Selected select_reaching(const Source& v, MagnitudeBits threshold, Workspace& workspace) {
  if (v.g.empty()) return {};
  Scan scan(v, v.g.size() / 16 + 1024, workspace);
  const std::size_t count = scan.count(threshold);
  const Cut all{threshold, v.g.size()};
  if (scan.lists(threshold)) return scan.take(all);
  Scan wide({.g = scan.vector()}, count, workspace);
  (void)wide.count(threshold);
  return wide.take(all);
}

std::span<const float> form(const Source& v, Workspace& workspace) {
  Scan scan(v, 1, workspace);
  (void)scan.count(kInfinityBits);
  return scan.vector();
}

}  // namespace gossamer::compress

/* gossamer.h for C++17: a peer that closes itself, arrays as they lie, errors as exceptions.
 *
 *   gs::Loop loop("job.toml", "peer0", {{"w", {784, 10}}, {"b", {10}}});
 *   while (loop.wait()) {
 *     ... reads loop.parameters(t), writes loop.gradient(t) ...
 *     loop.post(loss, rows);
 *   }
 *   loop.save("model.safetensors");
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gossamer.h"

namespace gs {

/// What a status other than GS_OK, GS_DONE, GS_TIMEOUT and GS_NO_MEAN stands for.
class Error : public std::runtime_error {
 public:
  explicit Error(gs_status status) : std::runtime_error(gs_error()), status_(status) {}
  gs_status status() const { return status_; }

 private:
  gs_status status_;
};

inline gs_status checked(gs_status status) {
  if (status != GS_OK && status != GS_DONE && status != GS_TIMEOUT && status != GS_NO_MEAN)
    throw Error(status);
  return status;
}

/// An array of the model: `initial` has its numbers, or none for zeros.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> initial = {};
  bool state = false;
};

/// Floats of the peer; they stay where they are until it goes.
template <class Float>
class Array {
 public:
  Array(Float* data, std::size_t size) : data_(data), size_(size) {}
  Float* begin() const { return data_; }
  Float* end() const { return data_ + size_; }
  Float* data() const { return data_; }
  std::size_t size() const { return size_; }
  Float& operator[](std::size_t i) const { return data_[i]; }

 private:
  Float* data_;
  std::size_t size_;
};

/// As gs_peer; throws Error. One thread at a time.
class Loop {
 public:
  /// options: but for its size, and what it keeps; overrides: "exchange.codec=dense".
  Loop(const std::string& job, const std::string& name, const std::vector<Tensor>& tensors,
       const std::vector<std::string>& overrides = {}, gs_options options = {},
       const std::vector<Tensor>& kept = {}) {
    std::vector<const char*> words;
    for (const std::string& word : overrides) words.push_back(word.c_str());
    const std::vector<gs_tensor> all = plain(tensors), own = plain(kept);
    for (const Tensor& array : kept) kept_floats_.push_back(floats(array));
    options.size = sizeof options;
    options.kept = own.data();
    options.kept_count = own.size();
    gs_peer* opened = nullptr;
    checked(gs_open(job.c_str(), words.data(), words.size(), name.c_str(), all.data(), all.size(), &options,
                    &opened));
    peer_.reset(opened);
  }

  /// Until the next round's parameters stand; false: the run is over, as the job says.
  bool wait() { return checked(gs_wait(peer_.get(), -1)) == GS_OK; }
  Array<const float> parameters(std::size_t tensor) const {
    return {gs_parameters(peer_.get(), tensor), gs_floats(peer_.get(), tensor)};
  }
  Array<float> gradient(std::size_t tensor) {
    return {gs_gradient(peer_.get(), tensor), gs_floats(peer_.get(), tensor)};
  }
  Array<float> changing(std::size_t tensor) {
    return {gs_changing(peer_.get(), tensor), gs_floats(peer_.get(), tensor)};
  }
  Array<float> kept(std::size_t array) {
    return {gs_kept(peer_.get(), array), array < kept_floats_.size() ? kept_floats_[array] : 0};
  }
  void ready(std::size_t tensor) { checked(gs_ready(peer_.get(), tensor)); }
  void post(double loss, std::size_t rows) { checked(gs_post(peer_.get(), loss, rows)); }
  bool steps_by_mean() const { return gs_steps_by_mean(peer_.get()) != 0; }
  /// False: no step is taken.
  bool wait_for_mean() { return checked(gs_wait_mean(peer_.get(), -1)) == GS_OK; }
  std::uint64_t step() const { return gs_step(peer_.get()); }
  std::vector<std::uint32_t> rows_of(std::uint64_t step) const {
    std::size_t count = 0;
    checked(gs_batch(peer_.get(), step, nullptr, 0, &count));
    std::vector<std::uint32_t> rows(count);
    checked(gs_batch(peer_.get(), step, rows.data(), rows.size(), &count));
    return rows;
  }
  gs_progress report() const {
    gs_progress progress;
    checked(gs_report(peer_.get(), &progress, sizeof progress));
    return progress;
  }
  /// A line each.
  std::string members() const { return gs_members(peer_.get()); }
  void save(const std::string& path) const { checked(gs_save(peer_.get(), path.c_str())); }
  /// From any thread.
  void interrupt() { checked(gs_interrupt(peer_.get())); }
  gs_peer* get() const { return peer_.get(); }

 private:
  struct Close {
    void operator()(gs_peer* peer) const { gs_close(peer); }
  };
  static std::size_t floats(const Tensor& tensor) {
    std::size_t all = 1;
    for (const std::size_t n : tensor.shape) all *= n;
    return all;
  }
  static std::vector<gs_tensor> plain(const std::vector<Tensor>& tensors) {
    std::vector<gs_tensor> all;
    for (const Tensor& t : tensors) {
      if (!t.initial.empty() && t.initial.size() != floats(t))
        throw std::invalid_argument(t.name + ": found " + std::to_string(t.initial.size()) +
                                    " initial values; expected " + std::to_string(floats(t)) + ", or none");
      all.push_back({t.name.c_str(), t.shape.data(), t.shape.size(),
                     t.initial.empty() ? nullptr : t.initial.data(), t.state ? 1 : 0});
    }
    return all;
  }

  std::vector<std::size_t> kept_floats_;
  std::unique_ptr<gs_peer, Close> peer_;
};

}  // namespace gs

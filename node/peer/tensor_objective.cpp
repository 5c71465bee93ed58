#include "tensor_objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gossamer/optim/course.h"
#include "hash.h"
#include "method.h"

namespace gossamer::node {
namespace {

/// Arrays are exchanged together until they are so many floats.
constexpr std::size_t kGrouped = 4096;

std::size_t floats_of(const TensorSpec& tensor) {
  std::size_t floats = 1;
  for (const std::size_t n : tensor.shape) floats *= n;
  if (floats == 0) misuse(fmt::format("tensor '{}' has no elements; expected at least one", tensor.name));
  return floats;
}

/// How many rows the program has, and their labels.
class LabelledRows final : public optim::Dataset {
 public:
  LabelledRows(std::size_t rows, std::vector<std::int32_t> labels) : rows_(rows), labels_(std::move(labels)) {
    if (labels_.empty()) return;
    const auto [least, most] = std::minmax_element(labels_.begin(), labels_.end());
    if (labels_.size() != rows_ || *least < 0)
      misuse(fmt::format("{} labels from {} on were given for {} rows; expected one for each, from 0 on",
                         labels_.size(), *least, rows_));
    classes_ = static_cast<std::size_t>(*most) + 1;
  }
  std::size_t rows() const override { return rows_; }
  std::size_t features() const override { return 0; }
  std::size_t classes() const override { return classes_; }
  std::int32_t label(std::size_t row) const override { return labels_[row]; }
  void gather(std::span<const std::uint32_t>, std::span<float>) const override {}
  std::uint64_t hash() const override { return hash_bytes(std::as_bytes(std::span(labels_)), rows_); }

 private:
  std::size_t rows_, classes_ = 0;
  std::vector<std::int32_t> labels_;
};

/// What signs, residues and trackers make of a state is not its mean.
bool averages_state(const Method& method, const compress::Traits& codec) {
  return !codec.votes && method.invariants.own != MethodInvariants::Own::residues &&
         method.own_steps != OwnSteps::refused;
}

}  // namespace

void misuse(const std::string& what) { throw Error(Error::Code::misuse, what); }

std::shared_ptr<const optim::Dataset> labelled_rows(std::size_t rows, std::vector<std::int32_t> labels) {
  return rows == 0 ? nullptr : std::make_shared<LabelledRows>(rows, std::move(labels));
}

void check_state(const Job& job, const std::vector<TensorSpec>& tensors) {
  const Method& method = find_method(job.exchange.method);
  const auto state = std::ranges::find_if(tensors, [](const TensorSpec& t) { return t.state; });
  if (state == tensors.end() || averages_state(method, compress::make_codec(job.exchange.codec)->traits()))
    return;
  throw ConfigError(
      fmt::format("{}: method '{}' with codec '{}' does not average '{}', which has no gradient, exactly; "
                  "leave it to each "
                  "peer, or use method 'allreduce', 'dpsgd' or 'choco'",
                  job.path, job.exchange.method, job.exchange.codec, state->name));
}

TensorObjective::TensorObjective(const std::vector<TensorSpec>& tensors, std::uint64_t steps_per_epoch,
                                 std::function<void(std::size_t, std::span<float>)> initialise)
    : initialise_(std::move(initialise)), steps_per_epoch_(steps_per_epoch) {
  add_layers(tensors);
}

void TensorObjective::add_layers(const std::vector<TensorSpec>& tensors) {
  std::vector<optim::Tensor> group;
  std::vector<std::size_t> members;
  std::size_t size = 0;
  places_.resize(tensors.size());
  const auto close = [&] {
    if (group.empty()) return;
    const std::string first = group.front().name;
    add_layer(first, std::exchange(group, {}));
    for (std::size_t i = 0; i < members.size(); ++i) {
      places_[members[i]].layer = layers().size() - 1;
      places_[members[i]].offset = layers().back().tensors[i].offset;
    }
    members.clear();
    size = 0;
  };
  const auto add = [&](std::size_t t) {
    places_[t].size = floats_of(tensors[t]);
    places_[t].state = tensors[t].state;
    group.push_back({tensors[t].name, tensors[t].shape, 0});
    members.push_back(t);
    size += places_[t].size;
  };
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].state) continue;
    add(t);
    if (size >= kGrouped) close();
  }
  close();
  state_begin_ = buffer_size();
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].state) add(t);
  close();
  if (state_begin_ < buffer_size()) mark_state(layers().size() - 1);
}

void TensorObjective::initialise(std::uint64_t, std::span<float> x) const {
  std::fill(x.begin(), x.end(), 0.0f);
  for (std::size_t t = 0; initialise_ && t < places_.size(); ++t) initialise_(t, part(x, t));
}

const TensorObjective::PlaceOfTensor& TensorObjective::place_of(std::size_t tensor) const {
  if (tensor >= places_.size())
    misuse(fmt::format("tensor {}: there are {}, from 0 on", tensor, places_.size()));
  return places_[tensor];
}

void TensorObjective::deal(const optim::DealtRows& rows) {
  course_ = rows.course;
  if (course_) course_->enter(*rows.split, rows.peer, rows.first_step);
  sampler_ = course_ ? course_->sampler() : rows.split->sampler(rows.peer);
  first_step_ = course_ ? rows.first_step : 0;
  batch_.resize(rows.batch);
}

void TensorObjective::take_rows(std::uint64_t step) {
  if (sampler_) sampler_->rows_of(step, batch_);
  if (course_) course_->took(step);
}

std::vector<std::uint32_t> TensorObjective::rows_of_step(std::uint64_t step) {
  if (!sampler_) misuse("no rows were dealt; expected their number when the loop was made");
  std::vector<std::uint32_t> rows(batch_.size());
  sampler_->rows_of(std::max(step, first_step_), rows);
  return rows;
}

void subtract(std::span<const float> a, std::span<const float> b, std::span<float> to) {
  std::transform(a.begin(), a.end(), b.begin(), to.begin(), [](float x, float y) { return x - y; });
}

void StateAside::step(double place, std::size_t offset, std::span<const float> x, std::span<const float> g,
                      std::span<float> u) {
  if (objective_->is_state(offset))
    std::copy(g.begin(), g.end(), u.begin());
  else
    inner_->step(place, offset, x, g, u);
}

}  // namespace gossamer::node

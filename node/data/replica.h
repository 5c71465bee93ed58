#pragma once
// Replica owns the floats of one peer, in host memory: parameters, gradient, optimiser state, residuals,
// estimates of neighbours.
#include <memory>
#include <optional>
#include <vector>

#include "aligned.h"
#include "encoder.h"
#include "gossamer/compress/codec.h"
#include "planted.h"
#include "replica_base.h"
#include "row_exchange.h"
#include "rule.h"

namespace gossamer::node {

/// What a replica on the host is made of.
struct ReplicaParts : ReplicaBaseParts {
  std::unique_ptr<optim::Optimizer> optimizer{};
  std::optional<compress::RowsSpec> rows{};  ///< of the objective's table are exchanged so
  std::size_t peers = 1;                     ///< in the run
  std::size_t threads =
      1;                ///< that share the encoding and decoding of a large parcel; the bytes are the same
  SpareFloats spare{};  ///< memory for its slots, as far as it fits
  [[no_unique_address]] Planted planted{};
};

class Replica final : public ReplicaBase, public DataView {
 public:
  /// Starts at the parameters x0 (buffer_size floats), as do slots 2 … 2+slots−1; after them come
  /// buffers.scratch, and those of parts.peer_sizes (one for each of buffers.models), zero at first.
  Replica(ReplicaParts parts, std::span<const float> x0, const Buffers& buffers);

  void evaluate(Round round, const Post& post) override;
  SpareFloats hand_on() override { return std::move(slots_); }
  /// In place of parts.threads.
  void use_threads(std::size_t threads) override;
  /// Tells the observer of every gradient, op and encoding from now on; null: nobody.
  void observe(Observer* observer) { observer_ = observer; }

  std::span<const float> parameters() const override { return slot(kParameters); }
  std::span<const float> slot(Slot s) const override { return {slots_[s].data(), slots_[s].size()}; }
  const Extension* extension() const override { return extension_.get(); }
  const RowExchange* rows() const override { return rows_.get(); }
  /// What was encoded with feedback of this number and has not been sent yet; 0 elsewhere.
  std::vector<float> unsent(int feedback) const;

 private:
  std::span<float> at(Slot s, Range r) { return whole(s).subspan(r.begin, r.size); }
  void execute(const Op& op, const Post& post) override;
  std::span<float> whole(Slot s) override;
  std::vector<optim::Teacher> teachers(const SoftLabels& soft) const override;
  bool all_finite(Range gradient) override;
  void clear_gradient(Range range) override;
  void spread_parameters() override;
  std::size_t slots() const override { return slots_.size(); }
  void archive_slot(Archive archive, const std::string& name, Slot s) override;
  void show_optimizer(optim::StateVisitor& visitor) override { optimizer_->show(visitor); }
  void archive_unsent(Archive archive) override;
  RowExchange* row_exchange() override { return rows_.get(); }
  void combine(const op::Combine& o, std::size_t begin, std::size_t size);
  bool tells_difference(const op::Encode& o) const;
  void encode_difference(const op::Encode& o, const compress::Codec::Make& make, const Post& post);
  void run_one(const op::Update& o, const Post&);
  void run_one(const op::Step& o, const Post&);
  void run_one(const op::Clip& o, const Post&);
  void run_one(const op::Combine& o, const Post&);
  void run_one(const op::Encode& o, const Post&);
  void run_one(const op::StepEncode& o, const Post&);
  void run_one(const op::StepBySum& o, const Post&);
  void run_one(const op::StepByParts& o, const Post&);
  void run_one(const op::DecodeAdd& o, const Post&);
  void run_one(const op::Mix& o, const Post&);
  void run_one(const op::Decode& o, const Post&);
  void run_one(const op::PassOn& o, const Post&);
  void run_one(const op::Merge& o, const Post&);
  void run_one(const op::Aggregate& o, const Post&);
  void run_one(const op::Extended& o, const Post&);
  void run_one(const op::EncodeRows& o, const Post&);
  void run_one(const op::PushRows& o, const Post&);
  void run_one(const op::Measure& o, const Post&);

  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<AlignedFloats> slots_;
  Encoder encoder_;
  std::unique_ptr<compress::Threads> team_;  ///< null: one thread
  compress::Workspace workspace_;
  Rule rule_;
  compress::FewEntries few_;  ///< as they are stepped by,
  AlignedFloats stepped_;     ///< and those of x
  AlignedFloats difference_;
  std::unique_ptr<RowExchange> rows_;  ///< null: none are exchanged
};

}  // namespace gossamer::node

#include "gossamer/optim/click_objective.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cancelled.h"
#include "gossamer/optim/finite.h"
#include "rate_features.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kTestBatch = 1024;
constexpr std::uint64_t kMostSorted = std::uint64_t{1} << 22;  ///< test samples; of more the AUC goes by bins
constexpr std::uint64_t kPlaceMark = 0x3230736b63696c63;   ///< "clicks02", before the place in the samples
constexpr double kUniformDeviation = 0.57735026918962576;  ///< of [−1, 1]: 1/√3

/// The table as the model wants it.
TableSpec table_of(const ClickParts& parts, const SparseModel& model) {
  TableSpec table = parts.table;
  table.width = model.row_width();
  std::vector<float> row(table.width);
  model.initialise_row(parts.table.seed, 1, row);
  const auto first = std::find_if(row.begin(), row.end(), [](float w) { return w != 0; });
  table.linear = static_cast<std::size_t>(first - row.begin());
  table.initial_scale = parts.model.deviation * kUniformDeviation;
  return table;
}

class Clicks final : public ClickObjective {
 public:
  explicit Clicks(ClickParts parts)
      : parts_(std::move(parts)),
        model_(make_sparse_model(parts_.model)),
        table_(parts_.rows ? parts_.rows(table_of(parts_, *model_)) : make_table(table_of(parts_, *model_))),
        course_(parts_.course ? parts_.course : std::make_shared<DataCourse>()),
        goes_on_(course_->stream != nullptr) {
    if (parts_.rows) note_lost();
    for (const Layer& layer : model_->layers()) add_layer(layer.name, layer.tensors);
    if (!goes_on_)
      open(0);
    else if (parts_.share_anew)
      parts_.share_anew(*course_->stream);
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override { model_->initialise(seed, x); }
  std::uint64_t steps_per_epoch() const override { return parts_.steps_per_epoch; }
  std::uint64_t data_hash() const override { return parts_.data_hash; }
  void cancel() override { cancelled_.set(); }
  void hurry() override { hurried_ = true; }

  StepResult gradient(std::span<float> x, const BatchKey& key, std::span<float> g,
                      const OnLayer& on_layer) override {
    observe();
    if (!next_batch(key.idle)) return leave_out(g, on_layer);
    unobserved_ = table_->spec().statistics;
    if (unobserved_) count_all();
    if (unobserved_) rates_.add(*table_, batch_, with_rates_);
    const SparseBatch& batch = learned();
    rows_.resize(batch.keys().size() * model_->row_width());
    if (left_to_caller_)
      table_->pull(batch.keys(), rows_);
    else
      table_->pull_to_learn(batch.keys(), rows_, pulled_);
    row_gradients_.resize(rows_.size());
    probabilities_.resize(batch.size());
    const double loss = model_->gradient(batch, rows_, x, {row_gradients_, g, probabilities_}, on_layer);
    left_out_ = !std::isfinite(loss) || !all_finite(row_gradients_);
    entries_ += batch_.entries();
    if (left_out_) return {loss, batch_.size(), true};
    progressive_.add(probabilities_, batch.labels());
    if (!left_to_caller_) table_->push_pulled(pulled_, row_gradients_);
    return {loss, batch_.size()};
  }

  Figures evaluate(std::span<const float> x) override {
    Figures figures;
    if (parts_.test) {
      predict_all(x, figures);
      if (parts_.best_auc && !best_auc_) best_auc_ = parts_.best_auc();
      if (best_auc_) figures.push_back({"best_auc", *best_auc_});
    }
    const ClickMetrics all = progressive_.total(), recent = progressive_.take_window();
    const auto add = [&](const char* auc, const char* loss, const ClickMetrics& of) {
      if (of.samples() == 0) return;  // a saved table that is looked at has learned from none
      figures.push_back({auc, of.auc()});
      figures.push_back({loss, of.log_loss()});
    };
    add("progressive_auc", "progressive_loss", all);
    add("recent_auc", "recent_loss", recent);
    figures.push_back(
        {"bad_lines", static_cast<double>(std::max(bad_before_, course_->stream->counters().bad_lines))});
    if (rows_lost_) figures.push_back({"rows_lost_in_loading", static_cast<double>(*rows_lost_)});
    if (all.samples() > 0)
      figures.push_back(
          {"keys_per_sample", static_cast<double>(entries_) / static_cast<double>(all.samples())});
    return figures;
  }

  KeyedRows* keyed_rows() override { return this; }
  Table& table() override { return *table_; }
  void leave_to_caller() override { left_to_caller_ = true; }
  Changes changes() const override {
    return left_out_ ? Changes{} : Changes{learned().keys(), row_gradients_};
  }

  void save(const ByteSink& sink) const override {
    observe();
    const std::array<std::uint64_t, 4> place{kPlaceMark, course_->epoch, course_->samples,
                                             course_->stream->in_order()};
    sink(std::as_bytes(std::span(place)));
    table_->save(sink);
  }
  void restore(const ByteSource& source) override {
    std::array<std::uint64_t, 4> place{};
    std::span<std::byte> bytes = std::as_writable_bytes(std::span(place));
    while (!bytes.empty()) {
      const std::size_t got = source(bytes);
      if (got == 0) throw OptimError("found the end of a saved table in front of its rows");
      bytes = bytes.subspan(got);
    }
    const auto [mark, epoch, samples, in_order] = place;
    if (mark != kPlaceMark)
      throw OptimError(
          "found rows that an earlier version saved, without the place in their samples; expected the mark "
          "that this one writes: resume with that version, or begin a run with table.initial");
    table_ = load_table(table_->spec(), source);
    note_lost();
    if (goes_on_ && (!parts_.follows || course_->samples > 0)) return;  // where it stands itself
    open(epoch);
    std::uint64_t& taken = course_->samples;
    if (parts_.follows) taken = course_->stream->skip(samples, in_order);
    while (!parts_.follows && taken < samples) {
      const std::size_t next =
          static_cast<std::size_t>(std::min<std::uint64_t>(parts_.batch, samples - taken));
      // It may have been another peer that learned from so many, of a share of its own.
      if (!course_->stream->next(next, model_->reads_bias(), batch_)) return open(epoch + 1);
      taken += batch_.size();
    }
  }

  const ProgressiveMetrics& progressive() const override { return progressive_; }
  StreamCounters counters() const override { return course_->stream->counters(); }

 private:
  const SparseBatch& learned() const { return table_->spec().statistics ? with_rates_ : batch_; }

  /// Of a table that was loaded.
  void note_lost() {
    const TableStatistics loaded = table_->statistics();
    if (table_->spec().memory > 0) rows_lost_ = loaded.no_room + loaded.evicted_full;
  }

  /// Of the last step's samples, once their keys have rows.
  void observe() const {
    if (std::exchange(unobserved_, false)) rates_.observe(*table_, batch_);
  }

  /// The shows and clicks of all samples stand at the row of kBiasKey, also where the model reads none.
  void count_all() {
    constexpr int kMostSightings = 64;
    if (model_->reads_bias()) return;
    const std::span all(&kBiasKey, 1);
    std::vector<float> row(model_->row_width());
    for (int i = 0; i < kMostSightings && table_->pull(all, row) == 0; ++i)
      table_->add(all, std::vector<float>(row.size(), 0.0f));  // no step
  }

  void open(std::uint64_t epoch) {
    course_->stream = parts_.train(epoch);
    course_->epoch = epoch;
    course_->samples = 0;
  }

  /// Reads on, in the next epoch where this one has ended. A stream that grows may have nothing just now.
  /// false: and it is not waited for.
  bool next_batch(const std::function<void()>* idle) {
    const auto look_or_leave = [this, idle] {
      if (idle) (*idle)();
      if (cancelled_) throw OptimError("reading was given up");
      if (hurried_) throw Hurried{};
    };
    for (bool anew = false;; anew = true) {
      SampleStream& stream = *course_->stream;
      try {
        const Looking looking(stream, look_or_leave, dry_);
        while (stream.next(parts_.batch, model_->reads_bias(), batch_)) {
          course_->samples += batch_.size();
          if (batch_.size() > 0) {
            dry_ = false;
            return true;
          }
          look_or_leave();
        }
      } catch (const Hurried&) {
        dry_ = true;  // others wait for its rounds: those to come ask without waiting
        return false;
      }
      if (anew) throw OptimError(no_samples("an epoch", "one for each peer", stream.counters()));
      bad_before_ = std::max(bad_before_, stream.counters().bad_lines);
      open(course_->epoch + 1);
    }
  }
  struct Hurried {};
  /// While the stream waits; it outlives this.
  class Looking {
   public:
    Looking(SampleStream& stream, std::function<void()> look, bool at_once) : stream_(stream) {
      stream_.while_waiting(std::move(look), at_once);
    }
    ~Looking() { stream_.while_waiting({}, false); }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;

   private:
    SampleStream& stream_;
  };

  static std::string no_samples(const char* where, const char* expected, const StreamCounters& found) {
    std::string message = std::string("found no samples in ") + where + ", of " +
                          std::to_string(found.lines) + " lines; expected at least " + expected;
    if (!found.bad.empty()) message += "; lines that cannot be understood:";
    for (const std::string& line : found.bad) message += "\n  " + line;
    return message;
  }

  /// A step without a sample: the gradient is none, so that no step is taken by it.
  StepResult leave_out(std::span<float> g, const OnLayer& on_layer) {
    left_out_ = true;
    std::fill(g.begin(), g.end(), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t layer = layers().size(); layer-- > 0;)
      if (on_layer) on_layer(layer);
    return {0, 0, true};
  }

  void predict_all(std::span<const float> x, Figures& figures) {
    const auto stream = parts_.test();
    ClickMetrics metrics;
    SparseBatch batch;
    std::vector<float> rows, probabilities, scores, labels;
    SparseBatch read;
    const bool statistics = table_->spec().statistics;
    const auto go_on = cancelled_.while_running();
    while (stream->next(kTestBatch, model_->reads_bias(), statistics ? read : batch)) {
      go_on();
      if (statistics) rates_.add(*table_, read, batch);
      rows.resize(batch.keys().size() * model_->row_width());
      table_->pull(batch.keys(), rows);
      probabilities.resize(batch.size());
      model_->predict(batch, rows, x, probabilities);
      metrics.add(probabilities, batch.labels());
      if (metrics.samples() > kMostSorted) continue;
      scores.insert(scores.end(), probabilities.begin(), probabilities.end());
      labels.insert(labels.end(), batch.labels().begin(), batch.labels().end());
    }
    const StreamCounters read_lines = stream->counters();
    if (metrics.samples() == 0) throw OptimError(no_samples("the test data", "one", read_lines));
    const bool all = scores.size() == metrics.samples();
    figures = {{"auc", all ? auc(scores, labels) : metrics.auc()},
               {"loss", metrics.log_loss()},
               {"calibration", metrics.calibration()}};
    if (!all) figures.push_back({"auc_error", metrics.auc_error()});
    if (read_lines.bad_lines > 0)
      figures.push_back({"bad_test_lines", static_cast<double>(read_lines.bad_lines)});
  }

  const ClickParts parts_;
  std::unique_ptr<SparseModel> model_;
  std::unique_ptr<Table> table_;
  std::shared_ptr<DataCourse> course_;
  bool goes_on_;  ///< with the stream of the objective before it
  Cancelled cancelled_;
  std::atomic<bool> hurried_{false};
  std::optional<double> best_auc_;
  std::optional<std::uint64_t> rows_lost_;  ///< no room for them under the table's limit when it was loaded
  std::uint64_t bad_before_ = 0;            ///< lines, the most of an earlier epoch
  std::uint64_t entries_ = 0;               ///< learned from
  bool left_to_caller_ = false;
  bool dry_ = false;       ///< there were no data last, when it was to hurry
  bool left_out_ = false;  ///< the last step's rows were not finite
  SparseBatch batch_, with_rates_;
  mutable RateFeatures rates_;
  mutable bool unobserved_ = false;
  PulledRows pulled_;
  std::vector<float> rows_, row_gradients_, probabilities_;
  ProgressiveMetrics progressive_;
};

}  // namespace

std::unique_ptr<ClickObjective> make_click_objective(ClickParts parts) {
  return std::make_unique<Clicks>(std::move(parts));
}

}  // namespace gossamer::optim

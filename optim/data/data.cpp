#include "gossamer/optim/data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "dataset.h"
#include "names.h"
#include "scratch.h"
#include "text_coding.h"

namespace gossamer::optim {
namespace {

// One row a format; each stands at the end of its own file.
constexpr std::array kFormats{&kIdx, &kCsv, &kSynthetic};

const DataFormat& format_named(std::string_view format) { return find_kind(kFormats, "data format", format); }

}  // namespace

std::span<const NamedHelp> data_format_table() {
  static const auto kHelp = help_of(kFormats);
  return kHelp;
}

const DataFormatTraits& data_format_traits(std::string_view format) { return format_named(format).traits; }

std::optional<DataSpecFault> contradiction(const DataSpec& spec) {
  const bool standard = spec.mean == 0 && spec.scale == 1;
  if (spec.standardize && !standard)
    return DataSpecFault{spec.mean == 0 ? "scale" : "mean",
                         "found data.standardize = true beside it, which takes mean and deviation of each "
                         "column from the training rows; leave one of them out"};
  if (!spec.text.empty() && !text_coding(spec.text_as).reads_text())
    return DataSpecFault{"text", "found columns of text, and data.text_as = \"" + spec.text_as +
                                     "\"; expected \"onehot\" or \"hash:N\" beside them"};
  return std::nullopt;
}

Data load_data(const DataSpec& spec) {
  const DataFormat& format = format_named(spec.format);
  if (format.traits.needs_path && spec.path.empty())
    throw OptimError("data " + spec.format + ": found no path, expected where the training rows are");
  if (!std::isfinite(spec.mean) || !std::isfinite(spec.scale) || spec.scale == 0)
    throw OptimError("data: found mean " + std::to_string(spec.mean) + " and scale " +
                     std::to_string(spec.scale) + ", expected finite numbers and a scale that is not 0");
  if (const auto fault = contradiction(spec)) throw OptimError("data." + fault->member + ": " + fault->what);
  return format.load(spec);
}

void for_each_block(const Dataset& data, const std::function<void(const Batch&)>& use) {
  const std::size_t block = std::min(kEvaluationRows, data.rows());
  Scratch<float> values;
  values.need(block * data.features());
  std::vector<std::int32_t> labels;
  std::vector<std::uint32_t> numbers;
  for (std::size_t first = 0; first < data.rows(); first += block) {
    numbers.resize(std::min(block, data.rows() - first));
    std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(first));
    labels.clear();
    if (data.classes() > 0)
      for (const std::uint32_t row : numbers) labels.push_back(data.label(row));
    const std::span<float> part = values.need(numbers.size() * data.features());
    data.gather(numbers, part);
    use({numbers.size(), data.features(), part, labels});
  }
}

Evaluation evaluate(Model& model, std::span<const float> x, const Dataset& data,
                    const std::function<void()>& go_on) {
  Evaluation total;
  for_each_block(data, [&](const Batch& batch) {
    if (go_on) go_on();
    total += model.evaluate(x, batch);
  });
  return total;
}

}  // namespace gossamer::optim

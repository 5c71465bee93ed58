#include "program_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gossamer/node/errors.h"
#include "gossamer/node/safetensors.h"
#include "gossamer/optim/finite.h"
#include "json_line.h"
#include "run_folder.h"
#include "summary.h"

namespace gossamer::node {
void write_program(const std::filesystem::path& folder, const std::vector<std::string>& words) {
  write_text(folder / kProgramFile, json_line(words) + "\n");
}

std::vector<std::string> read_program(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kProgramFile;
  std::ifstream in(path);
  if (!in) return {};
  try {
    return nlohmann::json::parse(in).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw ConfigError(path.string() +
                      ": found no list of words; expected the program and its arguments, such as "
                      "[\"python3\", \"train.py\"]");
  }
}

std::string write_average(const std::string& job, std::span<const ProgramEnd> ends,
                          const std::filesystem::path& to) try {
  std::vector<optim::Layer> layers;
  std::vector<AlignedFloats> models;
  std::vector<double> weights;
  for (const ProgramEnd& end : ends) {
    if (layers.empty()) layers = layers_in(end.model.string());
    models.emplace_back(layers.front().size);
    read_safetensors(end.model.string(), layers, models.back());
    weights.push_back(end.weight);
  }
  const std::vector<std::span<const float>> views(models.begin(), models.end());
  const AlignedFloats mean = average(views, weights);
  if (!optim::all_finite(mean)) return "some of its parameters are NaN or Inf";
  write_safetensors(to.string(), layers, mean,
                    {{"format", "pt"}, {"job", job}, {"peers", std::to_string(ends.size())}});
  return {};
} catch (const ConfigError& error) {  // they are not of one shape
  return error.what();
}

std::string to_json(const std::string& job, std::span<const ProgramEnd> ends) {
  nlohmann::ordered_json peers = nlohmann::ordered_json::array();
  for (const ProgramEnd& end : ends) {
    const WorkerResult& r = end.result;
    peers.push_back({{"peer", end.peer},
                     {"outcome", r.outcome == Outcome::finished ? "finished" : "ended before"},
                     {"rounds", r.rounds},
                     {"samples", r.rows},
                     {"train_loss", r.train_loss},
                     {"seconds", r.seconds},
                     {"bytes_out", r.traffic.bytes_out},
                     {"bytes_in", r.traffic.bytes_in},
                     {"says", end.says}});
  }
  return json_line({{"job", job}, {"peers", peers}});
}

std::string to_text(std::span<const ProgramEnd> ends) {
  std::string text;
  for (const ProgramEnd& end : ends) {
    const WorkerResult& r = end.result;
    text += fmt::format("{}: {} rounds, {:.0f} samples/s, loss {:.4f}, {:.2f} MB out; {}\n", end.peer,
                        r.rounds, static_cast<double>(r.rows_here) / std::max(1e-9, r.seconds), r.train_loss,
                        static_cast<double>(r.traffic.bytes_out) / 1e6, end.says);
  }
  return text;
}

// Of a regular file: a device may have no end.
std::string last_line(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return {};
  std::ifstream in(path);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last.starts_with("gossamer: ") ? last.substr(10) : last;
}

}  // namespace gossamer::node

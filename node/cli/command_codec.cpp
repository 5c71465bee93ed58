#include "command_codec.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>

#include "commands.h"
#include "gossamer/node/job.h"
#include "text.h"

namespace gossamer::node {
namespace {

void list_as_json() {
  auto rows = nlohmann::ordered_json::array();
  for (const compress::CodecRow& row : compress::codec_table()) {
    const auto codec = compress::make_codec(row.name);
    const compress::Traits traits = codec->traits();
    rows.push_back({{"name", row.name},
                    {"parameters", row.parameters},
                    {"help", row.help},
                    {"default", codec->spec()},
                    {"exact", traits.exact},
                    {"unbiased", traits.unbiased},
                    {"contractive", traits.contractive}});
  }
  std::cout << rows.dump(2) << '\n';
}

/// Prints a line for each parameter; the list's commas are those outside brackets.
void print_parameters(std::string_view list, std::size_t indent) {
  std::size_t depth = 0, begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    depth += c == '(' ? 1 : 0;
    depth -= c == ')' ? 1 : 0;
    if (c != ',' || depth > 0) continue;
    if (i > begin) std::cout << std::string(indent, ' ') << list.substr(begin, i - begin) << '\n';
    begin = i + 2;
  }
}

void list_as_text() {
  std::size_t width = 0;
  for (const compress::CodecRow& row : compress::codec_table())
    width = std::max(width, std::string_view(row.name).size() + 2);
  for (const compress::CodecRow& row : compress::codec_table()) {
    std::cout << std::left << std::setw(static_cast<int>(width)) << row.name << row.help << '\n';
    print_parameters(row.parameters, width);
  }
}

}  // namespace

void add_codec_list(CLI::App& codec, int& status) {
  CLI::App* list = codec.add_subcommand("list", "Lists the codecs and their parameters");
  const auto json = std::make_shared<bool>(false);
  list->add_flag("--json", *json, "Print one JSON array");
  list->callback([json, &status] {
    *json ? list_as_json() : list_as_text();
    status = kExitOk;
  });
}

std::vector<std::unique_ptr<const compress::Codec>> codecs_of(const std::vector<std::string>& specs) {
  std::vector<std::unique_ptr<const compress::Codec>> codecs;
  for (const std::string& spec : specs) codecs.push_back(compress::make_codec(spec));
  if (!specs.empty()) return codecs;
  for (const compress::CodecRow& row : compress::codec_table())
    codecs.push_back(compress::make_codec(row.name));
  return codecs;
}

std::size_t count_of(const std::string& flag, const std::string& text) {
  const auto count = parse_count(text);
  if (!count)
    throw ConfigError(flag + " " + text +
                      ": expected a whole number of entries such as 65536, 64Ki or 25M, at most 1024Gi");
  return static_cast<std::size_t>(*count);
}

nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

void add_codec_command(CLI::App& app, int& status) {
  CLI::App* codec = app.add_subcommand("codec", "What vectors look like on the wire");
  codec->require_subcommand(1);
  add_codec_list(*codec, status);
  add_codec_roundtrip(*codec, status);
  add_codec_decode(*codec, status);
  add_codec_bench(*codec, status);
  add_codec_recommend(*codec, status);
}

}  // namespace gossamer::node

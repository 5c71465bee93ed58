#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "gossamer/compress/codec.h"

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

void list_as_text() {
  std::size_t name_width = 4, parameter_width = 10;
  for (const compress::CodecRow& row : compress::codec_table()) {
    name_width = std::max(name_width, std::string_view(row.name).size());
    parameter_width = std::max(parameter_width, std::string_view(row.parameters).size());
  }
  const auto line = [&](const char* name, const char* parameters, const char* help) {
    std::cout << std::left << std::setw(static_cast<int>(name_width) + 2) << name
              << std::setw(static_cast<int>(parameter_width) + 2) << parameters << help << '\n';
  };
  line("NAME", "PARAMETERS", "WHAT IT DOES");
  for (const compress::CodecRow& row : compress::codec_table()) line(row.name, row.parameters, row.help);
}

}  // namespace

void add_codec_command(CLI::App& app, int& status) {
  CLI::App* codec = app.add_subcommand("codec", "What vectors look like on the wire");
  codec->require_subcommand(1);
  CLI::App* list = codec->add_subcommand("list", "Lists the codecs and their parameters");
  const auto json = std::make_shared<bool>(false);
  list->add_flag("--json", *json, "Print one JSON array");
  list->callback([json, &status] {
    *json ? list_as_json() : list_as_text();
    status = kExitOk;
  });
}

}  // namespace gossamer::node

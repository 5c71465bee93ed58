#include "table_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "gossamer/node/errors.h"
#include "gossamer/node/safetensors.h"
#include "gossamer/optim/model.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFirstLine = "gossamer table 1";

/// use(name, member) for what the rows of a table go by.
template <class Spec, class Use>
void each_member(Spec& s, const Use& use) {
  use("width", s.width);
  use("linear", s.linear);
  use("optimizer", s.optimizer);
  use("learning_rate", s.learning_rate);
  use("beta", s.beta);
  use("l1", s.l1);
  use("l2", s.l2);
  use("beta1", s.beta1);
  use("beta2", s.beta2);
  use("epsilon", s.epsilon);
  use("initial_scale", s.initial_scale);
  use("seed", s.seed);
  use("versions", s.versions);
  use("statistics", s.statistics);
  use("decay", s.decay);
}

ordered_json json_of(const optim::TableSpec& spec) {
  ordered_json j;
  each_member(spec, [&](const char* name, const auto& member) { j[name] = member; });
  return j;
}

optim::TableSpec spec_of(const ordered_json& j) {
  optim::TableSpec spec;
  each_member(spec, [&](const char* name, auto& member) { j.at(name).get_to(member); });
  return spec;
}

}  // namespace

void save_table_file(const fs::path& path, const optim::Table& table) {
  const fs::path target = replaced_file(path.string()), temporary = target.string() + ".tmp";
  const auto fail = [&] {
    const std::string why = std::strerror(errno);
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw std::runtime_error(fmt::format("cannot write {}: {}", path.string(), why));
  };
  std::ofstream out(temporary, std::ios::binary);
  out << kFirstLine << '\n' << json_of(table.spec()).dump() << '\n';
  if (!out) fail();
  table.save([&](std::span<const std::byte> bytes) {
    if (!out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
      fail();
  });
  out.close();
  if (!out) fail();
  if (std::rename(temporary.c_str(), target.c_str()) != 0) fail();
}

std::unique_ptr<optim::Table> load_table_file(const fs::path& path, const optim::TableSpec* spec) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw ConfigError(fmt::format("{}: {}; expected a table that a run saved (NAME.table in its folder)",
                                  path.string(), std::strerror(errno)));
  std::string first, written;
  if (!std::getline(in, first) || first != kFirstLine || !std::getline(in, written))
    throw ConfigError(fmt::format("{}: found no table's first line '{}'; expected a table that a run saved",
                                  path.string(), kFirstLine));
  try {
    auto table =
        optim::load_table(spec ? *spec : spec_of(ordered_json::parse(written)), [&](std::span<std::byte> to) {
          in.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
          return static_cast<std::size_t>(in.gcount());
        });
    if (in.peek() != std::ifstream::traits_type::eof())
      throw ConfigError(fmt::format(
          "{}: found bytes behind the table's end; expected a table that a run saved", path.string()));
    return table;
  } catch (const ordered_json::exception&) {
    throw ConfigError(
        fmt::format("{}:2: found {} bytes that are no table's specification; expected a table that "
                    "a run saved, all of it as it was written",
                    path.string(), written.size()));
  } catch (const optim::OptimError& e) {
    throw ConfigError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

}  // namespace gossamer::node

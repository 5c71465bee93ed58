#include "task.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gossamer/node/errors.h"
#include "launcher.h"
#include "program_summary.h"

namespace gossamer::node {

std::vector<std::string> task_words(const std::string& command, const Job& job, const std::string& path,
                                    const std::vector<std::string>& overrides) {
  const char* const python = std::getenv("GOSSAMER_PYTHON");
  std::vector<std::string> words{python && *python ? python : "python3",
                                 "-m",
                                 "gossamer",
                                 command,
                                 path,
                                 "--task",
                                 job.task,
                                 "--seed",
                                 std::to_string(job.run.seed)};
  for (const std::string& setting : overrides) words.insert(words.end(), {"--set", setting});
  return words;
}

TaskOutline outline_of_task(const Job& job, const std::string& path,
                            const std::vector<std::string>& overrides) {
  std::vector<std::string> words = task_words("outline", job, path, overrides);
  words.insert(words.end(), {"--batch", std::to_string(job.batch)});
  std::string text;
  Launcher launcher;
  const std::filesystem::path log =
      std::filesystem::temp_directory_path() / fmt::format("gossamer-outline-{}", getpid());
  launcher.start_program("the task", words, {}, log);
  while (launcher.running()) launcher.poll(0.1, [&](std::size_t, const std::string& line) { text = line; });
  const int status = launcher.children().front().status.value_or(1);
  const std::string said = last_line(log);
  std::filesystem::remove(log);
  try {
    if (status != 0)
      throw std::runtime_error(said.empty() ? fmt::format("{} ended with {}", words[0], status) : said);
    const auto told = nlohmann::json::parse(text);
    TaskOutline outline;
    for (const auto& tensor : told.at("tensors")) outline.tensors.emplace_back(tensor.at(0), tensor.at(1));
    outline.rows = told.at("rows");
    outline.step_s = told.at("step_seconds");
    return outline;
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format("{}: {} cannot be asked what it is: {}", job.where("model.file"), job.task,
                                  error.what()));
  }
}

void become_task(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw ConfigError(
      fmt::format("{} cannot be started: {}; expected a Python with PyTorch and the package that "
                  "deploy/install-python puts in place (GOSSAMER_PYTHON names another one)",
                  words[0], std::strerror(errno)));
}

}  // namespace gossamer::node

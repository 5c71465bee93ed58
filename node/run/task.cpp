#include "task.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "gossamer/node/errors.h"

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

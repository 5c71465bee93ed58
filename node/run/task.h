#pragma once
// Jobs whose model stands in a Python file (model.kind = "python"): which Python computes it, and how.
#include <string>
#include <utility>
#include <vector>

#include "gossamer/node/job.h"

namespace gossamer::node {

/// `python3 -m gossamer COMMAND JOB --task FILE --seed N`, and a --set for each override; the Python is the
/// one that GOSSAMER_PYTHON names, where it does.
std::vector<std::string> task_words(const std::string& command, const Job& job, const std::string& path,
                                    const std::vector<std::string>& overrides);
/// What a task says of itself, and the time that a step takes here.
struct TaskOutline {
  std::vector<std::pair<std::string, std::size_t>> tensors;  ///< name and floats
  std::size_t rows = 0;                                      ///< to train on
  double step_s = 0;                                         ///< with the job's batch, on one thread
};
/// Asks a Python. Throws ConfigError where it does not answer so.
TaskOutline outline_of_task(const Job& job, const std::string& path,
                            const std::vector<std::string>& overrides);

/// Goes on as that program. Throws ConfigError where it cannot be started.
[[noreturn]] void become_task(const std::vector<std::string>& words);

}  // namespace gossamer::node

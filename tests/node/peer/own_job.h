#pragma once
// A job that says nothing of model and data, for programs that bring these along.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "gossamer/node/job.h"
#include "process.h"

namespace gossamer::test {

struct OwnJob {
  /// text: of the job, but for its peers.
  OwnJob(std::size_t count, std::string job_text) : ports(count), peers(count), text(std::move(job_text)) {}
  node::Job load(const std::vector<std::string>& settings = {}) const {
    std::string whole = text;
    for (std::size_t p = 0; p < peers; ++p)
      whole += fmt::format("[[peer]]\nname = \"peer{}\"\naddress = \"tcp://127.0.0.1:{}\"\n", p,
                           ports.first() + p);
    return node::load_job(folder.write("job.toml", whole), settings);
  }
  Folder folder;
  Ports ports;
  std::size_t peers;
  std::string text;
};

}  // namespace gossamer::test

#pragma once
// A run's rows are read once, and lie once in the memory of the host: its peers find them there.
#include <string>
#include <vector>

#include "gossamer/node/job.h"
#include "gossamer/node/learner.h"

namespace gossamer::node {

class SharedRows {
 public:
  /// Reads the job's; throws as load_rows. Where memory cannot be shared, or there are no rows, peers see to
  /// it themselves.
  explicit SharedRows(const Job& job);
  ~SharedRows();
  SharedRows(const SharedRows&) = delete;
  SharedRows& operator=(const SharedRows&) = delete;

  /// What tells a peer that this process starts where they are.
  std::vector<std::string> words() const;
  Learner learner() const { return {.data = data_}; }

 private:
  optim::Data data_;
  int fd_ = -1;  ///< -1: none
};

/// Given what words() said of the descriptor.
Learner learner_of_shared_rows(int fd);

}  // namespace gossamer::node

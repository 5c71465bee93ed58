#include "shared_rows.h"

#include <unistd.h>

#include "setup.h"

namespace gossamer::node {

SharedRows::SharedRows(const Job& job) : data_(load_rows(job)) {
  if (data_.train) try {
      fd_ = optim::share_data(data_);
      data_ = optim::shared_data(fd_);
    } catch (const optim::OptimError&) {  // the peers read them, each its own
    }
}

SharedRows::~SharedRows() {
  if (fd_ >= 0) close(fd_);
}

std::vector<std::string> SharedRows::words() const {
  return fd_ < 0 ? std::vector<std::string>{} : std::vector<std::string>{"--rows", std::to_string(fd_)};
}

Learner learner_of_shared_rows(int fd) {
  const Learner learner{.data = optim::shared_data(fd)};
  close(fd);
  return learner;
}

}  // namespace gossamer::node

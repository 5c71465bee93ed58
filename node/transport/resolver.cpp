#include "resolver.h"

#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "endpoint.h"

namespace gossamer::node {
namespace {

constexpr std::chrono::seconds kBetween{2};  ///< from one look at the names that failed to the next

/// Empty where there is such a host.
std::string failure_of(const std::string& host) {
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error != 0) return gai_strerror(error);
  freeaddrinfo(found);
  return "";
}

}  // namespace

/// Outlives the Resolver where the look-up under way takes long.
struct Resolver::Shared {
  std::mutex mutex;
  std::condition_variable ended;
  bool ending = false;
  std::map<std::string, std::string> failures;

  void look_up(std::vector<std::string> addresses) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex);
    while (!addresses.empty()) {
      std::vector<std::string> left;
      for (const std::string& address : addresses) {
        lock.unlock();
        const std::string failure = failure_of(endpoint_of(address).host);
        lock.lock();
        if (ending) return;
        failures.erase(address);
        if (failure.empty()) continue;
        failures.emplace(address, failure);
        left.push_back(address);
      }
      addresses = std::move(left);
      if (ended.wait_for(lock, kBetween, [&] { return ending || addresses.empty(); })) return;
    }
  }
};

Resolver::Resolver(const std::vector<std::string>& addresses) : shared_(std::make_shared<Shared>()) {
  std::vector<std::string> names;
  for (const std::string& address : addresses)
    if (!is_numeric(endpoint_of(address).host)) names.push_back(address);
  if (!names.empty()) std::thread([shared = shared_, names] { shared->look_up(names); }).detach();
}

Resolver::~Resolver() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ending = true;
  shared_->ended.notify_one();
}

std::map<std::string, std::string> Resolver::failures() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->failures;
}

}  // namespace gossamer::node

#include "started.h"

#include <fcntl.h>

#include <charconv>
#include <cstdlib>

#include "gossamer/node/errors.h"
#include "records.h"

namespace gossamer::node::api {
namespace {

constexpr std::size_t kMostLines = 4096;

}  // namespace

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

Telling::Telling(std::string name) : name_(std::move(name)) {
  const std::string text = from_environment("GOSSAMER_RECORDS");
  if (text.empty()) return;
  int fd = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size() || fcntl(fd, F_GETFD) < 0)
    throw ConfigError("GOSSAMER_RECORDS is '" + text +
                      "'; expected the number of a descriptor that is open, as gossamer run sets it");
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // it is this program's alone
  lines_.emplace(fd, kMostLines);
}

double Telling::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}
void Telling::report(const Report& report) {
  if (lines_) lines_->write(to_json(name_, seconds(), report) + '\n');
}
void Telling::member(const MemberEvent& event) {
  if (lines_) lines_->write(to_json(name_, seconds(), event) + '\n');
}
void Telling::end(const WorkerResult& result) {
  if (lines_) lines_->finish(to_json(name_, result, lines_->dropped()) + '\n');
}

}  // namespace gossamer::node::api

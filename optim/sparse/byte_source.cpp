// Bytes of a file descriptor, and gzip members unpacked (RFC 1952; several may follow each other, zeros
// between and behind them as tapes and copies of whole blocks leave them; anything else is an error).
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "text.h"

extern char** environ;

namespace gossamer::optim {
namespace {

constexpr std::size_t kPacked = 1U << 16;
constexpr int kPollMs = 50;

std::string reason() { return std::strerror(errno); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ > STDERR_FILENO) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool readable(int fd, int wait_ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, wait_ms) != 0;  // an error is found by read
}

class DescriptorBytes : public RawBytes {
 public:
  DescriptorBytes(int fd, std::string name, const std::atomic<bool>* stop)
      : fd_(fd), name_(std::move(name)), stop_(stop) {}

  std::size_t read(std::span<char> out) override {
    for (;;) {
      while (stop_ && !readable(fd_.get(), kPollMs))
        if (*stop_) return 0;
      const ssize_t got = ::read(fd_.get(), out.data(), out.size());
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) return at_end(), 0;
      if (errno != EINTR) throw OptimError(name_ + ": cannot be read: " + reason());
    }
  }
  bool ready() override { return !stop_ || *stop_ || readable(fd_.get(), 0); }

 protected:
  virtual void at_end() {}
  Descriptor fd_;
  std::string name_;
  const std::atomic<bool>* stop_;  ///< null where reading never waits long
};

/// /bin/sh -c command in a process group of its own.
class CommandBytes final : public DescriptorBytes {
 public:
  CommandBytes(int fd, pid_t child, const std::string& name, const std::atomic<bool>& stop)
      : DescriptorBytes(fd, name, &stop), child_(child) {}
  ~CommandBytes() override {
    if (child_ <= 0) return;
    ::kill(-child_, SIGKILL);  // also what it started itself; it has nothing to finish for us
    reap();
  }

 private:
  int reap() {
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = 0;
    return status;
  }
  void at_end() override {
    if (child_ <= 0) return;
    const int status = reap();
    if (WIFSIGNALED(status))
      throw OptimError(name_ + ": was ended by signal " + std::to_string(WTERMSIG(status)) +
                       ", expected exit status 0");
    if (WEXITSTATUS(status) != 0)
      throw OptimError(name_ + ": ended with exit status " + std::to_string(WEXITSTATUS(status)) +
                       ", expected 0" +
                       (WEXITSTATUS(status) == 127 ? "; the shell did not find the program" : ""));
  }
  pid_t child_;
};

class Gunzip final : public RawBytes {
 public:
  Gunzip(std::unique_ptr<RawBytes> packed, std::string name, std::vector<char> begun)
      : source_(std::move(packed)), name_(std::move(name)), packed_(std::move(begun)), read_(packed_.size()) {
    if (inflateInit2(&state_, 16 + MAX_WBITS) != Z_OK) throw OptimError(name_ + ": zlib has no memory");
    state_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    state_.avail_in = static_cast<uInt>(packed_.size());
  }
  ~Gunzip() override { inflateEnd(&state_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  std::size_t read(std::span<char> out) override {
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    const auto room = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30));
    state_.avail_out = room;
    while (state_.avail_out == room) {
      if (state_.avail_in == 0 && !more()) {
        if (within_)
          throw Truncated(name_ + ": truncated: the compressed data breaks off at byte " +
                          std::to_string(place()) + ", where it ends; fetch it again");
        return 0;
      }
      if (!within_ && *state_.next_in == 0) {
        ++state_.next_in, --state_.avail_in;
        continue;
      }
      if (!within_) begin_member();
      const int code = inflate(&state_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) within_ = false;
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        throw OptimError(name_ + ": damaged compressed data at byte " + std::to_string(place()) +
                         (members_ > 1 ? ", in part " + std::to_string(members_) + " from byte " +
                                             std::to_string(begun_at_)
                                       : "") +
                         ": " + (state_.msg ? state_.msg : "zlib failed") + "; fetch it again");
    }
    return room - state_.avail_out;
  }
  bool ready() override { return state_.avail_in > 0 || source_->ready(); }

 private:
  /// Bytes that were taken of the source.
  std::uint64_t place() const { return read_ - state_.avail_in; }

  void begin_member() {
    inflateReset(&state_);
    within_ = true;
    begun_at_ = place();
    ++members_;
  }
  bool more() {
    packed_.resize(kPacked);
    const std::size_t got = source_->read(packed_);
    read_ += got;
    state_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    state_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }
  std::unique_ptr<RawBytes> source_;
  std::string name_;
  std::vector<char> packed_;
  z_stream state_{};
  bool within_ = false;  ///< a member has begun and not ended
  std::uint64_t read_, begun_at_ = 0, members_ = 0;
};

/// Gives back first what was read to see whether it is gzip.
class PlainBytes final : public RawBytes {
 public:
  PlainBytes(std::unique_ptr<RawBytes> source, std::vector<char> begun)
      : source_(std::move(source)), begun_(std::move(begun)) {}
  std::size_t read(std::span<char> out) override {
    if (given_ == begun_.size()) return source_->read(out);
    const std::size_t n = std::min(out.size(), begun_.size() - given_);
    std::copy_n(begun_.begin() + static_cast<std::ptrdiff_t>(given_), n, out.begin());
    given_ += n;
    return n;
  }
  bool ready() override { return given_ < begun_.size() || source_->ready(); }

 private:
  std::unique_ptr<RawBytes> source_;
  std::vector<char> begun_;
  std::size_t given_ = 0;
};

/// Looks at the first bytes only when they are asked for: a command may take its time.
class UnpackedBytes final : public RawBytes {
 public:
  UnpackedBytes(std::unique_ptr<RawBytes> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {}
  std::size_t read(std::span<char> out) override {
    if (!known_) look();
    return source_->read(out);
  }
  bool ready() override { return source_->ready(); }

 private:
  void look() {
    std::vector<char> begun(2);
    std::size_t have = 0;
    while (have < 2) {
      const std::size_t got = source_->read(std::span(begun).subspan(have));
      if (got == 0) break;
      have += got;
    }
    begun.resize(have);
    known_ = true;
    if (begun.size() == 2 && begun[0] == '\x1f' && begun[1] == '\x8b')
      source_ = std::make_unique<Gunzip>(std::move(source_), name_, std::move(begun));
    else
      source_ = std::make_unique<PlainBytes>(std::move(source_), std::move(begun));
  }
  std::unique_ptr<RawBytes> source_;
  std::string name_;
  bool known_ = false;
};

}  // namespace

std::unique_ptr<RawBytes> open_file_bytes(const std::string& path, std::uint64_t offset) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw OptimError(path + ": cannot be opened: " + reason());
  auto plain = std::make_unique<DescriptorBytes>(fd, path, nullptr);
  if (offset > 0 && ::lseek(fd, static_cast<off_t>(offset), SEEK_SET) < 0)
    throw OptimError(path + ": cannot be read from byte " + std::to_string(offset) + ": " + reason());
  if (offset > 0) return plain;
  return std::make_unique<UnpackedBytes>(std::move(plain), path);
}

std::unique_ptr<RawBytes> open_input_bytes(const std::atomic<bool>& stop) {
  const std::string name = "standard input";
  return std::make_unique<UnpackedBytes>(std::make_unique<DescriptorBytes>(STDIN_FILENO, name, &stop), name);
}

std::unique_ptr<RawBytes> open_command_bytes(const std::string& command, const std::string& name,
                                             const std::atomic<bool>& stop) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw OptimError(name + ": no pipe: " + reason());
  const Descriptor write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);  // whoever ignores it here must not make the command's pipes ignore it
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string shell = "/bin/sh", option = "-c", text = command;
  char* arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  pid_t child = 0;
  const int code = ::posix_spawn(&child, shell.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    ::close(ends[0]);
    throw OptimError(name + ": cannot be started: " + std::strerror(code));
  }
  return std::make_unique<UnpackedBytes>(std::make_unique<CommandBytes>(ends[0], child, name, stop), name);
}

}  // namespace gossamer::optim

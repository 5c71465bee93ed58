#pragma once
// Doorkeeper cuts connections that take more of this peer than it owes them. ZeroMQ bounds a frame and the
// messages that wait, but keeps the parts of a message until its last one is there, and holds a connection
// for ever that says nothing.
#include <sys/socket.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gossamer::node {

struct DoorSpec {
  std::size_t most_silent = 256;  ///< connections of which nothing was read yet; more: the oldest are cut
  double silent_s = 30;           ///< after which one is cut, too
  std::size_t most_of_one = 512;  ///< of one speaker; more: the one unheard for longest is cut
  /// That may have come over a connection since something was read of it: before the first message, after it.
  std::uint64_t first_bytes = 0, later_bytes = std::uint64_t{24} << 20;
};

/// Of the connections that a listening socket has taken, by file descriptor; all on one thread.
class Doorkeeper {
 public:
  explicit Doorkeeper(DoorSpec spec) : spec_(spec) {}

  void accepted(int fd, double now_s);
  /// This peer has made it: it may be silent, and little comes over it.
  void dialled(int fd, double now_s);
  void closed(int fd) { open_.erase(fd); }
  /// A message came over it that was read: of one who may speak, and who has proved that it is `speaker`.
  void heard(int fd, const std::string* speaker = nullptr, double now_s = 0);
  /// What came over it was no frame: it is made anew, and what it lost is sent again soon.
  void damaged(int fd, double now_s);
  /// Whoever speaks over it may not any more: it learns that when it dials again.
  void turned_away(int fd, double now_s);
  /// Cuts those that are over their bounds.
  void look(double now_s);
  /// Until when it need not look.
  double next_look() const { return open_.empty() ? std::numeric_limits<double>::infinity() : next_look_; }
  /// Lines for the log since the last call; of each address one in ten seconds.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }
  std::uint64_t cut() const { return cut_; }

 private:
  struct Connection {
    sockaddr_storage peer{};  ///< so that no other one of the same number is cut
    std::string address{};
    double since = 0;
    bool own = false;                  ///< made by this peer
    bool heard = false, news = false;  ///< ever; since the last look
    std::string speaker{};
    double heard_at = 0;
    std::uint64_t read_until = 0;  ///< bytes that had come when something was read last
  };
  void bound(const std::string& speaker, double now_s);
  void cut(int fd, const Connection& connection, const char* why, double now_s);

  const DoorSpec spec_;
  std::map<int, Connection> open_;
  double next_look_ = 0;
  std::uint64_t cut_ = 0;
  std::map<std::string, double> told_;  ///< by address, when
  std::vector<std::string> news_;
};

}  // namespace gossamer::node

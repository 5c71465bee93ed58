// Connections that are no peers': the training takes no notice of them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <random>
#include <system_error>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

/// A TCP connection to a peer's port.
class Stranger {
 public:
  explicit Stranger(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::system_error(errno, std::generic_category(), "connect");
  }
  ~Stranger() { close(fd_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  /// The peer may have closed the connection: that is its right.
  void say(const std::string& bytes) const { (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  /// Introduces itself as a ZeroMQ DEALER (ZMTP 3.0, mechanism NULL).
  void greet() const {
    std::string greeting = "\xff" + std::string(8, '\0') + "\x7f\x03" + std::string(1, '\0') + "NULL";
    greeting.resize(64, '\0');
    const std::string ready =
        std::string("\x05READY\x0bSocket-Type") + std::string(3, '\0') + "\x06" + "DEALER";
    say(greeting + "\x04" + static_cast<char>(ready.size()) + ready);
  }
  void frame(const std::string& body, bool more = false) const {
    std::string header(1, static_cast<char>(2 + (more ? 1 : 0)));  // a long frame: 8 bytes of length
    for (int shift = 56; shift >= 0; shift -= 8)
      header.push_back(static_cast<char>(body.size() >> shift & 255));
    say(header + body);
  }

 private:
  int fd_;
};

using Strangers = std::vector<std::unique_ptr<Stranger>>;

std::string noise(std::mt19937& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& b : bytes) b = static_cast<char>(random());
  return bytes;
}

/// All kinds of them at once; they stay connected as long as the result lives.
Strangers pester(int port, std::mt19937& random) {
  Strangers all;
  const auto next = [&]() -> const Stranger& { return *all.emplace_back(std::make_unique<Stranger>(port)); };
  for (int idle = 0; idle < 50; ++idle) next();
  for (int i = 0; i < 5; ++i) next().say(noise(random, 5000));
  next().say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Stranger& huge = next();
  huge.greet();
  huge.say("\x02" + std::string("\x00\x00\x00\x02\x00\x00\x00\x00", 8) + "a frame of 8 GiB");
  const Stranger& large = next();
  large.greet();
  large.frame(noise(random, 2 << 20));
  const Stranger& dealer = next();
  dealer.greet();
  for (std::size_t size : {0, 1, 7, 8, 16, 64, 1000, 4096, 100000}) dealer.frame(noise(random, size));
  dealer.frame("one of several", true);
  dealer.frame("parts");
  const Stranger& cut = next();
  cut.greet();
  cut.say(std::string("\x02\x00\x00\x00\x00\x00\x00\x10\x00", 9) + "and no more");
  return all;
}

/// Connections that stay, until the peer can open no file any more.
Strangers take_all_files(Process& peer, int port) {
  const rlimit limit{64, 64};
  if (prlimit(peer.pid(), RLIMIT_NOFILE, &limit, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "prlimit");
  const std::filesystem::path open = "/proc/" + std::to_string(peer.pid()) + "/fd";
  const auto count = [&] { return std::distance(std::filesystem::directory_iterator(open), {}); };
  Strangers all;
  for (int i = 0; i < 80; ++i) all.emplace_back(std::make_unique<Stranger>(port))->greet();
  CHECK(wait_until(10, [&] { return count() >= 64; }));
  return all;
}

TEST_CASE("strangers that take all of a peer's files do not cost its model") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml",
               SmallJob{2, ports.first(), "full", "choco", "onebit_scaled", "0", kForever}.toml());
  Peers peers(folder, "job.toml", 2);
  peers.start_all();
  REQUIRE(peers.train_within(20));
  const Strangers strangers = take_all_files(peers[0], ports.first());
  peers[0].signal(SIGTERM);
  REQUIRE(peers[0].wait(20));
  INFO(peers[0].err());
  CHECK(peers[0].status() == 130);
  CHECK(gossamer(folder, {"evaluate", "job.toml", peers.model(0)}).status == 0);
}

TEST_CASE("a peer that has no file left for its neighbour says so") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml", SmallJob{2, ports.first(), "full"}.toml());
  Peers peers(folder, "job.toml", 2, {"--join-timeout", "4"});
  peers.start(0);
  REQUIRE(peers[0].says_within(20, "listening on"));
  pause(0.5);  // until it has what it needs for itself
  const Strangers strangers = take_all_files(peers[0], ports.first());
  peers.start(1);
  REQUIRE(peers[0].wait(20));
  INFO(peers[0].err());
  CHECK(peers[0].status() == 3);
  CHECK(says(peers[0].err(), "missing peer1; connections may have been turned away: 64 files were open"));
}

TEST_CASE("strangers do not change what is learned") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", SmallJob{4, ports.first(), "ring", "choco", "onebit_scaled", "0", 3000}.toml());
  REQUIRE(gossamer(folder, {"run", "job.toml", "--quiet"}).status == 0);
  const std::string expected = run_folder(folder, "job") + "/peers/peer";

  std::mt19937 random(1);
  Peers peers(folder, "job.toml", 4);
  for (std::size_t i = 0; i < 3; ++i) peers.start(i);
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(peers[i].says_within(20, "listening on"));
  const Strangers while_joining = pester(ports.first(), random);
  pause(0.5);
  peers.start(3);
  REQUIRE(peers.train_within(20));
  const Strangers first = pester(ports.first(), random), second = pester(ports.first() + 1, random);
  pause(0.2);
  const Strangers more = pester(ports.first() + 1, random);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto status = peers[i].wait(60);
    INFO("peer" << i << "\n" << peers[i].err());
    CHECK(status == 0);
    CHECK((tensors(peers.model(i)) == tensors(expected + std::to_string(i) + ".safetensors")));
  }
  for (std::size_t i : {0, 1})
    CHECK(says(peers[i].err(), "frames of strangers, other runs or malformed were dropped"));
}

}  // namespace
}  // namespace gossamer::test

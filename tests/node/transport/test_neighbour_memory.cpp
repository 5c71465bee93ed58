// Payloads that a neighbour on the same machine reads where they are.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gossamer_test/catch.h"
#include "neighbour_memory.h"

using namespace gossamer::node;

namespace {

constexpr PeerId kNeighbour = 3;
constexpr std::size_t kSize = 100000;

/// A TCP connection to a port of this machine.
class Connection {
 public:
  Connection() : door_(socket(AF_INET, SOCK_STREAM, 0)), end_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    REQUIRE(bind(door_, address, size) == 0);
    REQUIRE(listen(door_, 1) == 0);
    REQUIRE(getsockname(door_, address, &size) == 0);
    REQUIRE(connect(end_, address, size) == 0);
    port_ = std::to_string(ntohs(at.sin_port));
  }
  ~Connection() {
    close(end_);
    close(door_);
  }
  int fd() const { return end_; }
  std::string address(const std::string& host = "127.0.0.1") const { return "tcp://" + host + ":" + port_; }

 private:
  int door_, end_;
  std::string port_;
};

/// Of the socket beside a TCP address.
class UnixName {
 public:
  explicit UnixName(const std::string& address) {
    const std::string name = "gossamer frames " + address;
    at_.sun_family = AF_UNIX;
    std::memcpy(at_.sun_path + 1, name.data(), name.size());
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&at_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un at_{};
  socklen_t size_ = 0;
};

Payload some_payload(std::size_t bytes = kSize) {
  auto payload = std::make_shared<std::vector<std::byte>>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) (*payload)[i] = static_cast<std::byte>(i * 7 + i / 256);
  return payload;
}
bool same(const Payload& a, const Payload& b) { return std::ranges::equal(*a, *b); }

bool nothing(std::span<const std::byte>) { return false; }

/// What `memory` watches, and takes in of it.
std::vector<PeerId> look(NeighbourMemory& memory, double now = 0,
                         const NeighbourMemory::Take& take = nothing) {
  std::vector<pollfd> polled;
  memory.watch(polled);
  REQUIRE(poll(polled.data(), polled.size(), 0) >= 0);
  memory.notice(polled);
  return memory.look(now, true, take);
}

void both_look(NeighbourMemory& lender, NeighbourMemory& reader, double now = 0) {
  for (int turn = 0; turn < 3; ++turn) {
    look(reader, now);
    look(lender, now);
  }
}

/// One who lends to one who listens, acquainted.
struct Acquainted {
  explicit Acquainted(const std::string& listens_on = "127.0.0.1", bool hears = true) {
    reader.open(connection.address(listens_on), hears);
    lender.connected(kNeighbour, connection.fd(), connection.address());
    CHECK_FALSE(lender.lendable(kNeighbour, some_payload()));  // it is asked
    both_look(lender, reader);
  }
  Connection connection;
  NeighbourMemory lender, reader;
};

std::vector<std::byte> bytes_of(const Ticket& ticket) {
  std::vector<std::byte> bytes(sizeof ticket + 8);
  std::memcpy(bytes.data(), &ticket, sizeof ticket);
  return bytes;
}

}  // namespace

TEST_CASE("a neighbour of this machine reads payloads where they are, and room comes back") {
  for (const std::string host : {"127.0.0.1", "*", "0.0.0.0"}) {
    INFO(host);
    Acquainted both(host);
    const Payload payload = some_payload();
    const void* first_place = nullptr;
    for (int time = 0; time < 50; ++time) {
      const Payload shared = both.lender.lendable(kNeighbour, payload);
      REQUIRE(shared);
      CHECK(same(shared, payload));
      CHECK(same(both.lender.lendable(kNeighbour, shared), shared));
      CHECK(both.lender.lendable(kNeighbour, shared)->data() == shared->data());  // it is there already
      if (time == 0) first_place = shared->data();
      CHECK(shared->data() == first_place);  // what was lent before is room again
      const auto ticket = both.lender.lend(kNeighbour, *shared);
      REQUIRE(ticket);
      const auto told = NeighbourMemory::ticket_of(bytes_of(*ticket));
      REQUIRE(told);
      const Payload read = both.reader.read(*told);
      REQUIRE(read);
      CHECK(same(read, payload));
      CHECK(read->data() != shared->data());  // another mapping
    }
  }
}

TEST_CASE("what a neighbour still reads is not written to") {
  Acquainted both;
  const Payload payload = some_payload();
  std::vector<Payload> read;
  for (int k = 0; k < 5; ++k) {
    const Payload shared =
        both.lender.lendable(kNeighbour, some_payload(kSize + static_cast<std::size_t>(k)));
    read.push_back(both.reader.read(both.lender.lend(kNeighbour, *shared).value()));
  }  // the lender has let go of all
  for (std::size_t k = 0; k < read.size(); ++k) CHECK(same(read[k], some_payload(kSize + k)));
  // the same one twice: it is free when both have been read
  Payload twice = both.lender.lendable(kNeighbour, payload);
  const void* const place = twice->data();
  Payload one = both.reader.read(both.lender.lend(kNeighbour, *twice).value());
  Payload other = both.reader.read(both.lender.lend(kNeighbour, *twice).value());
  twice = {}, one = {};
  CHECK(both.lender.lendable(kNeighbour, payload)->data() != place);
  other = {};
  CHECK(both.lender.lendable(kNeighbour, payload)->data() == place);
  // one that was not sent after all
  Payload kept = both.lender.lendable(kNeighbour, payload);
  NeighbourMemory::take_back(both.lender.lend(kNeighbour, *kept).value());
  const void* const there = kept->data();
  kept = {};
  CHECK(both.lender.lendable(kNeighbour, payload)->data() == there);
}

TEST_CASE("nothing is lent to who is on another machine, refuses, or does not listen") {
  const Payload payload = some_payload();
  {
    Acquainted both;
    CHECK_FALSE(both.lender.lendable(kNeighbour, some_payload(100)));  // not worth it
    CHECK_FALSE(both.lender.lendable(kNeighbour + 1, payload));
    CHECK_FALSE(both.lender.lend(kNeighbour + 1, *payload));
  }
  Connection connection;
  NeighbourMemory lender;
  lender.connected(kNeighbour, connection.fd(), connection.address());
  CHECK_FALSE(lender.lendable(kNeighbour, payload));  // nobody is there
  look(lender);
  CHECK_FALSE(lender.lendable(kNeighbour, payload));
  lender.connected(kNeighbour, connection.fd(),
                   "tcp://127.0.0.1:1");  // the descriptor is another connection's
  NeighbourMemory reader;
  reader.open(connection.address(), true);
  CHECK_FALSE(lender.lendable(kNeighbour, payload));
  both_look(lender, reader);
  CHECK_FALSE(lender.lendable(kNeighbour, payload));
}

TEST_CASE("tickets for what was not lent are refused") {
  Acquainted both;
  const Payload shared = both.lender.lendable(kNeighbour, some_payload());
  const Ticket good = both.lender.lend(kNeighbour, *shared).value();
  const auto refused = [&](const auto& change) {
    Ticket wrong = good;
    change(wrong);
    return !both.reader.read(wrong);
  };
  CHECK(refused([](Ticket& t) { ++t.lender; }));
  CHECK(refused([](Ticket& t) { ++t.reader; }));
  CHECK(refused([](Ticket& t) { t.place.offset = 0; }));
  CHECK(refused([](Ticket& t) { t.place.offset += 8; }));
  CHECK(refused([](Ticket& t) { t.place.offset = ~std::uint64_t{63}; }));
  CHECK(refused([](Ticket& t) { t.place.bytes = ~std::uint64_t{0}; }));
  CHECK(refused([](Ticket& t) { t.place.bytes = std::uint64_t{1} << 40; }));
  CHECK(both.reader.read(good));
  CHECK_FALSE(both.reader.read(good));  // it was given back
  CHECK_FALSE(NeighbourMemory::ticket_of(bytes_of(Ticket{.mark = 1})));
  CHECK_FALSE(NeighbourMemory::ticket_of(std::vector<std::byte>(20)));
}

TEST_CASE("who ends is lent nothing more, what it had is room again, and what it lent can be read on") {
  Connection connection;
  NeighbourMemory lender;
  auto reader = std::make_unique<NeighbourMemory>();
  const auto acquaint = [&] {
    reader->open(connection.address(), true);
    lender.connected(kNeighbour, connection.fd(), connection.address());
    lender.lendable(kNeighbour, some_payload());
    both_look(lender, *reader);
  };
  acquaint();
  Payload shared = lender.lendable(kNeighbour, some_payload());
  REQUIRE(shared);
  const void* const place = shared->data();
  lender.lend(kNeighbour, *shared);  // and never read
  shared = {};
  lender.broken(kNeighbour);
  CHECK_FALSE(lender.lend(kNeighbour, *some_payload()));
  acquaint();
  CHECK(lender.lendable(kNeighbour, some_payload())->data() != place);  // it may still be read
  both_look(lender, *reader, 1);
  both_look(lender, *reader, 100);
  acquaint();  // this looks at those who have left
  CHECK(lender.lendable(kNeighbour, some_payload())->data() == place);

  // of a lender that has gone
  Payload read;
  {
    NeighbourMemory other;
    Connection second;
    reader->open(second.address(), true);
    other.connected(kNeighbour, second.fd(), second.address());
    other.lendable(kNeighbour, some_payload());
    both_look(other, *reader, 100);
    const Payload last = other.lendable(kNeighbour, some_payload(kSize + 1));
    read = reader->read(other.lend(kNeighbour, *last).value());
  }
  look(*reader, 200);
  look(*reader, 300);
  reader.reset();
  CHECK(same(read, some_payload(kSize + 1)));
}

TEST_CASE("short frames go over the acquaintance's own socket, whole and in order") {
  using Sent = NeighbourMemory::Sent;
  const auto frame_of = [](std::size_t size, std::size_t number) {
    std::vector<std::byte> frame(size, static_cast<std::byte>(number));
    frame[0] = std::byte{7};
    return frame;
  };
  Acquainted both;
  CHECK(both.lender.send(kNeighbour + 1, nullptr, frame_of(10, 0)) == Sent::no);
  CHECK(both.lender.send(kNeighbour, nullptr, frame_of(100000, 0)) == Sent::no);  // not this way
  const Payload shared = both.lender.lendable(kNeighbour, some_payload());
  const Ticket ticket = both.lender.lend(kNeighbour, *shared).value();
  std::vector<std::vector<std::byte>> sent, came;
  const auto take = [&](std::span<const std::byte> message) {
    CHECK(reinterpret_cast<std::uintptr_t>(message.data()) % 8 == 0);
    came.emplace_back(message.begin(), message.end());
    return true;
  };
  for (int turn = 0; turn < 3; ++turn) {
    Sent last = Sent::yes;
    for (std::size_t k = 0; last == Sent::yes; ++k) {
      REQUIRE(k < 10000);
      std::vector<std::byte> frame = frame_of(1 + (k * 997) % 30000, k);
      last = both.lender.send(kNeighbour, k % 2 == 0 ? &ticket : nullptr, frame);
      if (last != Sent::yes) break;
      if (k % 2 == 0) {
        std::vector<std::byte> whole(sizeof ticket);
        std::memcpy(whole.data(), &ticket, sizeof ticket);
        frame.insert(frame.begin(), whole.begin(), whole.end());
      }
      sent.push_back(std::move(frame));
    }
    CHECK(last == Sent::waits);
    for (std::size_t before = came.size() + 1; before != came.size();) {
      before = came.size();
      look(both.reader, 0, take);
    }
    CHECK((came == sent));
    std::vector<pollfd> polled;  // the lender is told that there is room
    both.lender.watch(polled);
    REQUIRE(poll(polled.data(), polled.size(), 0) > 0);
    CHECK(both.lender.notice(polled));
    both.lender.look(0, true, nothing);
  }
  CHECK(both.reader.read(ticket));

  // what was on its way when the connection ended still comes, once
  came.clear();
  REQUIRE(both.lender.send(kNeighbour, nullptr, frame_of(5, 1)) == Sent::yes);
  both.lender.broken(kNeighbour);
  CHECK(both.lender.send(kNeighbour, nullptr, frame_of(5, 1)) == Sent::no);
  look(both.reader, 0, take);
  look(both.reader, 0, take);
  CHECK(came.size() == 1);
}

TEST_CASE("who only reads payloads is sent no frames") {
  Acquainted both("127.0.0.1", false);
  CHECK(both.lender.lendable(kNeighbour, some_payload()));
  CHECK(both.lender.send(kNeighbour, nullptr, std::vector<std::byte>(100)) == NeighbourMemory::Sent::no);
}

TEST_CASE("a frame that finds its reader gone takes its ticket back") {
  Connection connection;
  NeighbourMemory lender;
  const auto acquaint = [&] {
    auto reader = std::make_unique<NeighbourMemory>();
    reader->open(connection.address(), true);
    lender.connected(kNeighbour, connection.fd(), connection.address());
    lender.lendable(kNeighbour, some_payload());
    both_look(lender, *reader);
    return reader;
  };
  auto reader = acquaint();
  Payload shared = lender.lendable(kNeighbour, some_payload());
  const void* const place = shared->data();
  const Ticket ticket = lender.lend(kNeighbour, *shared).value();
  reader.reset();
  const std::vector<std::byte> frame(100);
  CHECK(lender.send(kNeighbour, &ticket, frame) == NeighbourMemory::Sent::broke);
  CHECK(lender.send(kNeighbour, nullptr, frame) == NeighbourMemory::Sent::no);
  shared = {};
  reader = acquaint();
  shared = lender.lendable(kNeighbour, some_payload());
  CHECK(shared->data() == place);  // nobody has it
  CHECK(reader->read(lender.lend(kNeighbour, *shared).value()));
}

TEST_CASE("what is no frame ends the way it came by, and the other end goes another") {
  Acquainted both;
  REQUIRE(both.lender.send(kNeighbour, nullptr, std::vector<std::byte>(100)) == NeighbourMemory::Sent::yes);
  int taken = 0;
  const auto refuse = [&](std::span<const std::byte>) {
    ++taken;
    return false;
  };
  look(both.reader, 0, refuse);
  CHECK(taken == 1);
  CHECK(both.lender.send(kNeighbour, nullptr, std::vector<std::byte>(100)) == NeighbourMemory::Sent::broke);
  CHECK_FALSE(both.lender.lendable(kNeighbour, some_payload()));
  look(both.reader, 0, refuse);
  CHECK(taken == 1);
}

TEST_CASE("strangers at the door are sent away") {
  Acquainted both;
  const UnixName door("127.0.0.1:" + both.connection.address().substr(16));
  std::vector<int> strangers;
  for (const std::string& said : std::vector<std::string>{"", "hello", std::string(24, 'x')}) {
    const int stranger = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    REQUIRE(connect(stranger, door.get(), door.size()) == 0);
    if (!said.empty()) REQUIRE(send(stranger, said.data(), said.size(), 0) > 0);
    strangers.push_back(stranger);
  }
  both_look(both.lender, both.reader);
  for (std::size_t k = 1; k < strangers.size(); ++k) {  // the first may still say something
    char answer = 0;
    CHECK(recv(strangers[k], &answer, 1, 0) == 0);
  }
  for (const int stranger : strangers) close(stranger);
  both_look(both.lender, both.reader);
  CHECK(both.lender.lendable(kNeighbour, some_payload()));
}

TEST_CASE("a child that is forked shares nothing of its parent's memory") {
  Acquainted both;
  Payload shared = both.lender.lendable(kNeighbour, some_payload());
  const std::uint64_t token = SharedBlocks::started()->token();
  const pid_t child = fork();
  if (child == 0) {  // no test runs here
    bool good = SharedBlocks::started() == nullptr;
    shared = {};  // of the parent's
    SharedBlocks* const own = SharedBlocks::start();
    good = good && own && own->token() != token;
    const ByteBlock block = own ? own->take(kSize) : ByteBlock();
    good = good && block.owner;
    if (block.owner) std::fill(block.bytes.begin(), block.bytes.end(), std::byte{1});
    _exit(good ? 0 : 1);
  }
  REQUIRE(child > 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(same(shared, some_payload()));
  CHECK(SharedBlocks::started()->token() == token);
}

TEST_CASE("where memory is limited none is shared") {
  for (const auto limit : {RLIMIT_AS, RLIMIT_FSIZE}) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit low{std::uint64_t{1} << 24, std::uint64_t{1} << 24};
      if (limit == RLIMIT_FSIZE) setrlimit(limit, &low);
      const rlimit enough{std::uint64_t{1} << 62, std::uint64_t{1} << 62};
      if (limit == RLIMIT_AS) setrlimit(limit, &enough);
      _exit(SharedBlocks::start() ? 1 : 0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

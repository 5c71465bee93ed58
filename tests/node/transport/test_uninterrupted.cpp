// A signal that comes while a socket is read is no error.
#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "gossamer_test/catch.h"
#include "uninterrupted.h"

using namespace gossamer::node;

namespace {

void ignored(int) {}

TEST_CASE("a socket is read through any number of signals") {
  struct sigaction action {
  }, before{};
  action.sa_handler = ignored;  // without SA_RESTART: calls come back with EINTR
  sigemptyset(&action.sa_mask);
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  zmq::context_t context{1};
  zmq::socket_t in(context, zmq::socket_type::pair), out(context, zmq::socket_type::pair);
  in.bind("inproc://uninterrupted");
  out.connect("inproc://uninterrupted");

  const auto under_signals = [&](const auto& read) {
    const pthread_t reader = pthread_self();
    std::thread sender([&] {
      for (int signal = 0; signal < 20; ++signal) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        pthread_kill(reader, SIGUSR1);
      }
      zmq::message_t message(std::string("after them"));
      send_uninterrupted(out, message, zmq::send_flags::none);
    });
    const bool came = read();
    sender.join();
    return came;
  };

  zmq::message_t message;
  CHECK(under_signals([&] { return receive_uninterrupted(in, message); }));
  CHECK(message.to_string() == "after them");
  CHECK_FALSE(receive_uninterrupted(in, message, zmq::recv_flags::dontwait));
  // ZeroMQ by itself does not bear them: else this test would show nothing
  CHECK_FALSE(under_signals([&] {
    try {
      return in.recv(message).has_value();
    } catch (const zmq::error_t& error) {
      CHECK(error.num() == EINTR);
      return false;
    }
  }));
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace

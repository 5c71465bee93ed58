#pragma once
// Asks a running peer how it sees its run.
#include <functional>
#include <optional>
#include <string>

#include "locks.h"
#include "status_body.h"

namespace gossamer::node {

/// address: tcp://host:port, where a peer listens; keys: with which the connection is made, none: plain. stop
/// is asked a few times a second; true gives up. Throws ConfigError where the address is none, and
/// std::runtime_error where nothing listens there, or what does is no peer of this wire version, or gives no
/// answer in time.
StatusBody ask_status(const std::string& address, const std::optional<ClientKeys>& keys, double timeout_s,
                      const std::function<bool()>& stop = {});

}  // namespace gossamer::node

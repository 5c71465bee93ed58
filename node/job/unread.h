#pragma once
// An UnreadKey is a key of a job that makes no difference to it, because of a name that the job holds: that
// of a method, a kind of model, an optimiser, a rate schedule, a data format or a kind of graph. Which keys
// these read stands in their own descriptors.
#include <map>
#include <string>
#include <vector>

#include "config_keys.h"

namespace gossamer::node::config {

/// What the name belongs to: the exchange method, which others than users choose too (swarms, advice), or any
/// of the rest.
enum class Chosen { kMethod, kOthers };

struct UnreadKey {
  std::string name;                  ///< in full: "exchange.gamma"
  std::string value, fallback;       ///< as TOML; the key has this value, and by default that one
  std::string chosen;                ///< "method 'dpsgd'"
  std::vector<std::string> readers;  ///< names in its place to which the key makes a difference
};
/// In the order of the tables of keys. A key with its default value is none, written or not: a job with every
/// key written out can be read again.
std::vector<UnreadKey> unread_keys(Draft draft, Chosen chosen);
std::vector<UnreadKey> unread_keys(const ExchangeSettings& exchange);

/// What a file says before overrides are read.
struct FileWords {
  std::map<std::string, std::string> origins;  ///< as Written's
  std::vector<UnreadKey> unread;
};
FileWords words_of_file(const Draft& draft);

/// Throws ConfigError for the first key that was written and makes no difference. An override that puts
/// another name in the place of the file's, as optimizer.kind=sgd does, takes along what the file wrote for
/// that name: these keys get their defaults. Leaves methods to the plan (see Chosen).
void settle_unread(const FileWords& file, Draft& draft);

/// What is to be said after the place where the key was written.
std::string refusal(const UnreadKey& key);

/// Gives those that unread_keys finds their defaults: for who puts other names into a job.
void drop_unread(Job& job, Chosen chosen);

}  // namespace gossamer::node::config

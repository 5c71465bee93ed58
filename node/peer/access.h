#pragma once
// These functions make of a job, and of files that it names, who may speak in its run.
#include <optional>
#include <string>

#include "asking.h"
#include "gossamer/node/job.h"
#include "locks.h"

namespace gossamer::node {

/// The lists of a job that says who may speak. Throws ConfigError where the file of revoked keys is none.
AccessList access_of(const Job& job);

/// By name the keys under which the job's list knows peers.
std::map<std::string, std::vector<PublicKey>> listed_keys(const Job& job);
/// Those that are not revoked: under which a peer may listen.
std::map<std::string, std::vector<PublicKey>> dialled_keys(const Job& job);

/// Of the peer of that name: the file of its key, and of its certificate; the latter is empty where the job
/// names none and there is none.
std::string key_file(const Job& job, const std::string& name);
std::string certificate_file(const Job& job, const std::string& name);

/// What the peer of that name closes its connections with; none where the job says nothing of who may speak.
/// Throws ConfigError where its key or certificate cannot be read, or would not be admitted by these very
/// rules.
std::optional<Locks> locks_of(const Job& job, const std::string& name);

/// For a connection to that member; none: plain. key_file: of this peer, or of any that the member lets in;
/// certificate: its file, empty: none. Throws ConfigError.
std::optional<ClientKeys> client_keys(const MemberAddress& member, const std::string& key_file,
                                      const std::string& certificate);

/// Throws ConfigError where anyone could speak: nothing says who may, other machines reach that address, and
/// the job does not say that this is meant. what: whose it is, for the message.
void refuse_open(const Job& job, const std::string& what, const std::string& address);
/// Throws ConfigError where a run whose connections are locked would be open from now on, or the other way
/// round.
void refuse_opening(const Job& before, const Job& after);

}  // namespace gossamer::node

#pragma once
// These functions ask a member of a run under way for the run's terms, before there is a peer here.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aligned.h"
#include "frame.h"
#include "locks.h"

namespace gossamer::node {

struct Terms {
  TermsBody body;
  std::uint64_t job_id = 0;   ///< by which the members know their frames
  std::uint16_t version = 0;  ///< of the wire format, that the member speaks
};
/// Where a member listens, and its public key where it was given beside that.
struct MemberAddress {
  std::string address;  ///< tcp://host:port
  std::optional<PublicKey> key{};
};
/// Of tcp://host:port or tcp://host:port#PUBLICKEY. Throws ConfigError, which begins with `asked`, where the
/// text is neither.
MemberAddress member_address(const std::string& text, const std::string& asked);

/// member: of the run; keys: with which the connection is made, none: plain; name: under which this peer
/// would take part. Where a peer of that name lives it is asked again for a while: one that was killed may
/// not be missed yet. stop: is asked a few times a second. Throws ConfigError where none answers in time, or
/// it refuses, and Interrupted.
Terms ask_for_terms(const MemberAddress& member, const std::optional<ClientKeys>& keys,
                    const std::string& name, double timeout_s, const std::function<bool()>& stop = {});

struct AskedMember {
  MemberAddress member;
  std::optional<ClientKeys> keys{};  ///< with which the connection is made; none: plain
};
/// Of the initial parameters that a peer would begin with.
struct InitialSpec {
  std::string layers;  ///< as in HelloBody
  std::uint64_t hash = 0;
  std::size_t floats = 0;
};
struct OthersInitial {
  std::string from;
  AlignedFloats floats;  ///< empty: they are the same, or the layers are others
};
/// The initial parameters of those members' run, by the first of them that answers; nothing where none does
/// in time, or stop, which is asked a few times a second, says so. name: of this peer.
std::optional<OthersInitial> ask_for_initial(const std::vector<AskedMember>& members, const std::string& name,
                                             const InitialSpec& own, double timeout_s,
                                             const std::function<bool()>& stop);

/// Throws ConfigError, which begins with `asked`, where the text is no tcp://host:port.
void check_address(const std::string& text, const std::string& asked);

/// The address of this machine from which that one is reached, without a port. Throws ConfigError where there
/// is none.
std::string own_host_towards(const std::string& address);

}  // namespace gossamer::node

#include "initial.h"

#include <algorithm>
#include <utility>

#include "access.h"
#include "joining.h"

namespace gossamer::node {
namespace {

/// The job's first peer asks no longer: where others have begun they answer at once.
constexpr double kFirstAsks_s = 0.3;
constexpr std::size_t kMostAsked = 16;

}  // namespace

bool may_differ(const Prepared& base) {
  return base.homogeneous() && base.job.initial.empty() && base.learner.objective;
}

std::optional<OthersInitial> initial_of_others(const Prepared& base, const std::string& name,
                                               const std::string& join, const std::function<bool()>& stop) {
  const Job& job = base.job;
  std::vector<AskedMember> members;
  const auto add = [&](const MemberAddress& member) {
    members.push_back({member, client_keys(member, key_file(job, name), certificate_file(job, name))});
  };
  const auto keys = dialled_keys(job);  // of which a peer that changes its own has several
  double patience_s = job.run.join_timeout;
  if (!join.empty()) {
    add(member_of(job, join));
  } else {
    const auto reached =
        std::ranges::find_if(job.peers, [](const PeerEntry& p) { return !p.address.empty(); });
    if (reached == job.peers.end() || reached->name == name) patience_s = std::min(patience_s, kFirstAsks_s);
    for (auto p = reached; p != job.peers.end() && members.size() < kMostAsked; ++p)
      if (p->address.empty() || p->name == name) {
        continue;
      } else if (!job.access.locked()) {
        add({p->address});
      } else if (const auto own = keys.find(p->name); own != keys.end()) {
        for (const PublicKey& key : own->second) add({p->address, key});
      }
  }
  return ask_for_initial(members, name, {base.hello.layers, base.hello.parameters_hash, base.initial.size()},
                         patience_s, stop);
}

Prepared with_initial(const Prepared& base, AlignedFloats initial) {
  Prepared all = base;
  all.initial = std::move(initial);
  make_plan(all);
  return all;
}

}  // namespace gossamer::node

#pragma once
// Attack makes what a Byzantine peer sends, so that an experiment shows what the others tolerate: key
// sim.attackers, "peer3=sign_flip:10". The control code of an attacker is everyone's; its data plane changes
// what it encodes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data_plane.h"
#include "gossamer/optim/model.h"

namespace gossamer::node {

struct AttackSpec {
  enum class Kind { none, sign_flip, noise, zero, label_flip, alie, nan } kind = Kind::none;
  double size = 0;                           ///< as the table of attacks says
  static constexpr double kPapersSize = -1;  ///< alie: z by the number of peers and of attackers
};

/// name and one line of help with the default size.
std::span<const optim::NamedHelp> attack_table();

struct Attacker {
  std::string peer;
  AttackSpec attack;
};
/// "peer3=noise:100" or "peer3=zero". Throws ConfigError that says what was expected.
Attacker parse_attacker(const std::string& text);
/// Of the dense code, which every peer reads: numbers of which the last is NaN.
std::vector<std::byte> not_finite_payload(std::size_t entries);
/// The wrong side of one peer's data plane. Deterministic: noise is drawn from (seed, peer, round, range).
/// `alie` (Baruch, Baruch & Goldberg 2019, "A little is enough") sends mean − z·(standard deviation) of each
/// entry, z by default the largest that still hides among the job's peers. The attacker knows no other peer's
/// vectors: it estimates both from its own vectors of the last rounds, by moving averages that keep 0.9 a
/// round (the first vector goes out as it is).
class Attack {
 public:
  Attack(AttackSpec spec, std::uint64_t seed, std::uint32_t peer) : spec_(spec), seed_(seed), peer_(peer) {}
  /// What is encoded in place of v; valid until the next call.
  std::span<const float> corrupt(std::span<const float> v, const op::Encode& o);
  /// What is sent in place of the payload, of so many entries; the attacker's own estimates go by the latter.
  Payload spoil(Payload payload, std::size_t entries);
  /// Whether spoil made it: methods that send what they use themselves get it back.
  bool spoiled(const Payload& payload) const {
    return std::any_of(spoiled_.begin(), spoiled_.end(), [&](const auto& s) { return s.lock() == payload; });
  }
  /// It changes what is encoded, or sent.
  bool attacks() const {
    return spec_.kind != AttackSpec::Kind::none && spec_.kind != AttackSpec::Kind::label_flip;
  }
  /// What is learned: label_flip takes class c for classes − 1 − c.
  bool flips_labels() const { return spec_.kind == AttackSpec::Kind::label_flip; }

  void archive(Archive archive);

 private:
  struct Moments {
    std::vector<float> mean, variance;
  };
  void draw_noise(std::span<const float> v, const op::Encode& o);
  void shift_mean(std::span<const float> v, Moments& moments);

  AttackSpec spec_;
  std::uint64_t seed_;
  std::uint32_t peer_;
  std::vector<float> wrong_;
  std::vector<std::weak_ptr<const std::vector<std::byte>>> spoiled_{};  ///< nan: that are still in use
  std::map<std::pair<std::uint32_t, std::size_t>, Moments> moments_;    ///< alie: by tag and range begin
};

}  // namespace gossamer::node

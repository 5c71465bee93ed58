#pragma once
// Gate remembers which connections may speak, under what name, and for how long one may go without a word of
// who it is.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "admission.h"

namespace gossamer::node {

struct GateSpec {
  std::size_t most_on_probation = 64;    ///< keys at once; more are turned away
  std::size_t most_of_one_address = 16;  ///< of those
  double probation_s = 5;                ///< in which a certificate must come
  double turned_away_s = 10;             ///< for which a key that failed that is turned away at once
};

/// A connection is known by the public key that it has proved to have. Times are seconds of a clock that does
/// not go back, clock_s is Unix time. Any thread may call anything.
class Gate {
 public:
  explicit Gate(AccessList access, GateSpec spec = {});

  /// From now on these rules hold, also for connections that stand. Certificates that were shown are looked
  /// at again.
  void replace(AccessList access);

  /// A connection is being made: let it in, to speak or on probation? What is refused is remembered
  /// (take_news).
  bool knock(const PublicKey& key, const std::string& from, double now_s, std::int64_t clock_s);

  /// Under which name a message that came over such a connection is to be read; empty: it is not, and
  /// counted. From a key on probation nothing is read but its certificate; one that does not admit it
  /// ends the probation.
  std::optional<std::string> speaker(const PublicKey& key, std::span<const std::byte> message, double now_s,
                                     std::int64_t clock_s);

  /// Names those whose time has passed without a certificate.
  void end_probation(double now_s);
  /// Of a key that was turned away lately: its connection is of no use.
  bool turns_away(const PublicKey& key, double now_s);

  /// Lines for the log, since the last call: who was let in by a certificate, who was turned away, and why;
  /// of each key and reason once in turned_away_s.
  std::vector<std::string> take_news();
  /// Handshakes and messages that were refused, by reason.
  std::map<Admitted, std::uint64_t> refused() const;

 private:
  struct Known {
    std::optional<Certificate> certificate{};
    std::optional<double> on_probation_since{};
    double turned_away_until = 0;
    double told = 0;  // of the last word about it
    std::optional<Admitted> told_of{};
    std::string from{};
  };
  Admission admission(const PublicKey& key, Known& known, std::int64_t clock_s) const;
  void refuse(const PublicKey& key, Known& known, Admitted why, double now_s);
  void forget_old(double now_s);
  /// From that address; null: from all.
  std::size_t on_probation(double now_s, const std::string* from = nullptr) const;

  const GateSpec spec_;
  mutable std::mutex mutex_;
  AccessList access_;
  std::map<PublicKey, Known> known_;
  std::map<Admitted, std::uint64_t> refused_;
  std::vector<std::string> news_;
  double told_since_ = 0;  ///< of those that were turned away, so many
  std::size_t told_ = 0;
};

}  // namespace gossamer::node

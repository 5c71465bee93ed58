#pragma once
// An OwnKey is a key of [exchange] that belongs to one method: its descriptor names it, job files read and
// print it, and swarms draw it. An OwnValue is where its value stands in the settings.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <variant>

#include "gossamer/node/exchange_settings.h"

namespace gossamer::node {

template <class T>
struct OwnValue {
  const char* name;  ///< without "exchange."
  T fallback;        ///< where the job leaves it out

  T of(const ExchangeSettings& exchange) const {
    const auto at = exchange.own.find(name);
    return at == exchange.own.end() ? fallback : std::get<T>(at->second);
  }
  T& in(ExchangeSettings& exchange) const {
    return std::get<T>(exchange.own.try_emplace(name, fallback).first->second);
  }
};

struct OwnKey {
  std::variant<OwnValue<bool>, OwnValue<std::uint64_t>, OwnValue<double>> value;
  const char* help;  ///< one line; the method's name is put before it
  const char* unit = "";
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool open_low = false, open_high = false;  ///< the bound itself is not in range
  std::span<const double> drawn{};  ///< what swarms draw, of flags 0 or 1; empty: they leave it alone

  const char* name() const {
    return std::visit([](const auto& v) { return v.name; }, value);
  }
};

// Values that others than the method's own file read.
inline constexpr OwnValue<double> kSendMomentum{"send_momentum", 0};       ///< 0: gradients as they are
inline constexpr OwnValue<double> kFeedbackDecay{"feedback_decay", 0.95};  ///< from one exchange to the next
inline constexpr OwnValue<std::uint64_t> kModuloBits{"modulo_bits", 8};    ///< of each parameter, 1 … 8
inline constexpr OwnValue<double> kModuloBound{"modulo_bound", 1};         ///< size of a cell (B)

}  // namespace gossamer::node

#include "attack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gossamer/compress/codec.h"
#include "gossamer/node/errors.h"
#include "text.h"

namespace gossamer::node {
namespace {

using Kind = AttackSpec::Kind;

constexpr float kKeep = 0.9f;  ///< alie: share of the moving averages that a round keeps

struct Row {
  optim::NamedHelp entry;
  Kind kind;
  double size;  ///< default
};
constexpr std::array kAttacks{
    Row{{"sign_flip", "-size times the vector; 10"}, Kind::sign_flip, 10},
    Row{{"noise", "Gaussian noise of size times the vector's norm; 100"}, Kind::noise, 100},
    Row{{"zero", "zeros"}, Kind::zero, 0},
    Row{{"label_flip", "learns class c as classes - 1 - c, and sends that honestly"}, Kind::label_flip, 0},
    Row{{"alie",
         "mean - size standard deviations of each entry (a little is enough); the paper's z for P and "
         "the attackers"},
        Kind::alie,
        AttackSpec::kPapersSize},
    Row{{"nan", "payloads of which a number is NaN: they do not decode"}, Kind::nan, 0},
};
constexpr auto kHelp = [] {
  std::array<optim::NamedHelp, kAttacks.size()> help{};
  for (std::size_t i = 0; i < help.size(); ++i) help[i] = kAttacks[i].entry;
  return help;
}();

[[noreturn]] void refuse(const std::string& text, const std::string& hint) {
  std::vector<std::string> names;
  for (const Row& row : kAttacks) names.emplace_back(row.entry.name);
  throw ConfigError(
      fmt::format("found attacker {}; expected PEER=ATTACK or PEER=ATTACK:SIZE, such as \"peer3=noise:100\"; "
                  "attacks are {}{}",
                  in_quotes(shortened(text)), join(names, ", "), hint));
}

}  // namespace

std::span<const optim::NamedHelp> attack_table() { return kHelp; }

Attacker parse_attacker(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) refuse(text, "");
  const auto colon = text.find(':', equals);
  const std::string name = text.substr(equals + 1, colon == std::string::npos ? colon : colon - equals - 1);
  const auto row =
      std::find_if(kAttacks.begin(), kAttacks.end(), [&](const Row& r) { return name == r.entry.name; });
  if (row == kAttacks.end()) {
    std::vector<std::string> names;
    for (const Row& r : kAttacks) names.emplace_back(r.entry.name);
    refuse(text, did_you_mean(name, names));
  }
  double size = row->size;
  if (colon != std::string::npos) {
    const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, size);
    if (error != std::errc() || stop != end || !(size > 0) || !std::isfinite(size))
      refuse(text, "; the size is a number above 0");
    if (row->size == 0) refuse(text, "; " + name + " has no size");
  }
  return {text.substr(0, equals), {row->kind, size}};
}

std::span<const float> Attack::corrupt(std::span<const float> v, const op::Encode& o) {
  if (spec_.kind == Kind::none || spec_.kind == Kind::label_flip || spec_.kind == Kind::nan) return v;
  wrong_.assign(v.size(), 0.0f);
  if (spec_.kind == Kind::sign_flip)
    std::transform(v.begin(), v.end(), wrong_.begin(),
                   [&](float x) { return -static_cast<float>(spec_.size) * x; });
  if (spec_.kind == Kind::noise) draw_noise(v, o);
  if (spec_.kind == Kind::alie) shift_mean(v, moments_[{o.tag, o.range.begin}]);
  return wrong_;
}

std::vector<std::byte> not_finite_payload(std::size_t entries) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto dense = compress::make_codec(compress::kDense);
  std::vector<std::byte> out(dense->max_bytes(entries));
  compress::Workspace workspace;
  out.resize(dense->encode(std::vector<float>(entries, 1.0f), {}, workspace, out));
  std::memcpy(out.data() + out.size() - sizeof kNan, &kNan, sizeof kNan);
  return out;
}

Payload Attack::spoil(Payload payload, std::size_t entries) {
  if (spec_.kind != Kind::nan || entries == 0) return payload;
  std::erase_if(spoiled_, [](const auto& s) { return s.expired(); });
  auto wrong = std::make_shared<const std::vector<std::byte>>(not_finite_payload(entries));
  spoiled_.push_back(wrong);
  return wrong;
}

void Attack::draw_noise(std::span<const float> v, const op::Encode& o) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * static_cast<double>(x);
  if (squares == 0) return;
  const double deviation = spec_.size * std::sqrt(squares / static_cast<double>(v.size()));
  std::seed_seq seed{
      seed_, seed_ >> 32, std::uint64_t{peer_}, o.round, std::uint64_t{o.range.begin}, std::uint64_t{o.tag}};
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  for (float& x : wrong_) x = static_cast<float>(normal(random));
}

void Attack::shift_mean(std::span<const float> v, Moments& moments) {
  auto& [mean, variance] = moments;
  if (mean.empty()) {
    mean.assign(v.begin(), v.end());
    variance.assign(v.size(), 0.0f);
  }
  for (std::size_t i = 0; i < v.size(); ++i) {
    const float difference = v[i] - mean[i];
    mean[i] += (1 - kKeep) * difference;
    variance[i] = kKeep * (variance[i] + (1 - kKeep) * difference * difference);
    wrong_[i] = mean[i] - static_cast<float>(spec_.size) * std::sqrt(variance[i]);
  }
}

void Attack::archive(Archive archive) {
  std::vector<std::uint64_t> tags, begins;
  for (const auto& [key, moments] : moments_) {
    tags.push_back(key.first);
    begins.push_back(key.second);
  }
  archive.numbers("tags", tags);
  archive.numbers("begins", begins, tags.size());
  for (std::size_t n = 0; n < tags.size(); ++n) {
    Moments& moments = moments_[{static_cast<std::uint32_t>(tags[n]), begins[n]}];
    const Archive part = archive.part("moments", n);
    Archive(part).floats("mean", moments.mean);
    Archive(part).floats("variance", moments.variance);
  }
}

}  // namespace gossamer::node

#include "codec_contest.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec_reference.h"
#include "codec_speed.h"
#include "gossamer/compress/selection.h"
#include "timing.h"

namespace gossamer::node {
namespace {

constexpr double kDensity = 0.001;

/// A codec at work on x, with all that it needs.
class Player {
 public:
  Player(const std::string& spec, std::span<const float> x)
      : codec_(compress::make_codec(spec)), x_(x), payload_(codec_->max_bytes(x.size())), y_(x.size()) {
    encode();
  }
  std::string spec() const { return codec_->spec(); }
  void encode() { used_ = codec_->encode(x_, {.seed = 1}, workspace_, payload_); }
  void encode_feedback() { used_ = codec_->encode_feedback(x_, state_, {.seed = 1}, workspace_, payload_); }
  void decode_add() { compress::decode_add(std::span(payload_).first(used_), 0.25f, y_); }

 private:
  std::unique_ptr<const compress::Codec> codec_;
  std::span<const float> x_;
  std::vector<std::byte> payload_;
  std::size_t used_ = 0;
  AlignedFloats y_;
  compress::Workspace workspace_;
  compress::FeedbackState state_;
};

/// All contests on vectors of one length.
class Arena {
 public:
  Arena(std::size_t entries, const Wanted& wanted, const Announce& announce)
      : entries_(entries), wanted_(wanted), announce_(announce), gradient_(laplacian(entries)) {}

  void one_bit() {
    if (!wanted_("onebit")) return;
    Player player("onebit", gradient_);
    AlignedFloats e(entries_, 0.0f), y(entries_, 0.0f);
    reference::Signs signs(entries_);
    hold("1-bit encode with feedback", player, "plain loop", &Player::encode_feedback,
         [&] { reference::onebit_encode_feedback(gradient_, e, signs); });
    hold("1-bit decode-add", player, "plain loop", &Player::decode_add,
         [&] { reference::onebit_decode_add(signs, 0.25f, y); });
  }

  void qsgd() {
    if (!wanted_("qsgd")) return;
    Player player("qsgd", gradient_);
    AlignedFloats y(entries_, 0.0f);
    reference::Levels levels(entries_);
    hold("QSGD 4-bit encode", player, "plain loop", &Player::encode,
         [&] { reference::qsgd4_encode(gradient_, 1, levels); });
    hold("QSGD 4-bit decode-add", player, "plain loop", &Player::decode_add,
         [&] { reference::qsgd4_decode_add(levels, 0.25f, y); });
  }

  void elias() {
    if (!wanted_("qsgd")) return;
    AlignedFloats y(entries_, 0.0f);
    reference::BitString sparse, dense;
    {
      Player player("qsgd:coding=elias", gradient_);
      hold("Elias sparse encode", player, "bit at a time", &Player::encode,
           [&] { reference::elias_sparse_encode(gradient_, 1, sparse); });
      hold("Elias sparse decode", player, "bit at a time", &Player::decode_add,
           [&] { reference::elias_sparse_decode(sparse, y); });
    }
    Player player("qsgd:coding=elias_dense", gradient_);
    hold("Elias dense encode", player, "bit at a time", &Player::encode,
         [&] { reference::elias_dense_encode(gradient_, 1, dense); });
    hold("Elias dense decode", player, "bit at a time", &Player::decode_add,
         [&] { reference::elias_dense_decode(dense, y); });
  }

  void largest() {
    if (!wanted_("topk")) return;
    const std::size_t k = compress::kept_entries(kDensity, entries_);
    std::vector<float> scratch;
    reference::Entries found;
    {
      Player player("topk:density=0.001", gradient_);
      hold("exact top-k 0.1 % encode", player, "nth_element", &Player::encode,
           [&] { reference::largest_by_nth_element(gradient_, k, scratch, found); });
      hold("exact top-k 0.1 % encode", player, "8-bit radix select", &Player::encode,
           [&] { reference::largest_by_radix(gradient_, k, found); });
    }
    AlignedFloats shifted = gradient_;  // the distribution on which the method's authors measured it
    for (float& v : shifted) v = 5e-4f + 5e-3f * v;
    Player player("topk:density=0.001,select=ldte_bs", shifted);
    hold("ldte_bs 0.1 % encode", player, "8-bit radix select", &Player::encode,
         [&] { reference::largest_by_radix(shifted, k, found); });
  }

  std::vector<Contest> take() { return std::move(contests_); }

 private:
  void hold(const std::string& operation, Player& player, const std::string& name, void (Player::*work)(),
            const std::function<void()>& reference) {
    announce_(operation + " against " + name);
    const auto [ours, theirs] = median_seconds_of_both([&] { (player.*work)(); }, reference);
    const double gigabytes = 4e-9 * static_cast<double>(entries_);
    contests_.push_back({operation, player.spec(), name, gigabytes / ours, gigabytes / theirs});
  }

  std::size_t entries_;
  const Wanted& wanted_;
  const Announce& announce_;
  AlignedFloats gradient_;
  std::vector<Contest> contests_;
};

struct Input {
  const char* name;
  AlignedFloats x;
};

std::vector<Input> awkward_inputs(std::size_t entries) {
  std::vector<Input> inputs;
  inputs.push_back({"sorted", laplacian(entries)});
  std::sort(inputs.back().x.begin(), inputs.back().x.end());
  inputs.push_back({"constant", AlignedFloats(entries, 0.25f)});
  inputs.push_back({"equal magnitudes", laplacian(entries)});
  for (float& v : inputs.back().x) v = std::copysign(0.25f, v);
  inputs.push_back({"one huge entry", laplacian(entries)});
  inputs.back().x[entries / 3] = 1e30f;
  return inputs;
}

}  // namespace

std::vector<Contest> compare_with_reference(std::size_t entries, const Wanted& wanted,
                                            const Announce& announce) {
  Arena arena(entries, wanted, announce);
  arena.one_bit();
  arena.qsgd();
  arena.elias();
  arena.largest();
  return arena.take();
}

std::vector<Awkward> bench_adversarial(std::size_t entries, const Wanted& wanted, const Announce& announce) {
  std::vector<Awkward> all;
  if (!wanted("topk")) return all;
  const AlignedFloats usual = laplacian(entries);
  for (const Input& input : awkward_inputs(entries)) {
    for (const std::string select : {"exact", "sampled", "trimmed", "bisect", "ldte_bs"}) {
      Player awkward("topk:density=0.001,select=" + select, input.x);
      Player player("topk:density=0.001,select=" + select, usual);
      announce(player.spec() + " on " + input.name);
      const auto [slow, fast] =
          median_seconds_of_both([&] { awkward.encode(); }, [&] { player.encode(); }, {.runs = 5});
      all.push_back({player.spec(), input.name, slow / fast});
    }
  }
  return all;
}

}  // namespace gossamer::node

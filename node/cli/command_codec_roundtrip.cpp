#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <limits>

#include "command_codec.h"
#include "commands.h"
#include "flags.h"
#include "gossamer/node/job.h"
#include "npy.h"
#include "text.h"
#include "timing.h"

namespace gossamer::node {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct RoundtripOptions {
  std::string codec, in, out, payload;
  std::uint64_t seed = 1;
  std::size_t repeats = 1;
  bool json = false;
};

/// y against x, in double precision; all sums over entries.
struct Comparison {
  double xx = 0, yy = 0, xy = 0, errors = 0;

  /// ‖y − x‖/‖x‖; none where only y is not zero.
  double relative_error() const { return errors == 0 ? 0 : xx == 0 ? kNone : std::sqrt(errors / xx); }
  double cosine() const { return xx == 0 || yy == 0 ? kNone : xy / std::sqrt(xx * yy); }
  /// ⟨y − x, x⟩/‖x‖²: by how much y is too long along x.
  double excess() const { return xx == 0 ? kNone : (xy - xx) / xx; }
};

Comparison compare(std::span<const float> x, std::span<const float> y) {
  Comparison c;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], b = y[i];
    c.xx += a * a;
    c.yy += b * b;
    c.xy += a * b;
    c.errors += (b - a) * (b - a);
  }
  return c;
}

struct Result {
  std::string codec;
  NpyArray first;  ///< what came back in the first repeat
  std::vector<std::byte> payload;
  Comparison comparison;                       ///< of the first repeat
  std::vector<compress::PayloadShare> shares;  ///< what its payload tells of its buckets
  std::vector<double> excess;                  ///< one each repeat
  std::vector<double> encode, decode;          ///< seconds
};

/// t of the repeats' excess: mean · √R / standard deviation. An unbiased codec stays within ±3 or so (a
/// little more where R is small); one that is the same for every key has no deviation, thus no z.
double bias_z(const std::vector<double>& excess) {
  const auto [least, most] = std::minmax_element(excess.begin(), excess.end());
  if (excess.size() < 2 || !(*least < *most)) return kNone;
  const auto repeats = static_cast<double>(excess.size());
  double mean = 0, squares = 0;
  for (const double e : excess) mean += e / repeats;
  for (const double e : excess) squares += (e - mean) * (e - mean);
  return mean * std::sqrt(repeats) / std::sqrt(squares / (repeats - 1));
}

template <class Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The repeats differ in the round of the key, as the rounds of a run do.
Result round_trip(const compress::Codec& codec, const NpyArray& x, const RoundtripOptions& options) {
  const std::size_t n = x.values.size();
  Result result{codec.spec(), {x.shape, std::vector<float>(n)}, {}, {}, {}, {}, {}, {}};
  compress::Workspace workspace;
  std::vector<std::byte> out(codec.max_bytes(n));
  std::vector<float> y(n);
  std::size_t used = 0;
  const auto encode = [&](std::uint64_t round) {
    used = codec.encode(x.values, {.seed = options.seed, .round = round}, workspace, out);
  };
  const auto decode = [&] {
    std::fill(y.begin(), y.end(), 0.0f);
    compress::decode_add(std::span(out).first(used), 1.0f, y);
  };
  encode(0);  // the first time also pays for memory that is new
  decode();
  for (std::size_t r = 0; r < options.repeats; ++r) {
    result.encode.push_back(seconds_of([&] { encode(r); }));
    result.decode.push_back(seconds_of(decode));
    const Comparison comparison = compare(x.values, y);
    result.excess.push_back(comparison.excess());
    if (r > 0) continue;
    result.comparison = comparison;
    result.first.values = y;
    result.payload.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used));
    result.shares = compress::payload_shares(result.payload);
  }
  return result;
}

double speed(const Result& result, const std::vector<double>& seconds) {
  const double median_s = median(seconds);
  return median_s > 0 ? 4e-9 * static_cast<double>(result.first.values.size()) / median_s : kNone;
}

double bits_per_entry(const Result& result) {
  const std::size_t n = result.first.values.size();
  return n == 0 ? kNone : 8.0 * static_cast<double>(result.payload.size()) / static_cast<double>(n);
}

void print_json(const Result& r, std::size_t repeats) {
  nlohmann::ordered_json out{{"codec", r.codec},
                             {"entries", r.first.values.size()},
                             {"shape", r.first.shape},
                             {"payload_bytes", r.payload.size()},
                             {"bits_per_entry", number_or_null(bits_per_entry(r))},
                             {"relative_error", number_or_null(r.comparison.relative_error())},
                             {"cosine", number_or_null(r.comparison.cosine())},
                             {"repeats", repeats},
                             {"bias_z", number_or_null(bias_z(r.excess))},
                             {"encode_gb_per_s", number_or_null(speed(r, r.encode))},
                             {"decode_gb_per_s", number_or_null(speed(r, r.decode))}};
  for (const compress::PayloadShare& share : r.shares) out["shares"][std::string(share.name)] = share.share;
  std::cout << out.dump(2) << '\n';
}

void print_text(const Result& r, std::size_t repeats) {
  const auto line = [](std::string_view what, const std::string& value) {
    std::cout << std::left << std::setw(20) << what << value << '\n';
  };
  line("codec", r.codec);
  line("entries", std::to_string(r.first.values.size()));
  line("payload", std::to_string(r.payload.size()) + " bytes");
  line("bits per entry", figure_text(bits_per_entry(r)));
  line("relative error", figure_text(r.comparison.relative_error()));
  line("cosine", figure_text(r.comparison.cosine()));
  for (const compress::PayloadShare& share : r.shares)
    line(share.name, figure_text(100 * share.share) + " %");
  const double z = bias_z(r.excess);
  if (repeats > 1)
    line("bias z", std::isnan(z) ? "- (the same for every key)"
                                 : figure_text(z) + " over " + std::to_string(repeats) + " keys");
  line("encode", figure_text(speed(r, r.encode)) + " GB/s of fp32 input");
  line("decode", figure_text(speed(r, r.decode)) + " GB/s");
}

void run(const RoundtripOptions& options) {
  const auto codec = compress::make_codec(options.codec);
  const NpyArray x = read_npy(options.in);
  try {
    const Result result = round_trip(*codec, x, options);
    if (!options.out.empty()) write_npy(options.out, result.first.shape, result.first.values);
    if (!options.payload.empty()) write_bytes(options.payload, result.payload);
    options.json ? print_json(result, options.repeats) : print_text(result, options.repeats);
  } catch (const compress::EncodeError& error) {
    throw ConfigError(options.in + ": " + error.what());
  }
}

}  // namespace

void add_codec_roundtrip(CLI::App& codec, int& status) {
  CLI::App* command = codec.add_subcommand("roundtrip",
                                           "Encodes and decodes an array: size, error, speed.\n\n"
                                           "'bias z' tells whether the codec makes vectors too long or too "
                                           "short on average: over the repeats, each "
                                           "with a key of its own, z = mean of <y-x,x>/<x,x> times sqrt(R) "
                                           "over its standard deviation. An unbiased "
                                           "codec stays within about 3; a codec that uses no key has no z.");
  const auto options = std::make_shared<RoundtripOptions>();
  command->add_option("--codec", options->codec, "Codec, e.g. qsgd:bits=4 (gossamer codec list)")->required();
  command->add_option("--in", options->in, "NumPy file of little-endian float32 or float64")->required();
  command->add_option("--out", options->out, "Where to write what the first repeat decodes to (.npy)");
  command->add_option("--payload", options->payload, "Where to write the first repeat's payload");
  command->add_option("--seed", options->seed, "Seed of the codec's random numbers")
      ->check(zero_or_more())
      ->capture_default_str();
  command->add_option("--repeat", options->repeats, "How often; speeds are medians")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &status] {
    run(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node

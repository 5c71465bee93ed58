#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>

#include "command_codec.h"
#include "commands.h"
#include "gossamer/node/job.h"
#include "npy.h"

namespace gossamer::node {
namespace {

struct DecodeOptions {
  std::string payload, out, max_entries = "2Gi";
  bool json = false;
};

/// Zeros that take up memory only where they are written to: a short payload that claims many entries fails,
/// or is honestly sparse, before it has cost more than its own size allows.
class LazyZeros {
 public:
  explicit LazyZeros(std::size_t n) : data_(static_cast<float*>(std::calloc(n, sizeof(float)))), size_(n) {
    if (!data_ && n > 0)
      throw ConfigError("no memory for " + std::to_string(n) + " entries; --max-entries sets a lower limit");
  }
  std::span<float> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
  std::size_t size_;
};

void print(const DecodeOptions& options, const compress::PayloadInfo& info, std::size_t bytes) {
  if (options.json) {
    const nlohmann::ordered_json out{
        {"codec", info.codec}, {"entries", info.entries}, {"payload_bytes", bytes}, {"out", options.out}};
    std::cout << out.dump(2) << '\n';
    return;
  }
  std::cout << info.codec << ", " << info.entries << " entries from " << bytes << " bytes, written to "
            << options.out << '\n';
}

void decode(const DecodeOptions& options) {
  std::error_code none;  // nothing lies there yet
  if (std::filesystem::is_regular_file(options.out, none) &&
      std::filesystem::equivalent(options.payload, options.out, none))
    throw ConfigError("--out " + options.out + ": is the payload itself; expected another file");
  const std::size_t limit = count_of("--max-entries", options.max_entries);
  const std::vector<std::byte> payload = read_bytes(options.payload);
  try {
    const compress::PayloadInfo info = compress::inspect(payload);
    if (info.entries > limit)
      throw ConfigError(options.payload + ": claims " + std::to_string(info.entries) + " entries in " +
                        std::to_string(payload.size()) + " bytes; at most " + std::to_string(limit) +
                        " are decoded (--max-entries)");
    const std::size_t entries = static_cast<std::size_t>(info.entries);
    const LazyZeros y(entries);
    compress::decode_add(payload, 1.0f, y.span());
    write_npy(options.out, std::span(&entries, 1), y.span());
    print(options, info, payload.size());
  } catch (const compress::PayloadError& error) {
    throw ConfigError(options.payload + ": " + error.what());
  }
}

}  // namespace

void add_codec_decode(CLI::App& codec, int& status) {
  CLI::App* command = codec.add_subcommand("decode", "Decodes a payload file of any codec");
  const auto options = std::make_shared<DecodeOptions>();
  command->add_option("--payload", options->payload, "Payload, as roundtrip --payload writes it")->required();
  command->add_option("--out", options->out, "Where to write the vector (.npy, float32)")->required();
  command
      ->add_option("--max-entries", options->max_entries,
                   "Refuse a payload that claims more entries (k, M, G; Ki, Mi, Gi)")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &status] {
    decode(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node

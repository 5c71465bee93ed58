#include "row_payload.h"
#include "row_state.h"

namespace gossamer::compress {
namespace {

constexpr StateMark kReceiverMark = {'g', 'r', 'r', 1};

/// Calls take(part) for the parts of the payload, in order.
template <class Take>
void read_parts(const RowsSpec& spec, std::span<const std::byte> payload, const Take& take) {
  if (payload.empty() || payload[0] != static_cast<std::byte>(kRowsVersion))
    throw PayloadError("payload is no message of rows, or of another version");
  payload = payload.subspan(1);
  RowPart part;
  const std::string_view codec(spec.codec);
  const std::string_view name = codec.substr(0, codec.find(':'));
  for (const std::string_view of_part : {name, name, std::string_view(kDense)}) {
    read_row_part(spec, of_part, payload, part);
    take(part);
  }
  if (!payload.empty()) throw PayloadError("payload holds bytes after its last row");
}

}  // namespace

void RowReceiver::decode(std::span<const std::byte> payload, RowChanges& changes) {
  std::vector<std::pair<std::uint64_t, std::size_t>> places;
  std::vector<float> values;
  read_parts(spec_, payload, [&](const RowPart& part) {
    for (std::size_t i = 0; i < part.rows(); ++i) {
      const bool by_number = i < part.numbers.size();
      if (by_number && part.numbers[i] >= numbered_.size()) {
        ++unknown_;
        continue;
      }
      places.emplace_back(by_number ? numbered_[part.numbers[i]] : part.keys[i - part.numbers.size()],
                          values.size());
      const auto row = part.values.begin() + static_cast<std::ptrdiff_t>(i * spec_.width);
      values.insert(values.end(), row, row + static_cast<std::ptrdiff_t>(spec_.width));
    }
    give_numbers(spec_, part.keys, numbered_);
  });
  sort_changes(places, values, spec_.width, changes);
}

std::vector<std::byte> RowReceiver::save() const {
  StateWriter out(kReceiverMark);
  out.put(unknown_);
  out.put_all(numbered_);
  return out.take();
}

void RowReceiver::restore(std::span<const std::byte> saved) {
  StateReader in(saved, kReceiverMark);
  std::vector<std::uint64_t> numbered;
  std::uint64_t unknown = 0;
  in.get(unknown);
  in.get_all(numbered);
  in.finish();
  require_saved(numbered.size() <= spec_.most_numbered, "it numbers more keys than there are numbers");
  numbered_ = std::move(numbered);
  unknown_ = unknown;
}

bool decodes_rows(const RowsSpec& spec, std::span<const std::byte> payload) {
  try {
    read_parts(spec, payload, [](const RowPart&) {});
    return true;
  } catch (const PayloadError&) {
    return false;
  }
}

}  // namespace gossamer::compress

#include "row_exchange.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "hash.h"

namespace gossamer::node {

RowExchange::RowExchange(const compress::RowsSpec& spec, std::size_t peers, PeerId self, std::uint64_t seed,
                         optim::KeyedRows& rows, Planted planted)
    : rows_(rows),
      sender_(spec),
      receivers_(peers, compress::RowReceiver(spec)),
      self_(self),
      seed_(seed),
      planted_(planted) {
  rows_.leave_to_caller();
}

void RowExchange::run(const op::EncodeRows& o, compress::Workspace& workspace, const PostEvent& post) {
  auto [keys, gradients] = rows_.changes();
  if (planted_.is(Bug::row_change_lost) && !keys.empty()) {
    gradients = gradients.first(gradients.size() / keys.size() * (keys.size() - 1));
    keys = keys.first(keys.size() - 1);
  }
  try {
    sender_.add(keys, gradients);
  } catch (const compress::EncodeError& e) {
    throw Diverged(std::string("the gradient of the table's rows is not finite: ") + e.what());
  }
  told_ = {};
  unpushed_ = o;
  if (!o.send) return;
  auto payload = std::make_shared<const std::vector<std::byte>>(
      sender_.encode({seed_, self_, 0, o.round}, workspace, &told_));
  post(Encoded{o.round, o.parcel, 0, 1, std::move(payload)});
}

void RowExchange::append(std::span<const std::uint64_t> keys, std::span<const float> values) {
  pushed_.keys.insert(pushed_.keys.end(), keys.begin(), keys.end());
  pushed_.values.insert(pushed_.values.end(), values.begin(), values.end());
}

void RowExchange::run(const op::PushRows& o) {
  pushed_.keys.clear();
  pushed_.values.clear();
  bool own = o.own;
  const auto push_own = [&](PeerId before) {
    if (!own || before < self_) return;
    append(rows_.changes().keys, rows_.changes().gradients);
    own = false;
    unpushed_.reset();
  };
  for (const auto& [from, payload] : o.received) {
    push_own(from);
    receivers_[from].decode(*payload, got_);
    append(got_.keys, got_.values);
  }
  push_own(static_cast<PeerId>(receivers_.size()));
  if (planted_.is(Bug::rows_pushed_twice) && o.received.size() > 1) append(got_.keys, got_.values);
  rows_.table().push(pushed_.keys, pushed_.values);
}

void RowExchange::archive(Archive archive) {
  std::vector<std::byte> saved = archive.restores() ? std::vector<std::byte>{} : sender_.save();
  archive.bytes("sender", saved);
  try {
    if (archive.restores()) sender_.restore(saved);
    for (std::size_t p = 0; p < receivers_.size(); ++p) {
      saved = archive.restores() ? std::vector<std::byte>{} : receivers_[p].save();
      archive.bytes("receiver" + std::to_string(p), saved);
      if (archive.restores()) receivers_[p].restore(saved);
    }
  } catch (const compress::StateError& e) {
    throw StateError(e.what());
  }
}

void RowExchange::end_view() {
  if (!unpushed_) return;
  const auto [keys, gradients] = rows_.changes();
  if (unpushed_->together) {
    std::vector<float> back(gradients.size());
    std::transform(gradients.begin(), gradients.end(), back.begin(), std::negate());
    sender_.add(keys, back);
    sender_.add(told_.keys, told_.values);
  } else {
    rows_.table().push(keys, gradients);
  }
  unpushed_.reset();
}

void RowExchange::archive_untold(Archive archive) {
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  if (!archive.restores())
    sender_.visit([&](std::uint64_t key, std::span<const float> e) {
      if (std::all_of(e.begin(), e.end(), [](float v) { return v == 0; })) return;
      keys.push_back(key);
      values.insert(values.end(), e.begin(), e.end());
    });
  archive.numbers("keys", keys);
  archive.floats("values", values);
  if (!archive.restores()) return;
  if (values.size() != keys.size() * rows_.table().spec().width)
    archive.refuse("values", "are more or fewer than the rows beside them");
  sender_.add(keys, values);
}

optim::Figures row_figures(const optim::Table& table, const RowExchange* exchange) {
  const optim::TableStatistics t = table.statistics();
  const auto number = [](auto n) { return static_cast<double>(n); };
  optim::Figures figures{{"rows", number(t.rows)},
                         {"table_bytes", number(t.bytes)},
                         {"table_bytes_most", number(t.peak_bytes)},
                         {"rows_admitted", number(t.admitted)},
                         {"rows_evicted", number(t.evicted_old + t.evicted_zero + t.evicted_full)},
                         {"pushes_without_row", number(t.waiting + t.no_room)},
                         {"admit_after", number(t.admit_after)}};
  if (t.rows > 0) figures.push_back({"bytes_per_row", number(t.bytes) / number(t.rows)});
  if (!exchange) return figures;
  const compress::RowCounters& c = exchange->sender().counters();
  const double told = number(c.sent + c.flushed);
  figures.push_back({"rows_touched", number(c.touched)});
  figures.push_back({"rows_told", told});
  figures.push_back({"row_payload_bytes", number(c.bytes)});
  if (told > 0) figures.push_back({"bytes_per_told_row", number(c.bytes) / told});
  return figures;
}

optim::Figures all_figures(optim::Objective& objective, std::span<const float> x,
                           const RowExchange* exchange) {
  optim::Figures figures = objective.evaluate(x);
  if (optim::KeyedRows* rows = objective.keyed_rows())
    for (optim::Figure& figure : row_figures(rows->table(), exchange)) figures.push_back(std::move(figure));
  return figures;
}

std::uint64_t digest_of(const optim::Table& table) {
  std::uint64_t sum = 0;
  table.visit([&](const optim::TableRow& row) { sum += hash_bytes(std::as_bytes(row.weights), row.key); });
  return sum;
}

}  // namespace gossamer::node

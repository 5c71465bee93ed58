#pragma once
// RowExchange is the data plane's part in exchanging the rows of tables: what this peer has not told yet,
// what keys the others' numbers stand for, and the table itself.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "archive.h"
#include "data_plane.h"
#include "gossamer/compress/rows.h"
#include "gossamer/optim/objective.h"
#include "planted.h"

namespace gossamer::node {

class RowExchange {
 public:
  /// rows: the objective's, which outlives it.
  RowExchange(const compress::RowsSpec& spec, std::size_t peers, PeerId self, std::uint64_t seed,
              optim::KeyedRows& rows, Planted planted);

  void run(const op::EncodeRows& o, compress::Workspace& workspace, const PostEvent& post);
  void run(const op::PushRows& o);
  void archive(Archive archive);
  /// A view ends: a round that is not over is forgotten where its changes are applied together, else the own
  /// ones are applied.
  void end_view();
  /// What no other has been told, after that; for the peer's next view.
  void archive_untold(Archive archive);

  // For observers.
  const compress::RowSender& sender() const { return sender_; }
  optim::KeyedRows::Changes changes() const { return rows_.changes(); }  ///< of the last gradient
  const compress::RowChanges& told() const { return told_; }  ///< what others make of the last message
  /// What the last push added up, a key as often as it was told of.
  const compress::RowChanges& pushed() const { return pushed_; }

 private:
  void append(std::span<const std::uint64_t> keys, std::span<const float> values);

  optim::KeyedRows& rows_;
  compress::RowSender sender_;
  std::vector<compress::RowReceiver> receivers_;  ///< by peer
  PeerId self_;
  std::uint64_t seed_;
  compress::RowChanges told_, got_, pushed_;
  std::optional<op::EncodeRows> unpushed_;  ///< the last, until its changes are applied here
  [[no_unique_address]] Planted planted_;
};

/// What a table holds and what its exchange cost, as an evaluation's figures. exchange: null where there was
/// none.
optim::Figures row_figures(const optim::Table& table, const RowExchange* exchange);

/// Of an evaluation at x, and where the objective has rows of these.
optim::Figures all_figures(optim::Objective& objective, std::span<const float> x,
                           const RowExchange* exchange);
/// Of all keys and weights, whatever their order.
std::uint64_t digest_of(const optim::Table& table);

}  // namespace gossamer::node

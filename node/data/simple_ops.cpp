// Commands that do several things in one pass, as one command after the other.
#include "data_plane.h"

namespace gossamer::node::op {
namespace {

std::vector<Op> simple(const Step& o) {
  return {o.update, Combine{o.update.range, kParameters, 1, {{-1.0f, o.update.slot}}}};
}
std::vector<Op> simple(const StepEncode& o) {
  std::vector<Op> ops = simple(Step{o.update});
  ops.emplace_back(o.encode);
  return ops;
}
std::vector<Op> simple(const StepBySum& o) {
  const Range range = o.update.range;
  std::vector<Op> ops{Combine{range, o.update.slot, 0, {}}};
  for (const auto& [weight, payload] : o.payloads)
    ops.emplace_back(DecodeAdd{range, o.update.slot, weight, payload});
  for (Op& step : simple(Step{o.update})) ops.push_back(std::move(step));
  return ops;
}
std::vector<Op> simple(const StepByParts& o) {
  std::vector<Op> ops;
  for (const auto& [update, parts] : o.steps)
    for (const auto& [range, payload] : parts) ops.emplace_back(Decode{range, update.slot, payload});
  for (const auto& [update, parts] : o.steps) ops.emplace_back(Step{update});
  return ops;
}
std::vector<Op> simple(const Mix& o) {
  std::vector<Op> ops;
  if (o.step) ops.emplace_back(Step{*o.step});
  for (const auto& [weight, payload] : o.payloads)
    ops.emplace_back(DecodeAdd{o.range, o.dst, weight, payload});
  ops.emplace_back(o.then);
  if (o.encode) ops.emplace_back(*o.encode);
  return ops;
}
std::vector<Op> simple(const Decode& o) {
  return {Combine{o.range, o.dst, 0, {}}, DecodeAdd{o.range, o.dst, 1.0f, o.payload}};
}
std::vector<Op> simple(const PassOn& o) {
  std::vector<Op> ops{Combine{o.range, o.dst, 0, {{o.factor, o.src}}}};
  if (o.payload) ops.emplace_back(DecodeAdd{o.range, o.dst, 1.0f, o.payload});
  ops.emplace_back(encode_exactly(o.range, o.dst, o.round, o.parcel, o.tag));
  return ops;
}
std::vector<Op> simple(const Merge& o) {
  return {Combine{o.range, o.dst, 0, {}}, DecodeAdd{o.range, o.dst, 1.0f, o.mine},
          DecodeAdd{o.range, o.dst, 1.0f, o.theirs}, o.encode()};
}
template <class Other>
std::vector<Op> simple(const Other&) {
  return {};
}

}  // namespace

std::vector<Op> in_simple_ones(const Op& op) {
  return std::visit([](const auto& o) { return simple(o); }, op);
}

bool may_answer(const Op& op) {
  const auto is = [&]<class... Kinds>() { return (std::holds_alternative<Kinds>(op) || ...); };
  const auto* mix = std::get_if<Mix>(&op);
  return (mix && mix->encode) ||
         is.template operator()<Encode, StepEncode, PassOn, Merge, Extended, EncodeRows, Clip, Measure>();
}

}  // namespace gossamer::node::op

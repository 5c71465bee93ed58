// No messages: every peer trains alone. The control in every comparison.
#include "method.h"

namespace gossamer::node {
namespace {

class None final : public Exchange {
 public:
  explicit None(ExchangeHost& host) : host_(host) {}
  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = host_.plan().parcels[parcel].range;
    return {host_.step(r, round)};
  }
  void on_parcel_ready(Round, ParcelId parcel) override { host_.mixed(parcel); }
  void on_encoded(const Encoded&) override {}
  Verdict judge(PeerId, Round, ParcelId, std::uint32_t) const override {
    return Verdict::never(Refusal::tag);
  }
  void on_message(PeerId from, Message message) override { host_.consumed(from, message); }
  void archive(Archive) override {}

 private:
  ExchangeHost& host_;
};

std::unique_ptr<Exchange> make_none(ExchangeHost& host) { return std::make_unique<None>(host); }

}  // namespace

constinit const Method kNoneMethod{
    .row = {"none", "no messages: every peer trains alone (the control in every comparison)"},
    .needs = {.keeps_apart = true, .heterogeneous = true},
    .make = make_none};

}  // namespace gossamer::node

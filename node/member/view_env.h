#pragma once
// The world of a worker as its member hands it on.
#include <vector>

#include "member.h"

namespace gossamer::node {

/// The world of a worker, whose peers are those of its view.
class Member::ViewEnv final : public Env {
 public:
  explicit ViewEnv(Member& member) : member_(member), env_(member.env_) {}
  /// By their places in the view, the members' numbers.
  std::vector<PeerId> numbers;

  double now() const override { return env_.now(); }
  void wake_at(double time) override {
    member_.worker_wake_ = time;
    if (!member_.swim_) env_.wake_at(time);
  }
  void send(PeerId to, FrameBytes frame, std::uint32_t priority) override {
    env_.send(numbers[to], std::move(frame), priority);
  }
  bool takes_parts() const override { return env_.takes_parts(); }
  Payload share(PeerId to, const Payload& payload) override { return env_.share(numbers[to], payload); }
  std::size_t backlog(PeerId to) const override { return env_.backlog(numbers[to]); }
  std::size_t queued_bytes(PeerId to) const override { return env_.queued_bytes(numbers[to]); }
  std::uint64_t dropped_control() const override { return env_.dropped_control(); }
  DataPlane& data() override { return env_.data(); }
  void share_cores(const CoreSharing& sharing) override { env_.share_cores(sharing); }
  void saved(SharedState state) override { env_.saved(std::move(state)); }
  bool may_checkpoint() const override { return env_.may_checkpoint(); }
  void checkpoint(SharedState state, const SavePoint& point) override {
    env_.checkpoint(std::move(state), point);
  }
  State load(Round name) override { return env_.load(name); }
  void report(const Report& report) override {
    if (!report.test) member_.reported_ = report;
    env_.report(report);
  }
  void traced(const TraceSpan& span) override { env_.traced(span); }
  void log(const std::string& line) override { env_.log(line); }
  void heard(PeerId from) override {
    const Seat& seat = member_.run_.seats[from];
    if (member_.swim_ && seat.start != 0) member_.swim_->heard(seat.name, seat.start, now());
  }

 private:
  Member& member_;
  MemberEnv& env_;
};

}  // namespace gossamer::node

// Drawings for a browser: peers on a circle, one circle per round where the graph varies, and how the
// consensus error falls.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "gossamer/topology/report.h"

namespace gossamer::topology {
namespace {

constexpr double kCell = 320, kRadius = 115, kGap = 24, kCurveHeight = 240;
constexpr std::size_t kColumns = 4, kMostRounds = 16;

std::string text(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f", value);
  return out;
}

std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

class Picture {
 public:
  Picture(const Schedule& schedule, std::span<const std::string> names, std::span<const double> errors)
      : schedule_(schedule),
        names_(names),
        errors_(errors),
        rounds_(std::min(schedule.period(), kMostRounds)),
        columns_(std::min(rounds_, kColumns)) {}

  std::string svg() {
    const double circles = std::ceil(static_cast<double>(rounds_) / static_cast<double>(columns_)) * kCell;
    const double width = std::max(static_cast<double>(columns_) * kCell, 480.0);
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + text(width) + "\" height=\"" +
           text(circles + kCurveHeight) + "\" font-family=\"sans-serif\" font-size=\"11\">\n" +
           "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"6\" "
           "markerHeight=\"6\" orient=\"auto\"><path d=\"M0,0L8,4L0,8z\" fill=\"#456\"/></marker></defs>\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    for (Round t = 0; t < rounds_; ++t) round(t);
    curve(circles, width);
    return out_ + "</svg>\n";
  }

 private:
  struct Point {
    double x, y;
  };
  Point place(PeerId i, Point centre, double radius) const {
    const double angle =
        2 * std::numbers::pi * i / static_cast<double>(schedule_.peers()) - std::numbers::pi / 2;
    return {centre.x + radius * std::cos(angle), centre.y + radius * std::sin(angle)};
  }

  void write(Point at, const std::string& what, const char* anchor) {
    out_ += "<text x=\"" + text(at.x) + "\" y=\"" + text(at.y) + "\" text-anchor=\"" + anchor + "\">" +
            escaped(what) + "</text>\n";
  }

  void round(Round t) {
    const Point centre{(static_cast<double>(t % columns_) + 0.5) * kCell,
                       (static_cast<double>(t / columns_) + 0.5) * kCell};
    const MixingMatrix& w = schedule_.at(t);
    const bool symmetric = w.symmetric();
    for (PeerId i = 0; i < w.peers(); ++i)
      for (const Edge& e : w.in(i)) {
        if (symmetric && e.peer > i) continue;  // drawn from its other end
        const Point from = place(e.peer, centre, kRadius),
                    to = place(i, centre, kRadius - (symmetric ? 0 : 5));
        out_ += "<line x1=\"" + text(from.x) + "\" y1=\"" + text(from.y) + "\" x2=\"" + text(to.x) +
                "\" y2=\"" + text(to.y) + "\" stroke=\"#456\" stroke-width=\"" +
                text(0.6 + 3.0 * static_cast<double>(e.weight)) + "\"" +
                (symmetric ? "" : " marker-end=\"url(#to)\"") + "/>\n";
      }
    const bool label = w.peers() <= 64;
    for (PeerId i = 0; i < w.peers(); ++i) {
      const Point at = place(i, centre, kRadius);
      out_ += "<circle cx=\"" + text(at.x) + "\" cy=\"" + text(at.y) + "\" r=\"" + (label ? "4" : "1.5") +
              "\" fill=\"#c40\"/>\n";
      const Point beside = place(i, centre, kRadius + 14);
      if (label) write({beside.x, beside.y + 4}, names_.empty() ? std::to_string(i) : names_[i], "middle");
    }
    if (schedule_.time_varying())
      write({centre.x, centre.y - kCell / 2 + 14},
            "round " + std::to_string(t) +
                (t + 1 == rounds_ && schedule_.period() > rounds_
                     ? " (of " + std::to_string(schedule_.period()) + ")"
                     : ""),
            "middle");
  }

  /// Base-10 logarithm of the error over rounds, from 1 down to 1e-7.
  void curve(double top, double width) {
    const double left = 60, right = width - kGap, high = top + 30, low = top + kCurveHeight - 30;
    const auto x = [&](std::size_t r) {
      return left + (right - left) * static_cast<double>(r) /
                        static_cast<double>(std::max<std::size_t>(1, errors_.size() - 1));
    };
    const auto y = [&](double error) {
      return high + (low - high) * std::clamp(-std::log10(std::max(error, 1e-30)) / 7, 0.0, 1.0);
    };
    write({left, high - 12}, "consensus error over rounds, worst start", "start");
    for (int decade = 0; decade <= 7; ++decade) {
      const double at = y(std::pow(10.0, -decade));
      out_ += "<line x1=\"" + text(left) + "\" y1=\"" + text(at) + "\" x2=\"" + text(right) + "\" y2=\"" +
              text(at) + "\" stroke=\"#ddd\"/>\n";
      write({left - 6, at + 4}, "1e-" + std::to_string(decade), "end");
    }
    std::string points;
    for (std::size_t r = 0; r < errors_.size(); ++r) points += text(x(r)) + "," + text(y(errors_[r])) + " ";
    out_ += "<polyline fill=\"none\" stroke=\"#c40\" stroke-width=\"2\" points=\"" + points + "\"/>\n";
    write({right, low + 18}, std::to_string(errors_.size() - 1) + " rounds", "end");
  }

  const Schedule& schedule_;
  std::span<const std::string> names_;
  std::span<const double> errors_;
  std::size_t rounds_, columns_;
  std::string out_;
};

}  // namespace

std::string to_svg(const Schedule& schedule, std::span<const std::string> peer_names,
                   std::span<const double> errors) {
  if (!peer_names.empty() && peer_names.size() != schedule.peers())
    throw GraphError(std::to_string(peer_names.size()) + " names for " + std::to_string(schedule.peers()) +
                     " peers; expected one for each, or none for numbers");
  return Picture(schedule, peer_names, errors).svg();
}

}  // namespace gossamer::topology

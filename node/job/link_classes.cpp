#include "link_classes.h"

#include <array>

namespace gossamer::node {
namespace {

constexpr std::array<LinkClass, 3> kClasses{{
    {"datacentre", 0.2, {1e9, 1e-4}, {1e10, 1e-3}},
    {"broadband", 0.5, {2e7, 5e-3}, {5e8, 4e-2}},
    {"mobile", 0.3, {2e6, 3e-2}, {5e7, 1.5e-1}},
}};

}  // namespace

std::span<const LinkClass> link_classes() { return kClasses; }

std::vector<std::string> speed_names() { return {"equal", "uniform", "lognormal"}; }

std::vector<std::string> link_names() {
  std::vector<std::string> names{"equal"};
  for (const LinkClass& c : kClasses) names.emplace_back(c.name);
  names.emplace_back("mixed");
  return names;
}

}  // namespace gossamer::node

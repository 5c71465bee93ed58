#pragma once
// Catch2, version 2 (Debian 12) or 3 (newer distributions), under one set of names.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& words) { return Catch::Contains(words); }
#endif

/// Leaves the running test with a message; for what this machine lacks (a GPU, a data set).
#define GOSSAMER_SKIP(message) \
  do {                         \
    WARN("skipped: " message); \
    SUCCEED();                 \
    return;                    \
  } while (false)

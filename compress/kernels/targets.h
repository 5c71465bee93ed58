#pragma once
// This macro, defined before Highway is included, leaves instruction sets out: those whose vectors have no
// fixed size (they cannot be kept in arrays; such machines use their fixed-size sets), and SSSE3, which SSE4
// replaced long ago.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)

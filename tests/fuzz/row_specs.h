#pragma once
// How rows are sent where their messages are fuzzed.
#include "gossamer/compress/rows.h"

inline const gossamer::compress::RowsSpec kRowSpecs[] = {
    {},
    {.width = 3, .codec = "qsgd:bits=4", .density = 0.5, .most_unsent = 16},
    {.width = 2, .linear = 0, .codec = "fp16", .density = 1, .most_numbered = 8},
    {.codec = "dense", .density = 1}};

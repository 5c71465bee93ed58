#include "gossamer_test/catch.h"

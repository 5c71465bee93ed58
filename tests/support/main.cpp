// Catch2 2 needs its main compiled once; with Catch2 3 this file is empty and Catch2WithMain is linked.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

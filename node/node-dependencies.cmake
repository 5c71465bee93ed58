# What a program that links Gossamer::node needs to be found.
find_dependency(PkgConfig)
find_dependency(fmt)
find_dependency(Threads)
find_dependency(nlohmann_json)
find_dependency(tomlplusplus)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(CAPNP REQUIRED IMPORTED_TARGET capnp)

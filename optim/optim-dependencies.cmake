# What Gossamer::optim links; included by its own build and, installed, by find_package(Gossamer).
# OpenBLAS itself, not just any BLAS: its thread count is set, and a reference BLAS is 30 times slower.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(ZLIB)
if(NOT TARGET Gossamer::openblas)
  find_library(GOSSAMER_OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread openblas)
  find_path(GOSSAMER_OPENBLAS_INCLUDE_DIR openblas_config.h PATH_SUFFIXES openblas-pthread openblas)
  if(NOT GOSSAMER_OPENBLAS_LIBRARY OR NOT GOSSAMER_OPENBLAS_INCLUDE_DIR)
    string(CONCAT Gossamer_NOT_FOUND_MESSAGE "Gossamer's optim needs OpenBLAS: install libopenblas-pthread-dev (Debian, Ubuntu), "
      "or set GOSSAMER_OPENBLAS_LIBRARY and GOSSAMER_OPENBLAS_INCLUDE_DIR")
    if(CMAKE_FIND_PACKAGE_NAME STREQUAL Gossamer)  # it is that package's affair
      set(Gossamer_FOUND FALSE)
      return()
    endif()
    message(FATAL_ERROR "${Gossamer_NOT_FOUND_MESSAGE}")
  endif()
  add_library(Gossamer::openblas UNKNOWN IMPORTED GLOBAL)
  set_target_properties(Gossamer::openblas PROPERTIES IMPORTED_LOCATION "${GOSSAMER_OPENBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${GOSSAMER_OPENBLAS_INCLUDE_DIR}")
endif()

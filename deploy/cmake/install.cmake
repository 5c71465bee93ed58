# find_package(Gossamer [COMPONENTS topology compress optim node c]) for other projects.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Gossamer)
configure_package_config_file(${CMAKE_CURRENT_SOURCE_DIR}/deploy/cmake/GossamerConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/GossamerConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/GossamerConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/GossamerConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/GossamerConfigVersion.cmake DESTINATION ${package_dir})

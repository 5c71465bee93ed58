# gossamer_library(NAME [FOLDERS ...] SOURCES ... [CUDA ...] [NOCUDA ...]): the target gossamer_NAME with its own include
# path. FOLDERS hold headers that its sources alone may include.
# CUDA sources are compiled where the toolkit is, their NOCUDA twins elsewhere.
function(gossamer_flags target)
  set(cxx $<COMPILE_LANGUAGE:CXX>)
  target_compile_options(${target} PRIVATE
    $<${cxx}:-Wall> $<${cxx}:-Wextra> $<${cxx}:-Wpedantic> $<${cxx}:-Wshadow> $<${cxx}:-Wconversion>
    $<${cxx}:-Wno-sign-conversion> $<${cxx}:-ffp-contract=off>
    $<$<AND:${cxx},$<BOOL:${GOSSAMER_WERROR}>>:-Werror>
    # g++ 12 reports both falsely in the standard library's and fmt's inlined code
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>)
  if(NOT GOSSAMER_SANITIZE)  # what hardens programs against others' bytes
    target_compile_options(${target} PRIVATE $<${cxx}:-fstack-protector-strong>
      $<$<AND:${cxx},$<CONFIG:Release>>:-U_FORTIFY_SOURCE> $<$<AND:${cxx},$<CONFIG:Release>>:-D_FORTIFY_SOURCE=2>)
    target_link_options(${target} PUBLIC LINKER:-z,relro LINKER:-z,now)
  else()
    target_compile_options(${target} PUBLIC
      $<${cxx}:-fsanitize=${GOSSAMER_SANITIZE}> $<${cxx}:-fno-sanitize-recover=all> $<${cxx}:-fno-omit-frame-pointer>)
    target_link_options(${target} PUBLIC -fsanitize=${GOSSAMER_SANITIZE})
  endif()
endfunction()

# Names sources that are compiled alone where others are compiled together (GOSSAMER_UNITY): they have private names that
# others have as well, or are long enough.
function(gossamer_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(gossamer_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;SOURCES;CUDA;NOCUDA" ${ARGN})
  set(target gossamer_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(Gossamer::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  list(TRANSFORM ARG_FOLDERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE inside)
  list(PREPEND inside ${CMAKE_CURRENT_SOURCE_DIR})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${inside})
  set_target_properties(${target} PROPERTIES GOSSAMER_INSIDE "${inside}")
  target_compile_features(${target} PUBLIC cxx_std_20)
  gossamer_flags(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${GOSSAMER_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  if(ARG_CUDA AND GOSSAMER_HAS_CUDA)
    target_sources(${target} PRIVATE ${ARG_CUDA})
    set_source_files_properties(${ARG_CUDA} PROPERTIES COMPILE_OPTIONS
      "-fmad=false;-ftz=false;-prec-div=true;-prec-sqrt=true;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off,-Wall,-Wextra;$<$<BOOL:${GOSSAMER_WERROR}>:-Werror=all-warnings>")
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  elseif(ARG_NOCUDA)
    target_sources(${target} PRIVATE ${ARG_NOCUDA})
  endif()
  install(TARGETS ${target} EXPORT Gossamer_${name} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT Gossamer_${name} NAMESPACE Gossamer:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Gossamer)
endfunction()

# For tests of what is inside a library.
function(gossamer_see_inside target name)
  get_target_property(inside gossamer_${name} GOSSAMER_INSIDE)
  target_include_directories(${target} PRIVATE ${inside})
endfunction()

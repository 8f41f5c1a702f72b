# SPDX-License-Identifier: Apache-2.0
#
# hf_embed(NAME ENUM PREFIX ARRAY FILE…): turns .sql and .lua files into C strings of hf_backend, as
# the header gen/NAME.h (enum ENUM, members PREFIX_…) and the array ARRAY. What a file may contain is
# said at the top of cmake/embed.c. The generator runs on the machine that builds; it is compiled
# without the sanitizers, and with the headers whose enums give the names their values.
add_executable(embed cmake/embed.c cmake/embed_names.c)
target_include_directories(embed PRIVATE src cmake)
set_target_properties(embed PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)

function(hf_embed name enum prefix array)
  set(header ${CMAKE_BINARY_DIR}/gen/${name}.h)
  set(source ${CMAKE_BINARY_DIR}/gen/${name}.c)
  cmake_path(GET header PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${header} ${source}
    COMMAND embed ${enum} ${prefix} ${array} ${header} ${source} ${ARGN}
    DEPENDS embed ${ARGN})
  target_sources(hf_backend PRIVATE ${header} ${source})
endfunction()
target_include_directories(hf_backend PUBLIC ${CMAKE_BINARY_DIR}/gen)

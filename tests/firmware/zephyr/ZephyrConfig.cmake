# A stand-in for Zephyr's CMake package: the functions that a module uses, and a program that is linked.
# NF_STAND_IN: this folder. NF_GENERATED: config.cmake, autoconf.h, devicetree.h, memory.ld of the test.
enable_language(C ASM)
include(${NF_GENERATED}/config.cmake)
add_library(app STATIC)
add_library(zephyr_interface INTERFACE)
target_link_libraries(app PUBLIC zephyr_interface)
target_include_directories(zephyr_interface INTERFACE ${NF_STAND_IN}/include ${NF_GENERATED})
target_compile_options(zephyr_interface INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-include> $<$<COMPILE_LANGUAGE:C>:${NF_GENERATED}/autoconf.h>
  $<$<COMPILE_LANGUAGE:C>:-std=c11> -Wall -Wextra -Werror -ffunction-sections -fdata-sections)

function(zephyr_library_named name)
  add_library(${name} STATIC)
  target_link_libraries(${name} PRIVATE zephyr_interface)
  set(ZEPHYR_CURRENT_LIBRARY ${name} PARENT_SCOPE)
endfunction()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_include_directories)
  foreach(folder ${ARGN})
    get_filename_component(path ${folder} ABSOLUTE)
    target_include_directories(zephyr_interface INTERFACE ${path})
  endforeach()
endfunction()
function(zephyr_compile_definitions)
  target_compile_definitions(zephyr_interface INTERFACE ${ARGN})
endfunction()
function(zephyr_linker_sources location)
  foreach(file ${ARGN})
    get_filename_component(path ${file} ABSOLUTE)
    file(APPEND ${CMAKE_BINARY_DIR}/snippets-${location}.ld "#include \"${path}\"\n")
  endforeach()
endfunction()

foreach(location SECTIONS RODATA)
  file(WRITE ${CMAKE_BINARY_DIR}/snippets-${location}.ld "")
endforeach()
foreach(module ${ZEPHYR_EXTRA_MODULES})
  file(STRINGS ${module}/zephyr/module.yml folder REGEX "^  cmake: ")
  string(REGEX REPLACE "^  cmake: " "" folder ${folder})
  add_subdirectory(${module}/${folder} ${CMAKE_BINARY_DIR}/module)
endforeach()

add_custom_command(OUTPUT link.ld
  COMMAND ${CMAKE_C_COMPILER} -E -P -x assembler-with-cpp -imacros ${NF_GENERATED}/autoconf.h
    -I${CMAKE_BINARY_DIR} -I${NF_GENERATED} ${NF_STAND_IN}/link.ld.in -o link.ld
  DEPENDS ${NF_STAND_IN}/link.ld.in VERBATIM)
add_custom_target(script DEPENDS link.ld)
add_executable(zephyr ${NF_STAND_IN}/kernel.c)
add_dependencies(zephyr script)
target_link_libraries(zephyr PRIVATE app npuforge m)
target_link_options(zephyr PRIVATE -T${CMAKE_BINARY_DIR}/link.ld -nostartfiles --specs=nosys.specs
  -Wl,--gc-sections -Wl,--orphan-handling=error -Wl,--fatal-warnings -Wl,--no-warn-rwx-segments)
set_target_properties(zephyr PROPERTIES SUFFIX .elf)

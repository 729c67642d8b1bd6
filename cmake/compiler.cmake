# Flags for every target of the project.

set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
foreach(language C CXX)
    set(CMAKE_${language}_FLAGS_RELEASE "-O2 -DNDEBUG")
    set(CMAKE_${language}_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")
endforeach()

# An FMA appears where it is written, nowhere else.
add_compile_options(-ffp-contract=off -Wall -Wextra -Wpedantic)
if(AMP_WERROR)
    add_compile_options(-Werror)
endif()
if(AMP_SANITIZE)
    add_compile_options(-fsanitize=${AMP_SANITIZE} -fno-sanitize-recover=all -g1) # lines for reports
    add_link_options(-fsanitize=${AMP_SANITIZE})
endif()
if(AMP_BUILD_FUZZERS)
    # clang's check of pointers also refuses NULL + 0, which is harmless; gcc's, in the asan preset, does not.
    add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize=pointer-overflow)
endif()
if(AMP_COVERAGE)
    add_compile_options(--coverage)
    add_link_options(--coverage)
endif()

# What a binary links but does not use is no dependency.
add_link_options(-Wl,--as-needed)

# The tool, the examples, the benches. A folder that is still empty makes nothing.

file(GLOB tool_sources CONFIGURE_DEPENDS tools/amp/*.c tools/amp/*.cc)
if(tool_sources)
    add_executable(amp_tool ${tool_sources})
    set_target_properties(amp_tool PROPERTIES OUTPUT_NAME amp)
    # Images that `amp run` is given; the library itself reads none.
    pkg_check_modules(images REQUIRED IMPORTED_TARGET libpng libjpeg)
    target_link_libraries(amp_tool PRIVATE amp_internal PkgConfig::images)
    # What --load opens finds the whole library in the tool.
    set_target_properties(amp_tool PROPERTIES ENABLE_EXPORTS ON)
    target_link_options(amp_tool PRIVATE -Wl,--whole-archive $<TARGET_FILE:amp_static> -Wl,--no-whole-archive)
endif()

# Examples are a user's programs: public headers and the shared library, nothing else. What several programs share of
# them (a folder below examples/) is a library of its own; benches and tests use it too. Folders of programs are named here.
set(example_folders training)
file(GLOB example_support_sources CONFIGURE_DEPENDS examples/*/*.c)
list(TRANSFORM example_folders REPLACE "(.+)" "/examples/\\1/" OUTPUT_VARIABLE programs_in)
list(JOIN programs_in "|" programs_in)
list(FILTER example_support_sources EXCLUDE REGEX "${programs_in}")
add_library(example_support STATIC ${example_support_sources})
target_include_directories(example_support PUBLIC examples/common examples/digits examples/minilm examples/ocr examples/text include)
pkg_check_modules(png REQUIRED IMPORTED_TARGET libpng) # the picture that examples/ocr reads
target_link_libraries(example_support PUBLIC PkgConfig::png m)
set(example_globs examples/*.c)
foreach(folder IN LISTS example_folders)
    list(APPEND example_globs examples/${folder}/*.c)
endforeach()
file(GLOB example_sources CONFIGURE_DEPENDS ${example_globs})
foreach(source IN LISTS example_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    target_link_libraries(${name} PRIVATE example_support amp OpenMP::OpenMP_C m)
endforeach()

if(AMP_BENCH)
    file(GLOB bench_sources CONFIGURE_DEPENDS bench/bench_*.c bench/bench_*.cc)
endif()
foreach(source IN LISTS bench_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    target_link_libraries(${name} PRIVATE example_support amp_internal)
    if(AMP_HAVE_CUDA) # for bench/bench_cuda.h, which opens the driver and cuBLASLt by name
        target_compile_definitions(${name} PRIVATE AMP_BENCH_CUDA)
        target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    endif()
endforeach()

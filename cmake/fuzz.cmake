# Calls of ops made from recorded cases, which the tool's own code reads, and written ones.
add_library(op_calls STATIC tests/support/op_calls.cc tests/support/op_calls_written.cc tests/support/op_calls_device.c
    tools/amp/replay_cases.cc tools/amp/replay_compare.cc tools/amp/replay_device.c)
if(AMP_SANITIZE) # a statement for each op: nothing to find in it, and 43 s to compile, for 9
    set_property(SOURCE tests/support/op_calls_written.cc PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()
target_include_directories(op_calls PUBLIC tests tests/support tools/amp)
target_compile_definitions(op_calls PUBLIC AMP_TESTS_GOLDEN="${PROJECT_SOURCE_DIR}/tests/golden")
target_link_libraries(op_calls PUBLIC amp_internal)

# Every tests/fuzz/fuzz_NAME.c is a fuzzer. Its corpus, tests/fuzz/corpus/NAME, is replayed by ctest with any compiler;
# with AMP_BUILD_FUZZERS (clang) it also becomes a libFuzzer program: build/…/fuzz/fuzz_NAME -max_total_time=600 DIR.
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c tests/fuzz/fuzz_*.cc)
foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" corpus ${name})
    add_executable(replay_${corpus} ${source} tests/fuzz/replay.c)
    target_link_libraries(replay_${corpus} PRIVATE example_support op_calls amp_internal)
    set_target_properties(replay_${corpus} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${corpus})
        add_test(NAME ${name}.corpus COMMAND replay_${corpus} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${corpus})
        set_tests_properties(${name}.corpus PROPERTIES LABELS fast)
    endif()
    if(AMP_BUILD_FUZZERS)
        add_executable(${name} ${source})
        target_link_libraries(${name} PRIVATE example_support op_calls amp_internal)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    endif()
endforeach()

# The fuzzer of ops without libFuzzer: a few thousand calls, the same each time.
add_test(NAME fuzz_ops.random COMMAND replay_ops --random 3000 20261121)
set_tests_properties(fuzz_ops.random PROPERTIES LABELS fast TIMEOUT 900)
# … and that of traced programs: some hundred networks.
add_test(NAME fuzz_graph.random COMMAND replay_graph --random 400 20261123)
set_tests_properties(fuzz_graph.random PROPERTIES LABELS fast TIMEOUT 900)
# … and that of gradients.
add_test(NAME fuzz_grad.random COMMAND replay_grad --random 1500 20261127)
set_tests_properties(fuzz_grad.random PROPERTIES LABELS fast TIMEOUT 900)

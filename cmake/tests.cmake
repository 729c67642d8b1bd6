# Every tests/test_*.cc is a GoogleTest program; each of its tests is one for ctest, so that a skip shows by name.
include(GoogleTest)
find_package(GTest REQUIRED)

include(cmake/fuzz.cmake)
include(cmake/fake_cuda.cmake)

# Tests whose suite is called <Unit>Full take minutes and carry the label `full`: `ctest --preset full` runs them.
file(GLOB test_sources CONFIGURE_DEPENDS tests/test_*.cc)
set(emulated)
foreach(source IN LISTS test_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    # What a unit has to test as C, or in a file of its own, stands beside it: tests/scope_*.c belong to test_scope.
    string(REPLACE test_ "" unit ${name})
    file(GLOB more_sources CONFIGURE_DEPENDS tests/${unit}_*.c tests/${unit}_*.cc)
    target_sources(${name} PRIVATE ${more_sources})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_link_libraries(${name} PRIVATE example_support op_calls amp_internal OpenMP::OpenMP_CXX GTest::gtest_main)
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        TEST_FILTER -*Full.* PROPERTIES LABELS fast TIMEOUT 600)

    # A line `// emulate: *Amx*` in the source names the tests that also run on an emulated CPU (tests/emulated.sh).
    file(STRINGS ${source} emulate REGEX "^// emulate: ")
    if(emulate)
        string(REPLACE "// emulate: " "" filter ${emulate})
        list(APPEND emulated $<TARGET_FILE:${name}> ${filter})
    endif()
    file(STRINGS ${source} full REGEX "^TEST[_FP]*\\([A-Za-z0-9]*Full,")
    if(full)
        gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
            TEST_FILTER *Full.* TEST_LIST full_tests PROPERTIES LABELS full TIMEOUT 3600)
    endif()
endforeach()

if(emulated AND NOT AMP_SANITIZE AND NOT AMP_COVERAGE)
    add_test(NAME emulated COMMAND ${PROJECT_SOURCE_DIR}/tests/emulated.sh ${emulated})
    set_tests_properties(emulated PROPERTIES LABELS fast SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()

if(AMP_HAVE_CUDA)
    foreach(test test_cuda test_cuda_attention test_cuda_complex test_cuda_index test_cuda_linalg test_cuda_products test_cuda_rows
            test_cuda_solver test_cuda_streams test_cuda_units test_unscale)
        target_compile_definitions(${test} PRIVATE AMP_TESTS_FAKE_CUDA="${fake_cuda_dir}"
            AMP_TESTS_FAKE_LIBRARIES="${fake_libraries}")
        add_dependencies(${test} amp_cuda ${fake_drivers})
    endforeach()
    if(TARGET fake_no_cusolver)
        set(tests_with_no_cusolver *) # the folder of libraries, and what it makes a difference to
        set(tests_with_old_cusolver *AnyMatrix*:*Answer*:*Explain*)
        set(tests_with_no_trsm *Triang*:*LeastSquares*:*Answer*:*Explain*)
        foreach(instead no_cusolver old_cusolver no_trsm)
            add_test(NAME cuda_${instead} COMMAND ${CMAKE_COMMAND} -E env AMP_TESTS_LIBRARIES=${instead}
                $<TARGET_FILE:test_cuda_solver> --gtest_filter=${tests_with_${instead}})
            set_tests_properties(cuda_${instead} PROPERTIES LABELS fast)
            add_dependencies(test_cuda_solver fake_${instead})
        endforeach()
    endif()
    if(NOT AMP_SANITIZE)
        foreach(test cuda_attention cuda_complex cuda_index cuda_linalg cuda_rows cuda_units unscale)
            add_test(NAME ${test}_threads COMMAND ${CMAKE_COMMAND} -E env AMP_TESTS_DRIVER=${fake_cuda_dir}/threads
                $<TARGET_FILE:test_${test}>)
            set_tests_properties(${test}_threads PROPERTIES LABELS fast)
            add_dependencies(test_${test} fake_cuda_threads)
        endforeach()
        add_test(NAME cuda_solver_threads COMMAND ${CMAKE_COMMAND} -E env AMP_TESTS_DRIVER=${fake_cuda_dir}/threads
            $<TARGET_FILE:test_cuda_solver> --gtest_filter=*Answer*:*Batches*:*Explain*) # the others take minutes
        set_tests_properties(cuda_solver_threads PROPERTIES LABELS fast)
        add_dependencies(test_cuda_solver fake_cuda_threads)
    endif()
endif()

# What `amp replay --load` and `amp info --load` open.
add_library(plugin MODULE tests/plugin.c)
target_include_directories(plugin PRIVATE include)
set_target_properties(plugin PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests PREFIX "")

include(cmake/replay.cmake)

# The rest looks at what a user gets. Instrumented libraries are not for users.
if(AMP_SANITIZE OR AMP_COVERAGE)
    return()
endif()

# DLPack and .npy against NumPy, from Python: the first interpreter that has NumPy, as a shell's own python3 may not.
set(python python3)
foreach(candidate python3 /usr/bin/python3)
    execute_process(COMMAND ${candidate} -c "import numpy" RESULT_VARIABLE no_numpy OUTPUT_QUIET ERROR_QUIET)
    if(NOT no_numpy)
        set(python ${candidate})
        break()
    endif()
endforeach()
add_test(NAME dlpack COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/test_dlpack.py $<TARGET_FILE:amp>)
add_test(NAME npy_numpy COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/test_npy_numpy.py $<TARGET_FILE:amp>)
set_tests_properties(dlpack npy_numpy PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# The README's code is an example's, and prints what it says.
add_test(NAME readme COMMAND python3 tests/check_readme.py README.md examples $<TARGET_FILE:first_steps> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(readme PROPERTIES LABELS fast)

# The tool's commands, options and mistakes.
add_test(NAME tool COMMAND tests/check_tool.sh $<TARGET_FILE:amp_tool> $<TARGET_FILE:first_steps> $<TARGET_FILE:plugin>
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(tool PROPERTIES LABELS fast)

# A program's own op.
add_test(NAME example.own_op COMMAND own_op)
set_tests_properties(example.own_op PROPERTIES LABELS fast
    PASS_REGULAR_EXPRESSION "f32, for swiglu: policy fp32.*swiglu gives f32, project bf16")

# The demo, as its user sees it.
add_test(NAME example.sentence_embedding COMMAND python3 tests/check_sentence_embedding.py $<TARGET_FILE:sentence_embedding>
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(example.sentence_embedding PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# Public headers, each alone, in every language version that we name.
file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include include/amp/*.h)
foreach(header IN LISTS public_headers)
    foreach(compiler gcc clang)
        add_test(NAME header.${header}.${compiler} COMMAND tests/check_header.sh ${compiler} ${header} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
        set_tests_properties(header.${header}.${compiler} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
    endforeach()
endforeach()

# The op macros as users write them.
foreach(compiler gcc clang)
    add_test(NAME ops.macros.${compiler} COMMAND tests/check_ops.sh ${compiler} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(ops.macros.${compiler} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
endforeach()

# The C++ header, and a call of every op in it.
foreach(compiler g++ clang++)
    add_test(NAME ops.cxx.${compiler} COMMAND tests/check_cxx.sh ${compiler} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(ops.cxx.${compiler} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
endforeach()

# The installed tree, and outside projects built on it.
set(consumers ${PROJECT_SOURCE_DIR}/tests/consumers)
set(prefix ${PROJECT_BINARY_DIR}/consumers/prefix)
set(prefix_lib ${prefix}/${CMAKE_INSTALL_LIBDIR})
add_test(NAME library.exports COMMAND ${PROJECT_SOURCE_DIR}/tests/check_symbols.sh $<TARGET_FILE:amp>)
add_test(NAME install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${prefix})
set_tests_properties(library.exports install PROPERTIES LABELS fast)
if(AMP_HAVE_CUDA)
    add_test(NAME library.cuda COMMAND ${PROJECT_SOURCE_DIR}/tests/check_cuda.sh $<TARGET_FILE:amp_tool> $<TARGET_FILE:amp>
        $<TARGET_FILE:amp_cuda> ${fake_cuda_dir})
    add_test(NAME gpu_check COMMAND ${PROJECT_SOURCE_DIR}/tests/check_gpu_check.sh ${PROJECT_BINARY_DIR})
    find_program(AMP_CUOBJDUMP cuobjdump HINTS ${CUDAToolkit_BIN_DIR})
    add_test(NAME cuda_kernels COMMAND ${PROJECT_SOURCE_DIR}/tests/check_cuda_kernels.sh "${AMP_CUOBJDUMP}" ${images}
        ${PROJECT_SOURCE_DIR}/src/cuda/cuda_backend.h)
else()
    foreach(test library.cuda gpu_check cuda_kernels)
        add_test(NAME ${test} COMMAND sh -c "echo 'skipped: built without the CUDA toolkit'; exit 77")
    endforeach()
endif()
set_tests_properties(library.cuda gpu_check cuda_kernels PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
set_tests_properties(install PROPERTIES FIXTURES_SETUP prefix)

set(static 0)
foreach(library amp amp_static)
    add_test(NAME consumer.cmake_c11.${library} COMMAND ${CMAKE_CTEST_COMMAND}
        --build-and-test ${consumers}/cmake_c11 ${PROJECT_BINARY_DIR}/consumers/cmake_${library}
        --build-generator ${CMAKE_GENERATOR}
        --build-options -DCMAKE_PREFIX_PATH=${prefix} -DAMP_LIBRARY=amp::${library} -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
        --test-command consumer)
    add_test(NAME consumer.pkgconfig_cxx17.${library} COMMAND make -C ${consumers}/pkgconfig_cxx17 run
        STATIC=${static} CXX=${CMAKE_CXX_COMPILER} OUT=${PROJECT_BINARY_DIR}/consumers/pkgconfig_${library})
    set_tests_properties(consumer.cmake_c11.${library} consumer.pkgconfig_cxx17.${library} PROPERTIES
        LABELS fast FIXTURES_REQUIRED prefix
        ENVIRONMENT "PKG_CONFIG_PATH=${prefix_lib}/pkgconfig;LD_LIBRARY_PATH=${prefix_lib}")
    set(static 1)
endforeach()


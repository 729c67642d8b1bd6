# Every folder of tests/ that holds test_*.cc is a GoogleTest program: tests/cpu/gemm is test_cpu_gemm. Each of its suites
# is a test for ctest (cmake/suites.cmake); scripts/skipped says what skipped, by name and with the reason.
find_package(GTest REQUIRED)

include(cmake/fuzz.cmake)
include(cmake/fake_cuda.cmake)

# Most of the time that a test takes to compile went into headers and optimisation: all programs share one precompiled
# header, and so their flags, and are compiled with -O1, as few of them run for longer than -O2 takes; under a sanitizer,
# where -O1 takes four times as long as -O0, with that, and without checks of undefined behaviour, which are a third of
# what is left. (The library is what is tested: it has -O1 there, and all checks.)
add_library(test_support STATIC tests/support/amp_test.cc)
target_link_libraries(test_support PUBLIC example_support op_calls amp_internal OpenMP::OpenMP_CXX GTest::gtest_main)
target_compile_options(test_support PUBLIC -O1 -fPIE)
if(AMP_SANITIZE)
    target_compile_options(test_support PUBLIC -O0 -fno-sanitize=undefined)
endif()
target_precompile_headers(test_support PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/amp_test.h)
if(AMP_HAVE_CUDA)
    target_compile_definitions(test_support PUBLIC AMP_TESTS_FAKE_CUDA="${fake_cuda_dir}"
        AMP_TESTS_FAKE_LIBRARIES="${fake_libraries}")
endif()

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests tests/*/test_*.cc)
list(TRANSFORM test_sources REPLACE "/[^/]*$" "" OUTPUT_VARIABLE test_folders)
list(REMOVE_DUPLICATES test_folders)
set(suite_programs)
foreach(folder IN LISTS test_folders)
    string(REPLACE / _ name test_${folder})
    file(GLOB sources CONFIGURE_DEPENDS tests/${folder}/test_*.cc)
    file(GLOB c_sources CONFIGURE_DEPENDS tests/${folder}/*.c) # what a user does in C
    set_property(SOURCE ${c_sources} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    add_executable(${name} ${sources} ${c_sources})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_link_libraries(${name} PRIVATE test_support)
    target_precompile_headers(${name} REUSE_FROM test_support)
    list(APPEND suite_programs ${name} $<TARGET_FILE:${name}>)
endforeach()

# ctest asks the programs for their suites when it starts.
list(JOIN suite_programs "\" \"" suite_programs)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tests/suites.cmake CONTENT
    "set(programs \"${suite_programs}\")\nset(folder \"${PROJECT_SOURCE_DIR}\")\ninclude(\"${PROJECT_SOURCE_DIR}/cmake/suites.cmake\")\n")
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${PROJECT_BINARY_DIR}/tests/suites.cmake)

# The tour (tests/tour.txt) on CPUs that this machine is not.
if(NOT AMP_SANITIZE AND NOT AMP_COVERAGE)
    file(STRINGS tests/tour.txt tour REGEX "^test_")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tests/tour.txt)
    list(TRANSFORM tour REPLACE "^(test_[a-z0-9_]+) " "$<TARGET_FILE:\\1>;")
    foreach(machine amx avx512bf16 avx512)
        add_test(NAME emulated.${machine} COMMAND ${PROJECT_SOURCE_DIR}/tests/emulated.sh ${machine} ${tour})
        set_tests_properties(emulated.${machine} PROPERTIES LABELS machines SKIP_RETURN_CODE 77 TIMEOUT 2400)
    endforeach()
    foreach(cpu qemu64 Nehalem Haswell Skylake-Server EPYC)
        add_test(NAME qemu.${cpu} COMMAND ${PROJECT_SOURCE_DIR}/tests/qemu.sh ${cpu} ${PROJECT_BINARY_DIR})
        set_tests_properties(qemu.${cpu} PROPERTIES LABELS machines SKIP_RETURN_CODE 77 TIMEOUT 2400)
    endforeach()
endif()

if(AMP_HAVE_CUDA)
    add_dependencies(test_cuda amp_cuda ${fake_drivers})
    add_dependencies(test_ops amp_cuda ${fake_drivers}) # unscaling
    # Once more where a library is missing or old: its folder, and what it makes a difference to.
    function(add_cuda_tests name filter variable)
        add_test(NAME cuda_${name} COMMAND ${CMAKE_COMMAND} -E env ${variable} $<TARGET_FILE:test_cuda> --gtest_filter=${filter})
        set_tests_properties(cuda_${name} PROPERTIES LABELS fast TIMEOUT 900)
    endfunction()
    add_cuda_tests(no_pools Cuda.*:CudaMemory.*:CudaStreams.*:CudaProducts.*-*.Z* AMP_FAKE_NO_POOLS=1)
    if(TARGET fake_no_cusolver)
        add_cuda_tests(no_cusolver CudaSolver.* AMP_TESTS_LIBRARIES=no_cusolver)
        add_cuda_tests(old_cusolver CudaSolver.*AnyMatrix*:CudaSolver.*Answer*:CudaSolver.*Explain* AMP_TESTS_LIBRARIES=old_cusolver)
        add_cuda_tests(no_trsm CudaSolver.*Triang*:CudaSolver.*LeastSquares*:CudaSolver.*Answer*:CudaSolver.*Explain*
            AMP_TESTS_LIBRARIES=no_trsm)
    endif()
    # And with all threads of each block. (Most of CudaSolver takes minutes then.)
    if(NOT AMP_SANITIZE)
        foreach(suite CudaAttention CudaFlash CudaComplex CudaDevices CudaFlat CudaIndex CudaLinalg CudaRows CudaUnits)
            add_cuda_tests(${suite}_threads ${suite}.* AMP_TESTS_DRIVER=${fake_cuda_dir}/threads)
        endforeach()
        add_cuda_tests(CudaSolver_threads CudaSolver.*Answer*:CudaSolver.*Batches*:CudaSolver.*Explain*
            AMP_TESTS_DRIVER=${fake_cuda_dir}/threads)
        add_test(NAME unscale_threads COMMAND ${CMAKE_COMMAND} -E env AMP_TESTS_DRIVER=${fake_cuda_dir}/threads
            $<TARGET_FILE:test_ops> --gtest_filter=*Unscale*)
        set_tests_properties(unscale_threads PROPERTIES LABELS fast)
    endif()
endif()

# What `amp replay --load` and `amp info --load` open.
add_library(plugin MODULE tests/support/plugin.c)
target_include_directories(plugin PRIVATE include)
set_target_properties(plugin PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests PREFIX "")

# Training that is killed and goes on; by hand with more runs: tests/train/killed/kill_runs.py PROGRAM 200.
add_executable(killed_run tests/train/killed/killed_run.c)
set_target_properties(killed_run PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(killed_run PRIVATE amp_internal)
add_test(NAME killed_runs COMMAND python3 -B ${PROJECT_SOURCE_DIR}/tests/train/killed/kill_runs.py $<TARGET_FILE:killed_run>)
set_tests_properties(killed_runs PROPERTIES LABELS fast TIMEOUT 900)

# Training in several processes.
add_executable(ranks_run tests/distributed/ranks/ranks_run.c)
set_target_properties(ranks_run PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(ranks_run PRIVATE amp_internal)
if(AMP_HAVE_MPI)
    add_dependencies(ranks_run amp_mpi)
    add_test(NAME distributed.ranks COMMAND python3 -B ${PROJECT_SOURCE_DIR}/tests/distributed/ranks/check_ranks.py $<TARGET_FILE:ranks_run>)
else()
    add_test(NAME distributed.ranks COMMAND sh -c "echo 'skipped: built without MPI (libopenmpi-dev)'; exit 77")
endif()
if(AMP_HAVE_MPI AND AMP_HAVE_CUDA)
    add_dependencies(ranks_run amp_cuda ${fake_drivers} fake_no_nccl)
    add_test(NAME distributed.gpus COMMAND python3 -B ${PROJECT_SOURCE_DIR}/tests/distributed/ranks/check_gpus.py $<TARGET_FILE:ranks_run>
        ${fake_cuda_dir})
else()
    add_test(NAME distributed.gpus COMMAND sh -c "echo 'skipped: built without MPI (libopenmpi-dev) or without the CUDA toolkit'; exit 77")
endif()
set_tests_properties(distributed.ranks distributed.gpus PROPERTIES LABELS fast SKIP_RETURN_CODE 77 TIMEOUT 1800)

include(cmake/onnx_tests.cmake)
# `amp run`, `bench`, `audit` and `explain` on small models and broken ones, nodes that are made up; on real ones, where AMP_MODELS and AMP_MODEL_CASES name them.
foreach(command run bench audit explain_model numa)
    add_test(NAME tool_${command} COMMAND python3 -B ${PROJECT_SOURCE_DIR}/tests/tool/test_${command}.py $<TARGET_FILE:amp_tool>)
endforeach()
# Debian's Python has the NumPy that scripts/setup installs; one that comes before it in the path need not have.
find_program(AMP_PYTHON_NUMPY python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(AMP_PYTHON_NUMPY python3)
add_test(NAME onnx_models COMMAND ${AMP_PYTHON_NUMPY} ${PROJECT_SOURCE_DIR}/tests/onnx/check_models.py $<TARGET_FILE:amp_tool>)
set_tests_properties(tool_run tool_bench tool_audit tool_explain_model tool_numa onnx_models PROPERTIES LABELS fast SKIP_RETURN_CODE 77 TIMEOUT 900)
# … saved as files and loaded again, and in all the ways that a graph computes: `ctest --preset models`, by hand.
add_test(NAME onnx_saved COMMAND ${AMP_PYTHON_NUMPY} ${PROJECT_SOURCE_DIR}/tests/onnx/check_saved.py $<TARGET_FILE:amp_tool>)
add_test(NAME onnx_model_modes COMMAND ${AMP_PYTHON_NUMPY} ${PROJECT_SOURCE_DIR}/tests/onnx/check_models.py --modes $<TARGET_FILE:model_modes>)
set_tests_properties(onnx_saved onnx_model_modes PROPERTIES LABELS models SKIP_RETURN_CODE 77 TIMEOUT 3600)

include(cmake/replay.cmake)
# The rest looks at what a user gets. Instrumented libraries are not for users.
if(NOT AMP_SANITIZE AND NOT AMP_COVERAGE)
    include(cmake/product_tests.cmake)
endif()

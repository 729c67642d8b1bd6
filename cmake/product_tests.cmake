# What a user gets: the tool, the examples, the headers, the installed tree.

# DLPack and .npy against NumPy, from Python: the first interpreter that has NumPy, as a shell's own python3 may not.
set(python python3)
foreach(candidate python3 /usr/bin/python3)
    execute_process(COMMAND ${candidate} -c "import numpy" RESULT_VARIABLE no_numpy OUTPUT_QUIET ERROR_QUIET)
    if(NOT no_numpy)
        set(python ${candidate})
        break()
    endif()
endforeach()
add_test(NAME dlpack COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/io/test_dlpack.py $<TARGET_FILE:amp>)
add_test(NAME npy_numpy COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/io/test_npy_numpy.py $<TARGET_FILE:amp>)
set_tests_properties(dlpack npy_numpy PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# The README's code is an example's, and prints what it says.
add_test(NAME readme COMMAND python3 tests/examples/check_readme.py README.md examples $<TARGET_FILE:first_steps> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(readme PROPERTIES LABELS fast)

# The documents: their C compiles, their links, paths and names exist, their picture of the floors is the one that holds.
add_test(NAME docs COMMAND python3 tests/docs/check_docs.py ${CMAKE_C_COMPILER} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_test(NAME man_pages COMMAND tests/docs/check_man.sh $<TARGET_FILE:amp_tool> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_test(NAME completion COMMAND tests/tool/check_completion.sh $<TARGET_FILE:amp_tool> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_test(NAME calls_shown COMMAND python3 tests/tool/check_calls.py $<TARGET_FILE:amp_tool> ${CMAKE_C_COMPILER} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(docs man_pages completion calls_shown PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# The tool's commands, options and mistakes.
add_test(NAME tool COMMAND tests/tool/check_tool.sh $<TARGET_FILE:amp_tool> $<TARGET_FILE:first_steps> $<TARGET_FILE:plugin>
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(tool PROPERTIES LABELS fast)

# Programs that know nothing of libamp, under `amp blas`: a BLAS of the tests' own, with every name and OpenBLAS behind it.
add_library(stand_in SHARED tests/blas/program/stand_in.c)
target_compile_definitions(stand_in PRIVATE STAND_IN_BLAS="libopenblas.so.0")
target_link_libraries(stand_in PRIVATE ${CMAKE_DL_LIBS})
add_executable(call_blas tests/blas/program/call_blas.c)
target_link_libraries(call_blas PRIVATE stand_in Threads::Threads m)
# The same, as a library that is opened with RTLD_LOCAL, and with it its BLAS: so does Python with NumPy's.
add_library(call_blas_local MODULE tests/blas/program/call_blas.c)
target_compile_definitions(call_blas_local PRIVATE main=call_blas_main)
target_link_libraries(call_blas_local PRIVATE stand_in Threads::Threads m)
add_executable(open_blas tests/blas/program/open_blas.c)
target_link_libraries(open_blas PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(stand_in call_blas call_blas_local open_blas PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
foreach(test routines names hard stale threads fork invalid loops local fortran tool numpy)
    add_test(NAME blas.${test} COMMAND ${python} -B ${PROJECT_SOURCE_DIR}/tests/blas/check_blas.py ${test}
        $<TARGET_FILE:amp_tool> ${PROJECT_BINARY_DIR}/tests)
    set_tests_properties(blas.${test} PROPERTIES LABELS fast SKIP_RETURN_CODE 77 TIMEOUT 900)
endforeach()

# A thread that is still there when the library is closed.
add_executable(outlive_dlclose tests/api/outlive_dlclose.c)
target_include_directories(outlive_dlclose PRIVATE include)
target_link_libraries(outlive_dlclose PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(outlive_dlclose PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME library.dlclose COMMAND outlive_dlclose $<TARGET_FILE:amp>)
set_tests_properties(library.dlclose PROPERTIES LABELS fast)

# A program's own op.
add_test(NAME example.own_op COMMAND own_op)
set_tests_properties(example.own_op PROPERTIES LABELS fast
    PASS_REGULAR_EXPRESSION "f32, for swiglu: policy fp32.*swiglu gives f32, project bf16")

# A function with a backward of its own.
add_test(NAME example.custom_function COMMAND custom_function)
set_tests_properties(example.custom_function PROPERTIES LABELS fast
    PASS_REGULAR_EXPRESSION "my_mm gives f16, my_energy f32: 19.6075, and the weights' gradients sum to 16.0")

# One convolution, called three ways.
add_test(NAME example.simple_net COMMAND simple_net 2 20 1)
set_tests_properties(example.simple_net PROPERTIES LABELS fast FAIL_REGULAR_EXPRESSION "not the bits|simple_net: "
    PASS_REGULAR_EXPRESSION "eager .*x  the bits of eager.*traced .*x  the bits of eager.*frozen .*x  the bits of eager")

add_test(NAME example.watch_errors COMMAND watch_errors)
set_tests_properties(example.watch_errors PROPERTIES LABELS fast PASS_REGULAR_EXPRESSION "with 'encoder' in f32 by")

# The demo, as its user sees it.
add_test(NAME example.sentence_embedding COMMAND python3 tests/examples/check_sentence_embedding.py $<TARGET_FILE:sentence_embedding>
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(example.sentence_embedding PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

add_test(NAME example.ocr COMMAND python3 tests/examples/check_ocr.py $<TARGET_FILE:ocr> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(example.ocr PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# Training: the loops, which say by their exit status whether they learned, and the digits. (What custom_function prints is above.)
file(GLOB loops CONFIGURE_DEPENDS examples/apex/*.c examples/training/*.c)
list(FILTER loops EXCLUDE REGEX custom_function)
foreach(source IN LISTS loops)
    get_filename_component(loop ${source} NAME_WE)
    add_test(NAME example.${loop} COMMAND ${loop})
    set_tests_properties(example.${loop} PROPERTIES LABELS fast)
endforeach()
add_test(NAME example.train_digits COMMAND python3 tests/examples/check_train_digits.py $<TARGET_FILE:train_digits>
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_test(NAME example.train_text COMMAND python3 tests/examples/check_train_text.py $<TARGET_FILE:train_text>
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(example.train_digits example.train_text PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# Public headers, each alone, in every language version that we name.
file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include include/amp/*.h)
foreach(header IN LISTS public_headers)
    foreach(compiler gcc clang)
        add_test(NAME header.${header}.${compiler} COMMAND tests/api/check_header.sh ${compiler} ${header} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
        set_tests_properties(header.${header}.${compiler} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
    endforeach()
endforeach()

# The op macros as users write them.
foreach(compiler gcc clang)
    add_test(NAME ops.macros.${compiler} COMMAND tests/api/check_ops.sh ${compiler} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(ops.macros.${compiler} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
endforeach()

# No field of a public struct has moved since the last release.
add_test(NAME api.offsets COMMAND python3 tests/api/check_offsets.py ${CMAKE_C_COMPILER} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(api.offsets PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# The C++ header, and a call of every op in it.
foreach(compiler g++ clang++)
    add_test(NAME ops.cxx.${compiler} COMMAND tests/api/check_cxx.sh ${compiler} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(ops.cxx.${compiler} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
endforeach()

# The installed tree, and outside projects built on it.
set(consumers ${PROJECT_SOURCE_DIR}/tests/api/consumers)
set(prefix ${PROJECT_BINARY_DIR}/consumers/prefix)
set(prefix_lib ${prefix}/${CMAKE_INSTALL_LIBDIR})
add_test(NAME library.exports COMMAND ${PROJECT_SOURCE_DIR}/tests/api/check_symbols.sh $<TARGET_FILE:amp>)
add_test(NAME install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${prefix})
set_tests_properties(library.exports install PROPERTIES LABELS fast)
if(AMP_HAVE_CUDA)
    add_test(NAME library.cuda COMMAND ${PROJECT_SOURCE_DIR}/tests/cuda/check_cuda.sh $<TARGET_FILE:amp_tool> $<TARGET_FILE:amp>
        $<TARGET_FILE:amp_cuda> ${fake_cuda_dir})
    add_test(NAME gpu_check COMMAND ${PROJECT_SOURCE_DIR}/tests/cuda/check_gpu_check.sh ${PROJECT_BINARY_DIR})
    find_program(AMP_CUOBJDUMP cuobjdump HINTS ${CUDAToolkit_BIN_DIR})
    add_test(NAME cuda_kernels COMMAND ${PROJECT_SOURCE_DIR}/tests/cuda/check_cuda_kernels.sh "${AMP_CUOBJDUMP}" ${images}
        ${PROJECT_SOURCE_DIR}/src/cuda/cuda_backend.h ${PROJECT_SOURCE_DIR}/src/cuda/module/kernels.def)
else()
    foreach(test library.cuda gpu_check cuda_kernels)
        add_test(NAME ${test} COMMAND sh -c "echo 'skipped: built without the CUDA toolkit'; exit 77")
    endforeach()
endif()
set_tests_properties(library.cuda gpu_check cuda_kernels PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
set_tests_properties(install PROPERTIES FIXTURES_SETUP prefix)
add_test(NAME installed_docs COMMAND tests/docs/check_installed.sh ${prefix} ${CMAKE_INSTALL_MANDIR} ${CMAKE_INSTALL_DOCDIR}
    ${CMAKE_INSTALL_DATADIR} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(installed_docs PROPERTIES LABELS fast FIXTURES_REQUIRED prefix)

if(NOT AMP_SANITIZE AND NOT AMP_COVERAGE)
    add_test(NAME packages COMMAND ${PROJECT_SOURCE_DIR}/tests/api/check_packages.sh ${PROJECT_BINARY_DIR})
    set_tests_properties(packages PROPERTIES LABELS fast SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()

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

# The Python package, a file of python/tests at a time.
file(GLOB python_tests CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python/tests python/tests/test_*.py)
foreach(file IN LISTS python_tests)
    string(REGEX REPLACE "test_(.*)\\.py" "python.\\1" test ${file})
    if(AMP_HAVE_PYTHON)
        add_test(NAME ${test} COMMAND ${Python3_EXECUTABLE} python/tests/run.py ${file} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
        set_tests_properties(${test} PROPERTIES ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1")
    else()
        add_test(NAME ${test} COMMAND sh -c "echo 'skipped: no Python package: ${AMP_NO_PYTHON}'; exit 77")
    endif()
    set_tests_properties(${test} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
endforeach()
if(AMP_HAVE_PYTHON)
    add_test(NAME python.wheel COMMAND ${Python3_EXECUTABLE} -B python/tests/check_wheel.py ${PROJECT_BINARY_DIR} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(python.wheel PROPERTIES LABELS fast SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()

# Recorded operator cases: the selection in the tree, and a whole recording where AMP_GOLDEN names one at test time.
add_test(NAME replay_small COMMAND ${PROJECT_SOURCE_DIR}/tests/replay.sh $<TARGET_FILE:amp_tool> ${PROJECT_SOURCE_DIR}/tests/golden)
add_test(NAME replay_golden COMMAND ${PROJECT_SOURCE_DIR}/tests/replay.sh $<TARGET_FILE:amp_tool>)
add_test(NAME replay_itself COMMAND python3 ${PROJECT_SOURCE_DIR}/tests/tool/test_replay.py $<TARGET_FILE:amp_tool> $<TARGET_FILE:plugin>)
add_test(NAME replay_gradients COMMAND ${PROJECT_SOURCE_DIR}/tests/replay_gradients.sh $<TARGET_FILE:amp_tool>)
set_tests_properties(replay_small replay_golden replay_gradients replay_itself PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
# The same on the CUDA backend: over the fake driver, which runs the kernels on the host.
if(AMP_HAVE_CUDA)
    set(replay_cuda ${PROJECT_SOURCE_DIR}/tests/replay_cuda.sh $<TARGET_FILE:amp_tool> ${fake_cuda_dir})
    add_test(NAME replay_cuda_small COMMAND ${replay_cuda} ${PROJECT_SOURCE_DIR}/tests/golden)
    add_test(NAME replay_cuda_golden COMMAND ${replay_cuda})
    set(driver ${fake_cuda_dir})
    if(NOT AMP_SANITIZE)
        set(driver ${fake_cuda_dir}/threads:${fake_cuda_dir}) # all threads of each block
    endif()
    add_test(NAME replay_cuda_threads COMMAND ${PROJECT_SOURCE_DIR}/tests/replay_cuda.sh $<TARGET_FILE:amp_tool> ${driver}
        ${PROJECT_SOURCE_DIR}/tests/golden)
else()
    foreach(selection small golden threads)
        add_test(NAME replay_cuda_${selection} COMMAND sh -c "echo 'skipped: built without the CUDA toolkit'; exit 77")
    endforeach()
endif()
set_tests_properties(replay_cuda_small replay_cuda_golden replay_cuda_threads PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# The dtypes of results are PyTorch's, but for a list; in an environment that has PyTorch.
add_test(NAME dtypes_as_pytorch COMMAND python3 ${PROJECT_SOURCE_DIR}/tests/compare_dtypes.py $<TARGET_FILE:amp_tool>
    ${PROJECT_SOURCE_DIR}/tests/dtype_differences.txt)
set_tests_properties(dtypes_as_pytorch PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

# The dtypes that docs/ops.md names are those that run.
add_test(NAME op_dtypes COMMAND python3 ${PROJECT_SOURCE_DIR}/tools/probe_ops.py $<TARGET_FILE:amp_tool> --check)
set_tests_properties(op_dtypes PROPERTIES LABELS fast)

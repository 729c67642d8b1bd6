# ONNX's own node tests, where AMP_ONNX_CASES names a folder of them at test time (tests/onnx/onnx_node_cases.cc says what
# it holds); on the CUDA backend too, over the fake driver.
add_executable(onnx_node_cases tests/onnx/onnx_node_cases.cc)
set_target_properties(onnx_node_cases PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(onnx_node_cases PRIVATE amp_internal)
# Real models in all the ways that a graph computes them; tests/onnx/check_models.py runs it.
add_executable(model_modes tests/onnx/model_modes.cc)
set_target_properties(model_modes PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_include_directories(model_modes PRIVATE tests/support)
target_link_libraries(model_modes PRIVATE amp_internal)
set(node_cases ${PROJECT_SOURCE_DIR}/tests/onnx/node_cases.sh $<TARGET_FILE:onnx_node_cases>)
add_test(NAME onnx_node_cases COMMAND ${node_cases})
set(node_tests onnx_node_cases)
if(AMP_HAVE_CUDA)
    add_test(NAME onnx_node_cases_cuda COMMAND ${node_cases} ${fake_cuda_dir})
    list(APPEND node_tests onnx_node_cases_cuda)
endif()
set_tests_properties(${node_tests} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

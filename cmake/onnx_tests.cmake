# ONNX's own node tests, where AMP_ONNX_CASES names a folder of them at test time (tests/onnx/onnx_node_cases.cc says what
# it holds).
add_executable(onnx_node_cases tests/onnx/onnx_node_cases.cc)
set_target_properties(onnx_node_cases PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(onnx_node_cases PRIVATE amp_internal)
add_test(NAME onnx_node_cases COMMAND ${PROJECT_SOURCE_DIR}/tests/onnx/node_cases.sh $<TARGET_FILE:onnx_node_cases>)
set_tests_properties(onnx_node_cases PROPERTIES LABELS fast SKIP_RETURN_CODE 77)

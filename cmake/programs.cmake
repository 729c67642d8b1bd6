# The tool, the examples, the benches. A folder that is still empty makes nothing.

file(GLOB tool_sources CONFIGURE_DEPENDS tools/amp/*.c tools/amp/*.cc)
if(tool_sources)
    add_executable(amp_tool ${tool_sources})
    set_target_properties(amp_tool PROPERTIES OUTPUT_NAME amp)
    target_link_libraries(amp_tool PRIVATE amp_internal)
endif()

# Examples are a user's programs: public headers and the shared library, nothing else.
file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS example_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    target_link_libraries(${name} PRIVATE amp OpenMP::OpenMP_C m)
endforeach()

file(GLOB bench_sources CONFIGURE_DEPENDS bench/bench_*.c bench/bench_*.cc)
foreach(source IN LISTS bench_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    target_link_libraries(${name} PRIVATE amp_internal)
endforeach()

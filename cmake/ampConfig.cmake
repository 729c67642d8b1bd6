# find_package(amp) gives amp::amp (shared) and amp::amp_static; find_package(amp COMPONENTS tool cuda mpi) also asks for what is
# installed apart: the program, amp::tool, and the modules that the library opens, where there is a GPU and for training in several
# processes.
include(${CMAKE_CURRENT_LIST_DIR}/ampTargets.cmake)
# Not as system headers: gcc would say nothing of a bare number for an option. (CMake from 3.23 on; before, it does that.)
set_target_properties(amp::amp amp::amp_static PROPERTIES IMPORTED_NO_SYSTEM ON)

set(amp_shared_FOUND TRUE)
set(amp_static_FOUND TRUE)
get_filename_component(amp_libraries ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
foreach(amp_module cuda mpi)
    if(EXISTS ${amp_libraries}/libamp_${amp_module}.so)
        set(amp_${amp_module}_FOUND TRUE)
    endif()
endforeach()
# Beside the libraries, whose folder may be lib or lib/x86_64-linux-gnu.
unset(AMP_TOOL_EXECUTABLE CACHE) # of another package that was found before
find_program(AMP_TOOL_EXECUTABLE amp PATHS ${amp_libraries}/../bin ${amp_libraries}/../../bin NO_DEFAULT_PATH)
if(AMP_TOOL_EXECUTABLE)
    set(amp_tool_FOUND TRUE)
    if(NOT TARGET amp::tool)
        add_executable(amp::tool IMPORTED)
        set_target_properties(amp::tool PROPERTIES IMPORTED_LOCATION ${AMP_TOOL_EXECUTABLE})
    endif()
endif()
foreach(amp_component IN LISTS amp_FIND_COMPONENTS)
    if(NOT amp_${amp_component}_FOUND AND amp_FIND_REQUIRED_${amp_component})
        set(amp_FOUND FALSE)
        set(amp_NOT_FOUND_MESSAGE "amp's component '${amp_component}' is not installed; there are shared, static, tool, cuda and mpi")
    endif()
endforeach()

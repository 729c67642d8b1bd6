# find_package(amp) gives amp::amp (shared) and amp::amp_static.
include(${CMAKE_CURRENT_LIST_DIR}/ampTargets.cmake)
# Not as system headers: gcc would say nothing of a bare number for an option. (CMake from 3.23 on; before, it does that.)
set_target_properties(amp::amp amp::amp_static PROPERTIES IMPORTED_NO_SYSTEM ON)

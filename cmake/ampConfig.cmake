# find_package(amp) gives amp::amp (shared) and amp::amp_static.
include(${CMAKE_CURRENT_LIST_DIR}/ampTargets.cmake)

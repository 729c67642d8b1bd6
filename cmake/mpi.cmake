# libamp_mpi.so: training in several processes (docs/distributed.md), where MPI's header and library are. libamp opens it at run
# time, and links nothing of MPI.
set(AMP_MPI AUTO CACHE STRING "Build the MPI module: AUTO (if MPI is found), ON or OFF")

set(AMP_HAVE_MPI OFF)
if(NOT AMP_MPI STREQUAL OFF)
    find_package(MPI 3.0 QUIET COMPONENTS C)
    if(MPI_C_FOUND)
        set(AMP_HAVE_MPI ON)
    elseif(AMP_MPI STREQUAL ON)
        message(FATAL_ERROR "AMP_MPI is ON, but no MPI of version 3.0 or newer was found (Debian: libopenmpi-dev)")
    endif()
endif()
if(NOT AMP_HAVE_MPI)
    message(STATUS "MPI: not used; the library goes without libamp_mpi.so")
    return()
endif()
message(STATUS "MPI ${MPI_C_VERSION}: libamp_mpi.so")

file(GLOB mpi_sources CONFIGURE_DEPENDS src/distributed/module/*.c)
add_library(amp_mpi SHARED ${mpi_sources})
target_include_directories(amp_mpi PRIVATE include src)
target_link_libraries(amp_mpi PRIVATE MPI::MPI_C)

# Whatever uses libamp from this build tree finds the module there.
list(APPEND CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR})

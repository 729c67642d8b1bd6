# `cpack`: Debian packages by component, and an archive that runs from any folder with what it needs inside. Where it is not
# installed from the distribution, oneDNN is in both. (`make packages` builds them, in build/packages.)

# What is inside, as SPDX has it.
string(TIMESTAMP spdx_created "%Y-%m-%dT%H:%M:%SZ" UTC)
if(AMP_SHIP_DNNL)
    set(spdx_dnnl_relation CONTAINS)
else()
    set(spdx_dnnl_relation DEPENDS_ON)
endif()
configure_file(cmake/packages/amp.spdx.json.in amp.spdx.json @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/amp.spdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_NAME libamp)
set(CPACK_PACKAGE_VENDOR libamp)
set(CPACK_PACKAGE_CONTACT "libamp <libamp@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME libamp-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_THREADS 0)

# The archive: the private folder of libraries gets what a distribution would have.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packages/bundle.cmake)
set(CPACK_AMP_PRIVATE_DIR ${private_dir})
set(CPACK_AMP_PROGRAMS ${CMAKE_INSTALL_BINDIR})
set(CPACK_AMP_LIBRARIES ${CMAKE_INSTALL_LIBDIR})
set(CPACK_AMP_DOCUMENTS ${CMAKE_INSTALL_DOCDIR})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev tools)
if(AMP_HAVE_CUDA)
    list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
if(AMP_HAVE_MPI)
    list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${unpacked_dnnl}/lib ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)

# COMPONENT, its package's name, what it is in a line, and what of ours it needs.
function(amp_debian_package component name summary)
    string(TOUPPER ${component} c)
    set(CPACK_DEBIAN_${c}_PACKAGE_NAME ${name} PARENT_SCOPE)
    set(CPACK_COMPONENT_${c}_DESCRIPTION "${summary}" PARENT_SCOPE)
    list(TRANSFORM ARGN APPEND " (= ${PROJECT_VERSION})")
    list(JOIN ARGN ", " needs)
    set(CPACK_DEBIAN_${c}_PACKAGE_DEPENDS "${needs}" PARENT_SCOPE)
endfunction()
set(runtime_package libamp${amp_soversion})
amp_debian_package(runtime ${runtime_package} "${PROJECT_DESCRIPTION}: the shared library")
amp_debian_package(dev libamp-dev "${PROJECT_DESCRIPTION}: headers, the static library, documents, examples" ${runtime_package})
amp_debian_package(tools libamp-tools "${PROJECT_DESCRIPTION}: the program amp" ${runtime_package})
amp_debian_package(cuda libamp-cuda "${PROJECT_DESCRIPTION}: the module for NVIDIA's GPUs" ${runtime_package})
amp_debian_package(mpi libamp-mpi "${PROJECT_DESCRIPTION}: the module for training in several processes" ${runtime_package})
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS "openmpi-bin") # mpirun
# What the static library is linked with, as amp.pc says.
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS
    "libjansson-dev, libxxhash-dev, liblapacke-dev, libopenblas-openmp-dev, libprotobuf-c-dev, gcc, pkg-config")
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF) # it opens CUDA's libraries by name, where they are

include(CPack)

# What the library links. scripts/setup installs all of it.

find_package(OpenMP REQUIRED COMPONENTS C CXX)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(packages REQUIRED IMPORTED_TARGET jansson libxxhash lapacke openblas libprotobuf-c)
find_program(AMP_PROTOC_C protoc-c REQUIRED) # makes C of onnx.proto

# oneDNN: the distribution's if it is new enough, else the one that scripts/setup unpacked. The latter is shipped along
# by `cmake --install`, in a folder of the library's own.
set(unpacked_dnnl ${PROJECT_SOURCE_DIR}/.deps/onednn)
find_package(dnnl 3 CONFIG QUIET)
if(NOT dnnl_FOUND)
    find_package(dnnl 3 CONFIG QUIET PATHS ${unpacked_dnnl} NO_DEFAULT_PATH)
endif()
if(NOT dnnl_FOUND)
    message(FATAL_ERROR "oneDNN 3 is missing: run scripts/setup")
endif()
cmake_path(IS_PREFIX unpacked_dnnl ${dnnl_DIR} AMP_SHIP_DNNL)
message(STATUS "oneDNN ${dnnl_VERSION} from ${dnnl_DIR}")

set(amp_libraries DNNL::dnnl PkgConfig::packages OpenMP::OpenMP_C Threads::Threads m ${CMAKE_DL_LIBS})

# An OpenMP build of oneDNN asks for libgomp.so.1. Under clang, libomp answers to that name (it carries GOMP's entry
# points), so that a process has one OpenMP runtime and one thread pool. DT_RPATH, unlike DT_RUNPATH, also applies to
# what oneDNN itself loads.
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    set(gomp_alias ${PROJECT_BINARY_DIR}/runtime)
    file(MAKE_DIRECTORY ${gomp_alias})
    file(CREATE_LINK ${OpenMP_omp_LIBRARY} ${gomp_alias}/libgomp.so.1 SYMBOLIC)
    add_link_options(-Wl,--disable-new-dtags)
    list(PREPEND CMAKE_BUILD_RPATH ${gomp_alias})
endif()

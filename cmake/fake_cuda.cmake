# For machines without a GPU: a driver and a cuBLASLt of the tests' own, with the kernels compiled for the host. A program
# that finds them before the real ones (LD_LIBRARY_PATH) has four devices "Fake GPU".
if(NOT AMP_HAVE_CUDA)
    return()
endif()
set(fake_cuda_dir ${PROJECT_BINARY_DIR}/tests/fake_cuda)

# The kernels as C++ of the host.
set(host_kernels)
foreach(source IN LISTS kernel_sources)
    get_filename_component(name ${source} NAME_WE)
    file(CONFIGURE OUTPUT ${fake_cuda_dir}/${name}_on_host.cc CONTENT "#include \"${source}\"\n" @ONLY)
    list(APPEND host_kernels ${fake_cuda_dir}/${name}_on_host.cc)
endforeach()
set_property(SOURCE ${host_kernels} PROPERTY OBJECT_DEPENDS "${kernel_sources}")

add_library(fake_cuda SHARED tests/fake_cuda/driver.cc ${host_kernels})
# The same, in threads/, with all threads of a block: slower. (Sanitizers do not know that it changes stacks.)
add_library(fake_cuda_threads SHARED tests/fake_cuda/driver.cc tests/fake_cuda/threads.cc ${host_kernels})
target_compile_definitions(fake_cuda_threads PRIVATE AMP_FAKE_THREADS)
add_library(fake_cublaslt SHARED tests/fake_cuda/cublaslt.cc)
string(REGEX MATCH "^[0-9]+" cuda_major ${CUDAToolkit_VERSION})
set_target_properties(fake_cuda fake_cuda_threads PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
set_target_properties(fake_cublaslt PROPERTIES OUTPUT_NAME cublasLt SOVERSION ${cuda_major})
foreach(library fake_cuda fake_cuda_threads fake_cublaslt)
    target_include_directories(${library} PRIVATE include src tests/fake_cuda)
    target_include_directories(${library} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(${library} PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
    set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fake_cuda_dir} CXX_VISIBILITY_PRESET default)
endforeach()
set_target_properties(fake_cuda_threads PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fake_cuda_dir}/threads)
target_link_libraries(fake_cublaslt PRIVATE fake_cuda)

# Libraries that are there, but not what is needed: FOLDER, file name, source.
function(add_wrong_library folder name source)
    add_library(fake_${folder} SHARED tests/fake_cuda/${source}.c)
    set_target_properties(fake_${folder} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fake_cuda_dir}/${folder} C_VISIBILITY_PRESET default
        OUTPUT_NAME ${name} ${ARGN})
endfunction()
add_wrong_library(old_driver cuda empty SOVERSION 1)
add_wrong_library(wrong_abi amp_cuda wrong_abi)
add_wrong_library(no_entry amp_cuda empty)
add_wrong_library(no_cublas cublasLt empty SOVERSION ${cuda_major})

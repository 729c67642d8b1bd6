# libamp_cuda.so: the CUDA module, where the toolkit is found. It links nothing of CUDA: the driver and cuBLAS are opened at
# run time, and the kernels are fat binaries inside of it.
set(AMP_CUDA AUTO CACHE STRING "Build the CUDA module: AUTO (if the toolkit is found), ON or OFF")
set(AMP_CUDA_ARCHITECTURES 75 80 90 CACHE STRING
    "Compute capabilities to compile kernels for, the last one also as PTX; `native`: of this machine's GPUs, or 90")

set(AMP_HAVE_CUDA OFF)
if(NOT AMP_CUDA STREQUAL OFF)
    find_package(CUDAToolkit 12 QUIET)
    find_program(AMP_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR})
    find_path(AMP_CUBLASLT_HEADER cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
    find_path(AMP_CUFFT_HEADER cufft.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
    find_path(AMP_CUSOLVER_HEADER cusolverDn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
    find_path(AMP_CUDNN_HEADER cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CUDAToolkit_FOUND AND AMP_NVCC AND AMP_CUBLASLT_HEADER)
        set(AMP_HAVE_CUDA ON)
    elseif(AMP_CUDA STREQUAL ON)
        message(FATAL_ERROR "AMP_CUDA is ON, but the CUDA toolkit (nvcc, cuda.h, cublasLt.h) was not found")
    endif()
endif()
if(NOT AMP_HAVE_CUDA)
    message(STATUS "CUDA toolkit: not used; the library goes without libamp_cuda.so")
    return()
endif()
set(architectures ${AMP_CUDA_ARCHITECTURES})
if(architectures STREQUAL native)
    set(gpus 90)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE found ERROR_QUIET
        RESULT_VARIABLE no_gpu)
    if(no_gpu EQUAL 0 AND found MATCHES "[0-9]")
        string(REPLACE "." "" found "${found}")
        string(REGEX MATCHALL "[0-9]+" gpus "${found}")
        list(REMOVE_DUPLICATES gpus)
        list(SORT gpus COMPARE NATURAL)
    endif()
    set(architectures ${gpus})
endif()
message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION}: kernels for ${architectures}")
set(gencode)
foreach(architecture IN LISTS architectures)
    list(APPEND gencode -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET architectures -1 architecture)
list(APPEND gencode -gencode arch=compute_${architecture},code=compute_${architecture})

if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8) # a fifth of the size
    list(APPEND gencode --compress-mode=size)
endif()

file(GLOB kernel_sources CONFIGURE_DEPENDS src/cuda/kernels/*.cu)
set(images ${PROJECT_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${images})
set(fatbins)
foreach(source IN LISTS kernel_sources)
    get_filename_component(name ${source} NAME_WE)
    list(APPEND fatbins ${images}/${name}.fatbin)
    string(APPEND image_rows "AMP_CUDA_IMAGE(${name})\n")
    if(AMP_SANITIZE OR AMP_COVERAGE) # nothing of these runs on a GPU: empty images
        file(TOUCH ${images}/${name}.fatbin)
        continue()
    endif()
    add_custom_command(OUTPUT ${images}/${name}.fatbin
        COMMAND ${AMP_NVCC} -fatbin -O3 -std=c++17 -fmad=false -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include ${gencode}
            -MD -MT ${images}/${name}.fatbin -MF ${images}/${name}.d -o ${images}/${name}.fatbin ${source}
        DEPENDS ${source} DEPFILE ${images}/${name}.d VERBATIM COMMENT "CUDA kernels: ${name}")
endforeach()
file(CONFIGURE OUTPUT ${images}/images.def CONTENT "${image_rows}")

file(GLOB module_sources CONFIGURE_DEPENDS src/cuda/module/*.c)
set_property(SOURCE src/cuda/module/launch.c PROPERTY OBJECT_DEPENDS "${fatbins}")
add_library(amp_cuda SHARED ${module_sources})
target_include_directories(amp_cuda PRIVATE include src ${images})
target_include_directories(amp_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
string(REPLACE ";" "," built_for "${architectures}")
target_compile_definitions(amp_cuda PRIVATE AMP_CUDA_IMAGES="${images}" AMP_CUDA_BUILT_FOR=${built_for})
target_link_libraries(amp_cuda PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

# Whatever uses libamp from this build tree finds the module there.
list(APPEND CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR})

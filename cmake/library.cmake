# libamp: every C file under src/ belongs to it, but those of the modules.

file(GLOB_RECURSE library_sources CONFIGURE_DEPENDS src/*.c src/*.cc)
list(FILTER library_sources EXCLUDE REGEX "/src/(blas|cuda|distributed)/module/") # blas.cmake, cuda.cmake, mpi.cmake
amp_apply_isa(library_sources)

# file(GLOB) where each pattern must match: a file that has moved would lose its flags, and nobody would see it.
function(amp_require_files variable)
    set(files)
    foreach(pattern IN LISTS ARGN)
        file(GLOB matches CONFIGURE_DEPENDS ${pattern})
        if(NOT matches)
            message(FATAL_ERROR "${variable}: no file is called ${pattern}")
        endif()
        list(APPEND files ${matches})
    endforeach()
    set(${variable} ${files} PARENT_SCOPE)
endfunction()

# The way to a kernel clears and copies structs of some hundred bytes. gcc makes `rep stos` and `rep movs` of that, whose
# start alone takes longer than such a struct does in vector registers: about 100 ns of a call of `linear`. It is also
# many short functions that call each other: each begins a line of cache, so that a call takes as long in every program that
# it is linked into (at multiples of 32 bytes 281 to 303 ns, by how the linker put the whole; of 16 another 30 ns).
amp_require_files(call_sources src/core/*.c src/machine/isa.c src/policy/*.c src/generated/*.c src/call/*.c src/dispatch/*.c
    src/autocast/*.c src/ops/product.c src/cpu/product/matmul.c src/cpu/product/blas_matmul.c src/cpu/gemm/gemm.c
    src/cpu/elementwise/elementwise.c src/cpu/elementwise/iterate.c src/cpu/registry/kernels.c src/cpu/cpu_table.c
    src/cpu/cpu_steps.c)
set_property(SOURCE ${call_sources} APPEND PROPERTY COMPILE_OPTIONS -falign-functions=64)
include(CheckCCompilerFlag)
set(struct_flags -mmemset-strategy=vector_loop:1024:noalign,libcall:-1:noalign
    -mmemcpy-strategy=vector_loop:1024:noalign,libcall:-1:noalign)
check_c_compiler_flag("${struct_flags}" AMP_COMPILES_STRUCT_FLAGS)
if(AMP_COMPILES_STRUCT_FLAGS)
    set_property(SOURCE ${call_sources} APPEND PROPERTY COMPILE_OPTIONS ${struct_flags})
endif()

# Roots in loops over parameters: nobody reads errno.
amp_require_files(root_sources src/cpu/elementwise/update.c)
set_property(SOURCE ${root_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-math-errno)

# What protobuf-c makes of the ONNX format.
set(onnx_messages ${PROJECT_BINARY_DIR}/messages/onnx/read/onnx.pb-c)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/messages/onnx/read)
add_custom_command(OUTPUT ${onnx_messages}.c ${onnx_messages}.h
    COMMAND ${AMP_PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/src/onnx/read --c_out=${PROJECT_BINARY_DIR}/messages/onnx/read onnx.proto
    DEPENDS src/onnx/read/onnx.proto VERBATIM)
set_property(SOURCE ${onnx_messages}.c PROPERTY COMPILE_OPTIONS -w) # not our code
add_custom_target(onnx_messages DEPENDS ${onnx_messages}.h) # for who reads sources without building them

# One compilation serves both libraries.
add_library(amp_objects OBJECT ${library_sources} ${onnx_messages}.c)
add_dependencies(amp_objects onnx_messages)
target_include_directories(amp_objects PUBLIC include src)
target_include_directories(amp_objects SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/messages)
target_compile_definitions(amp_objects PUBLIC ${AMP_ISA_DEFINITIONS})
target_link_libraries(amp_objects PUBLIC ${amp_libraries})

add_library(amp SHARED $<TARGET_OBJECTS:amp_objects>)
add_library(amp_static STATIC $<TARGET_OBJECTS:amp_objects>)
foreach(library amp amp_static)
    target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${AMP_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:${amp_libraries}>)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME amp LINKER_LANGUAGE C)
endforeach()
# What the CMake package says too (SameMinorVersion): before 1.0 a minor version may break programs.
set(amp_soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(amp_soversion 0.${PROJECT_VERSION_MINOR})
endif()
set_target_properties(amp PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${amp_soversion})
# The library's own calls of its public functions go straight, not through the table that lets programs replace them.
# It stays where it is after dlclose: threads that used it give back what they hold when they end, and OpenMP's wait in it.
target_link_options(amp PRIVATE -Wl,-z,nodelete -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map -Wl,-Bsymbolic-functions)
set_property(TARGET amp APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)

# For our own programs that reach inside: the static library together with the internal headers.
add_library(amp_internal INTERFACE)
target_include_directories(amp_internal INTERFACE include src)
target_include_directories(amp_internal SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/messages)
target_compile_definitions(amp_internal INTERFACE ${AMP_ISA_DEFINITIONS})
target_link_libraries(amp_internal INTERFACE amp_static ${amp_libraries})

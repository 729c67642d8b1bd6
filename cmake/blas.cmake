# libamp_blas.so: stands before the BLAS of programs that nobody rebuilds (`amp blas`). It links nothing but the C library, so
# that it can be loaded into anything, and opens libamp when it needs it.
file(GLOB blas_sources CONFIGURE_DEPENDS src/blas/module/*.c)
add_library(amp_blas SHARED ${blas_sources})
target_include_directories(amp_blas PRIVATE include src)
target_compile_definitions(amp_blas PRIVATE AMP_BLAS_LIBAMP="libamp.so.${amp_soversion}")
target_link_libraries(amp_blas PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(amp_blas PRIVATE -Wl,-z,nodelete)
set_target_properties(amp_blas PROPERTIES BUILD_RPATH ${PROJECT_BINARY_DIR} INSTALL_RPATH "$ORIGIN")
add_dependencies(amp_blas amp)

# The tool finds it there.
list(APPEND CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR})

# `cmake --install`: headers, both libraries, a CMake package, amp.pc, the tool. Documents: docs.cmake. Components are those of
# packages.cmake: runtime, dev, tools, cuda, mpi.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/amp)
set(private_dir ${CMAKE_INSTALL_LIBDIR}/amp)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY include/amp DESTINATION ${AMP_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS amp EXPORT ampTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS amp_static EXPORT ampTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT ampTargets NAMESPACE amp:: DESTINATION ${package_dir} COMPONENT dev)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ampConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/ampConfig.cmake ${PROJECT_BINARY_DIR}/ampConfigVersion.cmake DESTINATION ${package_dir}
    COMPONENT dev)

# The static library names what it needs by plain library names, so that a user's project need not be able to find our
# dependencies' CMake packages, nor use C at all.
set(static_libraries ${packages_LIBRARIES} ${OpenMP_C_LIB_NAMES} m)
if(AMP_SHIP_DNNL)
    get_target_property(dnnl_file DNNL::dnnl IMPORTED_LOCATION_RELEASE)
    install(FILES ${dnnl_file} DESTINATION ${private_dir} RENAME libdnnl.so.3 COMPONENT runtime)
    install(DIRECTORY ${unpacked_dnnl}/share/doc/onednn DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
    set_target_properties(amp PROPERTIES INSTALL_RPATH "$ORIGIN/amp")
    set(static_dnnl "$<INSTALL_PREFIX>/${private_dir}/libdnnl.so.3")
    set(pc_dnnl "-Wl,-rpath,\${libdir}/amp -L\${libdir}/amp -l:libdnnl.so.3")
else()
    set(static_dnnl dnnl)
    set(pc_dnnl -ldnnl)
endif()
target_link_libraries(amp_static INTERFACE "$<INSTALL_INTERFACE:${static_dnnl};${static_libraries}>")

list(TRANSFORM static_libraries PREPEND -l OUTPUT_VARIABLE pc_libraries)
list(JOIN pc_libraries " " pc_libraries)
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/amp.pc.in amp.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/amp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

set_property(TARGET amp APPEND PROPERTY INSTALL_RPATH "$ORIGIN") # for libamp_cuda.so and libamp_mpi.so
install(TARGETS amp_blas DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tools)
if(AMP_HAVE_CUDA)
    install(TARGETS amp_cuda DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
endif()
if(AMP_HAVE_MPI)
    install(TARGETS amp_mpi DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
endif()

if(TARGET amp_tool)
    file(RELATIVE_PATH tool_to_private ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/amp)
    set_target_properties(amp_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${tool_to_private};$ORIGIN/${tool_to_private}/..")
    install(TARGETS amp_tool DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    # What `amp self-check` runs.
    install(DIRECTORY tests/golden/ DESTINATION ${CMAKE_INSTALL_DATADIR}/amp/cases COMPONENT tools)
endif()

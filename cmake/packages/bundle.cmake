# Run by cpack on the staged tree of the archive, and by python/backend.py on the wheel's: copies the shared libraries that libamp
# needs into its private folder, where oneDNN may be already, so that the tree needs of a system only the C and C++ run-time
# libraries. Each finds the others where it lies. AMP_BUNDLE_FROM: one more folder to look in.
if(NOT CPACK_GENERATOR STREQUAL TGZ)
    return()
endif()
find_program(AMP_PATCHELF patchelf)
if(NOT AMP_PATCHELF)
    message(FATAL_ERROR "the archive needs patchelf, which is not installed: run scripts/setup packages")
endif()

set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(private ${root}/${CPACK_AMP_PRIVATE_DIR})
file(GLOB libraries ${root}/${CPACK_AMP_LIBRARIES}/libamp.so.* ${private}/*.so.*)
file(GLOB programs ${root}/${CPACK_AMP_PROGRAMS}/*)
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${libraries} EXECUTABLES ${programs} RESOLVED_DEPENDENCIES_VAR found
    UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|stdc[+][+])[.]so"
    POST_EXCLUDE_REGEXES "/libamp[.]so" "^${private}/" DIRECTORIES ${AMP_BUNDLE_FROM})
if(missing)
    message(FATAL_ERROR "not found, though the archive needs them: ${missing}")
endif()
# Of a Debian package's file: what its authors say of copying it.
function(keep_license file)
    execute_process(COMMAND dpkg-query --search ${file} OUTPUT_VARIABLE owner ERROR_QUIET)
    string(REGEX REPLACE ":.*" "" package "${owner}")
    if(package AND EXISTS /usr/share/doc/${package}/copyright)
        file(COPY_FILE /usr/share/doc/${package}/copyright ${root}/${CPACK_AMP_DOCUMENTS}/copyright.${package})
    endif()
endfunction()

file(MAKE_DIRECTORY ${private})
foreach(library IN LISTS found)
    get_filename_component(name ${library} NAME)
    get_filename_component(file ${library} REALPATH)
    file(COPY_FILE ${file} ${private}/${name})
    file(CHMOD ${private}/${name} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    keep_license(${file})
endforeach()
file(GLOB libraries ${private}/*.so.*)
foreach(library IN LISTS libraries)
    execute_process(COMMAND ${AMP_PATCHELF} --set-rpath $ORIGIN ${library} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# They are inside now.
set(spdx ${root}/${CPACK_AMP_DOCUMENTS}/amp.spdx.json)
file(READ ${spdx} text)
string(REPLACE DEPENDS_ON CONTAINS text "${text}")
file(WRITE ${spdx} "${text}")

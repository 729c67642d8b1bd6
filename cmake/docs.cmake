# What there is to read, in ${PROJECT_BINARY_DIR}/docs as it is installed: the documents in one folder, with links that hold
# there, and the page of all ops to search. Man pages; the completion of `amp` in bash.
set(pages ${PROJECT_BINARY_DIR}/docs)
file(GLOB documents CONFIGURE_DEPENDS docs/*.md *.md)
file(RELATIVE_PATH to_include ${CMAKE_INSTALL_FULL_DOCDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR}/libamp)
file(GLOB earlier ${pages}/*.md)
file(REMOVE ${earlier} ${pages}/none)
foreach(document IN LISTS documents)
    get_filename_component(name ${document} NAME)
    file(READ ${document} text)
    string(REGEX REPLACE "\\]\\((\\.\\./|docs/)" "](" text "${text}")
    string(REPLACE "](include/" "](${to_include}/" text "${text}")
    file(WRITE ${pages}/${name} "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${document})
endforeach()
file(COPY docs/blocking.svg DESTINATION ${pages})

find_program(AMP_PYTHON3 python3)
if(AMP_PYTHON3)
    add_custom_command(OUTPUT ${pages}/ops.html
        COMMAND ${AMP_PYTHON3} -B ${PROJECT_SOURCE_DIR}/tools/gen_ops.py --html ${pages}/ops.html
        DEPENDS tools/gen_ops.py tools/ops_page.html src/policy/ops.def src/policy/op_dtypes.txt src/cpu/cpu_ops.def
        VERBATIM COMMENT "docs/ops.html")
    add_custom_target(ops_page ALL DEPENDS ${pages}/ops.html)
else()
    message(STATUS "python3 was not found: the page of ops to search, ops.html, is not made")
endif()

install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev FILES_MATCHING PATTERN "*.[ch]" PATTERN "*.png")
install(FILES docs/libamp.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT dev)
if(TARGET amp_tool)
    install(FILES tools/amp/amp.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
    install(FILES tools/amp/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME amp
        COMPONENT tools)
endif()

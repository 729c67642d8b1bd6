# The Python package, in build/…/python: PYTHONPATH=build/release/python python3 -c "import amp". docs/python.md is its manual.
option(AMP_PYTHON "Build the Python package where Python's headers are" ON)

# The first interpreter that has NumPy, for the tests; a shell's own python3 may not.
foreach(candidate python3 /usr/bin/python3)
    execute_process(COMMAND ${candidate} -c "import numpy, sys; print(sys.executable)" OUTPUT_VARIABLE found
        RESULT_VARIABLE no_numpy OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT no_numpy AND NOT DEFINED Python3_EXECUTABLE)
        set(Python3_EXECUTABLE ${found})
    endif()
endforeach()

set(AMP_HAVE_PYTHON OFF)
set(AMP_NO_PYTHON "AMP_PYTHON is OFF")
if(AMP_PYTHON AND (AMP_SANITIZE OR AMP_COVERAGE))
    set(AMP_NO_PYTHON "built with sanitizers or coverage, which python3 is not")
elseif(AMP_PYTHON)
    find_package(Python3 3.10 QUIET COMPONENTS Interpreter Development.Module)
    set(AMP_HAVE_PYTHON ${Python3_FOUND})
    set(AMP_NO_PYTHON "Python's headers are not there (python3-dev)")
endif()
if(NOT AMP_HAVE_PYTHON)
    message(STATUS "no Python package: ${AMP_NO_PYTHON}")
    return()
endif()
message(STATUS "Python package for ${Python3_EXECUTABLE}, ${Python3_VERSION}")

set(python_dir ${PROJECT_BINARY_DIR}/python)
file(GLOB python_sources CONFIGURE_DEPENDS python/src/*.c)
Python3_add_library(amp_python MODULE WITH_SOABI ${python_sources})
target_link_libraries(amp_python PRIVATE amp)
target_compile_options(amp_python PRIVATE -Wno-pedantic) # the slots of types are functions in void pointers
set_target_properties(amp_python PROPERTIES OUTPUT_NAME _amp LIBRARY_OUTPUT_DIRECTORY ${python_dir}/amp
    C_VISIBILITY_PRESET hidden)

# What is written in Python is linked to, so that an edit needs no build. For the wheel (python/backend.py), which has its own
# tree, all is installed under amp.
install(TARGETS amp_python LIBRARY DESTINATION amp COMPONENT python EXCLUDE_FROM_ALL)
file(GLOB_RECURSE python_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
    python/amp/*.py python/amp/*.pyi python/amp/py.typed)
foreach(file IN LISTS python_files)
    get_filename_component(folder ${file} DIRECTORY)
    file(MAKE_DIRECTORY ${python_dir}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/${file} ${python_dir}/${file} SYMBOLIC)
    install(FILES python/${file} DESTINATION ${folder} COMPONENT python EXCLUDE_FROM_ALL)
endforeach()

# The one table of instruction sets: the suffix of a source file's name decides its flags. `gemm_bf16_amx.c` gets the
# row `amx`. Where the compiler refuses a row, its files stay out of the library and AMP_HAVE_<ISA> stays undefined;
# every other source and test sees AMP_HAVE_<ISA>=1.
include(CheckCSourceCompiles)

# Of several -march the last one counts: with it a row is what it says, whatever CFLAGS has (-march=native, say). A compiler
# that may use more than the row's instructions would use them where the CPU has only those.
set(base -march=x86-64)
set(avx2 ${base} -mavx2 -mfma -mf16c)
set(avx512 ${base} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c)

set(AMP_ISAS ref avx2 avx512 avx512bf16 amx)
set(AMP_FLAGS_ref ${base} -O2 -fno-tree-vectorize -fno-tree-slp-vectorize)
set(AMP_FLAGS_avx2 ${avx2})
set(AMP_FLAGS_avx512 ${avx512})
set(AMP_FLAGS_avx512bf16 ${avx512} -mavx512bf16)
set(AMP_FLAGS_amx ${avx512} -mavx512bf16 -mamx-tile -mamx-bf16)

set(AMP_PROBE_ref "")
set(AMP_PROBE_avx2 "volatile __m256 a; a = _mm256_fmadd_ps(a, a, _mm256_cvtph_ps(_mm_setzero_si128()));")
set(AMP_PROBE_avx512 "volatile __m512i a; a = _mm512_maskz_mov_epi8(_mm512_movepi8_mask(a), a);")
set(AMP_PROBE_avx512bf16 "volatile __m512 a; a = _mm512_dpbf16_ps(a, (__m512bh)_mm512_setzero_si512(), (__m512bh)_mm512_setzero_si512());")
set(AMP_PROBE_amx "_tile_dpbf16ps(0, 1, 2); _tile_release();")

# What this CPU runs, as /proc/cpuinfo calls it.
set(AMP_CPU_ref fpu)
set(AMP_CPU_avx2 avx2)
set(AMP_CPU_avx512 avx512f)
set(AMP_CPU_avx512bf16 avx512_bf16)
set(AMP_CPU_amx amx_bf16)
file(STRINGS /proc/cpuinfo cpu_features LIMIT_COUNT 1 REGEX "^flags")
string(REGEX MATCHALL "[a-z0-9_]+" cpu_features "${cpu_features}")

set(AMP_ISA_DEFINITIONS)
foreach(isa IN LISTS AMP_ISAS)
    string(TOUPPER ${isa} ISA)
    set(AMP_RUNS_${ISA} OFF)
    if(AMP_CPU_${isa} IN_LIST cpu_features)
        set(AMP_RUNS_${ISA} ON)
    endif()
    list(JOIN AMP_FLAGS_${isa} " " CMAKE_REQUIRED_FLAGS)
    check_c_source_compiles("#include <immintrin.h>\nint main(void) { ${AMP_PROBE_${isa}} return 0; }" AMP_COMPILES_${ISA})
    if(AMP_COMPILES_${ISA})
        list(APPEND AMP_ISA_DEFINITIONS AMP_HAVE_${ISA}=1)
    else()
        message(STATUS "This compiler cannot build the ${isa} kernels: the library goes without them")
    endif()
endforeach()
unset(CMAKE_REQUIRED_FLAGS)

# Gives the sources their flags, and takes those that the compiler cannot build off the list.
function(amp_apply_isa sources_variable)
    set(kept)
    foreach(source IN LISTS ${sources_variable})
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "^.*_" "" isa ${name})
        string(TOUPPER ${isa} ISA)
        if(isa IN_LIST AMP_ISAS)
            if(NOT AMP_COMPILES_${ISA})
                continue()
            endif()
            set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS ${AMP_FLAGS_${isa}})
            if(AMP_BUILD_FUZZERS OR (AMP_SANITIZE AND NOT AMP_RUNS_${ISA}))
                # Kernels take up to minutes to instrument: not for the fuzzers, as the sanitizers see them in the tests, and
                # not where this CPU does not run them.
                set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
                if(NOT AMP_RUNS_${ISA} AND CMAKE_C_COMPILER_ID MATCHES Clang) # gcc wants constants of intrinsics folded
                    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -O0)
                endif()
            elseif(AMP_SANITIZE MATCHES undefined AND (NOT isa STREQUAL ref OR name MATCHES "^(depthwise|random)_"))
                # Half of a sanitized build went into these; the same bodies are seen as ref, addresses in all of them.
                set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
            endif()
            if(name MATCHES "^(formula|columns|update)_") # plain C, made into vectors by the compiler; nobody reads errno or exception flags
                set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fno-math-errno -fno-trapping-math)
            endif()
            if(name MATCHES "^update_" AND CMAKE_C_COMPILER_ID STREQUAL GNU AND NOT isa STREQUAL "ref") # … of loops of any length
                set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fvect-cost-model=dynamic)
            endif()
        elseif(CMAKE_C_COMPILER_ID STREQUAL GNU AND source MATCHES "/src/(cpu|ops|steps|machine)/")
            # gcc's -O2 vectorises only loops of known length, clang's all; and nobody reads the exception flags, for the
            # sake of which gcc keeps branches where a choice of two values would do.
            set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS -fvect-cost-model=dynamic -fno-trapping-math)
        endif()
        list(APPEND kept ${source})
    endforeach()
    set(${sources_variable} ${kept} PARENT_SCOPE)
endfunction()

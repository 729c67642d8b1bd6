/* The machine as libamp sees it: instruction sets and why one is not used, cores, caches, threads, versions. */
#ifndef AMP_SYSTEM_H
#define AMP_SYSTEM_H

#include "amp/error.h"
#include "amp/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Instruction sets -----------------------------------------------------------------------------------------
 * Each includes what comes before it. The environment variable AMP_MAX_ISA (one of the names below) forbids the ones
 * after it; a value that is no such name makes every op fail with a sentence that lists them. */
typedef enum amp_isa {
    AMP_ISA_REF = 0,    /* plain C: the reference that all others are tested against */
    AMP_ISA_AVX2,       /* AVX2, FMA, F16C */
    AMP_ISA_AVX512,     /* AVX-512 F, BW, VL, DQ */
    AMP_ISA_AVX512BF16, /* AVX512_BF16 */
    AMP_ISA_AMX,        /* AMX-TILE, AMX-BF16 */
    AMP_ISA_COUNT
} amp_isa;

/* "ref", "avx2", "avx512", "avx512bf16", "amx"; "?" for a value that is none of them. The string is static. */
AMP_API const char *amp_isa_name(amp_isa isa);
/* True when this process may run its kernels. */
AMP_API bool amp_isa_usable(amp_isa isa);
/* The check that failed, as a sentence without a full stop ("the CPU has no AMX-BF16 (CPUID 7.0 EDX bit 22)"); "" for
 * a usable one. Valid for the life of the process. */
AMP_API const char *amp_isa_reason(amp_isa isa);
/* The last usable one. */
AMP_API amp_isa amp_isa_best(void);

/* ---- Processor ------------------------------------------------------------------------------------------------ */
typedef struct amp_cpu_info {
    const char *model;      /* "AMD EPYC 9575F", …; "unknown" if the machine does not tell */
    int logical_cpus;       /* those that this process may run on (affinity) */
    int physical_cores;     /* those that they belong to */
    double quota;           /* CPUs that the control group grants; 0: no limit */
    int numa_nodes;         /* of the machine; at least 1 */
    size_t cache_bytes[3];  /* L1 data, L2, L3, as one core sees them; 0 if absent or unknown */
    int cache_shared_by[3]; /* logical CPUs that share one */
} amp_cpu_info;

/* Read once; valid for the life of the process. */
AMP_API const amp_cpu_info *amp_cpu(void);

/* ---- Devices -------------------------------------------------------------------------------------------------- */
/* True when ops can run on the device. *reason (may be NULL) gets what is missing, as a sentence without a full stop,
 * or ""; valid for the life of the process. Loads the CUDA backend when it is asked about it. */
AMP_API bool amp_device_is_usable(amp_device device, const char **reason);

/* ---- Threads --------------------------------------------------------------------------------------------------
 * Threads that an op may use. Default: OMP_NUM_THREADS where it is set (above 4096 it makes every op fail with a
 * sentence); else one per physical core available, within the control group's quota (hyper-threads share the units that
 * matter here). Small work uses fewer; inside an OpenMP
 * parallel region of the caller an op uses one, and so does the child of a fork whose parent has run ops (the OpenMP
 * runtime does not survive a fork). Results do not depend on it. */
AMP_API int amp_get_num_threads(void);
/* For the whole process. AMP_ERROR_INVALID below 1 and above 4096. */
AMP_API amp_status amp_set_num_threads(int threads);

/* ---- Versions (libamp's own: amp/version.h) -------------------------------------------------------------------- */
/* Of the oneDNN that runs: "3.2.1". */
AMP_API const char *amp_onednn_version(void);
/* The OpenMP runtime and the specification that libamp was compiled for: "libgomp.so.1, OpenMP 4.5". */
AMP_API const char *amp_openmp_version(void);

#ifdef __cplusplus
}
#endif

#endif /* AMP_SYSTEM_H */

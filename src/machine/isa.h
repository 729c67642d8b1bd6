/* Detection of instruction sets: facts are read from the machine once, judged by a function that tests can feed. */
#ifndef AMP_CPU_ISA_H
#define AMP_CPU_ISA_H

#include "amp/system.h"

/* What the machine says. Leaf numbers as in Intel SDM volume 2A, CPUID, and volume 1, 13.3 (XCR0), 18.3 (AMX). */
typedef struct amp_isa_facts {
    uint32_t max_leaf;
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx, leaf7_edx; /* subleaf 0 */
    uint32_t leaf7_1_eax;
    uint64_t xcr0;          /* 0 where OSXSAVE is off */
    uint32_t palettes;      /* CPUID 1D.0 EAX: highest palette */
    uint32_t palette_bytes; /* CPUID 1D.1: bytes of all tiles, bytes of one row, tiles, rows */
    uint32_t palette_row_bytes, palette_tiles, palette_rows;
    int permission;              /* AMP_AMX_*, or the errno of the arch_prctl call that failed */
    const char *permission_call; /* which one */
} amp_isa_facts;

enum { AMP_AMX_GRANTED = 0, AMP_AMX_NOT_ASKED = -1, AMP_AMX_REFUSED = -2 };

enum { AMP_ISA_REASON_SIZE = 160 };

/* Writes why each set cannot be used, "" for those that can. */
void amp_isa_judge(const amp_isa_facts *facts, char reasons[AMP_ISA_COUNT][AMP_ISA_REASON_SIZE]);

/* AMP_OK, or AMP_ERROR_INVALID with the sentence about AMP_MAX_ISA, or another setting of the
 * machine. Everything that picks a kernel asks first. */
amp_status amp_isa_status(void);

/* Detects anew, with `max_isa` in the place of AMP_MAX_ISA (NULL: as the environment says). */
void amp_isa_detect_again(const char *max_isa);

#endif /* AMP_CPU_ISA_H */

/* Instruction sets of this machine, the cap AMP_MAX_ISA, and the reason for each that is not used. */
#include "machine/isa.h"

#include <cpuid.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/hot.h"
#include "core/lock.h"
#include "core/parallel.h"
#include "core/verbose.h"

static const char *const isa_names[AMP_ISA_COUNT] = {"ref", "avx2", "avx512", "avx512bf16", "amx"};

/* What arch_prctl calls them since Linux 5.16 (Documentation/arch/x86/xstate.rst). */
enum { GET_PERMISSION = 0x1022, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

static struct {
    atomic_bool ready;
    char reasons[AMP_ISA_COUNT][AMP_ISA_REASON_SIZE];
    char refused[256]; /* the sentence about a variable of the environment that means nothing */
} state;

/* ---- Facts ---------------------------------------------------------------------------------------------------- */

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives a process the tile state only on request; a later thread inherits it. Asked for again and again it does
 * no harm, but the answer of the request is not believed without looking. */
static void ask_for_tiles(amp_isa_facts *facts) {
    unsigned long granted = 0;
    facts->permission_call = "ARCH_GET_XCOMP_PERM";
    if (syscall(SYS_arch_prctl, GET_PERMISSION, &granted) != 0) {
        facts->permission = errno;
        return;
    }
    facts->permission = AMP_AMX_GRANTED;
    if (granted >> TILE_DATA & 1) return;
    facts->permission_call = "ARCH_REQ_XCOMP_PERM";
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, (unsigned long)TILE_DATA) != 0) {
        facts->permission = errno;
        return;
    }
    if (syscall(SYS_arch_prctl, GET_PERMISSION, &granted) != 0 || !(granted >> TILE_DATA & 1))
        facts->permission = AMP_AMX_REFUSED;
}

static void read_palette(amp_isa_facts *facts) {
    uint32_t a, b, c, d;
    if (facts->max_leaf < 0x1d) return;
    __cpuid_count(0x1d, 0, a, b, c, d);
    facts->palettes = a;
    if (!a) return;
    __cpuid_count(0x1d, 1, a, b, c, d);
    facts->palette_bytes = a & 0xffff;
    facts->palette_row_bytes = b & 0xffff;
    facts->palette_tiles = b >> 16;
    facts->palette_rows = c & 0xffff;
}

static void read_facts(amp_isa_facts *facts) {
    uint32_t a, b, c, d;
    *facts = (amp_isa_facts){.permission = AMP_AMX_NOT_ASKED};
    __cpuid(0, a, b, c, d);
    facts->max_leaf = a;
    __cpuid(1, a, b, c, d);
    facts->leaf1_ecx = c;
    if (facts->max_leaf >= 7) {
        __cpuid_count(7, 0, a, b, c, d);
        facts->leaf7_ebx = b;
        facts->leaf7_edx = d;
        if (a >= 1) {
            __cpuid_count(7, 1, a, b, c, d);
            facts->leaf7_1_eax = a;
        }
    }
    if (facts->leaf1_ecx >> 27 & 1) facts->xcr0 = read_xcr0();
    read_palette(facts);
}

/* ---- Judgement ------------------------------------------------------------------------------------------------ */

typedef enum fact_word { LEAF1_ECX, LEAF7_EBX, LEAF7_EDX, LEAF7_1_EAX, XCR0 } fact_word;

typedef struct check {
    amp_isa isa;
    fact_word word;
    int bit;
    const char *what;
} check;

/* One failed row is the reason; the first counts. */
static const check checks[] = {
    {AMP_ISA_AVX2, LEAF1_ECX, 27, "the system has not enabled XSAVE (CPUID 1 ECX bit 27, OSXSAVE)"},
    {AMP_ISA_AVX2, XCR0, 1, "the system does not save SSE registers (XCR0 bit 1)"},
    {AMP_ISA_AVX2, XCR0, 2, "the system does not save AVX registers (XCR0 bit 2)"},
    {AMP_ISA_AVX2, LEAF7_EBX, 5, "the CPU has no AVX2 (CPUID 7.0 EBX bit 5)"},
    {AMP_ISA_AVX2, LEAF1_ECX, 12, "the CPU has no FMA (CPUID 1 ECX bit 12)"},
    {AMP_ISA_AVX2, LEAF1_ECX, 29, "the CPU has no F16C (CPUID 1 ECX bit 29)"},
    {AMP_ISA_AVX512, LEAF7_EBX, 16, "the CPU has no AVX512F (CPUID 7.0 EBX bit 16)"},
    {AMP_ISA_AVX512, LEAF7_EBX, 17, "the CPU has no AVX512DQ (CPUID 7.0 EBX bit 17)"},
    {AMP_ISA_AVX512, LEAF7_EBX, 30, "the CPU has no AVX512BW (CPUID 7.0 EBX bit 30)"},
    {AMP_ISA_AVX512, LEAF7_EBX, 31, "the CPU has no AVX512VL (CPUID 7.0 EBX bit 31)"},
    {AMP_ISA_AVX512, XCR0, 5, "the system does not save AVX-512 mask registers (XCR0 bit 5)"},
    {AMP_ISA_AVX512, XCR0, 6, "the system does not save AVX-512 registers (XCR0 bit 6)"},
    {AMP_ISA_AVX512, XCR0, 7, "the system does not save AVX-512 registers 16 to 31 (XCR0 bit 7)"},
    {AMP_ISA_AVX512BF16, LEAF7_1_EAX, 5, "the CPU has no AVX512_BF16 (CPUID 7.1 EAX bit 5)"},
    {AMP_ISA_AMX, LEAF7_EDX, 24, "the CPU has no AMX-TILE (CPUID 7.0 EDX bit 24)"},
    {AMP_ISA_AMX, LEAF7_EDX, 22, "the CPU has no AMX-BF16 (CPUID 7.0 EDX bit 22)"},
    {AMP_ISA_AMX, XCR0, 17, "the system has not enabled AMX (XCR0 bit 17, TILECFG)"},
    {AMP_ISA_AMX, XCR0, 18, "the system has not enabled AMX (XCR0 bit 18, TILEDATA)"},
};

static bool check_holds(const amp_isa_facts *facts, const check *c) {
    const uint64_t words[] = {facts->leaf1_ecx, facts->leaf7_ebx, facts->leaf7_edx, facts->leaf7_1_eax, facts->xcr0};
    return words[c->word] >> c->bit & 1;
}

/* A virtual machine may advertise AMX and give no palette: its first tile instruction would be a SIGILL. */
static void judge_tiles(const amp_isa_facts *facts, char *reason) {
    if (!facts->palettes) {
        snprintf(reason, AMP_ISA_REASON_SIZE, "the CPU advertises AMX but gives no tile palette (CPUID 1D.0 EAX is 0)");
    } else if (facts->palette_bytes < 8192 || facts->palette_row_bytes < 64 || facts->palette_tiles < 8 ||
               facts->palette_rows < 16) {
        snprintf(reason, AMP_ISA_REASON_SIZE,
                 "tile palette 1 has %u tiles of %u rows of %u bytes, %u bytes in all; 8 of 16 of 64 are needed",
                 facts->palette_tiles, facts->palette_rows, facts->palette_row_bytes, facts->palette_bytes);
    } else if (facts->permission == AMP_AMX_NOT_ASKED) {
        snprintf(reason, AMP_ISA_REASON_SIZE, "the system was not asked for AMX");
    } else if (facts->permission == AMP_AMX_REFUSED) {
        snprintf(reason, AMP_ISA_REASON_SIZE, "the system did not grant AMX though arch_prctl(%s) succeeded",
                 facts->permission_call);
    } else if (facts->permission == ENOSPC) {
        snprintf(reason, AMP_ISA_REASON_SIZE,
                 "arch_prctl(%s) failed: a thread's signal stack (sigaltstack) is too small for the tile registers",
                 facts->permission_call);
    } else if (facts->permission != AMP_AMX_GRANTED) {
        snprintf(reason, AMP_ISA_REASON_SIZE, "arch_prctl(%s) failed with errno %d (AMX needs Linux 5.16 or later)",
                 facts->permission_call, facts->permission);
    }
}

void amp_isa_judge(const amp_isa_facts *facts, char reasons[AMP_ISA_COUNT][AMP_ISA_REASON_SIZE]) {
    memset(reasons, 0, AMP_ISA_COUNT * (size_t)AMP_ISA_REASON_SIZE);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        char *reason = reasons[checks[i].isa];
        if (!*reason && !check_holds(facts, &checks[i])) snprintf(reason, AMP_ISA_REASON_SIZE, "%s", checks[i].what);
    }
    if (!*reasons[AMP_ISA_AMX]) judge_tiles(facts, reasons[AMP_ISA_AMX]);
    for (int isa = AMP_ISA_AVX512; isa < AMP_ISA_COUNT; isa++) {
        if (!*reasons[isa] && *reasons[isa - 1])
            snprintf(reasons[isa], AMP_ISA_REASON_SIZE, "%s is needed too, and cannot be used", isa_names[isa - 1]);
    }
}

/* ---- State ---------------------------------------------------------------------------------------------------- */

static int isa_from_name(const char *name) {
    for (int i = 0; i < AMP_ISA_COUNT; i++) {
        if (!strcmp(name, isa_names[i])) return i;
    }
    return -1;
}

static void detect(const char *max_isa) {
    amp_isa_facts facts;
    const int cap = max_isa && *max_isa ? isa_from_name(max_isa) : AMP_ISA_COUNT - 1;
    amp_verbose_check(state.refused, sizeof state.refused);
    amp_parallel_check(state.refused, sizeof state.refused);
    if (cap < 0) {
        snprintf(state.refused, sizeof state.refused,
                 "AMP_MAX_ISA is '%.63s'; it must be one of ref, avx2, avx512, avx512bf16, amx", max_isa);
    }
    read_facts(&facts);
    /* Tiles enlarge every signal frame of the process: not asked for where they will not be used. */
    if (cap < AMP_ISA_AMX)
        facts.permission = AMP_AMX_GRANTED;
    else if (facts.palettes && facts.xcr0 >> TILE_DATA & 1)
        ask_for_tiles(&facts);
    amp_isa_judge(&facts, state.reasons);
    for (int isa = cap + 1; isa < AMP_ISA_COUNT; isa++) {
        if (cap < 0)
            snprintf(state.reasons[isa], AMP_ISA_REASON_SIZE, "AMP_MAX_ISA is '%.63s', which names no instruction set",
                     max_isa);
        else if (!*state.reasons[isa])
            snprintf(state.reasons[isa], AMP_ISA_REASON_SIZE, "AMP_MAX_ISA=%s forbids it", max_isa);
    }
}

static void detect_once(void) {
    if (atomic_load_explicit(&state.ready, memory_order_acquire)) return;
    amp_lock(AMP_LOCK_ISA);
    if (!atomic_load_explicit(&state.ready, memory_order_relaxed)) {
        detect(getenv("AMP_MAX_ISA"));
        atomic_store_explicit(&state.ready, true, memory_order_release);
    }
    amp_unlock(AMP_LOCK_ISA);
}

AMP_HOT amp_status amp_isa_status(void) {
    detect_once();
    return *state.refused ? amp_fail(AMP_ERROR_INVALID, "%s", state.refused) : AMP_OK;
}

void amp_isa_detect_again(const char *max_isa) {
    amp_lock(AMP_LOCK_ISA);
    detect(max_isa ? max_isa : getenv("AMP_MAX_ISA"));
    atomic_store_explicit(&state.ready, true, memory_order_release);
    amp_unlock(AMP_LOCK_ISA);
}

const char *amp_isa_name(amp_isa isa) {
    return (unsigned)isa < AMP_ISA_COUNT ? isa_names[isa] : "?";
}

const char *amp_isa_reason(amp_isa isa) {
    if ((unsigned)isa >= AMP_ISA_COUNT) return "no such instruction set";
    detect_once();
    return state.reasons[isa];
}

bool amp_isa_usable(amp_isa isa) {
    return !*amp_isa_reason(isa);
}

amp_isa amp_isa_best(void) {
    int isa = AMP_ISA_COUNT - 1;
    while (isa > AMP_ISA_REF && !amp_isa_usable((amp_isa)isa)) isa--;
    return (amp_isa)isa;
}

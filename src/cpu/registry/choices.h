/* Choices between two ways of computing the same, which nothing but a clock can make: on some CPUs vdpbf16ps runs at
 * half the rate of FMA, on others at twice it.
 *
 * Each is measured at its first use, once per CPU model, and then kept in a file of the user's cache folder
 * ($XDG_CACHE_HOME/libamp or ~/.cache/libamp); the name of the file stands for CPU, best instruction set and versions.
 * A file that cannot be read or written costs a measurement and is no error. Within a process an answer never changes.
 *
 * AMP_TUNE=off      fixed rules: nothing is measured, read or written
 * AMP_TUNE=fresh    measure anew, and replace what the file says
 * AMP_TUNE=memory   measure, but touch no file
 *
 * To add a choice: a value here, a row in choices.c, and two functions there (a measurement, and the fixed rule).
 * Choices by the kind of a problem, as many as a program meets, are made by amp_choose_kind; a family of kinds is a
 * value of amp_choice_family and a row in choices.c. */
#ifndef AMP_CPU_CHOICES_H
#define AMP_CPU_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum amp_choice {
    AMP_CHOICE_GEMM_DOT, /* bf16 products by vdpbf16ps; else up-converted, by FMA */
    AMP_CHOICE_GEMM_F32, /* small f32 products with a constant matrix by our own kernel; else by oneDNN */
    AMP_CHOICE_COUNT
} amp_choice;

/* The answer: from memory, from the file, or measured now. Never fails. */
bool amp_choose(amp_choice choice);

/* Kinds whose answers run the same two things. */
typedef enum amp_choice_family {
    AMP_CHOICE_CONV,          /* bf16 convolutions by our own kernel; else by oneDNN */
    AMP_CHOICE_GEMM_F32_KIND, /* f32 products with a constant matrix, the same */
    AMP_CHOICE_FAMILIES
} amp_choice_family;

/* A kind of problem: its measures, and who could compute it. The rule is `yes`. */
typedef struct amp_choice_kind {
    amp_choice_family family;
    int32_t key[12];
    void (*name)(const int32_t *key, char *name, size_t size);     /* stands for the key: the name without its family */
    void (*measure)(const void *context, double *yes, double *no); /* operations per second; 0: it cannot run */
    const void *context;
} amp_choice_kind;

/* The same for a kind. `yes` where AMP_CHOICE_KINDS of them are known already. */
bool amp_choose_kind(const amp_choice_kind *kind);
enum { AMP_CHOICE_KINDS = 512 };

/* Of CPU time that the calling thread has taken. */
double amp_choice_seconds(void);
/* For measurements: runs both ways in turns, so that a slow moment of the machine hits both, until that is time enough,
 * and gives the best rate of each. `seconds` runs one way and says how long it took; a negative number: it could
 * not. */
void amp_choice_time(double (*seconds)(const void *context, bool yes), const void *context, double operations,
                     double *yes, double *no);

/* AMP_OK, or AMP_ERROR_INVALID where AMP_TUNE is none of its words. */
amp_status amp_choices_status(void);

typedef enum amp_choice_origin { AMP_CHOICE_BY_RULE, AMP_CHOICE_MEASURED, AMP_CHOICE_FROM_FILE } amp_choice_origin;

typedef struct amp_choice_report {
    const char *name;         /* "gemm_dot" */
    const char *yes, *no;     /* what the two answers run */
    bool answer;              /* true: `yes` */
    amp_choice_origin origin; /* where the answer came from */
    double yes_rate, no_rate; /* operations per second, best of several runs; 0: not measured, or not there */
} amp_choice_report;

/* Makes the choice if need be. */
amp_choice_report amp_choice_explain(amp_choice choice);
/* The kinds that are known: those of the file, and those met since. False: there is no number `index`. Their origin is
 * that of the figures. */
bool amp_choice_explain_kind(int index, amp_choice_report *report);
/* The file; "" where there is none to use (AMP_TUNE, or no home). Valid until the next call of
 * amp_choices_forget_for_test. */
const char *amp_choices_path(void);

/* Tests: forgets the answers and reads the environment anew. No other thread may choose meanwhile. */
void amp_choices_forget_for_test(void);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_CHOICES_H */

/* amp audit: where a model's error under autocast comes from, and what to keep in f32. What its files share; each
 * function that can fail says what is wrong on standard error and returns an exit code. */
#ifndef AMP_TOOL_AUDIT_H
#define AMP_TOOL_AUDIT_H

#include <stdio.h>

#include "amp/autocast.h"
#include "run.h"

/* ---- Steps (audit_steps.c) ----------------------------------------------------------------------------------------- */
/* One of the graph's, over all sets of inputs. Errors are relative: the norm of the difference by that of f32's
 * result. */
typedef struct audit_step {
    char *op, *places; /* names of nodes, a line each */
    amp_dtype dtype;   /* of the first result, under autocast */
    double local;      /* error that the step itself adds: from f32's operands */
    double carried;    /* of its result in the run under autocast */
    double with;       /* … and under the policy found; -1: there is no such step then */
    double seconds;
    bool kept; /* in f32, by the policy found */
    bool can_be_kept;
    double local_squares, carried_squares, squares; /* sums that those are made of */
} audit_step;

typedef struct audit_steps {
    audit_step *items;
    int count;
    double
        off; /* the steps' outputs in f32 from the model's, relative: what was fused otherwise, constants that were rounded */
} audit_steps;

/* A run with its inputs, under the rules, beside f32. Adds to the steps, which are made in the first. `f32`: the
 * model's outputs in f32, which the steps' own f32 is held against. */
int audit_watch(audit_steps *steps, const run_model *m, const run_inputs *in, amp_tensor *const *f32,
                const amp_autocast_rules *rules);
/* Errors from their sums, once all sets have run. */
void audit_steps_end(audit_steps *steps);
void audit_steps_free(audit_steps *steps);
/* The steps' numbers, the one that adds most error first; NULL: no memory. */
int *audit_rank(const audit_steps *steps);

/* ---- Accuracy and time (audit_measure.c) --------------------------------------------------------------------------- */
typedef struct audit_sets {
    run_inputs *items;
    amp_tensor ***f32; /* by set, by output */
    int count;
} audit_sets;

typedef struct audit_accuracy {
    double cosine, error; /* the worst of all floating outputs and sets */
    int output;           /* the one with that cosine */
    bool good;            /* what was asked for */
} audit_accuracy;

/* Inputs, and what f32 makes of them. To be freed by audit_sets_free also where it fails. */
int audit_sets_make(audit_sets *sets, const run_model *m, const run_options *o);
void audit_sets_free(audit_sets *sets, const run_model *m);
/* Runs under the rules (NULL: none). */
int audit_measure(audit_accuracy *a, const audit_sets *sets, const run_model *m, const run_options *o,
                  const amp_autocast_rules *rules);
/* Medians in ms of f32, autocast, and autocast with the rules, in turns. */
enum { AUDIT_F32, AUDIT_PLAIN, AUDIT_WITH, AUDIT_TIMES };
int audit_time(double ms[AUDIT_TIMES], const audit_sets *sets, const run_model *m, const run_options *o,
               const amp_autocast_rules *rules);

/* ---- The report ---------------------------------------------------------------------------------------------------- */
typedef struct audit_report {
    const run_options *options;
    const run_model *model;
    const audit_sets *sets;
    audit_steps steps;
    int *rank;
    audit_accuracy before, after;
    int kept, tried;    /* steps; sets of them that were run */
    bool gave_up_early; /* --seconds were over before all was tried */
    double ms[AUDIT_TIMES];
} audit_report;

/* Finds what to keep: marks the steps. (audit_search.c) */
int audit_search(audit_report *r);

/* The policy as text, which the caller frees; NULL: no memory. `r`: for its comments; NULL: none. (audit_policy.c) */
char *audit_policy(const audit_steps *steps, const audit_report *r);
/* Puts a text where a file is wanted; nothing half written stays. */
int audit_write(const char *path, const char *text);

int audit_print(const audit_report *r);      /* audit_print.c */
int audit_print_json(const audit_report *r); /* … */
/* The page, which the caller frees; NULL: no memory. (audit_page.c) */
char *audit_page(const audit_report *r);

#endif /* AMP_TOOL_AUDIT_H */

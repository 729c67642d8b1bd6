/* amp self-check: what its files share. Each step runs this tool again, as a process of its own, so that one which
 * crashes is a finding, not the end. */
#ifndef AMP_TOOL_SELF_CHECK_H
#define AMP_TOOL_SELF_CHECK_H

#include <jansson.h>
#include <stdbool.h>

/* ---- A process (self_check_child.c) ------------------------------------------------------------------------------ */
typedef struct check_child {
    char *out, *err; /* all that it printed, ended by a zero; the caller's to free */
    int status;      /* as waitpid tells it */
    bool is_late;    /* it was ended, for it took too long */
    double seconds;
} check_child;

/* Runs words[0], found as a shell finds it, with nothing to read. False: it could not be started; errno says why, and
 * there is nothing to free. */
bool check_child_run(char *const *words, check_child *child);
void check_child_free(check_child *child);

/* ---- Steps (self_check_steps.c) ---------------------------------------------------------------------------------- */
typedef struct check_options {
    const char *cases;  /* a folder of recorded cases; NULL: what is installed beside the tool */
    const char *report; /* the file that is written */
    bool help;
} check_options;

typedef enum check_verdict { CHECK_PASSED, CHECK_SKIPPED, CHECK_FAILED } check_verdict;

typedef struct check_result {
    char name[32], text[512]; /* the step, and what there is to say of it in a line */
    check_verdict verdict;
    double seconds;
    json_t *details; /* for the report, the caller's; NULL: none */
} check_result;

enum { CHECK_MOST_STEPS = 16 };

/* Runs all steps; `done` hears of each as it ends, and has its details. Returns how many failed. */
int check_run_steps(const check_options *o, void (*done)(void *context, check_result *result), void *context);

#endif /* AMP_TOOL_SELF_CHECK_H */

/* Options of a command line as a table: numbers with their bounds, and words. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --name VALUE. A word where `word` is there, else a number; what is there before is the default. */
typedef struct option_row {
    const char *name;
    const char **word;
    double *number;
    double least, most;
    bool is_real; /* else a whole number */
} option_row;

enum { OPTIONS_MOST = 16, OPTIONS_GO_ON = -1 };

/* Reads the options of `program`, of which --help, which prints `usage`, is always one, and up to `most` other
 * arguments into rest[], in their order; rows end with one without a name. OPTIONS_GO_ON; else the exit status: 0 after
 * --help, 2 after a sentence on standard error. */
int options_read(const char *program, const char *usage, int argc, char **argv, const option_row *rows,
                 const char **rest, int most);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_OPTIONS_H */

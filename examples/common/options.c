#include "options.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "terminal.h"

enum { FAILED = 1, WRONG_USAGE = 2 };

static bool read_number(const char *text, const option_row *row) {
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= row->least && value <= row->most)) return false;
    if (!row->is_real && value != floor(value)) return false;
    *row->number = value;
    return true;
}

static int read_value(const char *program, const option_row *row, const char *text) {
    if (row->word) {
        *row->word = text;
        return OPTIONS_GO_ON;
    }
    if (read_number(text, row)) return OPTIONS_GO_ON;
    return terminal_complain(program, WRONG_USAGE, "--%s is '%s'; expected a number from %.10g to %.10g", row->name,
                             text, row->least, row->most);
}

static int read_rest(const char *program, int argc, char **argv, const char **rest, int most) {
    if (argc - optind > most)
        return terminal_complain(program, WRONG_USAGE, "'%s' is too much; see --help", argv[optind + most]);
    for (int i = optind; i < argc; i++) rest[i - optind] = argv[i];
    return OPTIONS_GO_ON;
}

int options_read(const char *program, const char *usage, int argc, char **argv, const option_row *rows,
                 const char **rest, int most) {
    struct option names[OPTIONS_MOST + 2] = {{"help", no_argument, NULL, OPTIONS_MOST}};
    for (int i = 0; rows[i].name && i < OPTIONS_MOST; i++)
        names[i + 1] = (struct option){rows[i].name, required_argument, NULL, i};
    int which, status = OPTIONS_GO_ON;
    while (status == OPTIONS_GO_ON && (which = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (which == OPTIONS_MOST) return printf("%s", usage) < 0 ? FAILED : 0;
        status = which < OPTIONS_MOST ? read_value(program, &rows[which], optarg) : WRONG_USAGE; /* getopt told */
    }
    return status == OPTIONS_GO_ON ? read_rest(program, argc, argv, rest, most) : status;
}

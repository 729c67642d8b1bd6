/* Text on a terminal: columns, colours, what must not reach it. */
#ifndef EXAMPLES_TERMINAL_H
#define EXAMPLES_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The columns that UTF-8 text takes; more than `most` is not looked at. */
int terminal_columns(const char *text, size_t bytes, int most);
/* Prints the text in exactly `width` columns; what is too long ends in "…". Control characters, which could move a
 * terminal's cursor, become "?". The text is known to be UTF-8. */
void terminal_print(const char *text, size_t bytes, int width);
/* Prints the text as a string of JSON. */
void terminal_print_json(const char *text, size_t bytes);
/* "PROGRAM: …" on standard error. Returns `status`. */
int terminal_complain(const char *program, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Standard output is a terminal with colours, and its user wants them. */
bool terminal_has_colours(void);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_TERMINAL_H */

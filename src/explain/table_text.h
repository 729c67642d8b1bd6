/* Text in columns and lines of a width, for the explain report: a character is one column, in UTF-8 too. */
#ifndef AMP_EXPLAIN_TABLE_TEXT_H
#define AMP_EXPLAIN_TABLE_TEXT_H

#include <stdbool.h>
#include <stdio.h>

/* Columns that a text takes. */
int amp_text_width(const char *text);
/* The text and blanks, before it where `right`, up to `width` columns. */
void amp_print_padded(FILE *out, const char *text, int width, bool right);
/* Lines of at most `width` columns where the text lets them: broken at blanks, or, with `lists`, behind a comma or
 * semicolon that stands in no bracket. The first begins with `first` blanks, the others with `indent`. */
void amp_print_wrapped(FILE *out, const char *text, int width, int first, int indent, bool lists);

#endif /* AMP_EXPLAIN_TABLE_TEXT_H */

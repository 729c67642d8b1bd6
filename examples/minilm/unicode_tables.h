/* What BERT's text normalisation needs to know of Unicode: made by tools/gen_unicode_tables.py, read by wordpiece.c. */
#ifndef UNICODE_TABLES_H
#define UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Class of a code point. A number up to 240 is its canonical combining class (0: none). */
enum {
    UNICODE_DROP = 250,  /* control, format, private use, U+FFFD: left out */
    UNICODE_SPACE,       /* separates words */
    UNICODE_PUNCTUATION, /* a word of its own */
    UNICODE_IDEOGRAPH,   /* a word of its own */
    UNICODE_MARK,        /* a non-spacing mark (an accent): left out after decomposition */
    UNICODE_STARTER_MARK /* the same, with combining class 0: ends a run of marks to be put in order */
};

/* first code point << 8 | class, wherever the class changes; ascending. */
extern const uint32_t unicode_class_table[];
extern const size_t unicode_class_count;

/* Code points whose lower-cased decomposition without marks is one other code point, in runs; ascending:
 * first << 32 | count << 26 | step << 24 | stride << 22 | target. first + i * step becomes target + i * stride. */
extern const uint64_t unicode_fold_table[];
extern const size_t unicode_fold_count;

/* Those that become two or three (0: no third). */
typedef struct unicode_sequence {
    uint32_t from, to[3];
} unicode_sequence;

extern const unicode_sequence unicode_sequence_table[];
extern const size_t unicode_sequence_count;

#endif /* UNICODE_TABLES_H */

/* WordPiece as BERT's uncased models use it: from UTF-8 text to token ids. Stands alone: C11 and its library.
 *
 * The ids are those of HuggingFace's BertTokenizer: control characters go, ideographs stand alone, accents and case
 * are folded, punctuation is split off, and each word becomes the longest pieces of the vocabulary from left to right,
 * or [UNK]. A special token written out in the text ("[MASK]") stands for itself. */
#ifndef WORDPIECE_H
#define WORDPIECE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wordpiece wordpiece;

/* One sentence that says what went wrong. */
typedef struct wordpiece_error {
    char sentence[512];
} wordpiece_error;

/* Reads a vocab.txt: UTF-8, one piece a line, its id is the line's number from 0. [UNK], [CLS] and [SEP] must be there,
 * nothing may be empty or twice. NULL with an error; close the result with wordpiece_close. */
wordpiece *wordpiece_open(const char *path, wordpiece_error *error);
/* The same from memory, which is copied; `name` stands for the file in messages. */
wordpiece *wordpiece_parse(const char *bytes, size_t length, const char *name, wordpiece_error *error);
void wordpiece_close(wordpiece *tokenizer);

/* Number of pieces. */
size_t wordpiece_count(const wordpiece *tokenizer);

/* [CLS] text [SEP] as ids. What does not fit into `capacity` (at least 2) is cut off before the [SEP]. `text` may hold
 * NUL bytes, which count as control characters. Returns the number of ids, at least 2; 0 with an error if the text is
 * not UTF-8, and then `ids` is untouched. Safe to call from several threads. */
size_t wordpiece_encode(const wordpiece *tokenizer, const char *text, size_t length, int64_t *ids, size_t capacity,
                        wordpiece_error *error);

#ifdef __cplusplus
}
#endif

#endif /* WORDPIECE_H */

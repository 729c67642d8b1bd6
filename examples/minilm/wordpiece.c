/* BERT's uncased WordPiece: cleans, lower-cases, strips accents, splits, then takes the longest pieces first. */
#include "wordpiece.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unicode_tables.h"

enum {
    WORD_MAX = 100,            /* characters; a longer word is [UNK] */
    VOCABULARY_MAX = 64 << 20, /* bytes; a larger file is no vocabulary */
    SPECIAL_COUNT = 5
};

static const char *const special_names[SPECIAL_COUNT] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
enum { UNK, CLS, SEP, REQUIRED_SPECIALS };

typedef struct piece {
    const char *text;
    size_t length;
} piece;

struct wordpiece {
    char *bytes; /* the file; pieces point into it */
    piece *pieces;
    size_t count;
    size_t longest;  /* bytes of the longest piece */
    uint32_t *slots; /* open addressing: id + 1, or 0 */
    size_t slot_mask;
    int64_t special[SPECIAL_COUNT]; /* ids; -1 where the vocabulary has none */
};

/* ---- Errors ---------------------------------------------------------------------------------------------------- */

static void *fail(wordpiece_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (error) vsnprintf(error->sentence, sizeof error->sentence, format, arguments);
    va_end(arguments);
    return NULL;
}

/* ---- UTF-8 ----------------------------------------------------------------------------------------------------- */

/* Length of the character at `s`, 0 if there is none: cut short, overlong, a surrogate, beyond U+10FFFF. */
static size_t decode(const unsigned char *s, size_t length, uint32_t *c) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf8 ? 4 : 0;
    if (n == 0 || n > length) return 0;
    *c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        *c = *c << 6 | (s[i] & 0x3fu);
    }
    return *c < smallest[n] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) ? 0 : n;
}

static size_t encode(uint32_t c, char *out) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | c);
    return n;
}

/* Offset of the first byte that is not UTF-8; `length` if there is none. */
static size_t find_invalid(const char *text, size_t length) {
    uint32_t c;
    for (size_t i = 0, n; i < length; i += n) {
        n = decode((const unsigned char *)text + i, length - i, &c);
        if (n == 0) return i;
    }
    return length;
}

/* ---- Vocabulary ------------------------------------------------------------------------------------------------ */

static uint64_t hash(const char *text, size_t length) { /* FNV-1a */
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

/* The slot of a piece, or the empty one where it belongs. */
static uint32_t *find_slot(const wordpiece *t, const char *text, size_t length) {
    for (size_t i = hash(text, length);; i++) {
        uint32_t *slot = &t->slots[i & t->slot_mask];
        if (*slot == 0) return slot;
        const piece *p = &t->pieces[*slot - 1];
        if (p->length == length && memcmp(p->text, text, length) == 0) return slot;
    }
}

static int64_t find_piece(const wordpiece *t, const char *text, size_t length) {
    return length > t->longest ? -1 : (int64_t)*find_slot(t, text, length) - 1;
}

static bool add_piece(wordpiece *t, const char *text, size_t length, const char *name, wordpiece_error *error) {
    const size_t line = t->count + 1;
    const size_t invalid = find_invalid(text, length);
    if (invalid < length) {
        return fail(error, "%s: line %zu is not UTF-8 (byte 0x%02X at column %zu)", name, line,
                    (unsigned char)text[invalid], invalid + 1);
    }
    if (length == 0) return fail(error, "%s: line %zu is empty, each line must hold one piece", name, line);
    uint32_t *slot = find_slot(t, text, length);
    if (*slot != 0) return fail(error, "%s: line %zu repeats line %u, \"%.*s\"", name, line, *slot, (int)length, text);
    t->pieces[t->count++] = (piece){text, length};
    *slot = (uint32_t)t->count;
    if (length > t->longest) t->longest = length;
    return true;
}

/* One piece a line, with or without carriage returns, and with or without an end to the last line. */
static bool add_lines(wordpiece *t, size_t length, const char *name, wordpiece_error *error) {
    for (const char *line = t->bytes, *end = t->bytes + length; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((next ? next : end) - line);
        if (next && n > 0 && line[n - 1] == '\r') n--;
        if (!add_piece(t, line, n, name, error)) return false;
        line = next ? next + 1 : end;
    }
    return true;
}

static bool find_specials(wordpiece *t, const char *name, wordpiece_error *error) {
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        t->special[i] = find_piece(t, special_names[i], strlen(special_names[i]));
        if (t->special[i] < 0 && i < REQUIRED_SPECIALS)
            return fail(error, "%s: there is no %s among its %zu lines: not a BERT vocabulary", name, special_names[i],
                        t->count);
    }
    return true;
}

static bool allocate(wordpiece *t, const char *bytes, size_t length) {
    size_t lines = 1, slots = 16;
    for (size_t i = 0; i < length; i++) lines += bytes[i] == '\n';
    while (slots < 2 * lines) slots *= 2;
    t->bytes = malloc(length + 1);
    t->pieces = malloc(lines * sizeof *t->pieces);
    t->slots = calloc(slots, sizeof *t->slots);
    t->slot_mask = slots - 1;
    if (!t->bytes || !t->pieces || !t->slots) return false;
    if (length > 0) memcpy(t->bytes, bytes, length);
    return true;
}

wordpiece *wordpiece_parse(const char *bytes, size_t length, const char *name, wordpiece_error *error) {
    if (length > VOCABULARY_MAX) return fail(error, "%s: larger than 64 MiB: not a vocabulary", name);
    wordpiece *t = calloc(1, sizeof *t);
    if (!t || !allocate(t, bytes, length)) {
        wordpiece_close(t);
        return fail(error, "%s: no memory for the vocabulary", name);
    }
    if (!add_lines(t, length, name, error) || !find_specials(t, name, error)) {
        wordpiece_close(t);
        return NULL;
    }
    return t;
}

/* Appends the file to *bytes until it ends or is larger than any vocabulary; false when memory runs out. */
static bool read_all(FILE *file, char **bytes, size_t *length) {
    for (size_t capacity = 0, n = 1; n > 0 && *length <= VOCABULARY_MAX; *length += n) {
        if (*length == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 18;
            char *more = realloc(*bytes, capacity);
            if (!more) return false;
            *bytes = more;
        }
        n = fread(*bytes + *length, 1, capacity - *length, file);
    }
    return true;
}

wordpiece *wordpiece_open(const char *path, wordpiece_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) return fail(error, "%s: cannot be opened: %s", path, strerror(errno));
    char *bytes = NULL;
    size_t length = 0;
    const bool enough_memory = read_all(file, &bytes, &length);
    const int reason = ferror(file) ? errno : 0;
    fclose(file);
    wordpiece *t = !enough_memory ? fail(error, "%s: no memory for the vocabulary", path)
                   : reason       ? fail(error, "%s: cannot be read: %s", path, strerror(reason))
                                  : wordpiece_parse(bytes, length, path, error);
    free(bytes);
    return t;
}

void wordpiece_close(wordpiece *t) {
    if (!t) return;
    free(t->bytes);
    free(t->pieces);
    free(t->slots);
    free(t);
}

size_t wordpiece_count(const wordpiece *t) {
    return t->count;
}

/* ---- Unicode --------------------------------------------------------------------------------------------------- */

static uint32_t class_of(uint32_t c) {
    size_t low = 0, high = unicode_class_count; /* table[low] <= c < table[high] */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(unicode_class_table[middle] >> 8 <= c ? &low : &high) = middle;
    }
    return unicode_class_table[low] & 0xff;
}

/* The character that `c` alone folds to: `c` itself for most. */
static uint32_t fold_single(uint32_t c) {
    size_t low = 0, high = unicode_fold_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(unicode_fold_table[middle] >> 32 <= c ? &low : &high) = middle;
    }
    const uint64_t run = unicode_fold_table[low];
    const uint32_t first = (uint32_t)(run >> 32), count = run >> 26 & 63, step = run >> 24 & 3, stride = run >> 22 & 3;
    if (c < first || (c - first) % step != 0 || (c - first) / step >= count) return c;
    return (uint32_t)(run & 0x1fffff) + (c - first) / step * stride;
}

/* A Hangul syllable is a leading consonant, a vowel and maybe a trailing consonant (The Unicode Standard, 3.12). */
static size_t fold_hangul(uint32_t c, uint32_t out[3]) {
    const uint32_t index = c - 0xac00;
    out[0] = 0x1100 + index / 588;
    out[1] = 0x1161 + index % 588 / 28;
    out[2] = 0x11a7 + index % 28;
    return index % 28 ? 3 : 2;
}

/* Lower case of the canonical decomposition; accents may be left out already. */
static size_t fold(uint32_t c, uint32_t out[3]) {
    if (c >= 0xac00 && c <= 0xd7a3) return fold_hangul(c, out);
    for (size_t i = 0; i < unicode_sequence_count && unicode_sequence_table[i].from <= c; i++) {
        if (unicode_sequence_table[i].from != c) continue;
        memcpy(out, unicode_sequence_table[i].to, sizeof unicode_sequence_table[i].to);
        return out[2] ? 3 : 2;
    }
    out[0] = fold_single(c);
    return 1;
}

/* ---- From text to ids ------------------------------------------------------------------------------------------ */

typedef struct encoder {
    const wordpiece *t;
    int64_t *ids;
    size_t capacity, count; /* what does not fit is counted, not stored */
    uint32_t word[WORD_MAX];
    size_t length; /* of the word so far; likewise */
    size_t run;    /* where in it the last run of combining characters starts */
} encoder;

static void push_id(encoder *e, int64_t id) {
    if (e->count < e->capacity) e->ids[e->count] = id;
    e->count++;
}

/* The longest pieces from left to right, those after the first with "##" before them; false if a part has none. */
static bool push_pieces(encoder *e) {
    char text[2 + 4 * WORD_MAX];
    size_t ends[WORD_MAX + 1] = {2};
    for (size_t i = 0; i < e->length; i++) ends[i + 1] = ends[i] + encode(e->word[i], text + ends[i]);
    for (size_t first = 0, last; first < e->length; first = last) {
        char *start = text + ends[first];
        if (first > 0) start = memcpy(start - 2, "##", 2); /* over what is done with */
        int64_t id = -1;
        for (last = e->length + 1; id < 0 && --last > first;)
            id = find_piece(e->t, start, (size_t)(text + ends[last] - start));
        if (id < 0) return false;
        push_id(e, id);
    }
    return true;
}

static void finish_word(encoder *e) {
    const size_t start = e->count;
    if (e->length > WORD_MAX || !push_pieces(e)) { /* no word has no pieces */
        e->count = start;
        push_id(e, e->t->special[UNK]);
    }
    e->length = e->run = 0;
}

/* Appends to the word. Combining characters that follow each other are put in canonical order: by class, stable. */
static void push_character(encoder *e, uint32_t c, uint32_t combining) {
    size_t at = e->length++;
    if (at >= WORD_MAX) return;
    for (; combining > 0 && at > e->run && class_of(e->word[at - 1]) > combining; at--) e->word[at] = e->word[at - 1];
    e->word[at] = c;
    if (combining == 0) e->run = e->length;
}

static void push_folded(encoder *e, uint32_t c) {
    const uint32_t kind = class_of(c);
    if (kind == UNICODE_MARK) return;
    if (kind == UNICODE_STARTER_MARK) {
        e->run = e->length;
        return;
    }
    if (kind == UNICODE_PUNCTUATION) finish_word(e);
    push_character(e, c, kind < UNICODE_DROP ? kind : 0);
    if (kind == UNICODE_PUNCTUATION) finish_word(e);
}

static void push_text(encoder *e, uint32_t c) {
    const uint32_t kind = class_of(c);
    uint32_t folded[3];
    if (kind == UNICODE_DROP) return;
    if (kind == UNICODE_SPACE || kind == UNICODE_IDEOGRAPH) finish_word(e);
    if (kind == UNICODE_SPACE) return;
    const size_t n = fold(c, folded);
    for (size_t i = 0; i < n; i++) push_folded(e, folded[i]);
    if (kind == UNICODE_IDEOGRAPH) finish_word(e);
}

/* Length of the special token that is written out at `text`, which has its id pushed; else 0. */
static size_t push_special(encoder *e, const char *text, size_t length) {
    for (int i = 0; text[0] == '[' && i < SPECIAL_COUNT; i++) {
        const size_t n = strlen(special_names[i]);
        if (e->t->special[i] < 0 || n > length || memcmp(text, special_names[i], n) != 0) continue;
        finish_word(e);
        push_id(e, e->t->special[i]);
        return n;
    }
    return 0;
}

size_t wordpiece_encode(const wordpiece *t, const char *text, size_t length, int64_t *ids, size_t capacity,
                        wordpiece_error *error) {
    const size_t invalid = find_invalid(text, length);
    if (invalid < length) {
        fail(error, "the text is not UTF-8: byte 0x%02X at offset %zu", (unsigned char)text[invalid], invalid);
        return 0;
    }
    if (capacity < 2) {
        fail(error, "room for %zu ids, but [CLS] and [SEP] alone are 2", capacity);
        return 0;
    }
    encoder e = {.t = t, .ids = ids, .capacity = capacity - 1};
    push_id(&e, t->special[CLS]);
    for (size_t i = 0, n; i < length && e.count < e.capacity; i += n) {
        uint32_t c = 0;
        n = push_special(&e, text + i, length - i);
        if (n > 0) continue;
        n = decode((const unsigned char *)text + i, length - i, &c);
        push_text(&e, c);
    }
    finish_word(&e);
    if (e.count > e.capacity) e.count = e.capacity;
    ids[e.count++] = t->special[SEP];
    return e.count;
}

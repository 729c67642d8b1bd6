/* The demo's tokenizer: any bytes as a vocabulary, and any bytes as a text. An input is one byte (the room for ids),
 * then a text for a fixed vocabulary; or, after a byte of 0xff, a vocabulary, a NUL and a text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wordpiece.h"

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) abort();                                                                                     \
    } while (0)

static const char fixed_vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##ing\n##ed\nwant\n##a\na\n##b\nb\n##c\nc\n1\n##1\n,\n.\n-\n[\n]\n"
    "\xce\xb1\n##\xce\xb1\n\xe6\x9d\xb1\n\xe1\x84\x80\n##\xe1\x85\xa1\n##\xf0\x9d\x85\xae\n\xf0\x9f\x98\x80\n";

static void check_encoding(const wordpiece *t, const char *text, size_t length, size_t capacity) {
    enum { PLENTY = 1 << 16 };
    static int64_t whole[PLENTY], cut[512];
    wordpiece_error error = {""};
    const size_t n = wordpiece_encode(t, text, length, whole, PLENTY, &error);
    const size_t m = wordpiece_encode(t, text, length, cut, capacity, &error);
    REQUIRE((n == 0) == (m == 0));
    if (n == 0) {
        REQUIRE(error.sentence[0] != '\0');
        return;
    }
    REQUIRE(n >= 2 && n <= PLENTY && m >= 2 && m <= capacity && m == (n < capacity ? n : capacity));
    for (size_t i = 0; i < n; i++) REQUIRE(whole[i] >= 0 && (size_t)whole[i] < wordpiece_count(t));
    REQUIRE(memcmp(whole, cut, (m - 1) * sizeof *cut) == 0 && cut[m - 1] == whole[n - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const char *vocabulary = fixed_vocabulary, *text = (const char *)data + 1;
    size_t vocabulary_size = sizeof fixed_vocabulary - 1, text_size = size - 1;
    if (data[0] == 0xff) {
        const char *end = memchr(text, 0, text_size);
        vocabulary = text;
        vocabulary_size = end ? (size_t)(end - text) : text_size;
        text = end ? end + 1 : text + text_size;
        text_size = size - 1 - vocabulary_size - (end != NULL);
    }
    wordpiece_error error = {""};
    wordpiece *t = wordpiece_parse(vocabulary, vocabulary_size, "input", &error);
    REQUIRE(t || error.sentence[0] != '\0');
    if (t) check_encoding(t, text, text_size, 2 + data[0]);
    wordpiece_close(t);
    return 0;
}

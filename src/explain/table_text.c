/* Padding and wrapping. */
#include "explain/table_text.h"

int amp_text_width(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

void amp_print_padded(FILE *out, const char *text, int width, bool right) {
    const int blanks = width > amp_text_width(text) ? width - amp_text_width(text) : 0;
    fprintf(out, "%*s%s%*s", right ? blanks : 0, "", text, right ? 0 : blanks, "");
}

/* The bytes of the first piece that no line breaks: a word, or an item of a list with its comma. */
static int piece_length(const char *text, bool lists) {
    int length = 0, depth = 0;
    for (; text[length]; length++) {
        const char c = text[length];
        depth += (c == '[' || c == '(') - (c == ']' || c == ')');
        if (lists && (c == ',' || c == ';') && depth == 0) return length + 1;
        if (!lists && c == ' ') return length;
    }
    return length;
}

static int columns_of(const char *text, int bytes) {
    int width = 0;
    for (int i = 0; i < bytes; i++) width += ((unsigned char)text[i] & 0xC0) != 0x80;
    return width;
}

void amp_print_wrapped(FILE *out, const char *text, int width, int first, int indent, bool lists) {
    int column = fprintf(out, "%*s", first, "");
    bool fresh = true;
    while (*text) {
        const int bytes = piece_length(text, lists), columns = columns_of(text, bytes);
        if (!fresh && column + 1 + columns > width) {
            column = fprintf(out, "\n%*s", indent, "") - 1;
            fresh = true;
        }
        fprintf(out, "%s%.*s", fresh ? "" : " ", bytes, text);
        column += columns + !fresh;
        fresh = false;
        text += bytes;
        while (*text == ' ') text++;
    }
    fputc('\n', out);
}

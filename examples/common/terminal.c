#include "terminal.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Length of the UTF-8 character at `s` (known to be one), and the columns that a terminal gives it. */
static size_t measure_character(const unsigned char *s, int *columns) {
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) c = c << 6 | (s[i] & 0x3fu);
    const bool combining = (c >= 0x300 && c < 0x370) || (c >= 0x200b && c < 0x2010) || (c >= 0xfe00 && c < 0xfe10);
    const bool wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) || (c >= 0xac00 && c < 0xd7a4) ||
                      (c >= 0xf900 && c < 0xfb00) || (c >= 0xff00 && c < 0xff61) || (c >= 0x1f300 && c < 0x1fb00) ||
                      (c >= 0x20000 && c < 0x40000);
    *columns = combining ? 0 : wide ? 2 : 1;
    return n;
}

int terminal_columns(const char *text, size_t bytes, int most) {
    int used = 0, columns;
    for (size_t i = 0; i < bytes && used <= most; used += columns)
        i += measure_character((const unsigned char *)text + i, &columns);
    return used;
}

void terminal_print(const char *utf8, size_t bytes, int width) {
    const unsigned char *text = (const unsigned char *)utf8;
    int used = 0, columns = 0;
    size_t i = 0, n;
    for (; i < bytes; i += n, used += columns) {
        n = measure_character(text + i, &columns);
        const bool last = i + n == bytes;
        if (used + columns > (last ? width : width - 1)) break;
        const bool control = text[i] < 0x20 || text[i] == 0x7f || (text[i] == 0xc2 && text[i + 1] < 0xa0);
        if (control)
            putchar('?');
        else
            fwrite(text + i, 1, n, stdout);
    }
    if (i < bytes) {
        fputs("…", stdout);
        used++;
    }
    printf("%*s", width - used, "");
}

void terminal_print_json(const char *text, size_t bytes) {
    putchar('"');
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

bool terminal_has_colours(void) {
    const char *plain = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(plain && *plain) && terminal && strcmp(terminal, "dumb") != 0;
}

int terminal_complain(const char *program, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return status;
}

#!/usr/bin/env python3
"""Writes examples/minilm/unicode_tables.c: what BERT's text normalisation needs to know of Unicode.

    python3 tools/gen_unicode_tables.py > examples/minilm/unicode_tables.c

Everything comes from Python's unicodedata. The demo must give the ids that the HuggingFace `tokenizers` library gives,
and that library classes characters by Unicode 8, so the few later ones are named here: what it does not know is a letter
to it. tests/examples/test_wordpiece.cc compares every code point with what that library answered.
"""

import sys
import unicodedata

# Classes; a number up to 240 is a canonical combining class (0: none).
DROP, SPACE, PUNCTUATION, IDEOGRAPH, MARK, STARTER_MARK = range(250, 256)

# Marks and format characters that are newer than Unicode 8.
LATER_MARKS = """7fd 890-891 898-89f 8ca-8e2 9fe afa-aff b55 c04 c3c d00 d3b-d3c d81 eba 180f 1885-1886 1abf-1ace
1df6-1dfb a82c a8c5 a8ff a9bd 10d24-10d27 10eab-10eac 10f46-10f50 10f82-10f85 11070 11073-11074 110c2 110cd 111cf 1123e
1133b 11438-1143f 11442-11444 11446 1145e 1182f-11837 11839-1183a 1193b-1193c 1193e 11943 119d4-119d7 119da-119db 119e0
11a01-11a0a 11a33-11a38 11a3b-11a3e 11a47 11a51-11a56 11a59-11a5b 11a8a-11a96 11a98-11a99 11c30-11c36 11c38-11c3d 11c3f
11c92-11ca7 11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d90-11d91 11d95 11d97
11ef3-11ef4 13430-13438 16f4f 16fe4 1cf00-1cf2d 1cf30-1cf46 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a
1e130-1e136 1e2ae 1e2ec-1e2ef 1e944-1e94a"""

# Punctuation that is newer than Unicode 8.
LATER_PUNCTUATION = """61d 9fd a76 c77 c84 1b7d-1b7e 2e43-2e4f 2e52-2e5d 10ead 10f55-10f59 10f86-10f89 1144b-1144f
1145a-1145b 1145d 11660-1166c 116b9 1183b 11944-11946 119e2 11a3f-11a46 11a9a-11a9c 11a9e-11aa2 11c41-11c45 11c70-11c71
11ef7-11ef8 11fff 12ff1-12ff2 16e97-16e9a 16fe2 1e95e-1e95f"""

# Characters whose category changed after Unicode 8.
CHANGED = {0x166D: PUNCTUATION, 0x111C9: PUNCTUATION, 0x1734: MARK}

# Lower-case pairs that are newer than the unicodedata this was made with: first, last, step, first's lower case.
LATER_LOWER = [
    (0x1C89, 0x1C89, 1, 0x1C8A), (0xA7CB, 0xA7CB, 1, 0x264), (0xA7CC, 0xA7CE, 2, 0xA7CD), (0xA7D2, 0xA7D4, 2, 0xA7D3),
    (0xA7DA, 0xA7DA, 1, 0xA7DB), (0xA7DC, 0xA7DC, 1, 0x19B), (0x10D50, 0x10D65, 1, 0x10D70),
    (0x16EA0, 0x16EB8, 1, 0x16EBB),
]

# Its decomposition is that of Unicode 9: it neither takes this later character apart …
NOT_DECOMPOSED = {0x11938}
# … nor puts these in order.
UNORDERED = """7fd 898-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1ace 1df6-1dfa a82c 10d24-10d27 10eab-10eac 10f46-10f50
10f82-10f85 11070 1133b 1145e 11839-1183a 1193d-1193e 11943 119e0 11a34 11a47 11a99 11d42 11d44-11d45 11d97 16ff0-16ff1
1e130-1e136 1e2ae 1e2ec-1e2ef"""

# The blocks that BERT takes for ideographs. The sixth starts 0x100 late in the library, and so it does here.
IDEOGRAPHS = "4e00-9fff 3400-4dbf 20000-2a6df 2a700-2b73f 2b740-2b81f 2b920-2ceaf f900-faff 2f800-2fa1f"


def code_points(ranges):
    for item in ranges.split():
        first, _, last = item.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


LATER = set(code_points(LATER_MARKS)) | set(code_points(LATER_PUNCTUATION))
IDEOGRAPH_SET = set(code_points(IDEOGRAPHS))
UNORDERED_SET = set(code_points(UNORDERED))


def combining_class(c):
    return 0 if c in UNORDERED_SET else unicodedata.combining(chr(c))


def classify(c):
    """The class of one code point."""
    char, category = chr(c), unicodedata.category(chr(c))
    if c in CHANGED:
        return CHANGED[c]
    if c in LATER:
        return combining_class(c)
    if c in IDEOGRAPH_SET:
        return IDEOGRAPH
    if char in "\t\n\r" or (char.isspace() and category[0] != "C"):
        return SPACE
    if c in (0, 0xFFFD) or category in ("Cc", "Cf", "Co"):
        return DROP
    if category[0] == "P" or char in "$+<=>^`|~":
        return PUNCTUATION
    if category == "Mn":
        return MARK if unicodedata.combining(char) else STARTER_MARK
    return combining_class(c)


def fold(c):
    """Lower case of the canonical decomposition without its marks, as a list."""
    text = chr(c) if c in NOT_DECOMPOSED else unicodedata.normalize("NFD", chr(c))
    return [ord(low) for x in text if classify(ord(x)) not in (MARK, STARTER_MARK) for low in x.lower()]


def scalars():
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def class_table():
    """(first code point, class) wherever the class changes."""
    table = []
    for c in scalars():
        kind = classify(c)
        if not table or table[-1][1] != kind:
            table.append((c, kind))
    return table


def fold_maps():
    """Code points that fold to one other code point, and those that fold to several. Hangul is left to arithmetic."""
    single, several = {}, {}
    for c in scalars():
        if 0xAC00 <= c <= 0xD7A3 or classify(c) in (MARK, STARTER_MARK, DROP, SPACE):
            continue
        folded = fold(c)
        if len(folded) > 1:
            several[c] = folded
        elif folded != [c]:
            single[c] = folded[0]
    for first, last, step, lower in LATER_LOWER:
        for i, c in enumerate(range(first, last + 1, step)):
            single.setdefault(c, lower + i * step)
    return single, several


def longest_run(single, c):
    """(count, step, stride): single[c + i * step] == single[c] + i * stride, with nothing mapped in between."""
    best = (1, 1, 0)
    for step in (1, 2):
        for stride in (0, 1, 2):
            count = 1
            while (count < 63 and single.get(c + count * step) == single[c] + count * stride
                   and (step == 1 or c + count * step - 1 not in single)):
                count += 1
            if count > best[0]:
                best = (count, step, stride)
    return best


def fold_runs(single):
    """Packed runs: first code point, count, step and stride, first target."""
    runs, done = [], -1
    for c in sorted(single):
        if c <= done:
            continue
        count, step, stride = longest_run(single, c)
        done = c + (count - 1) * step
        runs.append(c << 32 | count << 26 | step << 24 | stride << 22 | single[c])
    return runs


def write_array(out, declaration, items):
    out.write(f"const {declaration} = {{\n")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 120:
            out.write(line + "\n")
            line = "   "
        line += f" {item},"
    out.write(f"{line}\n}};\n")


def main():
    single, several = fold_maps()
    classes = [f"0x{c << 8 | kind:x}" for c, kind in class_table()]
    runs = [f"0x{run:x}" for run in fold_runs(single)]
    sequences = [f"{{0x{c:x}, {{{', '.join(f'0x{x:x}' for x in folded)}}}}}" for c, folded in sorted(several.items())]
    out = sys.stdout
    out.write("/* Made by tools/gen_unicode_tables.py from Unicode "
              f"{unicodedata.unidata_version}; not edited by hand. */\n")
    out.write('/* clang-format off */\n#include "unicode_tables.h"\n\n')
    write_array(out, "uint32_t unicode_class_table[]", classes)
    out.write("const size_t unicode_class_count = sizeof unicode_class_table / sizeof *unicode_class_table;\n\n")
    write_array(out, "uint64_t unicode_fold_table[]", runs)
    out.write("const size_t unicode_fold_count = sizeof unicode_fold_table / sizeof *unicode_fold_table;\n\n")
    write_array(out, "unicode_sequence unicode_sequence_table[]", sequences)
    out.write("const size_t unicode_sequence_count = sizeof unicode_sequence_table / sizeof *unicode_sequence_table;\n")


if __name__ == "__main__":
    main()

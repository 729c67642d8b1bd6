#!/usr/bin/env python3
"""Where the fields of the public structs lie, compared with those of the last release: what programs were compiled with.

    tests/api/check_offsets.py CC            compare with tests/api/offsets_0.1.txt; exit 1 and say what moved
    tests/api/check_offsets.py CC --write    write that file: at a release of another minor version, under its name

A field that moved, changed its size or went is an error; one that was added at the end is none, where the struct may
grow: callers say how large theirs is, in its first field or beside the pointer. Reserved bytes may be used up.
Exit 77: there is no such compiler. Standard library only.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RELEASE = ROOT / "tests/api/offsets_0.1.txt"
# Besides those that begin with struct_size: their functions take the size, or the library owns them.
MAY_GROW = {"amp_memory_stats", "amp_cast_cache_stats", "amp_autocast_state", "amp_cuda_counts",
            "amp_cuda_device_properties", "amp_cpu_info"}


# ---- reading the headers ---------------------------------------------------------------------------------------------

def without_comments(text):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    # what C++ alone sees; the test looks at C, which lays out the same
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#(?:else|endif)", "", text, flags=re.S | re.M)
    return re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.S | re.M)


def body_at(text, start):
    """The text between the brace at `start` and its partner."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[start + 1:i]
    raise ValueError("a struct does not end")


def members(body):
    """The declarations of a struct, those inside of its own structs left out."""
    flat = re.sub(r"\{[^{}]*\}", "", body)
    while "{" in flat:
        flat = re.sub(r"\{[^{}]*\}", "", flat)
    flat = re.sub(r"AMP_NO_BARE_NUMBER_\(\w+\)", "", flat)
    flat = re.sub(r"AMP_SIZE_OF_\(\w+\)|AMP_ABSENT_|AMP_REQUIRED_\w+_", "", flat)
    return [m.strip() for m in flat.split(";") if m.strip()]


def names(declaration):
    """The fields that one declaration makes: int major, minor; void *(*run)(int); int reserved[3]."""
    pointer = re.search(r"\(\*(\w+)\)", declaration)
    if pointer:
        return [pointer.group(1)]
    return [re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", part).group(1) for part in declaration.split(",")]


def structs():
    """{name: fields} in the order of the headers."""
    found = {}
    for header in sorted((ROOT / "include/amp").rglob("*.h")):
        if header.name == "dlpack.h":  # another project's, with a version of its own
            continue
        text = without_comments(header.read_text(encoding="utf-8"))
        for match in re.finditer(r"typedef struct (amp_\w+) \{", text):
            body = body_at(text, match.end() - 1)
            found[match.group(1)] = [n for m in members(body) for n in names(m)]
    return found


# ---- asking the compiler ---------------------------------------------------------------------------------------------

def program(found):
    out = ["#include <stddef.h>", "#include <stdio.h>", '#include "amp/amp.h"', '#include "amp/cuda.h"', "int main(void) {"]
    for struct, fields in found.items():
        out.append(f'    printf("{struct} %zu\\n", sizeof({struct}));')
        for f in fields:
            out.append(f'    printf("    {f} %zu %zu\\n", offsetof({struct}, {f}), sizeof((({struct} *)0)->{f}));')
    return "\n".join(out + ["    return 0;", "}"])


def measured(compiler):
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "offsets.c", Path(folder) / "offsets"
        source.write_text(program(structs()), encoding="utf-8")
        subprocess.run([compiler, "-std=gnu11", "-I", str(ROOT / "include"), str(source), "-o", str(binary)], check=True)
        return subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout


def parse(text):
    """{struct: (size, {field: (offset, size)})}"""
    layouts, fields = {}, None
    for line in text.splitlines():
        words = line.split()
        if line.startswith(" "):
            fields[words[0]] = (int(words[1]), int(words[2]))
        elif words and not line.startswith("#"):
            fields = {}
            layouts[words[0]] = (int(words[1]), fields)
    return layouts


# ---- comparing -------------------------------------------------------------------------------------------------------

def is_reserved(field):
    return field.startswith("reserved")


def may_grow(name, fields):
    return name in MAY_GROW or "struct_size" in fields


def end_of(fields):
    return max((offset + size for field, (offset, size) in fields.items() if not is_reserved(field)), default=0)


def changes(name, old, new):
    """What is wrong with the struct `new` for programs that were compiled with `old`."""
    (old_size, before), (new_size, after) = old, new
    last = end_of(before)
    grows = may_grow(name, before)
    if new_size < old_size or (new_size > old_size and not grows):
        yield f"{name} had {old_size} bytes and has {new_size}"
    for field, (offset, size) in before.items():
        if is_reserved(field):
            continue
        if field not in after:
            yield f"{name}.{field} is gone"
            continue
        is_last = offset + size == last
        if after[field][0] != offset:
            yield f"{name}.{field} stood at {offset} and stands at {after[field][0]}"
        elif after[field][1] < size or (after[field][1] > size and not (is_last and grows)):
            yield f"{name}.{field} had {size} bytes and has {after[field][1]}"
    for field, (offset, _) in after.items():
        if field not in before and not is_reserved(field) and offset < last:
            yield f"{name}.{field} is new and stands at {offset}, before the end of what was there, {last}"


def compare(release, now):
    for name, old in release.items():
        if name not in now:
            yield f"{name} is gone"
        else:
            yield from changes(name, old, now[name])
    for name, (size, fields) in now.items():  # that callers fill: what is added later must not slip into unset bytes
        end = max((offset + width for offset, width in fields.values()), default=0)
        if ("struct_size" in fields or name == "amp_autocast_state") and end != size:
            yield f"{name} has {size - end} bytes of padding at its end: reserve them"


def self_test():
    """The comparison finds what it is there for."""
    old = parse("a_args 32\n    struct_size 0 8\n    out 8 8\n    x 16 8\n    flag 24 1\n    reserved_ 25 7\n")
    good = ["a_args 40\n    struct_size 0 8\n    out 8 8\n    x 16 8\n    flag 24 1\n    reserved_ 25 7\n    y 32 8\n",
            "a_args 32\n    struct_size 0 8\n    out 8 8\n    x 16 8\n    flag 24 1\n    more 25 1\n    reserved_ 26 6\n"]
    bad = ["a_args 40\n    struct_size 0 8\n    x 8 8\n    flag 16 1\n    reserved_ 17 7\n    y 24 8\n    out 32 8\n",  # moved
           "a_args 32\n    struct_size 0 8\n    out 8 8\n    x 16 4\n    flag 24 1\n    reserved_ 25 7\n",  # shrank
           "a_args 24\n    struct_size 0 8\n    out 8 8\n    x 16 8\n",  # went
           "a_args 40\n    struct_size 0 8\n    out 8 8\n    x 16 8\n    flag 24 1\n    y 32 8\n    z 20 4\n    r 36 4\n",
           "a_args 40\n    struct_size 0 8\n    out 8 8\n    x 16 8\n    flag 24 1\n    reserved_ 25 7\n    y 32 1\n"]  # padding
    assert not list(compare(old, old))
    for text in good:
        assert not list(compare(old, parse(text))), list(compare(old, parse(text)))
    for text in bad:
        assert list(compare(old, parse(text))), text
    fixed = parse("a 8\n    x 0 8\n")
    assert list(compare(fixed, parse("a 16\n    x 0 8\n    y 8 8\n"))), "a struct without a size cannot grow"


def main():
    compiler, write = (sys.argv[1:] or ["cc"])[0], "--write" in sys.argv
    self_test()
    if not shutil.which(compiler):
        return 77
    text = measured(compiler)
    if write:
        RELEASE.write_text(f"# struct size, and field offset size: {Path(__file__).name} --write\n{text}", encoding="utf-8")
        return 0
    found = list(compare(parse(RELEASE.read_text(encoding="utf-8")), parse(text)))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

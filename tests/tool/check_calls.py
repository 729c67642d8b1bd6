"""Each call that `amp info --ops NAME` shows compiles, once its names are declared and each … is a value.

    check_calls.py AMP COMPILER     from the root of the sources
"""
import json
import re
import subprocess
import sys

TYPES = {"Tensor": "amp_tensor *", "int": "int64_t ", "float": "double ", "bool": "bool ", "str": "const char *",
         "ScalarType": "amp_dtype ", "Generator": "amp_generator *"}
LISTS = {"Tensor": "amp_tensor *", "int": "int64_t ", "float": "double ", "Scalar": "double "}


def declaration(argument):
    """'int[2] kernel_size' -> 'static int64_t kernel_size;': one element of a list."""
    type_, name = re.match(r"(\S+) (\w+)", argument).groups()
    base = re.match(r"\w+", type_).group()
    elements = LISTS if "[" in type_ or base == "Scalar" else TYPES
    return f"    {elements[base]}{name} = 0;"


def function(number, op):
    arguments = re.match(r"[\w.]+\((.*)\) ->", op["schema"]).group(1)
    given = [a for a in re.split(r", (?![^\[(]*[\])])", arguments) if a and a != "*" and "=" not in a]
    call = re.sub(r"(\w)…", r"\1", op["call"]).replace("…", "1" if "AMP_LIST(…)" not in op["call"] else "0")
    returned = "" if op["schema"].endswith("-> ()") else "(void)"
    declared = "\n".join(declaration(re.sub(r"\((\w)!\)", "", a)) for a in given)
    return f"void f{number}(void);\nvoid f{number}(void) {{ /* {op['op']} */\n{declared}\n    {returned}{call};\n}}\n"


def main():
    ops = json.loads(subprocess.run([sys.argv[1], "info", "--ops", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    source = "#include <amp/amp.h>\n" + "".join(function(i, op) for i, op in enumerate(ops))
    command = [sys.argv[2], "-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-fsyntax-only", "-xc", "-"]
    result = subprocess.run(command, input=source.encode(), stderr=subprocess.PIPE)
    print(f"{len(ops)} calls", result.stderr.decode()[:4000])
    sys.exit(result.returncode != 0)


main()

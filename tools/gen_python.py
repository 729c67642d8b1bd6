#!/usr/bin/env python3
"""What the Python package knows of ops: python/amp/_op_table.py, and _ops.pyi for editors and type checkers.

    tools/gen_python.py            rewrite both (they are committed)
    tools/gen_python.py --check    exit 1 and name the files that are stale
"""
import keyword
import sys
from pathlib import Path

import gen_ops

ROOT = Path(__file__).resolve().parent.parent
BANNER = gen_ops.BANNER.replace("gen_ops", "gen_python")

# kind: the type of a parameter
TYPES = {"TENSOR": "Array", "TENSOR_LIST": "Sequence[Array]", "SCALAR": "Number", "DIMS": "Sizes", "FLOATS": "Factors",
         "FLOAT": "_float", "INT": "_int", "BOOL": "_bool", "OPT_FLOAT": "_float", "OPT_INT": "_int", "OPT_BOOL": "_bool",
         "DTYPE": "Union[dtype, _str]", "STRING": "_str", "GENERATOR": "Generator"}

STUB_HEAD = f'''"""The ops: functions of amp, and methods of amp.Tensor."""
# {BANNER}
# mypy: disable-error-code="overload-cannot-match,overload-overlap,misc"
from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str
from typing import Literal, NamedTuple, Optional, Sequence, Tuple, Union, overload

from amp._amp import Generator, Tensor, dtype
from amp._typing import Array, Factors, Number, Sizes
'''


def inputs(op):
    return [a for a in op.args if a.kind != "OUTPUT"]


def sizes_at(rows):
    """The place of the sizes that may be given one by one, as in x.view(2, 3): an int[] that must be given and ends what is
    given by place, of an op that has one overload. -1: none."""
    places = [i for i, a in enumerate(inputs(rows[0])) if not a.keyword_only]
    last = inputs(rows[0])[places[-1]] if places else None
    fits = len(rows) == 1 and last and last.kind == "DIMS" and "AMP_ARG_REQUIRED" in last.flags
    return places[-1] if fits else -1


def results(rows):
    """The names of several results, of the first overload that has them."""
    return next((op.outputs for op in rows if len(op.outputs) > 1), [])


def is_method(rows):
    return all(inputs(op) and inputs(op)[0].kind == "TENSOR" for op in rows[:1])


def doc(rows):
    return "\n".join(line for op in rows for line in (op.schema, "    " + op.doc))


def by_name(ops):
    names = {}
    for op in ops:
        names.setdefault(op.name, []).append(op)
    return names


# ---- The table --------------------------------------------------------------------------------------------------------

def table_row(name, rows):
    forms = sorted({form for op in rows for form in op.forms})
    return (f"    ({name!r}, {forms!r}, {sizes_at(rows)}, {any(op.returns_list for op in rows)}, {results(rows)!r}, "
            f"{is_method(rows)},\n     {doc(rows)!r}),")


def table(names):
    return ['"""The ops: name, forms beside the function, where sizes are given one by one, whether it returns a list, names of',
            'results, whether it is a method of Tensor, documentation."""', f"# {BANNER}", "", "ROWS = [",
            *[table_row(name, rows) for name, rows in names.items()], "]"]


# ---- The stub ---------------------------------------------------------------------------------------------------------

def result_class(name):
    return f"{name}_result"


def default_of(arg):
    """The default as it stands in the schema."""
    return arg.schema.partition("=")[2] or None


def parameter(arg):
    """(text, whether a caller can name it)."""
    type_text, default = TYPES[arg.kind], default_of(arg)
    if "AMP_ARG_NULLABLE" in arg.flags and arg.kind == "TENSOR_LIST":
        type_text = "Sequence[Optional[Array]]"
    if default == "None":
        type_text = f"Optional[{type_text}]"
    speakable = not keyword.iskeyword(arg.name)
    return f"{arg.name}{'' if speakable else '_'}: {type_text}" + (f" = {default}" if default else ""), speakable


def parameters(op, form, first, literal):
    """The list of parameters; `first` stands for the first one, where it is a method's self."""
    out, named, places = [], False, 0
    for i, arg in enumerate(inputs(op)):
        if arg.keyword_only and not named:
            out.append("*")
            named = True
        text, speakable = parameter(arg)
        if arg.name == "return_indices" and literal:
            text = literal
            if not named and "=" not in text:
                out.append("*")
                named = True
        out.append(first if first and i == 0 else text)
        if not speakable:
            places = len(out)
    if places:
        out.insert(places, "/")
    if form == "out":
        out += ([] if named else ["*"]) + [f"out: {'Sequence[Tensor]' if len(op.outputs) > 1 else 'Tensor'}"]
    return out


def returned(op, name, literal):
    if op.returns_list:
        return "Tuple[Tensor, ...]"
    several = len(op.outputs) > 1 and (not literal or "True" in literal)
    return result_class(name) if several else "Tensor"


def signatures(op, name, forms, first, gathered):
    """Every way to call an overload: (parameters, result)."""
    asks = any(a.name == "return_indices" for a in op.args) and len(op.outputs) > 1
    out = []
    for literal in (["return_indices: Literal[False] = False", "return_indices: Literal[True]"] if asks else [None]):
        for form in forms:
            result = "Tensor" if form == "_" else returned(op, name, literal)
            out.append((parameters(op, form, first, literal), result))
    if gathered >= 0:
        listed = parameters(op, "", first, None)
        listed[gathered] = f"*{inputs(op)[gathered].name}: _int"
        out.append(([p for p in listed if p != "*"], "Tensor"))
    return out


def functions(name, rows, first, indent):
    """The definitions of a name, and of its in-place form."""
    lines = []
    for suffix, forms_of in (("", lambda op: ["", *(["out"] if "out" in op.forms else [])]),
                             ("_", lambda op: ["_"] if "_" in op.forms else [])):
        found = [s for op in rows if not first or inputs(op)[0].kind == "TENSOR"
                 for s in signatures(op, name, forms_of(op), first, sizes_at(rows) if not suffix else -1)]
        for i, (listed, result) in enumerate(found):
            lines += [f"{indent}@overload"] * (len(found) > 1)
            head = f"{indent}def {name}{suffix}({', '.join(listed)}) -> {result}:"
            if i > 0:
                lines.append(head + " ...")
                continue
            text = ("\n" + indent + "    ").join(doc(rows).replace("\\", "\\\\").split("\n"))
            lines += [head, f'{indent}    """{text}"""']
    return lines


def stub(names):
    out = STUB_HEAD.rstrip("\n").split("\n") + ["", "__all__ = ["]
    for name, rows in names.items():
        out.append("    " + " ".join(f'"{form}",' for form in [name] + [name + "_"] * any("_" in op.forms for op in rows)))
    out.append("]")
    for name, rows in names.items():
        if results(rows):
            out += ["", f"class {result_class(name)}(NamedTuple):", *[f"    {field}: Tensor" for field in results(rows)]]
    out += ["", "class TensorMethods:"]
    for name, rows in names.items():
        if is_method(rows):
            out += functions(name, rows, "self", "    ")
    for name, rows in names.items():
        out += ["", *functions(name, rows, None, "")]
    return out


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    names = by_name(gen_ops.read_def()[0])
    wanted = {"python/amp/_op_table.py": table(names), "python/amp/_ops.pyi": stub(names)}
    stale = []
    for path, lines in wanted.items():
        text = "\n".join(lines) + "\n"
        if (ROOT / path).exists() and (ROOT / path).read_text("utf-8") == text:
            continue
        stale.append(path)
        if not sys.argv[1:]:
            (ROOT / path).write_text(text, "utf-8")
    for path in stale:
        print(f"{path} {'is stale: run tools/gen_python.py' if sys.argv[1:] else 'written'}", file=sys.stderr)
    return 1 if stale and sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes which rows of src/policy/ops.def have an in-place and an out= form in PyTorch: tests/policy/pytorch_forms.inc.

    python3 tools/list_pytorch_forms.py

Needs PyTorch, and is run by hand when rows are added; tests/policy/test_op_table.cc reads the list. Rows that PyTorch does not
know, or knows without such a form, are not in it.
"""
import sys
from collections import defaultdict
from pathlib import Path

import torch

sys.dont_write_bytecode = True
import gen_ops  # noqa: E402

# Where PyTorch's operator library has another name for what the row does.
NAMES = {"max_pool2d": "max_pool2d_with_indices", "max_pool3d": "max_pool3d_with_indices", "logsigmoid": "log_sigmoid",
         "addmm_activation": "_addmm_activation"}
# What torch.nn.functional has in Python.
PYTHON = {"normalize": "out"}


def torch_schemas():
    """{name: {(overload, the arguments that are no outputs)}}"""
    schemas = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            schemas[schema.name[6:]].append(schema)
    return schemas


def torch_signature(schema):
    """What stands for the required arguments: tensors, lists of tensors, anything else."""
    words = []
    for argument in schema.arguments:
        if argument.is_out or argument.has_default_value():
            continue
        kind = str(argument.type)
        words.append("T" if kind in ("Tensor", "Optional[Tensor]") else "L" if kind.startswith("List[") and
                     "Tensor" in kind else "N")
    return words


def signature(op):
    required = [a for a in op.args if "AMP_ARG_REQUIRED" in a.flags]
    return ["T" if a.kind == "TENSOR" else "L" if a.kind == "TENSOR_LIST" else "N" for a in required]


def fitting(op, schemas):
    """The schemas with the row's required arguments, or all where none has just those."""
    same = [s for s in schemas if torch_signature(s) == signature(op)]
    begins = [s for s in schemas if torch_signature(s)[:1] == signature(op)[:1]]
    overloads = op.overload or any(other.overload for other in schemas_of_name[op.name])
    return same or (begins if not overloads else [])


def forms(op, schemas):
    name = NAMES.get(op.name, op.name)
    found = []
    name = name if name in schemas else "_" + name
    if fitting(op, schemas.get(name + "_", [])):
        found.append("_")
    if fitting(op, [s for s in schemas.get(name, []) if any(a.is_out for a in s.arguments)]):
        found.append("out")
    if op.name in PYTHON and PYTHON[op.name] not in found:
        found.append(PYTHON[op.name])
    return found


schemas_of_name = defaultdict(list)


def main():
    ops, _ = gen_ops.read_def()
    for op in ops:
        schemas_of_name[op.name].append(op)
    schemas = torch_schemas()
    lines = [f"// The forms that PyTorch {torch.__version__.split('+')[0]} has of the rows of ops.def: {{row, forms}}.",
             "// Written by tools/list_pytorch_forms.py.", "// clang-format off"]
    for op in ops:
        found = forms(op, schemas)
        if found:
            lines.append(f'{{"{op.key}", "{",".join(found)}"}},')
    (gen_ops.ROOT / "tests/policy/pytorch_forms.inc").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

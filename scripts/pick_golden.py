#!/usr/bin/env python3
"""Picks the small cases of tests/golden from a folder of recorded operator cases.

    scripts/pick_golden.py FOLDER [tests/golden [tests/data/cuda_plans.json]]

Of each operator and mode (off-f32, off-bf16, on-bf16, …) that a CPU runs: the smallest case with a few elements, a
second one if it is not LARGE, and one without any elements where there is one. Of each operator in a CUDA region the
smallest case with a few elements that is not LARGE. Gradients are left out. The output is deterministic, and must stay below
LIMIT bytes.

Of the calls in CUDA regions one of each operator and mode also goes to cuda_plans.json, without values: their dtypes are what
tests/cuda/test_cuda_cases.cc checks.
"""

import json
import math
import pathlib
import struct
import sys

FEW = 4
LARGE = 2200
LIMIT = 3_000_000


def read_tensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: (entry, data[8 + length + entry["data_offsets"][0] : 8 + length + entry["data_offsets"][1]])
        for name, entry in header.items()
    }


def write_tensors(path, tensors):
    header, blocks, offset = {}, [], 0
    for name, (entry, block) in sorted(tensors.items(), key=lambda item: (-element_size(item[1][0]), item[0])):
        header[name] = {"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": [offset, offset + len(block)]}
        blocks.append(block)
        offset += len(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blocks))


def element_size(entry):
    return {"64": 8, "32": 4, "16": 2}.get("".join(c for c in entry["dtype"] if c.isdigit()), 1)


def keys_of(value):
    """Every tensor key inside a JSON value."""
    if isinstance(value, dict):
        found = [value["tensor"]] if isinstance(value.get("tensor"), str) else []
        return found + [key for child in value.values() for key in keys_of(child)]
    if isinstance(value, list):
        return [key for child in value for key in keys_of(child)]
    return []


def in_cuda_region(case):
    return bool(case["autocast"]) and case["autocast"]["device"] == "cuda"


def without_gradients(case):
    return {key: value for key, value in case.items() if key not in ("grad_output", "grads")}


def size_of(case, tensors):
    return sum(len(tensors[key][1]) + len(key) + 80 for key in keys_of(case)) + len(json.dumps(case))


def pick_cuda(cases, tensors):
    """The smallest case of each operator in a CUDA region."""
    best = {}
    for case in map(without_gradients, filter(in_cuda_region, cases)):
        few = max(math.prod(output["shape"]) for output in case["outputs"]) < FEW
        rank = (few, size_of(case, tensors), case["name"])
        if rank[1] <= LARGE and (case["op"] not in best or rank < best[case["op"]][0]):
            best[case["op"]] = (rank, case)
    return [case for _, case in best.values()]


def pick(cases, tensors):
    groups = {}
    for case in cases:
        if in_cuda_region(case):
            continue
        case = without_gradients(case)
        size = size_of(case, tensors)
        elements = max(math.prod(output["shape"]) for output in case["outputs"])
        group = groups.setdefault((case["op"], case["name"].rsplit("/", 1)[1], elements == 0), [])
        group.append((elements < FEW, size, case["name"], case))
    kept = {}
    for (_, _, empty), group in groups.items():
        group.sort(key=lambda entry: entry[:3])
        for _, size, name, case in group[: 1 if empty else 2]:
            if name == group[0][2] or size <= LARGE:
                kept[name] = case
    return [kept[case["name"]] for case in cases if case["name"] in kept]


def without_values(value):
    """The same JSON value, its tensors empty."""
    if isinstance(value, dict) and isinstance(value.get("tensor"), str):
        return {"tensor": "-", "dtype": value["dtype"], "shape": [0]}
    if isinstance(value, dict):
        return {key: without_values(child) for key, child in value.items()}
    if isinstance(value, list):
        return [without_values(child) for child in value]
    return value


def plans(cases):
    """The simplest call of each operator and mode in a CUDA region."""
    best = {}
    for case in cases:
        if not in_cuda_region(case):
            continue
        plan = {key: case[key] for key in ("name", "op", "policy", "autocast")}
        plan["inputs"] = without_values(case["inputs"])
        plan["outputs"] = [{"dtype": output["dtype"]} for output in case["outputs"]]
        text = json.dumps(plan, separators=(",", ":"))
        key = (case["op"], case["name"].rsplit("/", 1)[1])
        # the call with the most tensors says the most
        rank = (-len(keys_of(case["inputs"])), len(text), case["name"])
        if key not in best or rank < best[key][0]:
            best[key] = (rank, text)
    return [text for _, text in best.values()]


def main():
    source = pathlib.Path(sys.argv[1])
    target = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "tests/golden")
    plan_file = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else "tests/data/cuda_plans.json")
    target.mkdir(parents=True, exist_ok=True)
    planned = [text for path in sorted(source.glob("cuda_*.json")) for text in plans(json.loads(path.read_text()))]
    plan_file.write_text("[\n" + ",\n".join(planned) + "\n]\n")
    total = plan_file.stat().st_size
    for path in sorted(source.glob("*.json")):
        if not path.with_suffix(".safetensors").exists():
            continue
        tensors = read_tensors(path.with_suffix(".safetensors"))
        pick_from = pick_cuda if path.name.startswith("cuda_") else pick
        cases = pick_from(json.loads(path.read_text()), tensors)
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        (target / path.name).write_text("[\n" + lines + "\n]\n")
        write_tensors(
            (target / path.name).with_suffix(".safetensors"),
            {key: tensors[key] for case in cases for key in keys_of(case)},
        )
        size = sum((target / path.name).with_suffix(suffix).stat().st_size for suffix in (".json", ".safetensors"))
        print(f"{path.stem}: {len(cases)} cases, {size} bytes")
        total += size
    print(f"{total} bytes")
    if total > LIMIT:
        sys.exit(f"more than {LIMIT} bytes")


if __name__ == "__main__":
    main()

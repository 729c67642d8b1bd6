#!/usr/bin/env python3
"""The goals on a GPU, from the files that a run of gpu-check leaves: goal, figure, and whether it was reached.

    python3 gpu_goals.py [--fake] [FOLDER]     FOLDER (.) has square.json, products.json, overhead.json, overhead_torch.json,
                                               bandwidth.json, attention.json and networks.json; any of them may be missing

What is missing is named, never guessed. --fake: the figures come from the tests' own driver, so none is one of a GPU. The exit
status is 0 whether goals are reached or not.
"""

import argparse
import json
import os

SHAPES = 64  # of bench/shapes/cuda.txt
ATTENTION = "1 16 16 4096 4096 64 0"


class NotMeasured(Exception):
    pass


class Results:
    """The files, read when they are asked for."""

    def __init__(self, folder):
        self.folder = folder

    def __getitem__(self, name):
        try:
            with open(os.path.join(self.folder, name)) as file:
                return json.load(file)
        except FileNotFoundError:
            raise NotMeasured(f"there is no {name}")
        except ValueError:
            raise NotMeasured(f"{name} is not whole")


def mean_of(r, name, shapes):
    """The geometric means of a file of bench_gemm, which has so many shapes; and how often the host was late there."""
    found = r[name]
    if found.get("cublaslt_missing"):
        raise NotMeasured(found["cublaslt_missing"])
    mean = found["means"].get("all")
    if not mean or mean["shapes"] != shapes:
        raise NotMeasured(f"{name} has {mean['shapes'] if mean else 0} of {shapes} shapes")
    late = f", the host late in {found['late_turns']} of {found['turns']} turns"
    return mean, late if found["late_turns"] > found["turns"] / 20 else ""


def all_products(r):
    (square, _), (rest, late) = mean_of(r, "square.json", 1), mean_of(r, "products.json", SHAPES)
    best, first = ((square[key] * rest[key] ** SHAPES) ** (1 / (SHAPES + 1)) for key in ("over_best", "over_first"))
    return f"{best:.3f} (of its heuristic's first choice: {first:.3f}){late}", best >= 0.95


def square_product(r):
    mean, late = mean_of(r, "square.json", 1)
    return f"{mean['over_best']:.3f} (of its heuristic's first choice: {mean['over_first']:.3f}){late}", mean["over_best"] >= 0.95


def overhead(r):
    ours = {name: t["host"] / 1e3 for name, t in r["overhead.json"]["nanoseconds"].items()}
    return ", ".join(f"{name} {us:.2f} µs" for name, us in ours.items()), max(ours.values()) <= 6


def overhead_beside_torch(r):
    """Beside the faster of PyTorch's callers."""
    ours = {name: t["host"] / 1e3 for name, t in r["overhead.json"]["nanoseconds"].items()}
    theirs = {}
    for name, t in r["overhead_torch.json"]["nanoseconds"].items():
        op, caller = name.split(", ")
        theirs[op] = min(theirs.get(op, (float("inf"), "")), (t["host"] / 1e3, caller))
    figure = ", ".join(f"{op} {us:.2f} of {theirs[op][0]:.2f} µs ({theirs[op][1]})" for op, us in ours.items())
    figure += "" if any(name.endswith(", C++") for name in r["overhead_torch.json"]["nanoseconds"]) else "; C++ not measured"
    return figure, all(us <= theirs[op][0] for op, us in ours.items())


def network(name):
    """Beside the faster of PyTorch's ways: a region for each pass, or one."""
    def figure(r):
        rows = [row for row in r["networks.json"]["rows"] if (row["network"], row["precision"]) == (name, "f16")]
        beside = [row for row in rows if "ratio" in row]
        if not beside:
            raise NotMeasured("PyTorch was not beside it" if rows else f"networks.json has no {name} in f16")
        ways = "; ".join(f"region: {row['region']}, {row['ratio']:.2f}×, {row['ms']:.3f} of {row['torch_ms']:.3f} ms" for row in beside)
        worst = min(row["ratio"] for row in beside)
        return f"{worst:.2f}× ({ways})", worst >= 1
    return figure


def attention(r):
    row = next((row for row in r["attention.json"]["shapes"] if row["shape"] == ATTENTION), {}).get("f16")
    if not row or "ratio" not in row:
        raise NotMeasured("PyTorch was not beside it" if row else "attention.json does not have the shape")
    if row["ratio"] is None:
        raise NotMeasured("PyTorch: " + row["why"])
    return f"{row['ratio']:.2f}× ({row['us']:.1f} µs, PyTorch {row['torch_us']:.1f} µs)", row["ratio"] >= 0.7


def bandwidth(r):
    found = r["bandwidth.json"]
    share, of = ("of_peak", "the peak") if found["peak_gb_per_s"] > 0 else ("of_copy", "a copy")
    worst = min(found["rows"], key=lambda row: row[share])
    figure = f"{100 * worst[share]:.1f} % of {of} ({worst['op']} {worst['type']}; {100 * worst['of_copy']:.1f} % of a copy)"
    return figure, worst[share] >= 0.85


GOALS = [
    (f"linear f16, {SHAPES + 1} shapes, of cuBLASLt's best", "≥ 0.95", all_products),
    ("linear f16, 8192³, of cuBLASLt's best", "≥ 0.95", square_product),
    ("an eager op's overhead under autocast", "≤ 6 µs", overhead),
    ("the same beside PyTorch's", "≤", overhead_beside_torch),
    ("BERT-base 8 × 128, f16, of PyTorch's speed", "≥ 1", network("bert")),
    ("ResNet-50 batch 8, f16, of PyTorch's speed", "≥ 1", network("resnet")),
    ("attention 16 × 4096 × 64, f16, of PyTorch's flash", "≥ 0.7", attention),
    ("elementwise, the slowest, of memory bandwidth", "≥ 85 %", bandwidth),
]


def judge(goal, results, fake):
    try:
        figure, reached = goal(results)
    except NotMeasured as why:
        return "-", f"not measured: {why}"
    except (KeyError, TypeError, IndexError) as error:
        return "-", f"not measured: a file lacks {error}"
    if fake:
        return "-", "not measured: the driver is the tests' own"
    return figure, "reached" if reached else "MISSED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("folder", nargs="?", default=".")
    arguments = parser.parse_args()
    results, verdicts = Results(arguments.folder), []
    print(f"{'goal':52}{'needed':8}reached: figure")
    for name, needed, goal in GOALS:
        figure, verdict = judge(goal, results, arguments.fake)
        verdicts.append(verdict.split(":")[0])
        print(f"{name:52}{needed:8}{verdict}" + (f": {figure}" if figure != "-" else ""))
    count = verdicts.count
    print(f"goals: {count('reached')} reached, {count('MISSED')} missed, {count('not measured')} not measured")


main()

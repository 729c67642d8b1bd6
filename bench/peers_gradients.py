#!/usr/bin/env python3
"""Backwards of attention, norms and activations in libamp and in PyTorch, side by side in one run, on random data.

    python3 -m venv VENV && VENV/bin/pip install numpy torch
    VENV/bin/python bench/peers_gradients.py --bench build/release/bench/bench_gradients [--before OTHER] [--turns N] [--json FILE] [WORD …]

One thread, its CPU time. All take turns, round after round; figures are medians, ratios those of PyTorch's time over ours within a
round. --before is a bench_gradients of another build, which takes its turn too. WORDs choose cases that contain one of them. 16-bit norms
have weights in f32, as autocast leaves them.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

from served import Served

LEAST_SECONDS = 2e-2
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

# As in bench_gradients: leaves of the case's shape and dtype, then of f32 with a number for each column or channel, and what is done.
KINDS = {
    "attention": (3, 0, lambda x, flag: F.scaled_dot_product_attention(*x, is_causal=flag)),
    "layer_norm": (1, 2, lambda x, flag: F.layer_norm(x[0], x[1].shape, x[1], x[2])),
    "rms_norm": (1, 1, lambda x, flag: F.rms_norm(x[0], x[1].shape, x[1])),
    "batch_norm": (1, 2, lambda x, flag: F.batch_norm(x[0], None, None, x[1], x[2], training=True)),
    "group_norm": (1, 2, lambda x, flag: F.group_norm(x[0], 32, x[1], x[2])),
    "softmax": (1, 0, lambda x, flag: F.softmax(x[0], -1)),
    "log_softmax": (1, 0, lambda x, flag: F.log_softmax(x[0], -1)),
    "gelu": (1, 0, lambda x, flag: F.gelu(x[0])),
}


def random(shape, dtype, last=False):
    x = ((torch.rand(shape) - 0.5) * 4).to(dtype)
    return x.to(memory_format=torch.channels_last) if last else x


class Torch:
    def __init__(self):
        torch.set_num_threads(1)
        self.case = None

    def record(self, case):
        kind, dtype, *sizes, flag = case.split()
        inputs, weights, run = KINDS[kind]
        rank = 4 if kind in ("attention", "batch_norm", "group_norm") else 2
        shape, last = [int(n) for n in sizes[:rank]], flag == "1" and kind != "attention"
        self.leaves = [random(shape, DTYPES[dtype], last) for _ in range(inputs)]
        self.leaves += [random(shape[1:2], torch.float32) for _ in range(weights)]
        self.out = run([x.requires_grad_() for x in self.leaves], flag == "1")
        self.gradient = random(shape, DTYPES[dtype], last)

    def burst(self):
        start = time.thread_time()
        for _ in range(self.repeats):
            torch.autograd.grad(self.out, self.leaves, self.gradient, retain_graph=True)
        return (time.thread_time() - start) / self.repeats

    def seconds(self, case):
        if case != self.case:
            self.case, self.repeats = case, 1
            self.record(case)
            self.burst()
            while self.burst() * self.repeats < LEAST_SECONDS:
                self.repeats *= 2
        return self.burst()


def cases_of(bench, words):
    """(as it is asked for, in words), as bench_gradients lists them."""
    listed = subprocess.run([bench, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    cases = [line.split("\t") for line in listed.splitlines()]
    return [(case, text) for case, text in cases if not words or any(word in case for word in words)]


def compare(sides, case, turns):
    """Median seconds of each side, and how often PyTorch's time is ours."""
    rounds = [[side.seconds(case) for side in sides.values()] for _ in range(turns)]
    medians = {name: statistics.median(times) for name, times in zip(sides, zip(*rounds))}
    at = {name: i for i, name in enumerate(sides)}
    return medians, statistics.median(r[at["PyTorch"]] / r[at["now"]] for r in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--before")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    sides = {"before": Served(options.before, "--serve")} if options.before else {}
    sides.update({"now": Served(options.bench, "--serve"), "PyTorch": Torch()})
    print("| backward of | | " + " | ".join(sides) + " | PyTorch / now |\n|---|---" + "|---:" * len(sides) + "|---:|")
    rows = []
    for case, text in cases_of(options.bench, options.words):
        medians, ratio = compare(sides, case, options.turns)
        times = " | ".join(f"{1e3 * seconds:.2f}" for seconds in medians.values())
        print(f"| {text} | {case.split()[1]} | {times} | {ratio:.2f} |", flush=True)
        rows.append({"case": case, "ms": 1e3 * medians["now"], "torch_ms": 1e3 * medians["PyTorch"], "ratio": ratio})
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()

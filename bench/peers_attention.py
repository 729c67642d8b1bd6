#!/usr/bin/env python3
"""scaled_dot_product_attention in libamp and in PyTorch, side by side in one run, on random data.

    python3 -m venv VENV && VENV/bin/pip install numpy torch
    VENV/bin/python bench/peers_attention.py --bench build/release/bench/bench_attention [--threads N] [--json FILE]

The two take turns, round after round; a ratio is the median of the ratios within a round. With one thread the clock counts
that thread's CPU time, so that a busy machine does not disturb it much.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

LISTS = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention", name) for name in ("square.txt", "models.txt")]


def shapes_of(path):
    with open(path) as lines:
        return [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#")]


class Torch:
    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        self.clock = time.thread_time if threads == 1 else time.perf_counter
        self.shape, self.tensors, self.repeats = None, {}, {}

    def prepare(self, shape):
        batch, heads, key_heads, rows, keys, depth, causal = (int(x) for x in shape.split())
        t = self.torch
        draw = lambda h, n: (t.rand(batch, h, n, depth) - 0.5) * 4
        q, k, v = draw(heads, rows), draw(key_heads, keys), draw(key_heads, keys)
        self.options = {"is_causal": bool(causal), "enable_gqa": heads != key_heads}
        self.tensors = {"f32": (q, k, v), "bf16": tuple(x.bfloat16() for x in (q, k, v))}
        self.shape = shape
        for dtype in self.tensors:
            self.repeats[dtype] = 1
            while self.seconds(shape, dtype) * self.repeats[dtype] < 1e-3:
                self.repeats[dtype] *= 2

    def seconds(self, shape, dtype):
        if shape != self.shape:
            self.prepare(shape)
        attend = self.torch.nn.functional.scaled_dot_product_attention
        with self.torch.inference_mode():
            start = self.clock()
            for _ in range(self.repeats[dtype]):
                attend(*self.tensors[dtype], **self.options)
            return (self.clock() - start) / self.repeats[dtype]


class Libamp:
    def __init__(self, program, threads):
        command = [program, "--threads", str(threads), "--serve"] + (["--clock", "cpu"] if threads == 1 else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, shape, dtype):
        self.process.stdin.write(f"{shape} {dtype}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def compare(ours, theirs, shape, dtype, seconds):
    pairs, end = [], time.time() + seconds
    ours.seconds(shape, dtype), theirs.seconds(shape, dtype)
    while len(pairs) < 5 or (time.time() < end and len(pairs) < 200):
        pairs.append((ours.seconds(shape, dtype), theirs.seconds(shape, dtype)))
    median = lambda values: statistics.median(list(values))
    return {
        "us": median(a for a, _ in pairs) * 1e6,
        "torch_us": median(b for _, b in pairs) * 1e6,
        "ratio": median(b / a for a, b in pairs),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("lists", nargs="*", default=LISTS, help="files as in bench/attention")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    ours, theirs = Libamp(arguments.bench, arguments.threads), Torch(arguments.threads)
    shapes = [shape for path in arguments.lists for shape in shapes_of(path)]
    results = []
    print(f"{'B,H,KV,L,S,D,causal':26}  {'libamp bf16':>12} {'PyTorch':>10} {'ratio':>6}  {'libamp f32':>12} {'PyTorch':>10} {'ratio':>6}")
    for shape in shapes:
        row = {dtype: compare(ours, theirs, shape, dtype, arguments.seconds) for dtype in ("bf16", "f32")}
        results.append({"shape": shape, **row})
        print(f"{shape:26}" + "".join(f"  {r['us']:9.1f} µs {r['torch_us']:7.1f} µs {r['ratio']:6.2f}" for r in row.values()), flush=True)
    means = {d: statistics.geometric_mean(r[d]["ratio"] for r in results) for d in ("bf16", "f32")}
    print(f"geometric mean: bf16 {means['bf16']:.2f}, f32 {means['f32']:.2f}")
    if arguments.json:
        record = {"threads": arguments.threads, "torch": theirs.torch.__version__, "shapes": results, "geomean": means}
        with open(arguments.json, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""scaled_dot_product_attention in libamp and in PyTorch, side by side in one run, on random data.

    python3 -m venv VENV && VENV/bin/pip install numpy torch
    VENV/bin/python bench/peers_attention.py --bench build/release/bench/bench_attention [--threads N] [--json FILE]
    VENV/bin/python bench/peers_attention.py --bench build/release/bench/bench_attention --device cuda [--json FILE]

The two take turns, round after round; a ratio is the median of PyTorch's time over ours within a round. With one thread the clock
counts that thread's CPU time, so that a busy machine does not disturb it much. On a GPU both use its events, in f16 and bf16, over
as many calls as take a millisecond, and PyTorch its flash attention alone; a shape that this refuses has no ratio.
"""

import argparse
import json
import os
import statistics
import time

from served import Served

HERE = os.path.dirname(os.path.abspath(__file__))
LISTS = {"cpu": ("square.txt", "models.txt"), "cuda": ("cuda.txt",)}
DTYPES = {"cpu": ("bf16", "f32"), "cuda": ("f16", "bf16")}


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


class TorchCuda:
    """Its flash attention, by events on the stream. As in bench_cuda.h, copies come first, so many that the host has enqueued all
    calls when the device comes to them: its time is measured, not the host's."""

    MOST_COPIES = 16

    def __init__(self):
        import torch

        self.torch, self.shape, self.copies = torch, None, 1
        size = torch.cuda.get_device_properties(0).total_memory // 512
        self.copied = tuple(torch.zeros(size // 4, device="cuda") for _ in range(2))

    def prepare(self, shape):
        batch, heads, key_heads, rows, keys, depth, causal = (int(x) for x in shape.split())
        t = self.torch
        draw = lambda h, n: (t.rand(batch, h, n, depth, device="cuda") - 0.5) * 4
        q, k, v = draw(heads, rows), draw(key_heads, keys), draw(key_heads, keys)
        self.options = {"is_causal": bool(causal), "enable_gqa": heads != key_heads}
        self.tensors = {"f16": tuple(x.half() for x in (q, k, v)), "bf16": tuple(x.bfloat16() for x in (q, k, v))}
        self.calls, self.shape = {}, shape

    def turn(self, dtype, calls):
        """Seconds of a call, and whether the device came to the calls before the host had enqueued all."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        t = self.torch
        start, end = (t.cuda.Event(enable_timing=True) for _ in range(2))
        with t.inference_mode(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            for _ in range(self.copies):
                self.copied[1].copy_(self.copied[0])
            start.record()
            for _ in range(calls):
                t.nn.functional.scaled_dot_product_attention(*self.tensors[dtype], **self.options)
            end.record()
        late = start.query()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / calls, late

    def timed(self, dtype, calls):
        seconds, late = self.turn(dtype, calls)
        while late and self.copies < self.MOST_COPIES:
            self.copies *= 2
            seconds, late = self.turn(dtype, calls)
        return seconds

    def seconds(self, shape, dtype):
        if shape != self.shape:
            self.prepare(shape)
        if dtype not in self.calls:
            self.timed(dtype, 2)
            self.calls[dtype] = max(2, min(50, int(1e-3 / self.timed(dtype, 2))))
        return self.timed(dtype, self.calls[dtype])


def serve_libamp(program, device, threads):
    """Asked with a shape and a type."""
    clock = ["--clock", "cpu"] if threads == 1 and device == "cpu" else []
    return Served(program, "--device", device, "--threads", str(threads), *clock, "--serve")


def compare(ours, theirs, shape, dtype, seconds):
    pairs, end = [], time.time() + seconds
    ours.seconds(shape, dtype)
    try:
        theirs.seconds(shape, dtype)
    except RuntimeError as error:  # of flash attention alone, which does not know every shape
        return {"us": ours.seconds(shape, dtype) * 1e6, "torch_us": None, "ratio": None, "why": str(error).splitlines()[0]}
    while len(pairs) < 5 or (time.time() < end and len(pairs) < 200):
        pairs.append((ours.seconds(shape, dtype), theirs.seconds(shape, dtype)))
    median = lambda values: statistics.median(list(values))
    return {
        "us": median(a for a, _ in pairs) * 1e6,
        "torch_us": median(b for _, b in pairs) * 1e6,
        "ratio": median(b / a for a, b in pairs),
    }


def cell(row):
    if row["ratio"] is None:
        return f"  {row['us']:9.1f} µs {'-':>10} {'-':>6}"
    return f"  {row['us']:9.1f} µs {row['torch_us']:7.1f} µs {row['ratio']:6.2f}"


def means_of(results):
    """By type; None: of no shape."""
    means = {}
    for dtype in [key for key in results[0] if key != "shape"]:
        known = [r[dtype]["ratio"] for r in results if r[dtype]["ratio"] is not None]
        means[dtype] = statistics.geometric_mean(known) if known else None
    return means


def write(arguments, version, results):
    if not arguments.json:
        return
    record = {"device": arguments.device, "threads": arguments.threads, "torch": version, "shapes": results}
    with open(arguments.json, "w") as file:
        json.dump({**record, "geomean": means_of(results)}, file, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("lists", nargs="*", help="files as in bench/attention")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    device, dtypes = arguments.device, DTYPES[arguments.device]
    lists = arguments.lists or [os.path.join(HERE, "attention", name) for name in LISTS[device]]
    theirs = TorchCuda() if device == "cuda" else Torch(arguments.threads)
    ours = serve_libamp(arguments.bench, device, arguments.threads)
    results = []
    print(f"{'B,H,KV,L,S,D,causal':26}" + "".join(f"  {'libamp ' + d:>12} {'PyTorch':>10} {'ratio':>6}" for d in dtypes))
    for shape in (shape for path in lists for shape in shapes_of(path)):
        row = {dtype: compare(ours, theirs, shape, dtype, arguments.seconds) for dtype in dtypes}
        results.append({"shape": shape, **row})
        print(f"{shape:26}" + "".join(cell(r) for r in row.values()), flush=True)
        write(arguments, theirs.torch.__version__, results)  # what there is, should the rest take too long
    print("geometric mean: " + ", ".join(f"{d} {mean:.2f}" for d, mean in means_of(results).items() if mean))


if __name__ == "__main__":
    main()

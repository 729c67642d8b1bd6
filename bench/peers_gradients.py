#!/usr/bin/env python3
"""Backwards of attention, norms and activations in libamp and in PyTorch, side by side in one run, on random data.

    python3 -m venv VENV && VENV/bin/pip install numpy torch
    VENV/bin/python bench/peers_gradients.py --bench build/release/bench/bench_gradients [--before OTHER] [--turns N] [WORD …]

One thread, its CPU time. All take turns, round after round; figures are medians, ratios those of PyTorch's time over ours within a
round. --before is a bench_gradients of another build, which takes its turn too. WORDs choose cases that contain one of them. 16-bit norms
have weights in f32, as autocast leaves them.
"""
import argparse
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

# What bench_gradients has: kind, dtype, four numbers, and whether it is causal or channels last.
SHAPES = [("attention", 8, 12, 128, 64, 0), ("attention", 32, 12, 64, 32, 0), ("attention", 1, 12, 1024, 64, 1),
          ("layer_norm", 4096, 768, 1, 1, 0), ("rms_norm", 4096, 768, 1, 1, 0),
          ("batch_norm", 8, 64, 112, 112, 0), ("batch_norm", 8, 64, 112, 112, 1),
          ("batch_norm", 8, 256, 56, 56, 0), ("batch_norm", 8, 256, 56, 56, 1),
          ("group_norm", 8, 256, 56, 56, 0), ("group_norm", 8, 256, 56, 56, 1),
          ("softmax", 12288, 128, 1, 1, 0), ("log_softmax", 128, 30522, 1, 1, 0), ("gelu", 1024, 3072, 1, 1, 0)]
CASES = [(kind, dtype, *numbers) for kind, *numbers in SHAPES for dtype in ("f32", "bf16")]
LEAST_SECONDS = 2e-2


def leaf(shape, dtype, last=False):
    x = (torch.rand(shape) - 0.5) * 4
    x = x.to(dtype)
    if last:
        x = x.to(memory_format=torch.channels_last)
    return x.detach().requires_grad_()


class Torch:
    def __init__(self):
        torch.set_num_threads(1)
        self.case = None

    def record(self, case):
        kind, dtype, a, b, c, d, flag = case
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
        if kind == "attention":
            self.leaves = [leaf((a, b, c, d), dtype) for _ in range(3)]
            return F.scaled_dot_product_attention(*self.leaves, is_causal=bool(flag))
        if kind in ("batch_norm", "group_norm"):
            self.leaves = [leaf((a, b, c, d), dtype, flag), leaf((b,), torch.float32), leaf((b,), torch.float32)]
            x, weight, bias = self.leaves
            if kind == "batch_norm":
                return F.batch_norm(x, None, None, weight, bias, training=True)
            return F.group_norm(x, 32, weight, bias)
        self.leaves = [leaf((a, b), dtype)]
        x = self.leaves[0]
        if kind in ("softmax", "log_softmax"):
            return getattr(F, kind)(x, -1)
        if kind == "gelu":
            return F.gelu(x)
        weight, bias = leaf((b,), torch.float32), leaf((b,), torch.float32)
        self.leaves += [weight, bias][:2 if kind == "layer_norm" else 1]
        return F.layer_norm(x, (b,), weight, bias) if kind == "layer_norm" else F.rms_norm(x, (b,), weight)

    def burst(self):
        start = time.thread_time()
        for _ in range(self.repeats):
            torch.autograd.grad(self.out, self.leaves, self.gradient, retain_graph=True)
        return (time.thread_time() - start) / self.repeats

    def seconds(self, case):
        if case != self.case:
            self.case, self.repeats = case, 1
            self.out = self.record(case)
            self.gradient = ((torch.rand(self.out.shape) - 0.5) * 4).to(self.out.dtype)
            if case[0].endswith("_norm") and case[-1]:
                self.gradient = self.gradient.to(memory_format=torch.channels_last)
            self.burst()
            while self.burst() * self.repeats < LEAST_SECONDS:
                self.repeats *= 2
        return self.burst()


class Bench:
    def __init__(self, path):
        self.process = subprocess.Popen([path, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, case):
        self.process.stdin.write(" ".join(str(x) for x in case) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--before")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    ours, peer = Bench(options.bench), Torch()
    sides = [ours, peer] + ([Bench(options.before)] if options.before else [])
    print("| backward of | | before | now | PyTorch | PyTorch / now |\n|---|---|---:|---:|---:|---:|")
    for case in CASES:
        name = " ".join(str(x) for x in case)
        if options.words and not any(word in name for word in options.words):
            continue
        rounds = [[side.seconds(case) for side in sides] for _ in range(options.turns)]
        now, torchs, *before = [statistics.median(times) * 1e3 for times in zip(*rounds)]
        ratio = statistics.median(r[1] / r[0] for r in rounds)
        kind, dtype, *numbers, flag = case
        shape = " × ".join(str(n) for n in numbers if n > 1)
        more = {"attention": ", causal"}.get(kind, ", channels last") if flag else ""
        print(f"| {kind}, {shape}{more} | {dtype} | {before[0] if before else 0:.2f} | {now:.2f} | {torchs:.2f} | {ratio:.2f} |",
              flush=True)


if __name__ == "__main__":
    main()

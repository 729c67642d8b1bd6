#!/usr/bin/env python3
"""Steps of training in libamp and in PyTorch, side by side: bench_training's networks, with random weights and data.

    python3 -m venv VENV && VENV/bin/pip install torch
    VENV/bin/python bench/peers_training.py --bench build/release/bench/bench_training [--only NAMES] [--threads N] [--clock cpu] [--json FILE]

A step is forward, backward, AdamW and zero_grad, in f32 and under autocast to bf16. PyTorch has its weights and images channels last
where it has convolutions, and AdamW as foreach or fused, whichever is faster for the network. Each line has a process on either side, so
that memory is each side's own: what the process held at most, beyond what it held with its libraries loaded and no network. The two
take turns, step by step; a ratio is the median of PyTorch's time over ours within a round. --clock cpu counts the processes' CPU time,
for machines that others use too, and needs --threads 1.
"""

import argparse
import json
import math
import statistics
import sys
import time

from peers_networks import make_resnet
from served import Served

NETWORKS = ("mlp", "resnet50", "bert", "minilm", "lstm", "layers")
OPTIMIZER_STEPS = 5


def resident(name):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(name))


def forget_most_resident():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


class Encoder:
    """Of BERT: the layers as PyTorch has them, recomputed one by one if asked."""

    def __init__(self, torch, layers, width, recompute=False):
        self.torch, self.recompute = torch, recompute
        layer = lambda: torch.nn.TransformerEncoderLayer(width, 12, 4 * width, dropout=0.0, activation="gelu", batch_first=True,
                                                         layer_norm_eps=1e-12)
        self.layers = torch.nn.ModuleList(layer() for _ in range(layers))

    def parameters(self):
        return self.layers.parameters()

    def __call__(self, x):
        from torch.utils.checkpoint import checkpoint

        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return x


def make(torch, name):
    """Network, input, target, loss."""
    nn, mse = torch.nn, torch.nn.functional.mse_loss
    rand = lambda *shape: torch.rand(*shape) * 2 - 1
    if name == "mlp":
        return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)), rand(256, 1024), rand(256, 1024), mse
    if name == "resnet50":
        last = torch.channels_last
        network = make_resnet(torch).to(memory_format=last)
        images = rand(8, 3, 224, 224).contiguous(memory_format=last)
        return network, images, torch.randint(1000, (8,)), nn.functional.cross_entropy
    if name == "lstm":
        network = nn.LSTM(512, 512, 2)
        return network, rand(64, 32, 512), rand(64, 32, 512), lambda y, target: mse(y[0], target)
    if name == "minilm":
        return Encoder(torch, 6, 384), rand(32, 64, 384), rand(32, 64, 384), mse
    return Encoder(torch, 12, 768, name == "layers"), rand(8, 128, 768), rand(8, 128, 768), mse


def torch_step(torch, parts, optimizer, precision):
    network, x, target, loss = parts
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        value = loss(network(x), target)
    value.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def least_step(optimizer, now):
    """Seconds; the first step, which makes its state, does not count."""
    times = []
    for _ in range(1 + OPTIMIZER_STEPS):
        start = now()
        optimizer.step()
        times.append(now() - start)
    return min(times[1:])


def fastest_adamw(make_optimizer, parts, now):
    """Which of its ways, by the least of their steps; all have the same gradients."""
    network, x, target, loss = parts
    loss(network(x), target).backward()
    times = {how: least_step(make_optimizer(how), now) for how in ("foreach", "fused")}
    for parameter in network.parameters():
        parameter.grad = None
    return min(times, key=times.get)


def serve(name, precision, threads, clock):
    """Answers as bench_training --serve does."""
    import torch

    torch.set_num_threads(threads)
    now = time.process_time if clock == "cpu" else time.perf_counter
    before = resident("VmRSS:")
    parts = make(torch, name)
    make_optimizer = lambda how: torch.optim.AdamW(parts[0].parameters(), lr=1e-5, **{how: True})
    best = fastest_adamw(make_optimizer, parts, now)
    optimizer = make_optimizer(best)
    forget_most_resident()
    print(best, torch.__version__, flush=True)
    for _ in sys.stdin:
        start = now()
        torch_step(torch, parts, optimizer, precision)
        print(now() - start, resident("VmHWM:") - before, flush=True)


def step(side):
    """Its seconds, and the bytes that the process held at most."""
    return tuple(float(x) for x in side.ask("step").split())


def compare(a, name, precision):
    common = ["--only", name, "--precision", precision, "--threads", str(a.threads), "--clock", a.clock, "--serve"]
    ours, theirs = Served(a.bench, *common), Served(sys.executable, __file__, "--bench", a.bench, *common)
    optimizer, version = theirs.line().split()
    for _ in range(2):  # what is kept
        step(ours), step(theirs)
    pairs, end = [], time.time() + a.seconds
    while len(pairs) < 5 or (time.time() < end and len(pairs) < 400):
        pairs.append((step(ours), step(theirs)))
    ours.close(), theirs.close()
    return {
        "network": name,
        "precision": precision,
        "ms": 1e3 * statistics.median(o[0] for o, _ in pairs),
        "torch_ms": 1e3 * statistics.median(t[0] for _, t in pairs),
        "ratio": statistics.median(t[0] / o[0] for o, t in pairs),
        "memory_mb": 1e-6 * pairs[-1][0][1],
        "torch_memory_mb": 1e-6 * pairs[-1][1][1],
        "torch_adamw": optimizer,
        "torch": version,
        "rounds": len(pairs),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--precision", default="bf16,f32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("cpu", "wall"), default="wall")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json")
    parser.add_argument("--serve", action="store_true", help="be PyTorch's side of one network")
    a = parser.parse_args()
    if a.clock == "cpu" and a.threads != 1:
        parser.error("--clock cpu counts one thread: it needs --threads 1")
    if a.serve:
        serve(a.only, a.precision, a.threads, a.clock)
        return
    rows = []
    for precision in a.precision.split(","):
        for name in a.only.split(","):
            rows.append(compare(a, name, precision))
            print("{network:9} {precision:5} {ms:10.2f} ms, PyTorch {torch_ms:10.2f} ms ({torch_adamw}), {ratio:.2f}×; {memory_mb:8.1f} MB, "
                  "PyTorch {torch_memory_mb:8.1f} MB".format(**rows[-1]), flush=True)
        ratios = [r["ratio"] for r in rows if r["precision"] == precision and r["network"] != "layers"]
        if ratios:
            print(f"{precision}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}× in geometric mean", flush=True)
        if a.json:
            with open(a.json, "w") as file:
                json.dump({"threads": a.threads, "clock": a.clock, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()

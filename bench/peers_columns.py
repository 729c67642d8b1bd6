#!/usr/bin/env python3
"""What bench_columns times, in libamp and in PyTorch, in turns: ns per element of the input.

    python3 -m venv VENV && VENV/bin/pip install torch
    VENV/bin/python bench/peers_columns.py --bench build/release/bench/bench_columns[,OTHER] [--turns N] [--rounds N] [--only TEXT]

OTHER is the same bench of another build. CPU time of one thread; a figure is the best turn's median. PyTorch is called in
inference mode.
"""
import argparse
import math
import statistics
import subprocess
import time

OPS = {"softmax": lambda torch, x, dim: torch.softmax(x, dim),
       "log_softmax": lambda torch, x, dim: torch.log_softmax(x, dim),
       "logsumexp": lambda torch, x, dim: torch.logsumexp(x, dim),
       "max_pool2d": lambda torch, x, window: torch.nn.functional.max_pool2d(x, window, 2, window // 3)}
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


def ours(bench, rounds, only):
    command = [bench, "--clock", "cpu", "--rounds", str(rounds), *(["--only", only] if only else [])]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name.strip(): float(ns) for name, ns in (line.rsplit(maxsplit=1) for line in lines)}


def call_of(torch, name):
    """The row "op [channels-last] dtype shape dim|window number", and how many elements it has."""
    *op, dtype, shape, _, number = name.split()
    extents = [int(e) for e in shape.split("x")]
    x = (torch.rand(extents) * 8 - 4).to(getattr(torch, DTYPES[dtype]))
    if "channels-last" in op:
        x = x.contiguous(memory_format=torch.channels_last)
    return lambda: OPS[op[0]](torch, x, int(number)), math.prod(extents)


def theirs(call, elements, rounds):
    call()
    times = []
    for _ in range(rounds):
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return 1e9 * statistics.median(times) / elements


def main():
    import torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only")
    a = parser.parse_args()
    torch.set_num_threads(1)
    benches = a.bench.split(",")
    best, calls = {}, {}
    with torch.inference_mode():
        for _ in range(a.turns):
            for which, bench in enumerate(benches):
                for name, ns in ours(bench, a.rounds, a.only).items():
                    row = best.setdefault(name, [math.inf] * (len(benches) + 1))
                    row[which] = min(row[which], ns)
            for name, row in best.items():
                if name not in calls:
                    calls[name] = call_of(torch, name)
                row[-1] = min(row[-1], theirs(*calls[name], a.rounds))
    for name, row in best.items():
        print(f"{name:52}" + "".join(f"{ns:9.3f}" for ns in row))


if __name__ == "__main__":
    main()

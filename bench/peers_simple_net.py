#!/usr/bin/env python3
"""The SimpleNet of PyTorch's documentation, one Conv2d(64, 128, 3, stride 2), beside PyTorch: eager, traced, frozen.

    peers_simple_net.py SIMPLE_NET [--batch N] [--size N] [--threads N] [--rounds N]

SIMPLE_NET is build/release/examples/simple_net. PyTorch's ways are those of its documentation: a region of autocast for each
call; torch.jit.trace inside a region; torch.jit.freeze of that. The two take turns, each in a process of its own, which runs
every way in turns; after each round the least CPU time of a pass so far is printed, in ms, as the wall clock of a busy machine
says little. Needs PyTorch in the Python that runs this.
"""
import argparse
import os
import pathlib
import subprocess
import sys

TORCH = """
import sys, time, warnings
import torch
warnings.filterwarnings("ignore")
batch, size, passes, threads = map(int, sys.argv[1:])
torch.set_num_threads(threads)

class SimpleNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 128, (3, 3), stride=(2, 2), padding=(1, 1), bias=False)
    def forward(self, x):
        return self.conv(x)

def region(bf16):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16, cache_enabled=False)

x, net, ways, least = torch.rand(batch, 64, size, size), SimpleNet().eval(), {}, {}
with torch.no_grad():
    for kind, bf16 in (("f32", False), ("bf16", True)):
        with region(bf16):
            traced = torch.jit.trace(net, x, check_trace=False)
            frozen = torch.jit.freeze(traced)
        ways.update({("eager", kind): net, ("traced", kind): traced, ("frozen", kind): frozen})
    for count in range(passes + 2):  # the profiling executor wants two
        for (way, kind), f in ways.items():
            start = time.process_time()
            if way == "eager":
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "bf16"):
                    f(x)
            else:
                f(x)
            spent = 1e3 * (time.process_time() - start)
            if count > 1:
                least[way, kind] = min(spent, least.get((way, kind), spent))
for (way, kind), spent in least.items():
    print(way, kind, spent)
"""
WAYS = ("eager", "traced", "frozen")


def run_amp(o, environment):
    command = [o.simple_net, str(o.batch), str(o.size), str(o.passes)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in WAYS]
    return {(r[0], kind): float(r[column]) for r in rows for column, kind in ((1, "f32"), (2, "bf16"))}, out.splitlines()[1]


def run_torch(o, environment):
    command = [sys.executable, "-c", TORCH, str(o.batch), str(o.size), str(o.passes), str(o.threads)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return {(way, kind): float(spent) for way, kind, spent in map(str.split, out.splitlines())}


def show(o, least, machine, rounds):
    threads = f"{o.threads} thread{'s' * (o.threads > 1)}"
    print(f"{o.batch} × 64 × {o.size} × {o.size}, {machine}, {threads}, ms of CPU time, least of {rounds * o.passes}")
    print(f"{'':<8}{'libamp f32':>14}{'PyTorch f32':>14}{'':>8}{'libamp bf16':>14}{'PyTorch bf16':>14}")
    for way in WAYS:
        row = f"{way:<8}"
        for kind in ("f32", "bf16"):
            a, b = least["libamp"][way, kind], least["PyTorch"][way, kind]
            row += f"{a:>14.1f}{b:>14.1f}{b / a:>7.2f}×"
        print(row, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simple_net", type=lambda p: str(pathlib.Path(p).resolve()))
    for name, default in (("batch", 64), ("size", 224), ("threads", 1), ("rounds", 3), ("passes", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    o = parser.parse_args()
    environment = dict(os.environ, OMP_NUM_THREADS=str(o.threads))
    least = {"libamp": {}, "PyTorch": {}}
    for round in range(o.rounds):
        ours, machine = run_amp(o, environment)
        for engine, times in (("libamp", ours), ("PyTorch", run_torch(o, environment))):
            for key, spent in times.items():
                least[engine][key] = min(spent, least[engine].get(key, spent))
        show(o, least, machine, round + 1)


if __name__ == "__main__":
    main()

"""What one eager call costs from Python: libamp's package, PyTorch where it is installed, and libamp from C.

    PYTHONPATH=build/release/python python3 bench/peers_python.py [--c build/release/bench/bench_dispatch]

CPU time of one thread; one-element operands for `add` and `mul`, [1, 64] and [64, 64] in f32 for `linear` in a region, random data.
The cases run in turn, round after round; medians over the rounds, in nanoseconds a call. "beyond C" is
what the op costs from Python less what it costs from C; C's figures are bench_dispatch's, by the same clock.
"""
import argparse
import json
import statistics
import subprocess
import time

import amp

ROUNDS, CALLS, WIDTH = 51, 2000, 64
# Here, and the case of bench_dispatch.
IN_C = {"add": "add", "mul": "mul", "linear_region": "linear_region"}


def repeat(call):
    """CPU nanoseconds a call, without those of the loop."""
    def clock(function):
        start = time.thread_time_ns()
        for _ in range(CALLS):
            function()
        return (time.thread_time_ns() - start) / CALLS
    return clock(call) - clock(int)


def our_cases():
    a, b, x, w = amp.randn(1), amp.randn(1), amp.randn(1, WIDTH), amp.randn(WIDTH, WIDTH).mark_parameter()
    return {"add": lambda: amp.add(a, b), "a + b": lambda: a + b, "mul": lambda: amp.mul(a, b), "a.mul(b)": lambda: a.mul(b),
            "a + 1.0": lambda: a + 1.0, "sum dim=0": lambda: amp.sum(a, dim=0), "linear_region": lambda: amp.linear(x, w)}


def torch_cases(torch):
    a, b, x = torch.randn(1), torch.randn(1), torch.randn(1, WIDTH)
    w = torch.randn(WIDTH, WIDTH).requires_grad_()  # autocast keeps casts of such only
    linear = torch.nn.functional.linear
    return {"add": lambda: torch.add(a, b), "a + b": lambda: a + b, "mul": lambda: torch.mul(a, b), "a.mul(b)": lambda: a.mul(b),
            "a + 1.0": lambda: a + 1.0, "sum dim=0": lambda: torch.sum(a, dim=0), "linear_region": lambda: linear(x, w)}


def measure(sides):
    """{(side, case): nanoseconds}. sides: {name: (cases, what opens a region)}."""
    found = {}
    for turn in range(-2, ROUNDS):
        for side, (cases, region) in sides.items():
            for name, call in cases.items():
                with region(name == "linear_region"):
                    taken = repeat(call)
                if turn >= 0:
                    found.setdefault((side, name), []).append(taken)
    return {key: statistics.median(values) for key, values in found.items()}


def from_c(program):
    """{case: nanoseconds} of bench_dispatch."""
    shown = subprocess.run([program, "--clock", "cpu", "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(shown)["nanoseconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--c", metavar="PROGRAM", help="bench_dispatch")
    arguments = parser.parse_args()
    amp.set_num_threads(1)
    sides = {"amp": (our_cases(), lambda on: amp.autocast("cpu", enabled=on))}
    try:
        import torch
    except ImportError:
        torch = None
    if torch:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        sides["torch"] = (torch_cases(torch), lambda on: torch.autocast("cpu", dtype=torch.bfloat16, enabled=on))
    found, c = measure(sides), from_c(arguments.c) if arguments.c else {}
    print(f"{'ns a call':16}{'Python':>10}{'C':>10}{'beyond C':>10}{'torch':>10}")
    for name in sides["amp"][0]:
        in_c, ours, theirs = c.get(IN_C.get(name)), found["amp", name], found.get(("torch", name))
        row = [ours, in_c, in_c and ours - in_c, theirs]
        print(f"{name:16}" + "".join(f"{'' if value is None else round(value):>10}" for value in row))


main()

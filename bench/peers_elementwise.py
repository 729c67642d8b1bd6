#!/usr/bin/env python3
"""Elementwise ops, reductions, scans, sorting and indexing in libamp and in PyTorch, in turns, on 1024 x 1024 elements.

    python3 -m venv VENV && VENV/bin/pip install torch
    VENV/bin/python bench/peers_elementwise.py --bench build/release/bench/bench_elementwise [--json FILE]

Both take turns in short bursts of calls, so that a drift of the machine hits both alike. A figure is the median over
all calls; with --least it is the tenth percentile, which says more on a busy machine.
"""

import argparse
import json
import statistics
import time

from served import Served

SIDE = 1024


def calls_of(torch):
    """What bench_elementwise.c's rows are in PyTorch, by name; t holds operands by letter."""
    f = torch.nn.functional
    return {
        "add": lambda t: t.a + t.b,
        "mul": lambda t: t.a * t.b,
        "div": lambda t: t.a / t.b,
        "maximum": lambda t: torch.maximum(t.a, t.b),
        "add number": lambda t: t.a + 0.5,
        "add row": lambda t: t.a + t.w,
        "gt": lambda t: t.a > t.b,
        "where": lambda t: torch.where(t.m, t.a, t.b),
        "clamp": lambda t: t.a.clamp(0.3, 0.5),
        "neg": lambda t: -t.a,
        "abs": lambda t: t.a.abs(),
        "relu": lambda t: t.a.relu(),
        "sqrt": lambda t: t.p.sqrt(),
        "rsqrt": lambda t: t.p.rsqrt(),
        "exp": lambda t: t.a.exp(),
        "log": lambda t: t.p.log(),
        "sin": lambda t: t.a.sin(),
        "cos": lambda t: t.a.cos(),
        "tanh": lambda t: t.a.tanh(),
        "sigmoid": lambda t: t.a.sigmoid(),
        "erf": lambda t: t.a.erf(),
        "gelu": lambda t: f.gelu(t.a),
        "silu": lambda t: f.silu(t.a),
        "softplus": lambda t: f.softplus(t.a),
        "leaky_relu": lambda t: f.leaky_relu(t.a),
        "hardswish": lambda t: f.hardswish(t.a),
        "pow 2": lambda t: t.a.pow(2),
        "pow": lambda t: t.p.pow(t.b),
        "floor": lambda t: t.a.floor(),
        "round": lambda t: t.a.round(),
        "addcmul": lambda t: torch.addcmul(t.a, t.b, t.c),
        "addcdiv": lambda t: torch.addcdiv(t.a, t.b, t.p),
        "lerp": lambda t: torch.lerp(t.a, t.b, t.p),
        "lerp number": lambda t: torch.lerp(t.a, t.b, 0.3),
        "masked_fill": lambda t: t.a.masked_fill(t.m, 0.3),
        "to bf16 or f32": lambda t: t.a.to(t.other),
        "softmax": lambda t: torch.softmax(t.a, 1),
        "log_softmax": lambda t: torch.log_softmax(t.a, 1),
        "layer_norm": lambda t: f.layer_norm(t.a, (SIDE,)),
        "rms_norm": lambda t: f.rms_norm(t.a, (SIDE,)),
        "sum": lambda t: t.a.sum(),
        "sum rows": lambda t: t.a.sum(1),
        "sum columns": lambda t: t.a.sum(0),
        "mean rows": lambda t: t.a.mean(1),
        "prod": lambda t: t.a.prod(),
        "max": lambda t: t.a.max(),
        "amax rows": lambda t: t.a.amax(1),
        "amax columns": lambda t: t.a.amax(0),
        "max with places": lambda t: t.a.max(1),
        "max of columns": lambda t: t.a.max(0),
        "argmax": lambda t: t.a.argmax(),
        "argmax rows": lambda t: t.a.argmax(1),
        "var": lambda t: t.a.var(),
        "var rows": lambda t: t.a.var(1),
        "var columns": lambda t: t.a.var(0),
        "logsumexp rows": lambda t: t.a.logsumexp(1),
        "norm": lambda t: t.a.norm(),
        "cumsum": lambda t: t.v.cumsum(0),
        "cumsum rows": lambda t: t.a.cumsum(1),
        "cumsum columns": lambda t: t.a.cumsum(0),
        "cumprod rows": lambda t: t.p.cumprod(1),
        "cummax rows": lambda t: t.a.cummax(1),
        "sort": lambda t: t.v.sort(),
        "sort rows": lambda t: t.a.sort(1),
        "topk": lambda t: t.v.topk(10),
        "topk rows": lambda t: t.a.topk(10),
        "searchsorted": lambda t: torch.searchsorted(t.s, t.a),
        "gather rows": lambda t: t.a.gather(1, t.i),
        "gather": lambda t: t.v.gather(0, t.x),
        "index_select rows": lambda t: t.a.index_select(0, t.j),
        "index_select columns": lambda t: t.a.index_select(1, t.j),
        "index_select": lambda t: t.v.index_select(0, t.x),
        "scatter_add rows": lambda t: t.a.scatter_add(1, t.i, t.b),
        "scatter_add": lambda t: t.v.scatter_add(0, t.x, t.v),
        "index_add": lambda t: t.a.index_add(0, t.j, t.b),
        "clone": lambda t: t.a.clone(),
        "transpose": lambda t: t.a.t().contiguous(),
        "flip": lambda t: t.a.flip(1),
        "roll": lambda t: t.a.roll(10, 1),
        "tril": lambda t: t.a.tril(),
        "cat": lambda t: torch.cat([t.a, t.b]),
    }


class Torch:
    def __init__(self):
        import torch

        self.torch, self.calls, self.operands = torch, calls_of(torch), {}
        torch.manual_seed(1)
        f32 = {letter: torch.randn(SIDE, SIDE) for letter in "abc"}
        f32["p"] = torch.rand(SIDE, SIDE) + 0.01
        f32["v"], f32["w"] = torch.randn(SIDE * SIDE), torch.randn(SIDE)
        f32["s"] = f32["w"].sort().values
        others = {"i": torch.randint(SIDE, (SIDE, SIDE)), "j": torch.randint(SIDE, (SIDE,)),
                  "x": torch.randint(SIDE * SIDE, (SIDE * SIDE,)), "m": f32["a"] > f32["b"]}
        for name, dtype, other in (("f32", torch.float32, torch.bfloat16), ("bf16", torch.bfloat16, torch.float32)):
            tensors = {letter: x.to(dtype) for letter, x in f32.items()}
            self.operands[name] = argparse.Namespace(**tensors, **others, other=other)

    def burst(self, name, precision, threads, calls):
        self.torch.set_num_threads(threads)
        operands, call, times = self.operands[precision], self.calls[name], []
        with self.torch.inference_mode():
            call(operands)
            for _ in range(calls):
                start = time.perf_counter_ns()
                call(operands)
                times.append(time.perf_counter_ns() - start)
        return times


class Libamp(Served):
    def __init__(self, program):
        super().__init__(program, "--serve")
        self.about = json.loads(self.line())

    def burst(self, name, precision, threads, calls):
        return json.loads(self.ask(precision, threads, calls, name))["ns"]

    def copy_rate(self, threads):
        """Bytes in a nanosecond."""
        return json.loads(self.ask("copy", threads))["bytes_per_ns"]


def measure(engines, name, precision, threads, options):
    """Nanoseconds of one call, by engine."""
    times = {engine: [] for engine in engines}
    calls = {}
    for engine, what in engines.items():
        pilot = statistics.median(what.burst(name, precision, threads, 3))
        calls[engine] = max(3, min(1000, int(1e9 * options.seconds / pilot)))
    for index in range(options.rounds):
        for engine in engines if index % 2 == 0 else reversed(engines):
            times[engine] += engines[engine].burst(name, precision, threads, calls[engine])
    ordered = {engine: sorted(values) for engine, values in times.items()}
    at = 10 if options.least else 2
    return {engine: values[len(values) // at] for engine, values in ordered.items()}


def print_row(result):
    ns, copy = result["ns"], result["copy_bytes_per_ns"]
    text = f"{result['name']:22}{result['threads']:3}"
    for precision in ("f32", "bf16"):
        rate = result["bytes"][precision] / ns[precision]["libamp"]
        text += f" {ns[precision]['libamp'] / 1e3:10.1f}{rate:8.1f}{100 * rate / copy:6.0f} %"
        if "torch" in ns[precision]:
            text += f"{ns[precision]['torch'] / 1e3:10.1f}{ns[precision]['torch'] / ns[precision]['libamp']:7.2f}x"
    print(text + f"{ns['bf16']['libamp'] / ns['f32']['libamp']:8.2f}", flush=True)


def print_markdown(report):
    """The tables of docs/benchmarks.md, one for each number of threads."""
    for threads in sorted({result["threads"] for result in report["results"]}):
        print(f"\nThreads: {threads}.\n\n| | f32 | share | PyTorch f32 | | bf16 | share | PyTorch bf16 | | bf16/f32 |")
        print("|---" * 10 + "|")
        for result in (r for r in report["results"] if r["threads"] == threads):
            ns, cells = result["ns"], [result["name"]]
            for precision, bold in (("f32", "**"), ("bf16", "")):
                ours, torch = ns[precision]["libamp"], ns[precision].get("torch")
                share = 100 * result["bytes"][precision] / ours / result["copy_bytes_per_ns"]
                cells += [f"{ours / 1e3:.3g}" if ours < 1e6 else f"{ours / 1e3:.0f}", f"{share:.0f} %"]
                cells += [f"{torch / 1e3:.0f}", f"{bold}{torch / ours:.2f}×{bold}"] if torch else ["", ""]
            print("| " + " | ".join(cells) + f" | {ns['bf16']['libamp'] / ns['f32']['libamp']:.2f} |")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/release/bench/bench_elementwise", help="libamp's worker")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=4, help="bursts of each engine for each row")
    parser.add_argument("--seconds", type=float, default=0.02, help="length of a burst")
    parser.add_argument("--filter", default="", help="only rows whose name holds this")
    parser.add_argument("--least", action="store_true", help="tenth percentiles instead of medians")
    parser.add_argument("--markdown", action="store_true", help="then print the tables of docs/benchmarks.md")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    return parser.parse_args()


def main():
    options = parse_arguments()
    libamp, torch = Libamp(options.bench), Torch()
    about = {key: value for key, value in libamp.about.items() if key != "rows"}
    about["torch"] = torch.torch.__version__
    print("; ".join(f"{key} {value}" for key, value in about.items()))
    print(f"{'':22}{'thr':>3}" + "".join(f" {p + ' us':>10}{'GB/s':>8}{'share':>8}{'torch us':>10}{'faster':>8}"
                                        for p in ("f32", "bf16")) + f"{'bf16/f32':>9}")
    report = {**about, "results": []}
    for threads in options.threads:
        copy = libamp.copy_rate(threads)
        for row in libamp.about["rows"]:
            if options.filter not in row["name"]:
                continue
            engines = {"libamp": libamp}
            if row["name"] in torch.calls:
                engines["torch"] = torch
            result = {"name": row["name"], "threads": threads, "copy_bytes_per_ns": copy,
                      "bytes": {p: row[p + "_bytes"] for p in ("f32", "bf16")},
                      "ns": {p: measure(engines, row["name"], p, threads, options) for p in ("f32", "bf16")}}
            report["results"].append(result)
            print_row(result)
    libamp.close()
    if options.markdown:
        print_markdown(report)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()

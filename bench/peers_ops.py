"""Every op beside PyTorch: `amp replay --time` against the same case called in eager PyTorch.

    python bench/peers_ops.py [--amp build/release/amp] [--threads N[,N…]] [--turns N] [--json | --docs FILE] FOLDER …

in an environment with torch. Folders: the recorded cases, and those that bench/large_cases.py writes. Each op's largest
f32 case of a folder, one thread unless told otherwise; PyTorch's time includes what its Python call costs, ours what
amp_call_op costs. Medians, of CPU time on one thread; with --turns both are timed again, and the best turn counts. A ratio above 1 says that libamp is slower. An op that PyTorch has under no name found here
is listed at the end. --docs writes docs/benchmarks_ops.md.
"""
import argparse
import functools
import json
import math
import os
import platform
import statistics
import struct
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F

ROUNDS, LEAST_SECONDS = 21, 1e-3
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
          "c64": torch.complex64, "c128": torch.complex128}
STORED = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
RENAMED = {"threshold": F.threshold, "index_put": torch.index_put, "rnn_tanh_cell": torch.rnn_tanh_cell,
           "contiguous": torch.Tensor.contiguous, "view": torch.Tensor.view, "expand": torch.Tensor.expand,
           "to": torch.Tensor.to, "fill": torch.fill, "new_full": torch.Tensor.new_full,
           "addmm_activation": torch._addmm_activation, "repeat": torch.Tensor.repeat,
           "grid_sampler_2d": torch.grid_sampler_2d, "grid_sampler_3d": torch.grid_sampler_3d,
           "native_multi_head_attention": torch._native_multi_head_attention, "lu_with_info": torch._lu_with_info,
           "einsum": lambda tensors, equation: torch.einsum(equation, tensors),
           "cross_entropy_loss": F.cross_entropy, "nll_loss2d": F.nll_loss,
           "multilabel_margin_loss_forward":
               lambda input, target: torch.ops.aten.multilabel_margin_loss_forward(input, target, 1),
           "rnn_layer": lambda **values: torch.lstm(*values.values()),
           # gone from PyTorch: what it says to call instead
           "eig": lambda input, eigenvectors: torch.view_as_real(torch.linalg.eigvals(input)),
           "symeig": lambda input, eigenvectors: torch.linalg.eigh(input, "U"),
           "lstsq": lambda input, A: torch.linalg.lstsq(A, input).solution, "matrix_rank": torch.linalg.matrix_rank}


class File:
    """NAME.json and NAME.safetensors."""

    def __init__(self, folder, name):
        self.cases = {case["name"]: case for case in json.loads((folder / f"{name}.json").read_text())}
        data = (folder / f"{name}.safetensors").read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        self.header, self.body = json.loads(data[8:8 + length]), data[8 + length:]

    def tensor(self, argument):
        entry = self.header[argument["tensor"]]
        begin, end = entry["data_offsets"]
        if begin == end:
            return torch.empty(argument["shape"], dtype=DTYPES[argument["dtype"]])
        t = torch.frombuffer(bytearray(self.body[begin:end]), dtype=STORED[entry["dtype"]]).reshape(entry["shape"])
        if argument["dtype"] in ("c64", "c128"):
            t = torch.view_as_complex(t)
        return t.to(DTYPES[argument["dtype"]])

    def value(self, argument):
        if isinstance(argument, list):
            return [self.value(a) for a in argument]
        if not isinstance(argument, dict):
            return argument
        if "tensor" in argument:
            return self.tensor(argument)
        if "float" in argument:
            return float(argument["float"])
        if "complex" in argument:
            return complex(*argument["complex"])
        if "dtype_value" in argument:
            return DTYPES[argument["dtype_value"]]
        return slice(*argument["slice"])


def candidates(op):
    """Functions of PyTorch that may be the op, most public first."""
    if op in RENAMED:
        yield RENAMED[op]
    for prefix, module in (("linalg_", torch.linalg), ("fft_", torch.fft), ("special_", torch.special)):
        if op.startswith(prefix) and hasattr(module, op[len(prefix):]):
            yield getattr(module, op[len(prefix):])
    for module in (F, torch, torch.Tensor, torch.special, torch.linalg):
        if hasattr(module, op):
            yield getattr(module, op)
    for name in (op, "_" + op):
        if hasattr(torch.ops.aten, name):
            yield getattr(torch.ops.aten, name)


def argument_forms(values):
    """Positions and keywords: what PyTorch names otherwise, or takes as a tensor where the case has a list of one."""
    yield (), values
    yield tuple(values.values()), {}
    tensors = [v for v in values.values() if isinstance(v, torch.Tensor)]
    yield tuple(tensors), {k: v for k, v in values.items() if not isinstance(v, torch.Tensor)}
    if len(values) == 1 and isinstance(*values.values(), list):
        yield tuple(*values.values()), {}
    if isinstance(values.get("hx"), list) and len(values["hx"]) == 1:
        yield tuple(v[0] if k == "hx" else v for k, v in values.items()), {}


def flat(result):
    """The tensors of a result, those in lists and tuples too."""
    if isinstance(result, (torch.Tensor, bool)):
        return [torch.as_tensor(result)]
    return [t for part in result for t in flat(part)] if isinstance(result, (list, tuple)) else []


def gives(result, outputs):
    """Whether the result has the dtypes and shapes that the case records."""
    recorded = [(DTYPES[o["dtype"]], list(o["shape"])) for o in outputs if isinstance(o, dict) and "dtype" in o]
    return [(t.dtype, list(t.shape)) for t in flat(result)][:len(recorded)] == recorded


def call_of(op, values, outputs=()):
    """A function without arguments that runs the op as it was recorded, or None. Without outputs, the first that runs."""
    for function in candidates(op):
        for positions, keywords in argument_forms(values):
            try:
                if gives(function(*positions, **keywords), outputs):
                    return functools.partial(function, *positions, **keywords)
            except Exception:  # another signature: the next one
                continue
    return None


def nanoseconds_of(call, threads):
    now = time.process_time if threads == 1 else time.perf_counter
    calls = 1
    while True:
        start = now()
        for _ in range(calls):
            call()
        if now() - start >= LEAST_SECONDS or calls >= 1 << 20:
            break
        calls *= 2
    rounds = []
    for _ in range(ROUNDS):
        start = now()
        for _ in range(calls):
            call()
        rounds.append((now() - start) / calls * 1e9)
    return statistics.median(rounds)


def time_ours(amp, folder, threads):
    """{op: (its largest case, nanoseconds)}"""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    run = subprocess.run([amp, "replay", "--time", "--json", str(folder)], env=environment, capture_output=True,
                         text=True)
    return {op["op"]: (op["timed_case"], op["nanoseconds"]) for op in json.loads(run.stdout)["ops"]
            if "nanoseconds" in op}


def time_theirs(folder, cases, threads):
    """{op: nanoseconds}, without the ops that PyTorch does not have."""
    files, times = {}, {}
    torch.set_num_threads(threads)
    for op, (case, _) in cases.items():
        name, case = case.split("/", 1)
        if name not in files:
            files[name] = File(folder, name)
        recorded = files[name].cases[case]
        values = {k: files[name].value(v) for k, v in recorded["inputs"].items()}
        if call := call_of(op, values, recorded["outputs"]):
            times[op] = nanoseconds_of(call, threads)
    return times


def compare(options, folder, threads):
    """Both in turns; of each op the least of the turns."""
    ours, theirs = {}, {}
    for _ in range(options.turns):
        cases = time_ours(options.amp, folder, threads)
        for op, (_, nanoseconds) in cases.items():
            ours[op] = min(ours.get(op, math.inf), nanoseconds)
        for op, nanoseconds in time_theirs(folder, cases, threads).items():
            theirs[op] = min(theirs.get(op, math.inf), nanoseconds)
    rows = [{"op": op, "case": cases[op][0], "libamp_ns": ours[op], "torch_ns": theirs[op],
             "ratio": ours[op] / theirs[op]} for op in theirs]
    rows.sort(key=lambda row: -row["ratio"])
    return {"folder": folder.name, "threads": threads, "ops": rows, "unknown": sorted(ours.keys() - theirs.keys()),
            "mean": math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))}


def above(result, ratio):
    return " ".join(f"{r['op']} ({r['ratio']:.2f})" for r in result["ops"] if r["ratio"] > ratio) or "none"


def print_table(result):
    line = "{:<32} {:>12} {:>12} {:>6}"
    print(line.format("op", "libamp, ns", "PyTorch, ns", "ratio"))
    for row in result["ops"]:
        print(line.format(row["op"], f"{row['libamp_ns']:.0f}", f"{row['torch_ns']:.0f}", f"{row['ratio']:.2f}"))
    print(f"\n{result['folder']}, {result['threads']} thread(s): {len(result['ops'])} ops, geometric mean {result['mean']:.2f}; above 2: {above(result, 2)}; "
          f"not found in PyTorch: {' '.join(result['unknown']) or 'none'}\n")


def aliases():
    """{op: the op that runs instead}, of src/policy/ops.def."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
    import gen_ops
    return {op.name: op.alias for op in gen_ops.read_def()[0] if op.alias and op.alias != op.name}


def write_page(options, results):
    """The summary, then every op, slowest first; the ratio on more threads beside that on the first number of them."""
    first = [r for r in results if r["threads"] == options.threads[0]]
    more = {(r["threads"], r["folder"], row["op"]): row["ratio"] for r in results for row in r["ops"]}
    others = options.threads[1:]
    with open(options.docs, "w") as page:
        def put(*lines):
            print(*lines, sep="\n", file=page)

        put("# Every op beside PyTorch", "",
            f"`bench/peers_ops.py --docs` wrote this page: {processor()}, PyTorch {torch.__version__}, f32, in {options.turns}",
            f"turns of {ROUNDS} rounds, the median of a turn's rounds and the best of the turns. Times of one thread are CPU time.",
            "A ratio is libamp's time over PyTorch's. `golden` holds PyTorch's own small samples, where the call counts; the others",
            "come from `bench/large_cases.py`: about 2^20 elements, 1,000 small matrices, one matrix of 256 × 256.", "",
            "| cases | threads | ops | geometric mean | slower than PyTorch | by more than 2 |", "|---|---:|---:|---:|---:|---|")
        for result in results:
            slower = sum(row["ratio"] > 1 for row in result["ops"])
            put(f"| {result['folder']} | {result['threads']} | {len(result['ops'])} | {result['mean']:.2f} | {slower} | "
                f"{above(result, 2)} |")
        put("", "Other names of ops, which share a row: " +
            ", ".join(f"`{op}` ({target})" for op, target in sorted(aliases().items())) + ".")
        if unknown := sorted({op for result in first for op in result["unknown"]}):
            put("", "Not compared, as PyTorch has no such call: " + ", ".join(unknown) + ".")
        for result in first:
            put("", f"## {result['folder']}", "",
                "| op | libamp, µs | PyTorch, µs | ratio |" + "".join(f" on {n} threads |" for n in others),
                "|---|---:|---:|---:|" + "---:|" * len(others))
            for row in result["ops"]:
                ours, theirs = row["libamp_ns"] / 1e3, row["torch_ns"] / 1e3
                ratios = [more.get((n, result["folder"], row["op"])) for n in others]
                put(f"| {row['op']} | {ours:.2f} | {theirs:.2f} | {row['ratio']:.2f} |" +
                    "".join(f" {ratio:.2f} |" if ratio else " |" for ratio in ratios))


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--amp", default="build/release/amp")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1], metavar="N[,N…]")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--docs", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with torch.inference_mode():
        results = [compare(options, folder, n) for n in options.threads for folder in options.folders]
    if options.json:
        print(json.dumps({"torch": torch.__version__, "folders": results}, indent=1))
    elif options.docs:
        write_page(options, results)
    else:
        for result in results:
            print_table(result)


if __name__ == "__main__":
    main()

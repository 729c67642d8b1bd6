"""Every op beside PyTorch: `amp replay --time` against the same case called in eager PyTorch.

    python bench/peers_ops.py [--amp build/release/amp] [--threads N] [--json | --docs FILE] FOLDER …

in an environment with torch. Folders: the recorded cases, and those that bench/large_cases.py writes. Each op's largest
f32 case of a folder, one thread unless told otherwise; PyTorch's time includes what its Python call costs, ours what
amp_call_op costs. Medians. A ratio above 1 says that libamp is slower. An op that PyTorch has under no name found here
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
           "native_multi_head_attention": torch._native_multi_head_attention}


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
    if hasattr(torch.ops.aten, op):
        yield getattr(torch.ops.aten, op)


def argument_forms(values):
    """Positions and keywords: what PyTorch names otherwise, or takes as a tensor where the case has a list of one."""
    yield (), values
    yield tuple(values.values()), {}
    tensors = [v for v in values.values() if isinstance(v, torch.Tensor)]
    yield tuple(tensors), {k: v for k, v in values.items() if not isinstance(v, torch.Tensor)}
    if isinstance(values.get("hx"), list) and len(values["hx"]) == 1:
        yield tuple(v[0] if k == "hx" else v for k, v in values.items()), {}


def flat(result):
    """The tensors of a result, those in lists and tuples too."""
    if isinstance(result, torch.Tensor):
        return [result]
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


def nanoseconds_of(call):
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        if time.perf_counter() - start >= LEAST_SECONDS or calls >= 1 << 20:
            break
        calls *= 2
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - start) / calls * 1e9)
    return statistics.median(rounds)


def time_ours(amp, folder, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    run = subprocess.run([amp, "replay", "--time", "--json", str(folder)], env=environment, capture_output=True,
                         text=True)
    return [op for op in json.loads(run.stdout)["ops"] if "nanoseconds" in op]


def compare(options, folder):
    files, rows, unknown = {}, [], []
    for op in time_ours(options.amp, folder, options.threads):
        name, case = op["timed_case"].split("/", 1)
        file = files.setdefault(name, None) or File(folder, name)
        files[name] = file
        recorded = file.cases[case]
        call = call_of(op["op"], {k: file.value(v) for k, v in recorded["inputs"].items()}, recorded["outputs"])
        if call is None:
            unknown.append(op["op"])
            continue
        theirs = nanoseconds_of(call)
        rows.append({"op": op["op"], "case": op["timed_case"], "libamp_ns": op["nanoseconds"], "torch_ns": theirs,
                     "ratio": op["nanoseconds"] / theirs})
    rows.sort(key=lambda row: -row["ratio"])
    return {"folder": folder.name, "ops": rows, "unknown": unknown,
            "mean": math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))}


def above(result, ratio):
    return " ".join(f"{r['op']} ({r['ratio']:.2f})" for r in result["ops"] if r["ratio"] > ratio) or "none"


def print_table(result):
    line = "{:<32} {:>12} {:>12} {:>6}"
    print(line.format("op", "libamp, ns", "PyTorch, ns", "ratio"))
    for row in result["ops"]:
        print(line.format(row["op"], f"{row['libamp_ns']:.0f}", f"{row['torch_ns']:.0f}", f"{row['ratio']:.2f}"))
    print(f"\n{len(result['ops'])} ops, geometric mean {result['mean']:.2f}; above 2: {above(result, 2)}; "
          f"not found in PyTorch: {' '.join(result['unknown']) or 'none'}\n")


def write_page(options, results):
    """The summary, then every op, slowest first."""
    with open(options.docs, "w") as page:
        def put(*lines):
            print(*lines, sep="\n", file=page)

        threads = f"{options.threads} thread{'s' if options.threads > 1 else ''}"
        put("# Every op beside PyTorch", "",
            f"`bench/peers_ops.py --docs` wrote this page: {processor()}, {threads},",
            f"PyTorch {torch.__version__}, f32, medians of {ROUNDS} rounds. A ratio is libamp's time over PyTorch's.",
            "`golden` holds PyTorch's own small samples, where the call counts; the others come from",
            "`bench/large_cases.py`: about 2^20 elements, 1,000 small matrices, one matrix of 256 × 256.", "",
            "| cases | ops | geometric mean | slower than PyTorch | by more than 2 |", "|---|---:|---:|---:|---|")
        for result in results:
            slower = sum(row["ratio"] > 1 for row in result["ops"])
            put(f"| {result['folder']} | {len(result['ops'])} | {result['mean']:.2f} | {slower} | {above(result, 2)} |")
        for result in results:
            put("", f"## {result['folder']}", "", "| op | libamp, µs | PyTorch, µs | ratio |", "|---|---:|---:|---:|")
            for row in result["ops"]:
                ours, theirs = row["libamp_ns"] / 1e3, row["torch_ns"] / 1e3
                put(f"| {row['op']} | {ours:.2f} | {theirs:.2f} | {row['ratio']:.2f} |")


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--amp", default="build/release/amp")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--docs", metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    with torch.inference_mode():
        results = [compare(options, folder) for folder in options.folders]
    if options.json:
        print(json.dumps({"torch": torch.__version__, "threads": options.threads, "folders": results}, indent=1))
    elif options.docs:
        write_page(options, results)
    else:
        for result in results:
            print_table(result)


if __name__ == "__main__":
    main()

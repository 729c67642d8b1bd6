#!/usr/bin/env python3
"""The dtypes of results beside PyTorch's: every op that both have, mixes of dtypes, 0-dim and not, in a region and out.

    tests/compare_dtypes.py AMP [LIST] [--all]

AMP is the amp tool. The calls are small cases of tests/golden, and those that tools/probe_ops.py writes where an op has
none, with their floating tensors in other dtypes: all in one, one of them in another, one of them 0-dim. PyTorch runs
each; what it gave is written as a recording, and `amp replay` compares. LIST has the known differences, a glob of calls
(op/form/dtypes/region) and the reason a line: one that is not on it is an error, and so is a line of it that matches
none. --all shows the known ones too, and what only one of the two runs. Skips without PyTorch 2.13.
"""
import collections
import fnmatch
import itertools
import json
import math
import re
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = "2.13."

try:
    import torch
except ImportError:
    print("skipped: no PyTorch to compare with")
    sys.exit(77)
if not torch.__version__.startswith(VERSION):
    print(f"skipped: PyTorch {torch.__version__}, where the differences are known for {VERSION}x")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]
import peers_ops  # noqa: E402
import probe_ops  # noqa: E402

DTYPES = peers_ops.DTYPES
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MOST = ("f32", "bf16", "i64")                            # of all tensors but one
ONE = ("f32", "bf16", "f16", "f64", "i64", "bool", "c64")  # of that one
REGIONS = (None, "bf16")
GONE = {"eig", "lstsq", "matrix_rank", "symeig"}         # from PyTorch
# What no small case holds: a shape is a tensor, as in probe_ops.WRITTEN.
WRITTEN = [
    ("interpolate", {"input": (1, 2, 3, 4, 5), "size": [2, 2, 2], "mode": "area"}),
    ("local_response_norm", {"input": (2, 3, 4, 5), "size": 2}),
    ("max_pool3d", {"input": (1, 2, 4, 4, 4), "kernel_size": [2, 2, 2], "return_indices": True}),
    ("einsum", {"equation": "ij,jk,kl->il", "tensors": [(2, 3), (3, 4), (4, 2)]}),
    ("einsum", {"equation": "ii,ij->j", "tensors": [(3, 3), (3, 4)]}),
    ("tensordot", {"a": (2, 3), "b": (2, 3), "dims": 2}),
    ("tensordot", {"a": (3,), "b": (4,), "dims": 0}),
    ("linalg_multi_dot", {"tensors": [(3,), (3, 4), (4,)]}),
    ("lstm_cell", {"input": (4,), "hx": [(3,), (3,)], "w_ih": (12, 4), "w_hh": (12, 3)}),
    ("gru_cell", {"input": (4,), "hx": [(3,)], "w_ih": (9, 4), "w_hh": (9, 3)}),
]


# ---- calls ---------------------------------------------------------------------------------------------------------

def base_cases():
    """(op, arguments with f32 tensors) of a few small calls of each op."""
    chosen, _, recorded = probe_ops.choose()
    chosen += [(case, tensors) for case, tensors in probe_ops.written_cases() if case["op"] not in recorded]
    for case, tensors in chosen:
        if case["op"] not in GONE:
            yield case["op"], {name: value_of(value, tensors) for name, value in case["inputs"].items()}
    for op, given in WRITTEN:
        tensors = {}
        yield op, {name: value_of(probe_ops.written(value, tensors), tensors) for name, value in given.items()}


def value_of(value, tensors):
    if isinstance(value, list):
        return [value_of(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        dtype, data = DTYPES[value["dtype"]], tensors[value["tensor"]][1]
        if not data:  # without elements an op may not look at its dtypes
            shape = [extent or 2 for extent in value["shape"]]
            return (torch.arange(math.prod(shape)) * 0.618 % 1 + 0.05).to(dtype).reshape(shape)
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(value["shape"])
    if "float" in value:
        return float(value["float"])
    return complex(*value["complex"]) if "complex" in value else DTYPES[value["dtype_value"]]


def is_varied(value):
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def varied(value):
    """The f32 tensors of a value, in order."""
    if isinstance(value, dict):
        return [t for v in value.values() for t in varied(v)]
    if isinstance(value, list):
        return [t for v in value for t in varied(v)]
    return [value] if is_varied(value) else []


def mixes(count):
    """Lists of (dtype, 0-dim or not) for so many tensors."""
    for dtype in DTYPES:
        yield [(dtype, False)] * count
    for place, most, one, flat in itertools.product(range(count), MOST, ONE, (False, True)):
        if flat or (count > 1 and one != most):
            yield [(most, False)] * place + [(one, flat)] + [(most, False)] * (count - place - 1)


def converted(t, dtype, flat):
    """Integers that are not zero, for some ops divide."""
    t = t.reshape(-1)[:1].reshape(()) if flat else t
    if dtype in probe_ops.INTEGERS:
        t = torch.nan_to_num(t.clamp(-25, 25) * 4).round()
        t = torch.where(t == 0, 1, t)
        t = t.abs() if dtype == "u8" else t > 0 if dtype == "bool" else t
    return t.to(DTYPES[dtype], copy=True)


def replaced(value, tensors):
    """The value with new tensors for its f32 ones, taken from an iterator; all memory its own."""
    if isinstance(value, dict):
        return {name: replaced(v, tensors) for name, v in value.items()}
    if isinstance(value, list):
        return [replaced(v, tensors) for v in value]
    if is_varied(value):
        return next(tensors)
    return value.clone() if isinstance(value, torch.Tensor) else value


# ---- PyTorch -------------------------------------------------------------------------------------------------------

def function_of(op, values):
    """A function of such arguments that runs the op in PyTorch, or None."""
    for function in peers_ops.candidates(op):
        copies = replaced(values, iter(varied(values)))
        for number, (positions, keywords) in enumerate(peers_ops.argument_forms(copies)):
            try:
                function(*positions, **keywords)
            except Exception:  # another signature: the next one
                continue
            return lambda v, f=function, n=number: call_form(f, v, n)
    return None


def call_form(function, values, number):
    positions, keywords = list(peers_ops.argument_forms(values))[number]
    return function(*positions, **keywords)


def torch_outputs(call, values, region):
    """The results as a recording has them; None for an error."""
    try:
        with torch.autocast("cpu", dtype=DTYPES[region or "bf16"], enabled=region is not None):
            results = peers_ops.flat(call(values))
    except Exception:
        return None
    if any(t.dtype not in NAMES for t in results):
        return None
    return [{"dtype": NAMES[t.dtype], "shape": list(t.shape), "compare": "dtype_and_shape"} for t in results]


# ---- a recording ---------------------------------------------------------------------------------------------------

class Recording:
    """Cases, and their tensors once each."""

    def __init__(self):
        self.cases, self.header, self.blocks, self.end = [], {}, [], 0

    def tensor(self, t):
        stored = torch.view_as_real(t) if t.is_complex() else t
        data = bytes(stored.contiguous().reshape(-1).view(torch.uint8).tolist())
        entry = (NAMES[stored.dtype].upper(), tuple(stored.shape), data)
        key = self.header.get(entry)
        if key is None:
            key = self.header[entry] = (str(len(self.header)), self.end)
            self.blocks.append(data)
            self.end += len(data)
        return {"tensor": key[0], "dtype": NAMES[t.dtype], "shape": list(t.shape)}

    def argument(self, value):
        if isinstance(value, list):
            return [self.argument(v) for v in value]
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, float) and value - value != 0:
            return {"float": str(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        return {"dtype_value": NAMES[value]} if isinstance(value, torch.dtype) else value

    def add(self, name, op, values, region, outputs):
        self.cases.append({"name": name, "op": op, "outputs": outputs or [],
                           "autocast": region and {"device": "cpu", "dtype": region},
                           "inputs": {arg: self.argument(value) for arg, value in values.items()}})

    def write(self, folder):
        header = {key: {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + len(data)]}
                  for (dtype, shape, data), (key, begin) in self.header.items()}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (folder / "torch.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(self.blocks))
        (folder / "torch.json").write_text(json.dumps(self.cases), "utf-8")


def record():
    """The recording, what PyTorch gave to each call (None: an error), and the ops that it does not have."""
    recording, given, unknown, forms = Recording(), {}, set(), collections.Counter()
    for op, values in base_cases():
        call = function_of(op, values)
        if not call:
            unknown.add(op)
            continue
        tensors, number = varied(values), forms[op]
        forms[op] += 1
        for mix in mixes(len(tensors)):
            word = ",".join(dtype + ("()" if flat else "") for dtype, flat in mix)
            made = [converted(t, *kind) for t, kind in zip(tensors, mix)]
            for region in REGIONS:
                name = f"{op}/{number}/{word}/{region or 'none'}"
                if name in given:
                    continue
                given[name] = torch_outputs(call, replaced(values, (t.clone() for t in made)), region)
                recording.add(name, op, replaced(values, iter(made)), region, given[name])
    return recording, given, unknown - set(forms)


# ---- comparison ----------------------------------------------------------------------------------------------------

def problems_of(amp, recording):
    """{name: what amp replay says of the call} where it does not give what PyTorch gave."""
    with tempfile.TemporaryDirectory() as folder:
        recording.write(Path(folder))
        done = subprocess.run([amp, "replay", "--json", folder], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"compare_dtypes: amp replay ended with {done.returncode}")
    report = json.loads(done.stdout)
    if report["malformed"] or report["missing"]:
        sys.exit(f"compare_dtypes: {report['malformed']} calls are malformed, {report['missing']} not implemented: "
                 f"{report['missing_ops']}")
    return {failure["case"]: failure["problem"] for failure in report["failures"]}


def verdicts(given, problems):
    """{verdict: {name: what differs}}"""
    found = collections.defaultdict(dict)
    for name, outputs in given.items():
        problem = problems.get(name, "")
        kinds = re.match(r"output \d+: expected (\w+) .*, got (\w+) ", problem)
        ran = not problem or kinds or problem.endswith("was changed by the call") or problem.startswith("expected ")
        if outputs is None:
            found["only libamp runs" if ran else "neither runs"][name] = problem
        elif not ran:
            found["only PyTorch runs"][name] = problem
        elif kinds and kinds[1] == kinds[2]:
            found["other shapes"][name] = problem
        elif kinds:
            found["other dtypes"][name] = f"{kinds[1]} there, {kinds[2]} here"
        else:
            found["same dtypes"][name] = ""
    return found


def read_list(path):
    """{glob: reason}"""
    lines = Path(path).read_text("utf-8").splitlines() if path else []
    rows = [line.partition("#") for line in lines if line.partition("#")[0].strip()]
    return {glob.strip(): reason.strip() for glob, _, reason in rows}


def main():
    arguments = [word for word in sys.argv[1:] if word != "--all"]
    if not 1 <= len(arguments) <= 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known = read_list(arguments[1] if len(arguments) > 1 else None)
    recording, given, unknown = record()
    found = verdicts(given, problems_of(arguments[0], recording))
    differing = {**found["other dtypes"], **found["other shapes"]}
    matches = {glob: fnmatch.filter(differing, glob) for glob in known}
    listed = {name for names in matches.values() for name in names}
    for verdict in ("only PyTorch runs", "only libamp runs") if "--all" in sys.argv else ():
        for name, what in found[verdict].items():
            print(f"{verdict}: {name} {what}")
    for name, what in differing.items():
        if name not in listed or "--all" in sys.argv:
            print(f"{name}: {what}")
    unused = [glob for glob, names in matches.items() if not names]
    for glob in unused:
        print(f"{arguments[1]}: '{glob}' matches no difference: strike it off")
    print(f"{len(given)} calls of {len({name.split('/')[0] for name in given})} ops; PyTorch has no "
          f"{', '.join(sorted(unknown)) or 'other'}")
    for verdict, names in sorted(found.items()):
        print(f"{len(names):7} {verdict}")
    print(f"{len(differing) - len(listed)} differences that are not known")
    return 1 if len(differing) > len(listed) or unused else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Finds out in which dtypes each op runs on the CPU, and by which kernels, by running the recorded cases of tests/golden, and a
few calls that are written here.

    tools/probe_ops.py AMP            write src/policy/op_dtypes.txt (committed; tools/gen_ops.py puts it into docs)
    tools/probe_ops.py AMP --check    exit 1 and name the ops whose dtypes are not the written ones

Either way it is an error if an op did not run in a dtype that it has a recorded case of, or in none.

AMP is the amp tool. The floating inputs of a few small cases of each op are converted to one dtype after the other; what
amp replay then runs without an error counts. Values are not compared here. Kernels are those of this machine, so --check
does not look at them. Standard library only.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden"
OUT = ROOT / "src/policy/op_dtypes.txt"
HEAD = "# Written by tools/probe_ops.py: op, the dtypes of its floating arguments that the CPU runs, kernels without their ISA.\n"

INTEGERS = {"i64": "q", "i32": "i", "i16": "h", "i8": "b", "u8": "B", "bool": "?"}
FLOATS = {"f32": "f", "f64": "d", "f16": "e", "bf16": None}
COMPLEX = {"c64": "f", "c128": "d"}
DTYPES = ["f32", "f64", "bf16", "f16", *INTEGERS, *COMPLEX]
NAMES = {"f32": "F32", "f64": "F64", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16", "i8": "I8",
         "u8": "U8", "bool": "BOOL", "c64": "F32", "c128": "F64"}
CASES, ELEMENTS = 6, 4096  # of one op: how many, and how large; yet one of each form, and one of each op


# ---- reading -------------------------------------------------------------------------------------------------------

def load(path):
    """Cases of a file, and its tensors as (shape, bytes)."""
    raw = path.with_suffix(".safetensors").read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    tensors = {key: (t["shape"], raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
               for key, t in json.loads(raw[8:8 + size]).items() if key != "__metadata__"}
    return json.loads(path.read_text("utf-8")), tensors


def tensors_of(value):
    if isinstance(value, list):
        return [t for v in value for t in tensors_of(v)]
    return [value] if isinstance(value, dict) and "tensor" in value else []


def elements(tensor):
    n = 1
    for extent in tensor["shape"]:
        n *= extent
    return n


def dtypes_of(case):
    return {t["dtype"] for t in tensors_of(list(case["inputs"].values()))}


def form_of(case):
    """What tells the forms of an op apart: its arguments, how many dimensions tensors have, and words such as a mode."""
    return tuple(sorted((arg, value if isinstance(value, str) else str([len(t["shape"]) for t in tensors_of(value)]))
                        for arg, value in case["inputs"].items() if value is not None))


def few(options):
    """The first of each form, then as many others as there is room for; large ones, or empty, only where there is
    nothing else."""
    small = [o for o in options if o[2] <= ELEMENTS] or options[:1]
    forms = {}
    for option in small:
        forms.setdefault(form_of(option[3]), option)
    firsts = list(forms.values())
    others = [o for o in small if o[1] == small[0][1] and not any(o is f for f in firsts)]
    return firsts + others[:max(0, CASES - len(firsts))]


# Calls of what has no recorded case, in f32; a tuple is the shape of a tensor, with a dtype at its end where that is another.
UPSAMPLED = {"nearest": (1, 2, 3), "nearest_exact": (1, 2, 3), "linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,)}
WRITTEN = {
    **{f"upsample_{mode}{d}d": {"input": (1, 2, 3, 4, 5)[:d + 2], "output_size": [3, 2, 7][:d],
                                **({} if mode.startswith("nearest") else {"align_corners": False})}
       for mode, dims in UPSAMPLED.items() for d in dims},
    **{f"upsample_{mode}2d_aa": {"input": (1, 2, 3, 4), "output_size": [3, 2], "align_corners": False}
       for mode in ("bilinear", "bicubic")},
    "acosh": {"input": (2, 3)},
    "adaptive_max_pool1d": {"input": (1, 2, 5), "output_size": 3, "return_indices": True},
    "alpha_dropout": {"input": (2, 3)},
    "aminmax": {"input": (2, 3)},
    "angle": {"input": (2, 3)},
    "asinh": {"input": (2, 3)},
    "atanh": {"input": (2, 3)},
    "batch_norm_pointwise": {"input": (1, 2, 4, 5), "running_mean": (2,), "running_var": (2,), "attr": "relu"},
    "bernoulli": {"input": (2, 3), "p": 0.5},
    "bitwise_and": {"input": (2, 3), "other": (2, 3)},
    "bitwise_left_shift": {"input": (2, 3), "other": (2, 3)},
    "bitwise_not": {"input": (2, 3)},
    "bitwise_or": {"input": (2, 3), "other": (2, 3)},
    "bitwise_right_shift": {"input": (2, 3), "other": (2, 3)},
    "bitwise_xor": {"input": (2, 3), "other": (2, 3)},
    "channel_shuffle": {"input": (1, 2, 2, 3), "groups": 2},
    "contiguous": {"input": (2, 3)},
    "convolution_pointwise": {"input": (1, 2, 4, 5), "weight": (3, 2, 2, 2), "bias": (3,), "attr": "none"},
    "convolution_transpose_pointwise": {"input": (1, 2, 4, 5), "weight": (2, 3, 2, 2), "bias": (3,), "attr": "none"},
    "copy": {"input": (2, 3), "src": (2, 3)},
    "copysign": {"input": (2, 3), "other": (2, 3)},
    "corrcoef": {"input": (2, 3)},
    "cov": {"input": (2, 3)},
    "cross_entropy_loss": {"input": (2, 3), "target": (2, "i64")},
    "cummin": {"input": (2, 3), "dim": 1},
    "det": {"input": (3, 3)},
    "detach": {"input": (2, 3)},
    "diagonal_backward": {"grad_output": (2,), "input_sizes": [2, 3], "offset": 0, "dim1": 0, "dim2": 1},
    "dropout_backward": {"grad_output": (2, 3), "p": 0.5, "seed": 7, "offset": 3},
    "diag": {"input": (2, 3)},
    "diag_embed": {"input": (2, 3)},
    "diff": {"input": (2, 3)},
    "digamma": {"input": (2, 3)},
    "dropout": {"input": (2, 3)},
    "eig": {"input": (3, 3)},
    "embedding_dense_backward": {"grad_output": (2, 3), "indices": (2, "i64"), "num_weights": 4, "padding_idx": -1,
                                 "scale_grad_by_freq": False},
    "elu_backward": {"grad_output": (2, 3), "input": (2, 3), "alpha": 1.0, "scale": 1.0, "input_scale": 1.0},
    "empty_like": {"input": (2, 3)},
    "equal": {"input": (2, 3), "other": (2, 3)},
    "erfc": {"input": (2, 3)},
    "exp2": {"input": (2, 3)},
    "feature_dropout": {"input": (2, 3)},
    "fft_fftshift": {"input": (2, 3)},
    "fft_hfft2": {"input": (3, 3)},
    "fft_hfftn": {"input": (3, 3)},
    "fft_ifftshift": {"input": (2, 3)},
    "fft_ihfft2": {"input": (3, 3)},
    "fft_ihfftn": {"input": (3, 3)},
    "float_power": {"input": (2, 3), "exponent": (2, 3)},
    "fmax": {"input": (2, 3), "other": (2, 3)},
    "fmin": {"input": (2, 3), "other": (2, 3)},
    "foreach_clip": {"grads": [(2, 3)], "factor": 0.5, "limit": 0.25},
    "foreach_non_finite_check_and_unscale": {"grads": [(2, 3)], "found_inf": (1,), "inv_scale": (1,)},
    "foreach_norm": {"grads": [(2, 3)], "ord": 2.0},
    "gaussian_nll_loss": {"input": (2, 3), "target": (2, 3), "var": (2, 3)},
    "gelu_backward": {"grad_output": (2, 3), "input": (2, 3)},
    "grid_sampler": {"input": (1, 2, 4, 5), "grid": (1, 3, 2, 2), "interpolation_mode": 0, "padding_mode": 0,
                     "align_corners": False},
    "hardshrink": {"input": (2, 3)},
    "hardsigmoid_backward": {"grad_output": (2, 3), "input": (2, 3)},
    "hardswish_backward": {"grad_output": (2, 3), "input": (2, 3)},
    "hardtanh_backward": {"grad_output": (2, 3), "input": (2, 3), "min_val": -1.0, "max_val": 1.0},
    "hypot": {"input": (2, 3), "other": (2, 3)},
    "imag": {"input": (2, 3)},
    "index": {"input": (2, 3), "indices": [(4, "i64"), (4, "i64")]},
    "index_fill": {"input": (2, 3), "dim": 1, "index": (2, "i64"), "value": 2},
    "index_reduce": {"input": (2, 3), "dim": 1, "index": (2, "i64"), "source": (2, 2), "reduce": "prod"},
    "isneginf": {"input": (2, 3)},
    "isposinf": {"input": (2, 3)},
    "kron": {"input": (2, 3), "other": (2, 3)},
    "kthvalue": {"input": (2, 3), "k": 2},
    "ldexp": {"input": (2, 3), "other": (2, 3)},
    "leaky_relu_backward": {"grad_output": (2, 3), "input": (2, 3), "negative_slope": 0.01},
    "lgamma": {"input": (2, 3)},
    "linalg_det": {"A": (3, 3)},
    "linalg_lu": {"A": (3, 3)},
    "linalg_lu_factor": {"A": (3, 3)},
    "linalg_lu_solve": {"LU": (1, 1), "pivots": (1, "i32"), "B": (1, 3)},
    "linalg_matrix_exp": {"input": (3, 3)},
    "linalg_matrix_power": {"input": (3, 3), "n": 3},
    "linalg_norm": {"input": (2, 3)},
    "linalg_pinv": {"input": (2, 3)},
    "linalg_slogdet": {"A": (3, 3)},
    "linalg_solve_triangular": {"input": (3, 3), "B": (3, 2), "upper": True},
    "linalg_vander": {"x": (3,)},
    "linear_pointwise": {"input": (2, 3), "weight": (4, 3), "bias": (4,), "attr": "none"},
    "log_sigmoid_backward": {"grad_output": (2, 3), "input": (2, 3)},
    "log_softmax_backward": {"grad_output": (2, 3), "output": (2, 3), "dim": 1},
    "logaddexp2": {"input": (2, 3), "other": (2, 3)},
    "logcumsumexp": {"input": (2, 3), "dim": 1},
    "logdet": {"input": (3, 3)},
    "logit": {"input": (2, 3)},
    "lstsq": {"input": (4, 2), "A": (4, 3)},
    "lu_with_info": {"input": (3, 3)},
    "masked_scatter": {"input": (2, 3), "mask": (2, 3, "bool"), "source": (4,)},
    "masked_select": {"input": (2, 3), "mask": (2, 3, "bool")},
    "matrix_exp": {"input": (3, 3)},
    "matrix_power": {"input": (3, 3), "n": 3},
    "matrix_rank": {"input": (3, 3)},
    "max_unpool1d": {"input": (1, 2, 3), "indices": (1, 2, 3, "i64"), "kernel_size": 2},
    "median": {"input": (2, 3)},
    "mish_backward": {"grad_output": (2, 3), "input": (2, 3)},
    "movedim": {"input": (2, 3), "source": [0], "destination": [1]},
    "msort": {"input": (2, 3)},
    "multilabel_margin_loss_forward": {"input": (2, 3), "target": (2, 3, "i64")},
    "multilabel_soft_margin_loss": {"input": (2, 3), "target": (2, 3)},
    "multinomial": {"input": (2, 3), "num_samples": 2},
    "nanmean": {"input": (2, 3)},
    "nanmedian": {"input": (2, 3)},
    "nansum": {"input": (2, 3)},
    "nll_loss2d": {"input": (1, 2, 2, 3), "target": (1, 2, 3, "i64")},
    "nonzero": {"input": (2, 3)},
    "normal": {"input": (2, 3)},
    "optimizer_update": {"input": [(2, 3)], "grad": [(2, 3)], "state": [(2, 3), (2, 3)], "algorithm": "adam",
                         "numbers": [1.0, 0.0, 1.0, 0.9, 0.999, 1e-8, 1e-2, 1.0], "copy": [(2, 3)]},
    "orgqr": {"input": (4, 3), "tau": (3,)},
    "pairwise_distance": {"x1": (2, 3), "x2": (2, 3)},
    "polygamma": {"n": 1, "input": (2, 3)},
    "rand_like": {"input": (2, 3)},
    "randint_like": {"input": (2, 3), "high": 2},
    "randn_like": {"input": (2, 3)},
    "real": {"input": (2, 3)},
    "repeat_interleave": {"input": (2, 3), "repeats": 2},
    "rnn_layer": {"input": (4, 2, 3), "hx": [(1, 2, 2), (1, 2, 2)], "params": [(8, 3), (8, 2), (8,), (8,)], "has_biases": True,
                  "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False, "batch_first": False},
    "rot90": {"input": (2, 3)},
    "scatter_reduce": {"input": (2, 3), "dim": 1, "index": (2, 3, "i64"), "src": (2, 3), "reduce": "mean"},
    "sigmoid_backward": {"grad_output": (2, 3), "output": (2, 3)},
    "silu_backward": {"grad_output": (2, 3), "input": (2, 3)},
    "slogdet": {"input": (3, 3)},
    "conv_input": {"input_size": [1, 2, 4, 4], "weight": (3, 2, 2, 2), "grad_output": (1, 3, 3, 3), "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]},
    "conv_weight": {"input": (1, 2, 4, 4), "weight_size": [3, 2, 2, 2], "grad_output": (1, 3, 3, 3), "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]},
    "avg_pool_backward": {"grad_output": (1, 2, 2), "input_size": [4, 4], "kernel_size": [2, 2]},
    "adaptive_avg_pool_backward": {"grad_output": (1, 2, 2), "input_size": [4, 4]},
    "upsample_backward": {"grad_output": (1, 2, 4, 4), "input_size": [2, 2], "mode": "bilinear"},
    "slice_backward": {"grad_output": (1, 3), "input_sizes": [2, 3], "dim": 0, "start": 0, "end": 1, "step": 1},
    "unfold_backward": {"grad_in": (2, 3), "input_sizes": [6], "dim": 0, "size": 3, "step": 3},
    "batch_norm_backward": {"grad_output": (2, 4, 3), "input": (2, 4, 3), "weight": (4,), "training": True},
    "group_norm_backward": {"grad_output": (2, 4, 3), "input": (2, 4, 3), "num_groups": 2, "weight": (4,)},
    "cross_entropy_backward": {"grad_output": (2,), "input": (2, 3), "target": (2, "i64"), "reduction": "none"},
    "nll_loss_backward": {"grad_output": (2,), "input": (2, 3), "target": (2, "i64"), "reduction": "none"},
    "rnn_pass": {"input": (4, 2, 3), "h0": (2, 2), "w_ih": (2, 3), "w_hh": (2, 2), "mode": "rnn_tanh"},
    "rnn_pass_backward": {"grad_output": (4, 2, 2), "workspace": (4 * 2 * 2 * 5,), "h0": (2, 2), "c0": (2, 2), "w_hh": (8, 2)},
    "layer_norm_backward": {"grad_output": (3, 4), "input": (3, 4), "normalized_shape": [4], "weight": (4,)},
    "rms_norm_backward": {"grad_output": (3, 4), "input": (3, 4), "normalized_shape": [4], "weight": (4,)},
    "scaled_dot_product_attention_backward": {"grad_output": (2, 3, 4), "query": (2, 3, 4), "key": (2, 5, 4),
                                              "value": (2, 5, 4)},
    "softmax_backward": {"grad_output": (2, 3), "output": (2, 3), "dim": 1},
    "softplus_backward": {"grad_output": (2, 3), "input": (2, 3), "beta": 1.0, "threshold": 20.0},
    "softshrink": {"input": (2, 3)},
    "symeig": {"input": (3, 3)},
    "t": {"input": (2, 3)},
    "tanh_backward": {"grad_output": (2, 3), "output": (2, 3)},
    "tanhshrink": {"input": (2, 3)},
    "tensor_split": {"input": (2, 3), "sections": 2},
    "threshold_backward": {"grad_output": (2, 3), "input": (2, 3), "threshold": 0.5},
    "to": {"input": (2, 3), "dtype": {"dtype_value": "f32"}},
    "trapezoid": {"y": (2, 3), "x": (3,)},
    "unflatten": {"input": (2, 4), "dim": 1, "sizes": [2, 2]},
    "uniform": {"input": (2, 3)},
    "unique": {"input": (2, 3)},
    "view_as_real": {"input": (2, 3)},
    "xlogy": {"input": (2, 3), "other": (2, 3)},
}


def written(value, tensors):
    """The JSON of an argument of WRITTEN; its tensors hold small numbers, indices 0 and 1 (i64), or the pivot 1 (i32)."""
    if isinstance(value, list):
        return [written(v, tensors) for v in value]
    if not isinstance(value, tuple):
        return value
    dtype = value[-1] if isinstance(value[-1], str) else "f32"
    made = {"tensor": str(len(tensors)), "dtype": dtype, "shape": [extent for extent in value if extent != dtype]}
    count = elements(made)
    data = [0.05 + 0.618 * i % 1 for i in range(count)] if dtype == "f32" else [1 if dtype == "i32" else i % 2 for i in range(count)]
    tensors[made["tensor"]] = (made["shape"], struct.pack(f"<{count}{(FLOATS | INTEGERS)[dtype]}", *data))
    return made


def written_cases():
    for op, given in WRITTEN.items():
        tensors = {}
        inputs = {arg: written(value, tensors) for arg, value in given.items()}
        yield {"op": op, "policy": "fallthrough", "inputs": inputs, "outputs": []}, tensors


def choose():
    """Small cases of each op, without a region, with f32 inputs (or with none of floating type, where the op has no other
    case): [(case, tensors)], the ops that have no others, and {op: the dtypes that it is recorded in}."""
    found, recorded = {}, {}
    for path in sorted(GOLDEN.glob("*.json")):
        cases, tensors = load(path)
        for case in cases:
            sizes = [elements(t) for t in tensors_of(list(case["inputs"].values()))]
            if "dtype" in case["inputs"]:  # the op converts first
                continue
            wide = dtypes_of(case) - set(INTEGERS)
            recorded.setdefault(case["op"], set()).update(wide if len(wide) == 1 and case["autocast"] is None else ())
            if case["autocast"] is None and wide <= {"f32"}:
                found.setdefault(case["op"], []).append(("f32" not in dtypes_of(case), 0 in sizes, sum(sizes), case, tensors))
    chosen, fixed = [], set()
    for op, options in found.items():
        options.sort(key=lambda o: o[:3])
        if options[0][0]:
            fixed.add(op)
        chosen += [(case, tensors) for *_, case, tensors in few([o for o in options if o[0] == options[0][0]])]
    return chosen, fixed, recorded


# ---- converting ----------------------------------------------------------------------------------------------------

def whole(value, dtype):
    """An integer that is not zero, for some ops divide."""
    value = max(-100, min(100, round(4 * value) or 1)) if value == value else 1
    return value > 0 if dtype == "bool" else abs(value) if dtype == "u8" else value


def pack(values, dtype):
    if dtype in INTEGERS:
        return struct.pack(f"<{len(values)}{INTEGERS[dtype]}", *(whole(v, dtype) for v in values))
    if dtype in COMPLEX:
        return struct.pack(f"<{2 * len(values)}{COMPLEX[dtype]}", *(part for v in values for part in (v, 0.0)))
    if dtype == "bf16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    if dtype == "f16":
        values = [max(-65504.0, min(65504.0, v)) if abs(v) != float("inf") else v for v in values]
    return struct.pack(f"<{len(values)}{FLOATS[dtype]}", *values)


def convert(value, dtype, tensors, name, out):
    """The JSON of an argument with its f32 tensors in `dtype`; their bytes go into `out`. Empty tensors get two ones in each
    empty dimension: without elements an op may not look at its dtypes."""
    if isinstance(value, list):
        return [convert(v, dtype, tensors, f"{name}.{i}", out) for i, v in enumerate(value)]
    if isinstance(value, float) and dtype in INTEGERS:
        return max(1, round(value)) if abs(value) < 1e9 else value
    if not isinstance(value, dict) or "tensor" not in value:
        return value
    target = dtype if value["dtype"] == "f32" else value["dtype"]
    shape = [extent or 2 for extent in value["shape"]]
    stored, data = tensors[value["tensor"]]
    if 0 in value["shape"]:
        stored, data = shape, pack([1.0] * elements({"shape": shape}), target)
    elif value["dtype"] == "f32":
        data = pack(struct.unpack(f"<{len(data) // 4}f", data), dtype)
    out[name] = (NAMES[target], shape + [2] if target in COMPLEX else stored, data)
    return {"tensor": name, "dtype": target, "shape": shape}


def write_folder(folder, chosen, dtype):
    """The chosen cases in one dtype, as a folder for amp replay."""
    cases, out = [], {}
    for number, (case, tensors) in enumerate(chosen):
        inputs = {arg: convert(value, dtype, tensors, f"{number}.{arg}", out) for arg, value in case["inputs"].items()}
        outputs = [{"dtype": o["dtype"], "shape": o["shape"], "compare": "dtype_and_shape"} for o in case["outputs"]]
        cases.append({"name": f"{case['op']}/{number}/{dtype}", "op": case["op"], "policy": case["policy"], "autocast": None,
                      "inputs": inputs, "outputs": outputs})
    header, offset = {}, 0
    for key, (name, shape, data) in out.items():
        header[key] = {"dtype": name, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "probe.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(d for *_, d in out.values()))
    (folder / "probe.json").write_text(json.dumps(cases), "utf-8")


# ---- running -------------------------------------------------------------------------------------------------------

def kernel_family(name):
    return re.sub(r"_(ref|avx2|avx512|avx512bf16|amx)$", "", re.sub(r"^dnnl:.*", "dnnl", name))


def rows():
    """(name, variant, arguments) of each overload of ops.def."""
    return re.findall(r"^(\w+)(?:\.(\w+))?\(([^)]*)", (ROOT / "src/policy/ops.def").read_text("utf-8"), re.M)


def overloads():
    """{name in C: the op's name}, as reports name an overload by the first."""
    return {f"{name}_{variant}" if variant else name: name for name, variant, _ in rows()}


def takers():
    """The ops that take tensors."""
    return {name for name, _, arguments in rows() if "Tensor" in arguments}


def probe(amp, chosen, dtype):
    """{op: kernels} of the ops that run in `dtype`."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        report = folder / "explain.json"
        (folder / "cases").mkdir()
        write_folder(folder / "cases", chosen, dtype)
        done = subprocess.run([amp, "replay", folder / "cases"], env={**os.environ, "AMP_EXPLAIN": str(report)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"probe_ops: amp replay failed in {dtype}:\n{done.stdout.decode()[-2000:]}")
        runs, names = {}, overloads()
        for row in json.loads(report.read_text("utf-8"))["ops"]:
            if row["calls"] > row["failures"]:
                runs.setdefault(names[row["op"]], set()).update([kernel_family(row["kernel"])] if row["kernel"] else [])
        return runs


def main():
    check = sys.argv[2:] == ["--check"]
    if len(sys.argv) < 2 or (sys.argv[2:] and not check):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    (chosen, fixed, recorded), dtypes, kernels = choose(), {}, {}
    chosen += [(case, tensors) for case, tensors in written_cases() if case["op"] not in recorded]
    for dtype in DTYPES:
        for op, names in probe(sys.argv[1], chosen, dtype).items():
            dtypes.setdefault(op, []).append(dtype)
            kernels.setdefault(op, set()).update(names - {"loops"})
    known = {case["op"] for case, _ in chosen}
    lines = {op: ("-" if op in fixed else " ".join(found), " ".join(sorted(kernels[op])))
             for op, found in dtypes.items() if op in known}
    holes = [(op, dtype) for op, wanted in sorted(recorded.items()) for dtype in sorted(wanted - set(dtypes.get(op, ())))]
    holes += [(op, "any dtype") for op in sorted(takers() - lines.keys())]
    for op, dtype in holes:
        print(f"{op}: did not run in {dtype}; where it has no recorded case, write one into WRITTEN", file=sys.stderr)
    if holes:
        return 1
    if check:
        written = {line.split("\t")[0]: line.split("\t")[1] for line in OUT.read_text("utf-8").splitlines()[1:]}
        stale = [op for op in sorted(written.keys() | lines.keys()) if lines.get(op, ("",))[0] != written.get(op, "")]
        for op in stale:
            print(f"{op}: runs in {lines.get(op, ('nothing',))[0]}; written is {written.get(op, 'nothing')}", file=sys.stderr)
        if stale:
            print(f"{OUT.relative_to(ROOT)} is stale: run tools/probe_ops.py {sys.argv[1]}", file=sys.stderr)
        return 1 if stale else 0
    OUT.write_text(HEAD + "".join(f"{op}\t{found}\t{names}\n" for op, (found, names) in sorted(lines.items())), "utf-8")
    print(f"{len(lines)} ops")
    return 0


if __name__ == "__main__":
    sys.exit(main())

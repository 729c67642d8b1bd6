"""What one eager call costs in PyTorch, called from C++ and from Python: the figures beside bench_dispatch's.

    python bench/peers_dispatch.py [--device cpu|cuda] [--json FILE]      in an environment with torch; from C++ where g++ is found

On the CPU: `add` of two one-element tensors; `linear` 1x64x64 of f32 arguments, and the same under autocast; one thread. On a GPU,
all under autocast in f16: `add` and `relu` of 64x64 tensors of f16, `linear` of one with an f32 weight and bias whose casts the
region keeps; "host" is the time until a batch of calls is enqueued, "waited" has the wait for the device in it. In inference mode on the
CPU; in no_grad, where autocast keeps casts of parameters, on a GPU. Medians over rounds of calls, the ops in turns; Python's figures
are written before C++ is compiled, which is given up after 25 s.
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import torch

WIDTH = 64  # of the tensors on a GPU

# The same calls from C++, with tensors of its own: no Python within the loop, and only the headers of these ops to compile.
# ATen/autocast_mode.h has those of all ops in it.
CPP = """
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <c10/core/InferenceMode.h>
#include <chrono>

namespace at::autocast {
void set_autocast_enabled(at::DeviceType device, bool enabled);
void clear_cache();
int increment_nesting();
int decrement_nesting();
} // namespace at::autocast

namespace {
struct Operands { at::Tensor a, b, x, w, bias; };
Operands& o = *new Operands; // never destroyed: the device may be gone by then
at::DeviceType device;
at::Tensor random(at::IntArrayRef shape, at::ScalarType type) {
    return at::randn(shape, at::TensorOptions(device)).to(type);
}
at::Tensor parameter(at::IntArrayRef shape) { return random(shape, at::kFloat).set_requires_grad(device == at::kCUDA); }
} // namespace

extern "C" void prepare(int cuda, int64_t width, int64_t rows, int64_t elements) {
    device = cuda ? at::kCUDA : at::kCPU;
    const auto type = cuda ? at::kHalf : at::kFloat;
    o.a = cuda ? random({rows, width}, type) : random({elements}, type);
    o.b = cuda ? random({rows, width}, type) : random({elements}, type);
    o.x = random({rows, width}, type);
    o.w = parameter({width, width});
    o.bias = parameter({width});
}

// Seconds until `calls` calls have returned.
extern "C" double enqueue(int op, int autocast, int64_t calls) {
    const c10::InferenceMode inference(device == at::kCPU);
    const at::NoGradGuard guard;
    at::autocast::set_autocast_enabled(device, autocast != 0);
    at::autocast::increment_nesting();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; i++) {
        if (op == 0) at::add(o.a, o.b);
        if (op == 1) at::relu(o.a);
        if (op == 2) at::linear(o.x, o.w, o.bias);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device, false);
    return taken.count();
}
"""
OPS = ("add", "relu", "linear")


def succeeds(command, seconds):
    """Whether a command ends well within so many seconds; after that it is killed, with the processes that it started."""
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            return process.wait(timeout=seconds) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def compiled(folder):
    """The C++ above as a library; None without a compiler, or where it does not compile in time."""
    if not shutil.which("g++"):
        return None
    from torch.utils.cpp_extension import include_paths

    source, library = os.path.join(folder, "calls.cc"), os.path.join(folder, "calls.so")
    with open(source, "w") as file:
        file.write(CPP)
    lib = os.path.join(os.path.dirname(torch.__file__), "lib")
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    command = ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", abi, "-DAT_PER_OPERATOR_HEADERS", source, "-o", library]
    command += [f"-I{path}" for path in include_paths()] + [f"-L{lib}", f"-Wl,-rpath,{lib}", "-ltorch_cpu", "-lc10"]
    if not succeeds(command + ["-Wl,--no-undefined"], 25):
        return None
    loaded = ctypes.CDLL(library)
    loaded.prepare.argtypes = [ctypes.c_int] + 3 * [ctypes.c_int64]
    loaded.enqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    loaded.enqueue.restype = ctypes.c_double
    return loaded


class Python:
    """The same calls from Python."""

    def __init__(self, device, width, rows, elements):
        kind = {"device": device, "dtype": torch.float16 if device == "cuda" else torch.float32}
        shape = (rows, width) if device == "cuda" else (elements,)
        a, b, x = torch.randn(shape, **kind), torch.randn(shape, **kind), torch.randn(rows, width, **kind)
        w, bias = (torch.randn(*s, device=device, requires_grad=device == "cuda") for s in ((width, width), (width,)))
        self.device = device
        linear = torch.nn.functional.linear
        self.calls = (lambda: torch.add(a, b), lambda: torch.relu(a), lambda: linear(x, w, bias))

    def enqueue(self, op, autocast, calls):
        call, kind = self.calls[op], torch.float16 if self.device == "cuda" else torch.bfloat16
        without = torch.no_grad() if self.device == "cuda" else torch.inference_mode()
        with without, torch.autocast(self.device, dtype=kind, enabled=bool(autocast)):
            start = time.perf_counter()
            for _ in range(calls):
                call()
            return time.perf_counter() - start


def candidates_of(device, language):
    """Name → (op, autocast)."""
    rows = [(op, 1) for op in (0, 1, 2)] if device == "cuda" else [(0, 0), (2, 0), (2, 1)]
    named = {(0, 0): "add", (2, 0): "linear f32", (2, 1): "linear autocast bf16"}
    name = lambda op, autocast: OPS[op] if device == "cuda" else named[op, autocast]
    return {f"{name(*row)}, {language}": row for row in rows}


def measure(device, language, caller, rounds, calls):
    """Nanoseconds a call, the candidates in turns."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    candidates = candidates_of(device, language)
    times = {name: {"host": [], "waited": []} for name in candidates}
    for repeat in range(-3, rounds):
        for name, (op, autocast) in candidates.items():
            wait()
            start = time.perf_counter()
            host = caller.enqueue(op, autocast, calls)
            wait()
            if repeat >= 0:
                times[name]["host"].append(host / calls * 1e9)
                times[name]["waited"].append((time.perf_counter() - start) / calls * 1e9)
    return {name: {key: statistics.median(values) for key, values in t.items()} for name, t in times.items()}


def write(path, device, result):
    if path:
        with open(path, "w") as file:
            json.dump({"torch": torch.__version__, "device": device, "nanoseconds": result}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    cuda = arguments.device == "cuda"
    torch.set_num_threads(1)
    sizes = (WIDTH, WIDTH, WIDTH) if cuda else (64, 1, 1)
    turns = (201, 200) if cuda else (31, 20000)
    result = measure(arguments.device, "Python", Python(arguments.device, *sizes), *turns)
    write(arguments.json, arguments.device, result)
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        if library:
            library.prepare(int(cuda), *sizes)
            result.update(measure(arguments.device, "C++", library, *turns))
            write(arguments.json, arguments.device, result)
    print(f"PyTorch {torch.__version__} on {arguments.device}, nanoseconds a call" + ("" if library else " (C++ not measured)"))
    for name, value in result.items():
        print(f"  {name:30} {value['host']:8.0f}  waited {value['waited']:8.0f}")


main()

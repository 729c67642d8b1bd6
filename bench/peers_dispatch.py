"""What one eager call costs in PyTorch, called from C++ and from Python: the figures beside bench_dispatch's.

    python bench/peers_dispatch.py [--json]      in an environment with torch and ninja; needs a C++ compiler

Calls: `add` on two one-element tensors; `linear` 1x64x64 with f32 arguments, and the same under CPU autocast, in
inference mode, one thread. Medians over rounds of calls.
"""
import argparse
import json
import statistics
import time

import torch
from torch.utils.cpp_extension import load_inline

ROUNDS, CALLS = 31, 20000

CPP = """
#include <torch/torch.h>
#include <ATen/autocast_mode.h>
#include <chrono>

template <class F> double seconds(int64_t calls, F f) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; i++) f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double time_add(const at::Tensor& a, const at::Tensor& b, int64_t calls) {
    c10::InferenceMode guard;
    return seconds(calls, [&] { at::add(a, b); });
}

double time_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, bool autocast, int64_t calls) {
    c10::InferenceMode guard;
    const bool before = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, autocast);
    const double taken = seconds(calls, [&] { at::linear(x, w, b); });
    at::autocast::set_autocast_enabled(at::kCPU, before);
    return taken;
}
"""


def python_add(a, b, calls):
    start = time.perf_counter()
    for _ in range(calls):
        torch.add(a, b)
    return time.perf_counter() - start


def python_linear(x, w, b, calls):
    start = time.perf_counter()
    for _ in range(calls):
        torch.nn.functional.linear(x, w, b)
    return time.perf_counter() - start


def measure():
    """Nanoseconds a call, the candidates in turns."""
    cpp = load_inline("amp_peers_dispatch", CPP, functions=["time_add", "time_linear"], extra_cflags=["-O2"])
    torch.set_num_threads(1)
    one, other = torch.randn(1), torch.randn(1)
    x, w, b = torch.randn(1, 64), torch.randn(64, 64), torch.randn(64)

    def autocast_python(calls):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return python_linear(x, w, b, calls)

    candidates = {
        "add, C++": lambda n: cpp.time_add(one, other, n),
        "linear f32, C++": lambda n: cpp.time_linear(x, w, b, False, n),
        "linear autocast bf16, C++": lambda n: cpp.time_linear(x, w, b, True, n),
        "add, Python": lambda n: python_add(one, other, n),
        "linear f32, Python": lambda n: python_linear(x, w, b, n),
        "linear autocast bf16, Python": autocast_python,
    }
    times = {name: [] for name in candidates}
    with torch.inference_mode():
        for run in candidates.values():
            run(CALLS // 10)
        for _ in range(ROUNDS):
            for name, run in candidates.items():
                times[name].append(run(CALLS) / CALLS * 1e9)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure()
    if arguments.json:
        print(json.dumps({"torch": torch.__version__, "nanoseconds": result}, indent=1))
        return
    print(f"PyTorch {torch.__version__}, one thread, inference mode, nanoseconds a call")
    for name, value in result.items():
        print(f"  {name:30} {value:8.0f}")


main()

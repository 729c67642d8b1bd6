#!/usr/bin/env python3
"""BERT-base's encoder and ResNet-50 in libamp and in PyTorch, side by side in one run, with random weights and inputs.

    python3 -m venv VENV && VENV/bin/pip install torch
    VENV/bin/python bench/peers_networks.py --bench build/release/bench/bench_networks [--device cuda] [--threads N] [--json FILE]

Both keep f32 weights and run in f32, or under autocast: bf16 on the CPU, f16 and bf16 on a GPU. PyTorch runs in no_grad. It keeps
casts of parameters until the outermost region ends, libamp until the weight changes: PyTorch is measured with a region for each pass,
as users open it, and with one region around all of them. Images are channels-last in both. The two take turns, pass by pass; a ratio
is the median of PyTorch's time over ours within a round.
"""

import argparse
import contextlib
import json
import statistics
import time

from served import Served


def make_bert(torch):
    return torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, activation="gelu", batch_first=True, layer_norm_eps=1e-12),
        12, enable_nested_tensor=False)


def make_resnet(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
            same = stride == 1 and inputs == 4 * width
            self.shortcut = nn.Identity() if same else nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

        def forward(self, x):
            return torch.relu_(self.body(x).add_(self.shortcut(x)))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for i in range(count):
            layers.append(Block(inputs, 64 << stage, 2 if stage and not i else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Torch:
    def __init__(self, device, batch, threads):
        import torch

        self.torch, self.device = torch, device
        torch.set_num_threads(threads)
        torch.backends.cudnn.allow_tf32 = False  # f32 is exact in both
        last = torch.channels_last
        self.networks = {
            "bert": (make_bert(torch).to(device).eval(), torch.rand(batch, 128, 768, device=device) * 2 - 1),
            "resnet": (make_resnet(torch).to(device, memory_format=last).eval(),
                       (torch.rand(batch, 3, 224, 224, device=device) * 2 - 1).contiguous(memory_format=last)),
        }

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    @contextlib.contextmanager
    def region(self, precision):
        """Keeps casts of leaves that require grad, as the parameters do, in no_grad too."""
        torch = self.torch
        dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.bfloat16)
        with torch.no_grad(), torch.autocast(self.device, dtype=dtype, enabled=precision != "f32"):
            yield

    def seconds(self, network, region):
        """Of a pass within the context `region`."""
        model, x = self.networks[network]
        self.wait()
        start = time.perf_counter()
        with region:
            model(x)
        self.wait()
        return time.perf_counter() - start


def compare(ours, theirs, network, precision, one_region, seconds):
    pairs = []
    each = contextlib.nullcontext if one_region else lambda: theirs.region(precision)
    with theirs.region(precision) if one_region else contextlib.nullcontext():
        for _ in range(2):  # what is kept
            ours.seconds(network, precision), theirs.seconds(network, each())
        end = time.time() + seconds
        while len(pairs) < 5 or (time.time() < end and len(pairs) < 400):
            pairs.append((ours.seconds(network, precision), theirs.seconds(network, each())))
    return {
        "network": network,
        "precision": precision,
        "region": "one" if one_region else "each pass",
        "ms": 1e3 * statistics.median(a for a, _ in pairs),
        "torch_ms": 1e3 * statistics.median(b for _, b in pairs),
        "ratio": statistics.median(b / a for a, b in pairs),
        "rounds": len(pairs),
    }


def write(a, version, rows):
    if a.json:
        with open(a.json, "w") as file:
            json.dump({"device": a.device, "batch": a.batch, "torch": version, "rows": rows}, file, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json")
    a = parser.parse_args()
    theirs = Torch(a.device, a.batch, a.threads)
    ours = Served(a.bench, "--device", a.device, "--batch", str(a.batch), "--threads", str(a.threads), "--serve")
    rows = []
    for precision in (("f16",) if a.device == "cuda" else ()) + ("bf16", "f32"):
        for network in ("bert", "resnet"):
            ways = (False, True) if precision != "f32" else (False,)  # f32 casts nothing
            rows += [compare(ours, theirs, network, precision, one, a.seconds / len(ways)) for one in ways]
            for row in rows[-len(ways):]:
                print("{network:8} {precision:5} {ms:10.3f} ms, PyTorch {torch_ms:10.3f} ms (region: {region}), {ratio:.2f}×".format(**row),
                      flush=True)
            write(a, theirs.torch.__version__, rows)  # what there is, should the rest take too long


if __name__ == "__main__":
    main()

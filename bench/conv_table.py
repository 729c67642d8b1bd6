#!/usr/bin/env python3
"""Runs bench_conv over all layer lists, batch 1 and 8, and prints the table by class of docs/benchmarks.md, and below it
the layers that are short.

    bench/conv_table.py [--build build/release] [--threads 1] [--seconds 0.3] [--least 0.95] [--keep DIR]

CPU time on one thread, wall clock on more. --keep DIR leaves the JSON of both runs there. Only Python's standard library is
needed.
"""
import argparse
import glob
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BATCHES = (1, 8)
RATIOS = (("bf16/oneDNN bf16", "bf16 / oneDNN bf16"), ("f32/oneDNN f32", "f32 / oneDNN f32"), ("bf16/f32", "bf16 / our f32"))


def measure(o, batch, folder):
    path = os.path.join(folder, f"conv_{o.threads}_{batch}.json")
    command = [os.path.join(o.build, "bench", "bench_conv"), "--threads", str(o.threads), "--batch", str(batch)]
    command += ["--seconds", str(o.seconds), "--json", path] + ["--clock", "cpu"] * (o.threads == 1)
    subprocess.run(command + sorted(glob.glob(os.path.join(HERE, "layers", "*.txt"))), check=True,
                   stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def cell(entry, ratio):
    return "%.2f, %.2f" % (entry[ratio]["mean"], entry[ratio]["least"]) if ratio in entry else ""


def print_table(found):
    columns = [(ratio, batch) for ratio, _ in RATIOS for batch in BATCHES]
    names = dict(RATIOS)
    heads = [f"{names[ratio]}, batch 1" if batch == 1 else f"batch {batch}" for ratio, batch in columns]
    print("| class | layers | " + " | ".join(heads) + " |\n|" + "---|" * (2 + len(heads)))
    for rows in zip(*(found[batch]["classes"] for batch in BATCHES)):
        entries = dict(zip(BATCHES, rows))
        cells = [cell(entries[batch], ratio) for ratio, batch in columns]
        print(f"| {rows[0]['class']} | {rows[0]['layers']} | " + " | ".join(cells) + " |")


def name_of(layer):
    groups = f" groups {layer['groups']}" if layer["groups"] > 1 else ""
    kind = "transposed " if layer["transposed"] else ""
    return f"{kind}{layer['in']} → {layer['out']} at {layer['size']}², {layer['kernel']}², stride {layer['stride']}{groups}"


def print_short(found, least):
    for batch in BATCHES:
        layers = found[batch]["layers"]
        short = [l for l in layers if l.get("bf16_over_onednn", least) < least]
        print(f"\nbatch {batch}: {len(short)} of {len(layers)} layers below {least:.2f}")
        for layer in sorted(short, key=lambda l: l["bf16_over_onednn"]):
            times = {r["name"]: r for r in layer["results"]}
            peer = min(r["us"] for name, r in times.items() if name.startswith("dnnl bf16"))
            print("  %.2f  %s: %.2f µs (%s), oneDNN %.2f µs" % (layer["bf16_over_onednn"], name_of(layer),
                                                               times["bf16"]["us"], times["bf16"]["kernel"], peer))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=0.3)
    p.add_argument("--least", type=float, default=0.95)
    p.add_argument("--keep")
    o = p.parse_args()
    if o.keep:
        os.makedirs(o.keep, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        found = {batch: measure(o, batch, o.keep or temporary) for batch in BATCHES}
    print_table(found)
    print_short(found, o.least)


if __name__ == "__main__":
    main()

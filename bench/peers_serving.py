#!/usr/bin/env python3
"""The demo's model behind Ray Serve, in libamp and in onnxruntime, served by the same program and loaded in the same way.

    pip wheel ./python -w dist && python3 -m venv VENV && VENV/bin/pip install dist/libamp-*.whl 'ray[serve]' onnxruntime onnx
    VENV/bin/python bench/peers_serving.py [--rounds 2] [--json FILE]

One server at a time, in turns, each started anew by python/examples/serve.py. Clients send random ids, a request each, and
wait for its answer. Printed are, of each round, requests a second, the time that 50, 90 and 99 % of the answers took at most,
and the CPU time of the model's processes for a request, which also holds on a busy machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "python" / "examples"
sys.path.insert(0, str(EXAMPLES))
import load  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

ENGINES = {"libamp f32": [], "libamp bf16": ["--dtype", "bf16"], "onnxruntime f32": ["--engine", "onnxruntime"]}
FIGURES = ("requests_per_second", "p50", "p90", "p99", "cpu_ms")


def cpu_seconds():
    """Of all processes that hold the model."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"ServeReplica:model:Model" in (folder / "cmdline").read_bytes():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, options, words, replicas):
        self.url = f"http://127.0.0.1:{options.port}/"
        self.log = tempfile.TemporaryFile("w+")
        command = [sys.executable, EXAMPLES / "serve.py", options.onnx, "--port", str(options.port), "--replicas", str(replicas)]
        self.process = subprocess.Popen(command + words, stdout=self.log, stderr=subprocess.STDOUT)
        while "ready: " not in self.text():
            if self.process.poll() is not None:
                sys.exit(self.text())
            time.sleep(0.5)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def measure(self, tokens, options):
        inputs = [f"ids=i64:1x{tokens}:{peers.VOCABULARY}", f"mask=i64:1x{tokens}:1"]
        load.load(self.url, inputs, options.clients, 1, options.warm)
        before = cpu_seconds()
        result = load.load(self.url, inputs, options.clients, options.seconds, 0)
        result["cpu_ms"] = round(1e3 * (cpu_seconds() - before) / max(result["requests"], 1), 2)
        if result["errors"]:
            sys.exit(f"{result['errors']}")
        return result

    def stop(self):
        self.process.terminate()
        self.process.wait()


def show(rows):
    print(f"| tokens | processes | engine | {' | '.join(FIGURES)} |\n|{'---|' * (3 + len(FIGURES))}")
    for (tokens, replicas, engine), results in sorted(rows.items()):
        cells = ["; ".join(f"{r[name]:.4g}" for r in results) for name in FIGURES]
        print(f"| {tokens} | {replicas} | {engine} | {' | '.join(cells)} |")
    for (tokens, replicas, engine), results in sorted(rows.items()):
        if engine.startswith("libamp"):
            peer = rows[tokens, replicas, "onnxruntime f32"]
            ratio = [statistics.mean(r[name] for r in results) / statistics.mean(r[name] for r in peer)
                     for name in ("requests_per_second", "cpu_ms")]
            print(f"{tokens} tokens, {replicas}: {engine} answers {ratio[0]:.2f} times as many as onnxruntime, "
                  f"for {ratio[1]:.2f} times its CPU time")


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--model", default=".deps/models/all-MiniLM-L6-v2", help="folder with model.safetensors")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--warm", type=float, default=25, help="seconds until sizes of batches have come up (25)")
    p.add_argument("--clients", type=int, default=8)
    p.add_argument("--tokens", type=int, nargs="+", default=[32, 128])
    p.add_argument("--replicas", type=int, nargs="+", default=[1, 2])
    p.add_argument("--port", type=int, default=8321)
    p.add_argument("--json")
    options = p.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as cache:
        options.onnx = peers.onnx_file(options.model, cache)
        for _ in range(options.rounds):
            for replicas in options.replicas:
                for engine, words in ENGINES.items():
                    server = Server(options, words, replicas)
                    for tokens in options.tokens:
                        result = server.measure(tokens, options)
                        rows.setdefault((tokens, replicas, engine), []).append(result)
                        print(tokens, replicas, engine, f"load {os.getloadavg()[0]:.1f}", result, file=sys.stderr, flush=True)
                    server.stop()
    show(rows)
    if options.json:
        names = ("tokens", "processes", "engine")
        Path(options.json).write_text(json.dumps([{**dict(zip(names, key)), "rounds": r} for key, r in rows.items()], indent=1))


if __name__ == "__main__":
    main()

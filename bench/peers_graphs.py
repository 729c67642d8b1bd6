#!/usr/bin/env python3
"""Models beside onnxruntime and OpenVINO: load, first run and median of one image or batch, in ms.

    peers_graphs.py AMP MODELS CASES [--threads N] [--rounds N] [--seconds S] [--cpu-time] [NAME…]

AMP is the tool, MODELS a folder of NAME.onnx, CASES one of NAME.CASE/INPUT.npy (the first case of each model is taken).
Engines run in turns, round after round, each in a process of its own; the least load (for libamp with amp_graph_prepare,
which does what the others do when they compile a model) and first run and the median of the
rounds' medians are printed, with the most memory that a process had (MB; Python is part of the others'), then the geometric
mean of the better engine's time over ours. --cpu-time: of the process, for a machine that others use too; with one thread.
Before each run another process takes as much memory as any engine did so far, and ends: a virtual machine's host, which has
to find memory that lay idle, then finds it for none of them. The first of a round would pay that for all.
Needs NumPy, onnxruntime and openvino; what is missing is left out and named.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

ENGINE = """
import sys, time, json, numpy as np
engine, model, folder, threads, seconds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
now = time.process_time if sys.argv[6] == "True" else time.perf_counter
safe = lambda n: "".join(c if c.isalnum() or c in "._-" else "_" for c in n)
load = lambda n: np.load(folder + "/" + safe(n) + ".npy")
begin = now()
if engine == "ort":
    import onnxruntime
    begin = now()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    loaded = now()
    feeds = {i.name: load(i.name) for i in session.get_inputs()}
    run = lambda: session.run(None, feeds)
else:
    import openvino
    begin = now()
    kind = "bf16" if engine == "ov_bf16" else "f32"
    core = openvino.Core()
    network = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": kind})
    loaded = now()
    request = network.create_infer_request()
    feeds = {i.get_any_name(): load(i.get_any_name()) for i in network.inputs}
    run = lambda: request.infer(feeds, share_inputs=True, share_outputs=True)
times, end = [], None
while end is None or time.perf_counter() < end or len(times) < 4:
    start = now()
    run()
    times.append((now() - start) * 1e3)
    end = end or time.perf_counter() + seconds
times, first = times[1:], times[0]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"load": (loaded - begin) * 1e3, "first": first, "median": sorted(times)[len(times) // 2],
                  "peak": int(status["VmHWM"].split()[0]) * 1024 / 1e6}))
"""

MEMORY = "import sys, numpy; numpy.ones(int(sys.argv[1]), numpy.uint8)"


def run_amp(o, model, folder, kind):
    given = [w for f in sorted(folder.glob("*.npy")) for w in ("--input", f"{o.names[model.stem][f.stem]}={f}")]
    command = [o.amp, "run", model, "--json", f"--{kind}", "--threads", str(o.threads), "--seconds", str(o.seconds), *given]
    command += ["--cpu-time"] * o.cpu_time
    times = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["times"][kind]
    return {"load": times["load_ms"] + times["prepare_ms"], "first": times["first_ms"], "median": times["median_ms"], "peak": times["peak_bytes"] / 1e6}


def run_peer(o, model, folder, engine):
    command = [sys.executable, "-c", ENGINE, engine, model, folder, str(o.threads), str(o.seconds), str(o.cpu_time)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


ENGINES = {"f32": run_amp, "bf16": run_amp, "ort": run_peer, "ov_f32": run_peer, "ov_bf16": run_peer}


def run_in_turns(o, model, folder):
    """What each engine said, round after round."""
    rounds, most = {e: [] for e in ENGINES}, 0.0
    for _ in range(o.rounds):
        for engine, run in ENGINES.items():
            subprocess.run([sys.executable, "-c", MEMORY, str(int(1.2e6 * most))], check=True)
            try:
                rounds[engine].append(run(o, model, folder, engine))
                most = max(most, rounds[engine][-1]["peak"])
            except (subprocess.CalledProcessError, json.JSONDecodeError):
                pass
    return rounds


def names_of(model):
    """Inputs by the name that their file has."""
    safe = lambda n: "".join(c if c.isalnum() or c in "._-" else "_" for c in n)
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    return {safe(i.name): i.name for i in graph.input}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("amp", type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--cpu-time", action="store_true")
    o = parser.parse_intermixed_args()
    wanted = o.names or sorted({f.name.split(".")[0] for f in o.cases.iterdir()})
    o.names = {}
    print(f"{'model':<22}" + "".join(f"{e + ' ' + w:>14}" for e in ENGINES for w in ("load", "first", "MB", "run")))
    ratios = {"f32": [], "bf16 over ov_bf16": [], "bf16 over ort": []}
    for name in wanted:
        model = o.models / f"{name}.onnx"
        folders = sorted(o.cases.glob(f"{name}.*"))
        if not model.exists() or not folders:
            print(f"{name:<22}not there")
            continue
        o.names[name] = names_of(model)
        rounds = run_in_turns(o, model, folders[0])
        row, medians = f"{folders[0].name:<22}", {}
        for engine, results in rounds.items():
            if not results:
                row += f"{'-':>14}" * 4
                continue
            medians[engine] = statistics.median(r["median"] for r in results)
            row += "".join(f"{min(r[k] for r in results):>14.4g}" for k in ("load", "first", "peak")) + f"{medians[engine]:>14.4g}"
        print(row, flush=True)
        better = min((medians[e] for e in ("ort", "ov_f32") if e in medians), default=None)
        if better and "f32" in medians:
            ratios["f32"].append(better / medians["f32"])
        for peer in ("ov_bf16", "ort"):
            if peer in medians and "bf16" in medians:
                ratios[f"bf16 over {peer}"].append(medians[peer] / medians["bf16"])
    for what, values in ratios.items():
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"{what}: {mean:.2f} (geometric mean of {len(values)}; least {min(values):.2f}, most {max(values):.2f})")


if __name__ == "__main__":
    main()

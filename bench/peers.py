#!/usr/bin/env python3
"""The demo's model in libamp and in its peers, side by side in one run.

    python3 -m venv VENV && VENV/bin/pip install numpy onnx onnxruntime openvino      (torch too, if it is to be timed)
    VENV/bin/python bench/peers.py --bench build/release/bench/bench_model [--json FILE]

Every engine is a process of its own that runs when it is asked to and sleeps otherwise. All get random ids, and take
turns in short bursts, so that a drift of the machine hits all alike; a figure is the median over all passes. A second
table gives the CPU time of a pass, which also holds on a busy machine (of several threads it includes their waiting for
each other). First, every engine embeds the same texts, and its answer is compared with libamp's f32. Engines that are
not installed are left out, visibly.
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import time

WIDTH, LAYERS, HEADS, VOCABULARY = 384, 6, 12, 30522
ENGINES = ["libamp", "onnxruntime", "openvino", "torch"]
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model", "minilm.txt")


# ---- The model's weights, and the model as ONNX --------------------------------------------------------------------


def load_weights(folder):
    import numpy as np

    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    weights = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            first, last = entry["data_offsets"]
            weights[name] = np.frombuffer(data[8 + size + first : 8 + size + last], np.float32).reshape(entry["shape"])
    return weights


class OnnxModel:
    """What an exporter would write, in the ops that optimisers look for: LayerNormalization, Gelu, Softmax.

    (onnxruntime's own Attention and SkipLayerNormalization in their place gave the same answer in no less time.)"""

    def __init__(self, weights):
        from onnx import helper

        self.helper, self.weights, self.nodes, self.constants = helper, weights, [], {}

    def node(self, op, *inputs, **attributes):
        output = f"{op}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(op, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, name, value):
        self.constants[name] = value
        return name

    def weight(self, name):
        return self.constant(name, self.weights[name])

    def linear(self, x, name):
        weight = self.constant(name + ".weight.T", self.weights[name + ".weight"].T.copy())
        return self.node("Add", self.node("MatMul", x, weight), self.weight(name + ".bias"))

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.weight(name + ".weight"), self.weight(name + ".bias"), axis=-1,
                         epsilon=1e-12)

    def heads(self, x, permutation):
        return self.node("Transpose", self.node("Reshape", x, "split"), perm=permutation)

    def layer(self, x, index, mask):
        name = f"encoder.layer.{index}."
        q = self.heads(self.linear(x, name + "attention.self.query"), [0, 2, 1, 3])
        k = self.heads(self.linear(x, name + "attention.self.key"), [0, 2, 3, 1])
        v = self.heads(self.linear(x, name + "attention.self.value"), [0, 2, 1, 3])
        scores = self.node("Add", self.node("Div", self.node("MatMul", q, k), "sqrt_head"), mask)
        context = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        context = self.node("Reshape", self.node("Transpose", context, perm=[0, 2, 1, 3]), "join")
        x = self.norm(self.node("Add", self.linear(context, name + "attention.output.dense"), x),
                      name + "attention.output.LayerNorm")
        up = self.node("Gelu", self.linear(x, name + "intermediate.dense"))
        return self.norm(self.node("Add", self.linear(up, name + "output.dense"), x), name + "output.LayerNorm")

    def mask(self, real):
        """0 where a token is real, very low where it is padding; [batch, 1, 1, tokens]."""
        return self.node("Unsqueeze", self.node("Mul", self.node("Sub", "one", real), "lowest"), "axes")

    def embeddings(self):
        length = self.node("Slice", self.node("Shape", "ids"), "one_i", "two_i")
        positions = self.node("Slice", self.weight("embeddings.position_embeddings.weight"), "zero_i", length, "zero_i")
        words = self.node("Gather", self.weight("embeddings.word_embeddings.weight"), "ids")
        kind = self.constant("type_0", self.weights["embeddings.token_type_embeddings.weight"][0])
        return self.norm(self.node("Add", self.node("Add", words, kind), positions), "embeddings.LayerNorm")

    def pool(self, x, real):
        tokens = self.node("Unsqueeze", real, "two_i")
        total = self.node("ReduceSum", self.node("Mul", x, tokens), "one_i", keepdims=0)
        mean = self.node("Div", total, self.node("ReduceSum", tokens, "one_i", keepdims=0))
        return mean, self.node("Max", self.node("ReduceL2", mean, "one_i", keepdims=1), "tiny")

    def add_constants(self):
        import numpy as np

        for name, value in {
            "split": np.array([0, 0, HEADS, WIDTH // HEADS]), "join": np.array([0, 0, WIDTH]),
            "zero_i": np.array([0]), "one_i": np.array([1]), "two_i": np.array([2]), "axes": np.array([1, 2]),
            "sqrt_head": np.float32((WIDTH // HEADS) ** 0.5), "one": np.float32(1), "lowest": np.float32(-3e38),
            "tiny": np.float32(1e-12),
        }.items():
            self.constant(name, np.asarray(value))

    def build(self, path):
        import onnx
        from onnx import TensorProto, numpy_helper

        self.add_constants()
        real = self.node("Cast", "mask", to=TensorProto.FLOAT)
        mask = self.mask(real)
        x = self.embeddings()
        for index in range(LAYERS):
            x = self.layer(x, index, mask)
        self.nodes.append(self.helper.make_node("Div", list(self.pool(x, real)), ["embedding"]))
        value_info = self.helper.make_tensor_value_info
        inputs = [value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in ("ids", "mask")]
        outputs = [value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])]
        initializers = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = self.helper.make_graph(self.nodes, "minilm", inputs, outputs, initializers)
        model = self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def onnx_file(folder, cache):
    path = os.path.join(cache, "minilm.onnx")
    if not os.path.exists(path):
        OnnxModel(load_weights(folder)).build(path)
    return path


# ---- The peers: one class each, with the precisions that it can run ------------------------------------------------


class OnnxRuntime:
    precisions = ["f32"]

    def __init__(self, folder, cache, threads):
        import onnxruntime as ort

        self.version = ort.__version__
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = ort.InferenceSession(onnx_file(folder, cache), options, providers=["CPUExecutionProvider"])

    def run(self, _precision, ids, mask):
        return self.session.run(["embedding"], {"ids": ids, "mask": mask})[0]


class OpenVino:
    precisions = ["f32", "bf16"]

    def __init__(self, folder, cache, threads):
        import openvino as ov

        self.version = ov.__version__
        core = ov.Core()
        model = core.read_model(onnx_file(folder, cache))
        options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        self.requests = {
            precision: core.compile_model(model, "CPU", {**options, "INFERENCE_PRECISION_HINT": precision})
            .create_infer_request() for precision in self.precisions}

    def run(self, precision, ids, mask):
        return self.requests[precision].infer({"ids": ids, "mask": mask}, share_inputs=True)[0]


class Torch:
    precisions = ["f32", "bf16"]

    def __init__(self, folder, _cache, threads):
        import torch

        self.torch, self.version = torch, torch.__version__
        torch.set_num_threads(threads)
        # As parameters, so that autocast caches their casts within a region, as it does for a module.
        self.w = {name: torch.nn.Parameter(torch.from_numpy(value.copy()))
                  for name, value in load_weights(folder).items()}

    def linear(self, x, name):
        return self.torch.nn.functional.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, x, name):
        functional = self.torch.nn.functional
        return functional.layer_norm(x, (WIDTH,), self.w[name + ".weight"], self.w[name + ".bias"], 1e-12)

    def layer(self, x, name, mask):
        functional = self.torch.nn.functional
        q, k, v = (self.linear(x, name + "attention.self." + part).unflatten(2, (HEADS, -1)).transpose(1, 2)
                   for part in ("query", "key", "value"))
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.norm(x + self.linear(context, name + "attention.output.dense"), name + "attention.output.LayerNorm")
        up = functional.gelu(self.linear(x, name + "intermediate.dense"))
        return self.norm(x + self.linear(up, name + "output.dense"), name + "output.LayerNorm")

    def forward(self, ids, mask):
        functional = self.torch.nn.functional
        x = functional.embedding(ids, self.w["embeddings.word_embeddings.weight"])
        x = x + self.w["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x + self.w["embeddings.position_embeddings.weight"][: ids.shape[1]], "embeddings.LayerNorm")
        attend = None if mask.all() else mask.bool()[:, None, None]
        for index in range(LAYERS):
            x = self.layer(x, f"encoder.layer.{index}.", attend)
        tokens = mask.float().unsqueeze(2)
        return functional.normalize((x * tokens).sum(1) / tokens.sum(1), dim=1)

    def run(self, precision, ids, mask):
        torch = self.torch
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return self.forward(torch.from_numpy(ids), torch.from_numpy(mask)).float().numpy()


PEERS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "torch": Torch}


# ---- A worker: the same protocol as `bench_model --serve` ----------------------------------------------------------
# It says who it is, then answers each line with a line of JSON:
#     run PRECISION BATCH TOKENS PASSES       {"ms": [...]}: one untimed pass, then so many timed ones, fresh random ids
#     check PRECISION                         {"embedding": [...]}: of the two texts of check_ids()


def check_ids():
    """Two texts of 16 and 9 tokens, the second padded."""
    import numpy as np

    ids = (1000 + 7919 * np.arange(32, dtype=np.int64).reshape(2, 16)) % VOCABULARY
    mask = np.ones((2, 16), np.int64)
    mask[1, 9:] = 0
    return ids, mask


def time_passes(engine, precision, batch, tokens, passes, random):
    import numpy as np

    mask, times = np.ones((batch, tokens), np.int64), []
    for _ in range(passes + 1):
        ids = random.integers(1000, VOCABULARY, (batch, tokens))
        start = time.perf_counter()
        engine.run(precision, ids, mask)
        times.append(1e3 * (time.perf_counter() - start))
    return times[1:]


def worker(name, folder, cache, threads):
    import numpy as np

    engine = PEERS[name](folder, cache, threads)
    random = np.random.default_rng()
    print(json.dumps({"engine": name, "version": engine.version, "precisions": engine.precisions}), flush=True)
    for line in sys.stdin:
        command, precision, *numbers = line.split()
        if command == "check":
            reply = {"embedding": np.asarray(engine.run(precision, *check_ids()), float).ravel().tolist()}
        else:
            reply = {"ms": time_passes(engine, precision, *map(int, numbers), random)}
        print(json.dumps(reply), flush=True)


# ---- The conductor --------------------------------------------------------------------------------------------------


class Engine:
    """A worker process: libamp's bench_model, or this script."""

    def __init__(self, name, options, threads):
        command = [sys.executable, __file__, "--worker", name, "--model", options.model, "--cache", options.cache,
                   "--threads", str(threads)]
        if name == "libamp":
            command = [options.bench, "--serve", "--model", options.model, "--threads", str(threads)]
        libraries = glob.glob(os.path.join(sys.prefix, "lib/python*/site-packages/nvidia/*/lib"))
        libraries += [folder for folder in [os.environ.get("LD_LIBRARY_PATH")] if folder]
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), LD_LIBRARY_PATH=":".join(libraries))
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE, env=environment)
        line = self.process.stdout.readline()
        if not line:
            errors = self.process.stderr.read().strip().splitlines()
            raise RuntimeError(errors[-1] if errors else "it did not start")
        self.about = json.loads(line)
        self.precisions = self.about["precisions"]

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed at '{' '.join(map(str, words))}': {self.process.stderr.read()}")
        return json.loads(line)

    def cpu_ms(self):
        """What its threads have computed so far: also on a busy machine, where they wait for a core in between."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1e6

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start_engines(options, threads):
    engines, missing = [], {}
    for name in options.engines:
        try:
            engines.append(Engine(name, options, threads))
        except (RuntimeError, OSError) as reason:
            missing[name] = str(reason)
    return engines, missing


def columns_of(engines):
    return [(engine, precision, f"{engine.name} {precision}") for engine in engines for precision in engine.precisions]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def check(engines):
    """Each column's smaller cosine, over the two texts, to the first column."""
    answers = {name: engine.ask("check", precision)["embedding"] for engine, precision, name in columns_of(engines)}
    first = next(iter(answers.values()))
    return {name: min(cosine(answer[i : i + WIDTH], first[i : i + WIDTH]) for i in (0, WIDTH))
            for name, answer in answers.items()}


def shapes_of(path):
    with open(path) as lines:
        return [tuple(int(x) for x in line.split()) for line in lines if line.strip() and not line.startswith("#")]


def burst(engine, precision, batch, tokens, passes):
    """Milliseconds of each pass, and mean CPU milliseconds of a pass (the untimed first one included)."""
    time.sleep(0.05)  # until the threads of the one before have stopped spinning
    before = engine.cpu_ms()
    times = engine.ask("run", precision, batch, tokens, passes)["ms"]
    return times, (engine.cpu_ms() - before) / (passes + 1)


def measure(engines, batch, tokens, rounds, seconds):
    """Times of each engine and precision, which take turns."""
    columns = columns_of(engines)
    passes, times, cpu = {}, {name: [] for _, _, name in columns}, {name: [] for _, _, name in columns}
    for engine, precision, name in columns:
        pilot, _ = burst(engine, precision, batch, tokens, 3)
        passes[name] = max(3, min(1000, int(1e3 * seconds / statistics.median(pilot))))
    for index in range(rounds):
        for engine, precision, name in columns if index % 2 == 0 else reversed(columns):
            burst_times, burst_cpu = burst(engine, precision, batch, tokens, passes[name])
            times[name] += burst_times
            cpu[name].append(burst_cpu)
    return {name: summary(times[name], cpu[name]) for _, _, name in columns}


def summary(times, cpu):
    ordered = sorted(times)
    return {"median_ms": statistics.median(ordered), "p10_ms": ordered[len(ordered) // 10],
            "p90_ms": ordered[len(ordered) * 9 // 10], "cpu_ms": statistics.median(cpu), "passes": len(ordered)}


def print_table(report, title, key):
    columns = list(report["agreement"])
    print(f"\n{title:26}" + "".join(f"{column:>17}" for column in columns))
    for result in report["results"]:
        label = f"{result['batch']} x {result['tokens']} tokens, {result['threads']} threads"
        print(f"{label:26}" + "".join(f"{result['engines'][column][key]:17.3f}" for column in columns))


def print_report(report):
    for about in report["engines"]:
        print("; ".join(f"{key} {value}" for key, value in about.items() if key != "precisions"))
    for name, reason in report["missing"].items():
        print(f"{name} is left out: {reason}")
    print_table(report, "median ms of a pass", "median_ms")
    print_table(report, "CPU ms of a pass", "cpu_ms")
    columns = list(report["agreement"])
    print(f"\n{'cosine to ' + columns[0]:26}" + "".join(f"{report['agreement'][column]:17.6f}" for column in columns))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/release/bench/bench_model", help="libamp's worker")
    parser.add_argument("--model", default=".deps/models/all-MiniLM-L6-v2", help="folder with model.safetensors")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=ENGINES, help="comma-separated")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument("--list", default=LIST, help="batch and tokens on each line")
    parser.add_argument("--rounds", type=int, default=7, help="bursts of each engine for each row")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a burst")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--cache", default=os.path.join(sys.prefix, "peers"), help="where the ONNX model is kept")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    os.makedirs(options.cache, exist_ok=True)
    if options.worker:
        worker(options.worker, options.model, options.cache, options.threads[0])
        return
    report = {"engines": [], "missing": {}, "agreement": {}, "results": []}
    for threads in options.threads:
        engines, missing = start_engines(options, threads)
        if not engines:
            sys.exit("no engine is left: " + "; ".join(f"{name}: {why}" for name, why in missing.items()))
        report["missing"].update(missing)
        report["engines"] = [engine.about for engine in engines]
        report["agreement"] = check(engines)
        for batch, tokens in shapes_of(options.list):
            figures = measure(engines, batch, tokens, options.rounds, options.seconds)
            report["results"].append({"batch": batch, "tokens": tokens, "threads": threads, "engines": figures})
        for engine in engines:
            engine.close()
    print_report(report)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Serves a model of an ONNX file over HTTP: Ray Serve, requests that come together run together, a process per NUMA node.

    python serve.py model.onnx [--dtype bf16] [--replicas 2] [--max-batch 8] [--engine onnxruntime]

A request has every input by name, the items of its batch along the first extent: POST an .npz file (numpy.savez), or JSON,
{"ids": [[101, 2023, 102]], "mask": [[1, 1, 1]]}. The answer has the outputs in the same form. Requests whose other extents
agree share a batch. It needs numpy, ray[serve] and libamp; onnxruntime, served in the same way, is there to compare with.
"""
import argparse
import asyncio
import concurrent.futures
import contextlib
import io
import json
import os
import signal
from pathlib import Path

import numpy as np

NETS = 8  # sets of input shapes that a graph keeps ready: so many sizes of batch are run, others are filled up


# ---- Which CPUs ----
def cpu_list(text):
    """[0, 1, 2, 3, 8] of "0-3,8"."""
    spans = [part.partition("-") for part in text.strip().split(",") if part]
    return [cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)]


def numa_nodes(root="/sys/devices/system/node"):
    """The CPUs of each node that this process may use; one node where the system tells of none."""
    allowed = os.sched_getaffinity(0)
    folders = sorted(Path(root).glob("node[0-9]*"), key=lambda folder: int(folder.name[4:]))
    nodes = [sorted(allowed.intersection(cpu_list((folder / "cpulist").read_text()))) for folder in folders]
    return [cpus for cpus in nodes if cpus] or [sorted(allowed)]


def shares(replicas, nodes):
    """The CPUs of each process: nodes are dealt out in turn, and several processes of one node part it."""
    if replicas <= len(nodes):
        return [sorted(sum(nodes[i::replicas], [])) for i in range(replicas)]
    parted = [np.array_split(cpus, len(range(i, replicas, len(nodes)))) for i, cpus in enumerate(nodes)]
    return [parted[i % len(nodes)][i // len(nodes)].tolist() or nodes[i % len(nodes)] for i in range(replicas)]


def pin(cpus):
    """Every thread of this process; those that come later inherit it, and memory lies on the node of who writes to it first."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cpus)


# ---- The engines: each gives {input: dtype} and a function of {input: array} ----
def load_amp(path, dtype, threads):
    import amp
    amp.set_num_threads(threads)
    graph = amp.load(path)

    def run(inputs):
        with amp.autocast("cpu") if dtype == "bf16" else contextlib.nullcontext():
            return {name: (y.float() if y.dtype == amp.bfloat16 else y).numpy() for name, y in graph.named(**inputs).items()}

    return {name: np.dtype(str(kind).removeprefix("amp.")) for name, kind, _ in graph.inputs}, run


def load_onnxruntime(path, dtype, threads):
    import onnxruntime
    if dtype != "f32":
        raise ValueError(f"onnxruntime runs a model as it is: --dtype {dtype} is libamp's")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if os.environ.get("OMP_WAIT_POLICY") == "passive":  # libamp's threads sleep while they wait then, and so shall these
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    kinds = {"tensor(float)": "float32", "tensor(double)": "float64"}
    return ({x.name: np.dtype(kinds.get(x.type, x.type[7:-1])) for x in session.get_inputs()},
            lambda inputs: dict(zip(names, session.run(names, inputs))))


ENGINES = {"amp": load_amp, "onnxruntime": load_onnxruntime}


# ---- Batches ----
def run_together(run, requests, step):
    """The outputs of requests that differ in their first extents alone. The batch is filled up to a multiple of `step`."""
    counts = [len(next(iter(request.values()))) for request in requests]
    total = sum(counts)
    inputs = {name: np.concatenate([request[name] for request in requests]) for name in requests[0]}
    if total % step:
        inputs = {name: np.concatenate([x, np.repeat(x[-1:], -total % step, 0)]) for name, x in inputs.items()}
    outputs = run(inputs)
    ends = np.cumsum(counts).tolist()
    return [{name: y[end - count:end] for name, y in outputs.items()} for count, end in zip(counts, ends)]


def run_batch(run, requests, step):
    """An output, or the exception that stands for it, of each request."""
    groups, answers = {}, [None] * len(requests)
    for i, request in enumerate(requests):
        groups.setdefault(tuple(x.shape[1:] for x in request.values()), []).append(i)
    for members in groups.values():
        try:
            results = run_together(run, [requests[i] for i in members], step)
        except Exception as error:  # the engine's own word for it; other groups have theirs
            results = [error] * len(members)
        for i, result in zip(members, results):
            answers[i] = result
    return answers


# ---- Requests ----
def array_of(name, given, dtype):
    """The values as the model takes them: floating ones are rounded, integers must be some."""
    try:
        with np.errstate(invalid="ignore"):  # compared below
            values = np.asarray(given)
            made = np.asarray(values, dtype, order="C")
    except (TypeError, OverflowError, ValueError) as error:
        raise ValueError(f"{name} is no array of {np.dtype(dtype)}: {error}") from error
    is_same = np.issubdtype(made.dtype, np.inexact) or np.array_equal(made, values)
    if values.dtype.kind not in "biuf" or not is_same:
        raise ValueError(f"{name} is no array of {np.dtype(dtype)}: it holds {values.dtype} that are none")
    return made


def decode(body, is_json, dtypes):
    """{input: array} in the model's order. A ValueError says what is wrong with a request."""
    try:
        given = dict(json.loads(body) if is_json else np.load(io.BytesIO(body)))
    except Exception as error:
        form = "JSON" if is_json else "an .npz file"
        raise ValueError(f"a request is {form} that has inputs by name: {error}") from error
    if set(given) != set(dtypes):
        raise ValueError(f"the inputs are {', '.join(dtypes)}, not {', '.join(given)}")
    arrays = {name: array_of(name, given[name], dtype) for name, dtype in dtypes.items()}
    if len({x.shape[:1] for x in arrays.values()}) != 1 or not all(x.shape and len(x) for x in arrays.values()):
        shapes = ", ".join(str(list(x.shape)) for x in arrays.values())
        raise ValueError(f"all inputs need one first extent of at least 1, not {shapes}")
    return arrays


def encode(outputs, is_json):
    if is_json:
        return json.dumps({name: y.tolist() for name, y in outputs.items()}).encode()
    body = io.BytesIO()
    np.savez(body, **outputs)
    return body.getvalue()


class Model:
    def __init__(self, options):
        from ray import serve
        mine = serve.get_replica_context().rank.local_rank % options.replicas
        cpus = shares(options.replicas, numa_nodes())[mine]
        pin(cpus)
        self.worker = concurrent.futures.ThreadPoolExecutor(1)  # one, which keeps its team; requests gather meanwhile
        self.dtypes, self.run = ENGINES[options.engine](options.model, options.dtype, len(cpus))
        self.step = -(-options.max_batch // NETS)

    async def answer(self, requests):
        return await asyncio.get_running_loop().run_in_executor(self.worker, run_batch, self.run, requests, self.step)

    async def __call__(self, request):
        from starlette.responses import Response
        is_json = request.headers.get("content-type", "").startswith("application/json")
        try:
            outputs = await self.answer(decode(await request.body(), is_json, self.dtypes))
        except ValueError as wrong:
            outputs = wrong
        if isinstance(outputs, Exception):
            return Response(f"{outputs}\n", 400 if isinstance(outputs, ValueError) else 500, media_type="text/plain")
        return Response(encode(outputs, is_json), media_type=f"application/{'json' if is_json else 'octet-stream'}")


# ---- The command line ----
def parse(words=None):
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("model", type=os.path.abspath, help="ONNX file, whose first extent is a batch of any size")
    p.add_argument("--engine", choices=ENGINES, default="amp")
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    p.add_argument("--replicas", type=int, default=len(numa_nodes()), help="processes of a machine (one for each NUMA node)")
    p.add_argument("--max-batch", type=int, default=8, help="requests that run together (8)")
    p.add_argument("--wait-ms", type=float, default=2, help="how long the first of a batch waits for others (2)")
    p.add_argument("--port", type=int, default=8000)
    p.add_argument("--address", help="of a Ray cluster, or auto: its machines serve too; without it, this one alone")
    return p.parse_args(words)


def main():
    options = parse()
    import ray
    from ray import serve
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers
    ray.init(address=options.address, **({} if options.address else {"include_dashboard": False}))
    machines = sum(node["Alive"] for node in ray.nodes())
    Model.answer = serve.batch(max_batch_size=options.max_batch, batch_wait_timeout_s=options.wait_ms / 1e3)(Model.answer)
    deployment = serve.deployment(num_replicas=options.replicas * machines, max_replicas_per_node=options.replicas,
                                  max_ongoing_requests=4 * options.max_batch, ray_actor_options={"num_cpus": 0})(Model)
    serve.start(http_options={"port": options.port})
    serve.run(deployment.bind(options), name="model")
    print(f"ready: http://127.0.0.1:{options.port}/", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.pause()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()

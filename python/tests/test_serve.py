"""python/examples/serve.py under Ray Serve: it starts two processes here, answers as the graph does, is loaded, and stops.
Only where Ray is installed: `pip install ray[serve]`."""
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import amp

if not find_spec("ray"):
    raise unittest.SkipTest("Ray is not installed (pip install ray[serve])")

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "examples"), str(HERE.parents[1] / "tests" / "tool")]
import load  # pylint: disable=wrong-import-position
import serve  # pylint: disable=wrong-import-position
from onnx_files import FLOAT, INT64, model, node, table, value  # pylint: disable=wrong-import-position

MODEL = model([node("Gather", ["table", "ids"], ["rows"]), node("MatMul", ["rows", "square"], ["p"]),
               node("Add", ["p", "bias"], ["y"])],
              [value("ids", INT64, "batch", "tokens"), value("bias", FLOAT, "batch", 1, 16)],
              [value("y", FLOAT, "batch", "tokens", 16)],
              [table("table", 50, 16, [i / 70 for i in range(800)]), table("square", 16, 16, [i / 30 - 4 for i in range(256)])])


def pinned(url_port):
    """The CPUs of each process that serves there, of every thread."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"ServeReplica:model:Model" in (folder / "cmdline").read_bytes() and \
                    f"AMP_TEST_SERVE={url_port}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(frozenset(frozenset(os.sched_getaffinity(int(task.name))) for task in (folder / "task").iterdir()))
        except OSError:
            continue  # it has ended
    return found


class Served:
    """A server on a port that was free."""

    def __init__(self, path, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.log = tempfile.TemporaryFile("w+")
        command = [sys.executable, HERE.parent / "examples" / "serve.py", path, "--port", str(self.port), *options]
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "AMP_TEST_SERVE": str(self.port)}
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, env=environment)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def wait(self):
        end = time.monotonic() + 240
        while f"ready: {self.url}" not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise AssertionError(f"it did not start:\n{self.text()}")
            time.sleep(0.2)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def post(self, body, kind="application/octet-stream"):
        """(status, body)"""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url, body, {"content-type": kind}), timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def ask(self, inputs):
        body = io.BytesIO()
        np.savez(body, **inputs)
        status, answer = self.post(body.getvalue())
        return np.load(io.BytesIO(answer))["y"] if status == 200 else f"{status} {answer.decode()}"


def inputs(seed, items=1, tokens=5):
    random = np.random.default_rng(seed)
    return {"ids": random.integers(0, 50, (items, tokens)), "bias": random.standard_normal((items, 1, 16), np.float32)}


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = os.path.join(cls.folder.name, "model.onnx")
        Path(cls.path).write_bytes(MODEL)
        cls.graph = amp.load(cls.path)

    def agrees(self, given, answer, error=1e-5):
        self.assertIsInstance(answer, np.ndarray, answer)
        np.testing.assert_allclose(answer, self.graph(**given).numpy(), rtol=error, atol=error * 300)

    def check(self, *options, error=1e-5):
        served = Served(self.path, *options).wait()
        try:
            self.answers(served, error)
        finally:
            code = served.stop()
        self.assertEqual(code, 0, served.text())
        with self.assertRaises(OSError):
            served.ask(inputs(0))
        self.assertEqual(pinned(served.port), set())

    def answers(self, served, error):
        self.assertEqual(pinned(served.port), {frozenset([frozenset(cpus)]) for cpus in serve.shares(2, serve.numa_nodes())})
        for items, tokens in ((1, 5), (3, 5), (1, 2)):
            given = inputs(items, items, tokens)
            self.agrees(given, served.ask(given), error)
        with ThreadPoolExecutor(12) as clients:  # requests that come together, in batches; two of three have the same extents
            many = [inputs(seed, 1 + seed % 2, 5 + (seed % 3 == 0)) for seed in range(60)]
            for given, answer in zip(many, clients.map(served.ask, many)):
                self.agrees(given, answer, error)
        given = inputs(7)
        status, answer = served.post(json.dumps({name: x.tolist() for name, x in given.items()}).encode(), "application/json")
        self.assertEqual(status, 200)
        self.agrees(given, np.array(json.loads(answer)["y"], np.float32), error)
        self.assertRegex(served.ask({"ids": given["ids"]}), "400 the inputs are ids, bias, not ids")
        self.assertRegex(served.ask({**given, "bias": given["bias"][:, :, :3]}), "^[45]00 .*")
        self.agrees(given, served.ask(given), error)
        result = load.load(served.url, ["ids=i64:1x5:50", "bias=f32:1x1x16"], clients=4, seconds=1, warm=0.2)
        self.assertEqual(result["errors"], [])
        self.assertGreater(result["requests"], 0)

    def test_amp(self):
        self.check("--replicas", "2", "--max-batch", "4")

    def test_amp_bf16(self):
        self.check("--replicas", "2", "--dtype", "bf16", error=2e-2)

    def test_onnxruntime(self):
        if not find_spec("onnxruntime"):
            self.skipTest("onnxruntime is not installed")
        self.check("--replicas", "2", "--engine", "onnxruntime")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""amp bench on a small model made here: its table, its report for programs, and its sentence for every mistake.

tests/tool/test_bench.py build/release/amp
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from onnx_files import FLOAT, model, node, table, value

AMP = os.path.abspath(sys.argv.pop(1))
PRODUCT = model([node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])], [value("x", FLOAT, "batch", 4)],
                [value("y", FLOAT, "batch", 4)], [table("w", 4, 4, [i / 3 - 2 for i in range(16)])])
UNKNOWN = model([node("NoSuchOp", ["x"], ["y"])], [value("x", FLOAT, 2)], [value("y", FLOAT, 2)])
SETS = ["ref", "avx2", "avx512", "avx512bf16", "amx"]


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        self.product, self.unknown = self.write("product.onnx", PRODUCT), self.write("unknown.onnx", UNKNOWN)

    def write(self, name, data):
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def bench(self, *arguments, **environment):
        done = subprocess.run([AMP, "bench", *arguments], capture_output=True, timeout=300,
                              env={**os.environ, "OMP_WAIT_POLICY": "passive", **environment})
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def fails(self, part, *arguments):
        with self.subTest(arguments):
            code, out, err = self.bench(*arguments)
            self.assertIn(part, err)
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(len([line for line in err.splitlines() if not line.startswith("Try ")]), 1, err)

    def rows(self, *arguments, **environment):
        code, out, err = self.bench(self.product, "--json", "--runs", "4", "--seconds", "0.2", *arguments, **environment)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def test_all_sets_but_the_reference(self):
        report = self.rows("--threads", "2")
        missing = [row["isa"] for row in report["machine"]["unusable"]]
        wanted = [s for s in SETS if s not in missing and s != "ref"] or ["ref"]
        self.assertEqual([(r["isa"], r["threads"], r["dtype"]) for r in report["rows"]],
                         [(s, t, d) for s in wanted for t in (1, 2) for d in ("f32", "bf16")])
        self.assertEqual(report["inputs"][0]["source"], "random")
        for row in report["rows"]:
            self.assertEqual(len(row["sorted_ms"]), 4)
            self.assertEqual(row["sorted_ms"], sorted(row["sorted_ms"]))
            self.assertTrue(0 < row["p10_ms"] <= row["median_ms"] <= row["p90_ms"], row)
            self.assertTrue(row["load_ms"] > 0 and row["prepare_ms"] > 0 and row["first_ms"] > 0 and row["peak_bytes"] > 1e6 and row["speed"] > 0, row)

    def test_what_is_asked_for(self):
        report = self.rows("--isa", "ref", "--threads", "1", "--bf16")
        self.assertEqual([(r["isa"], r["threads"], r["dtype"], r["speed"]) for r in report["rows"]], [("ref", 1, "bf16", 1)])
        report = self.rows("--threads", "1", "--f32", AMP_MAX_ISA="ref")  # where there is nothing else
        self.assertEqual([r["isa"] for r in report["rows"]], ["ref"])

    def test_table(self):
        code, out, err = self.bench(self.product, "--shape", "x=3x4", "--seconds", "0.2", "--isa", "ref", "--threads", "2")
        self.assertEqual((code, err), (0, ""))
        for part in ("product.onnx:", "[batch=3, 4]", "Made up: x (seed 0)", "threads", "median", "10 %", "90 %", "peak",
                     "Speed: ref's f32 with as many threads is 1."):
            self.assertIn(part, " ".join(out.split()))
        self.assertRegex(out, r"\n  1 thread  [ a-zA-Z]+\n  ref +f32 [ 0-9.]+ 1\.00x\n  ref +bf16 [ 0-9.]+x\n  2 threads [ a-zA-Z]+\n")
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)

    def test_mistakes(self):
        for arguments, part in [
            ([], "amp bench: a model is missing"),
            ([self.product, "--check"], "there is no option '--check'"),
            ([self.product, "--output", "x"], "there is no option '--output'"),
            ([self.product, "--runs", "0"], "'--runs' takes an integer from 1 to 1000000, not '0'"),
            ([self.product, "--isa", "sse"], "or several with commas between, not 'sse'"),
            ([self.product, "--isa", "ref,"], "not ''"),
            ([self.product, "--isa", "ref,ref"], "--isa names ref twice"),
            ([self.product, "--shape", "q=1"], "the model has no input 'q'"),
            (["/no/such.onnx"], "/no/such.onnx"),
            ([self.unknown], "NoSuchOp"),
        ]:
            self.fails(part, *arguments)

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([AMP, "bench", self.product, "--isa", "ref", "--threads", "1", "--runs", "1"], stdout=full,
                                  stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No space left on device", done.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""amp run on small models made here: what it computes, writes and prints, and its sentence for every mistake.

tests/tool/test_run.py build/release/amp
"""
import base64
import json
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from onnx_files import FLOAT, INT64, UINT8, model, node, table, value

AMP = os.path.abspath(sys.argv.pop(1))

IMAGE = model([node("Identity", ["x"], ["y"])], [value("x", FLOAT, "batch", 3, "height", "width")],
              [value("y", FLOAT, "batch", 3, "height", "width")])
GREY = model([node("Identity", ["x"], ["y"])], [value("x", FLOAT, 1, 1, 2, 2)], [value("y", FLOAT, 1, 1, 2, 2)])
LAST = model([node("Identity", ["x"], ["y"])], [value("x", FLOAT, 1, 2, 2, 3)], [value("y", FLOAT, 1, 2, 2, 3)])
BYTES = model([node("Identity", ["x"], ["y"])], [value("x", UINT8, 1, 3, 2, 2)], [value("y", UINT8, 1, 3, 2, 2)])
# Rows of a table, picked and multiplied: f32 and bf16 differ; which is the largest they agree on.
TOKENS = model([node("Gather", ["table", "ids"], ["rows"]), node("MatMul", ["rows", "square"], ["a/b"]),
                node("Identity", ["mask"], ["a_b"]), node("Identity", ["mask"], ["bools"])],
               [value("ids", INT64, "batch", "tokens"), value("mask", INT64, "batch", "tokens")],
               [value("a/b", FLOAT, "batch", "tokens", 4), value("a_b", INT64, "batch", "tokens")],
               [table("table", 5, 4, [i / 7 for i in range(20)]), table("square", 4, 4, [i / 3 - 2 for i in range(16)])])
UNKNOWN = model([node("NoSuchOp", ["x"], ["a"], "first"), node("Relu", ["a"], ["b"]), node("NoSuchOp", ["b"], ["c"], "second"),
                 node("Other", ["c"], ["y"], "third", "my.domain")], [value("x", FLOAT, 2)], [value("y", FLOAT, 2)],
                domains=("", "my.domain"))
HOSTILE = model([node("Identity", ["\x1b[31mx=\n"], ["\x1b]0;y\x07"])], [value("\x1b[31mx=\n", FLOAT, "\x1b[2J", 2)],
                [value("\x1b]0;y\x07", FLOAT, None, 2)], producer="\x1b[5m")


# ---- Inputs ---------------------------------------------------------------------------------------------------------
def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + size])  # a literal that amp wrote
    return header["descr"], header["shape"], data[10 + size:]


def png(width, height, pixels, kind=2, bits=8):
    """kind: 0 grey, 2 RGB, 6 RGBA"""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    line = len(pixels) // height
    lines = b"".join(b"\0" + pixels[i * line:(i + 1) * line] for i in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


RED_GREEN = png(2, 2, bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 51, 102, 204]))


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name
        self.addCleanup(self.folder.cleanup)
        self.models = {}
        for name in ("IMAGE", "GREY", "LAST", "BYTES", "TOKENS", "UNKNOWN", "HOSTILE"):
            self.models[name] = self.write(name.lower() + ".onnx", globals()[name])

    def write(self, name, data):
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def run_amp(self, *arguments, **more):
        done = subprocess.run([AMP, "run", *arguments], capture_output=True, timeout=300, **more)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def fails(self, part, *arguments, code=2):
        with self.subTest(arguments):
            got, out, err = self.run_amp(*arguments)
            self.assertIn(part, err)
            self.assertEqual((got, out), (code, ""))
            self.assertLessEqual(len([line for line in err.splitlines() if not line.startswith("Try ")]), 1, err)

    def outputs(self, name, *arguments):
        """The report, and the outputs that were written."""
        out = os.path.join(self.path, "out")
        code, text, err = self.run_amp(self.models[name], "--json", "--runs", "0", "--output", out, *arguments)
        self.assertEqual((code, err), (0, ""))
        return json.loads(text), {file: read_npy(os.path.join(out, file)) for file in os.listdir(out)}

    def floats(self, name, *arguments):
        _, files = self.outputs(name, "--f32", *arguments)
        descr, shape, data = files["y.npy"]
        self.assertEqual(descr, "<f4")
        return shape, struct.unpack(f"<{len(data) // 4}f", data)

    # ---- What it computes and writes ----
    def test_npy_in_and_out(self):
        ids = self.write("ids.npy", npy("<i8", (1, 2), struct.pack("<2q", 4, 0)))
        report, files = self.outputs("TOKENS", "--input", "ids=" + ids)
        self.assertEqual(sorted(files), ["a_b.bf16.npy", "a_b.npy", "a_b_2.bf16.npy", "a_b_2.npy"])
        descr, shape, data = files["a_b.npy"]
        rows = [[(16 + i) / 7 for i in range(4)], [i / 7 for i in range(4)]]
        expected = [sum(row[i] * ((4 * i + j) / 3 - 2) for i in range(4)) for row in rows for j in range(4)]
        self.assertEqual((descr, shape), ("<f4", (1, 2, 4)))
        for got, wanted in zip(struct.unpack("<8f", data), expected):
            self.assertAlmostEqual(got, wanted, 4)
        self.assertEqual(files["a_b.bf16.npy"][0], "<f4")  # NumPy has no bf16
        self.assertEqual(files["a_b_2.npy"][:2], ("<i8", (1, 2)))
        self.assertEqual([i["source"] for i in report["inputs"]], ["npy", "random"])
        self.assertEqual(report["inputs"][1]["shape"], [1, 2])  # "batch" and "tokens", as of ids
        near = report["outputs"][0]["bf16_against_f32"]
        self.assertTrue(0.999 < near["cosine"] <= 1 and 0 < near["largest_error"] < 0.1 * near["largest_value"], near)
        self.assertEqual(report["outputs"][1]["bf16_against_f32"]["different"], 0)
        self.assertEqual(report["outputs"][0]["f32"]["dtype"], "f32")
        self.assertEqual(report["outputs"][0]["bf16"]["dtype"], "f32")
        self.assertEqual(report["times"], {})

    def test_made_up_integers_pick_from_the_table(self):
        _, files = self.outputs("TOKENS", "--shape", "ids=20x50", "--f32")
        numbers = struct.unpack("<1000q", files["a_b_2.npy"][2])
        self.assertEqual(set(numbers), {0, 1})  # the mask, whose extents are ids'
        self.assertIn("random, 0 to 4", self.run_amp(self.models["TOKENS"], "--shape", "ids=2x2", "--runs", "0")[1])

    def test_made_up_numbers_follow_the_seed(self):
        first, again, other = (self.floats("IMAGE", "--shape", "2x3x4x5", "--seed", seed) for seed in ("7", "7", "8"))
        self.assertEqual(first[0], (2, 3, 4, 5))
        self.assertEqual(first, again)
        self.assertNotEqual(first[1], other[1])

    def test_images(self):
        image = self.write("a.png", RED_GREEN)
        expected = [1, 0, 0, 0.2, 0, 1, 0, 0.4, 0, 0, 1, 0.8]
        shape, values = self.floats("IMAGE", "--input", image)
        self.assertEqual(shape, (1, 3, 2, 2))
        for got, wanted in zip(values, expected):
            self.assertAlmostEqual(got, wanted, 6)
        _, values = self.floats("IMAGE", "--input", image, "--mean", "0.5,0.25,0", "--scale", "0.5,2,1")
        for i, (got, wanted) in enumerate(zip(values, expected)):
            self.assertAlmostEqual(got, (wanted - (0.5, 0.25, 0)[i // 4]) / (0.5, 2, 1)[i // 4], 6)
        shape, values = self.floats("GREY", "--input", "x=" + image)
        for got, wanted in zip(values, (76, 150, 29, 98)):  # luma
            self.assertAlmostEqual(got, wanted / 255, 6)
        shape, values = self.floats("LAST", "--input", "x=" + image)  # channels last, as the shape says
        self.assertEqual(shape, (1, 2, 2, 3))
        self.assertEqual([round(v, 6) for v in values], [1, 0, 0, 0, 1, 0, 0, 0, 1, 0.2, 0.4, 0.8])
        _, files = self.outputs("BYTES", "--input", image, "--f32")
        self.assertEqual(files["y.npy"], ("|u1", (1, 3, 2, 2), bytes([255, 0, 0, 51, 0, 255, 0, 102, 0, 0, 255, 204])))

    def test_images_of_other_kinds(self):
        grey = self.write("grey.png", png(2, 1, bytes([0, 255]), kind=0))
        deep = self.write("deep.png", png(1, 1, bytes([128, 128, 0, 0, 255, 255]), bits=16))
        clear = self.write("clear.png", png(1, 1, bytes([9, 9, 9, 0]), kind=6))
        self.assertEqual(self.floats("IMAGE", "--input", grey), ((1, 3, 1, 2), (0, 1, 0, 1, 0, 1)))
        self.assertEqual([round(255 * v) for v in self.floats("IMAGE", "--input", deep)[1]], [128, 0, 255])
        self.assertEqual(self.floats("IMAGE", "--input", clear)[1], (1, 1, 1))
        shape, values = self.floats("IMAGE", "--input", self.write("a.jpg", JPEG))
        self.assertEqual(shape, (1, 3, 8, 8))
        self.assertTrue(all(abs(255 * v - w) < 6 for v, w in zip(values[::64], (200, 100, 50))), values[::64])

    def test_images_take_the_size_that_is_wanted(self):
        image = self.write("wide.png", png(4, 2, bytes([0, 0, 0, 255, 255, 255] * 4)))
        shape, values = self.floats("IMAGE", "--input", image, "--shape", "x=1x3x4x8")
        self.assertEqual(shape, (1, 3, 4, 8))
        self.assertAlmostEqual(values[0], 0, 6)
        self.assertAlmostEqual(values[1], 0.25, 6)
        shape, values = self.floats("IMAGE", "--input", image, "--shape", "x=1x3x1x2")
        self.assertTrue(all(0.3 < v < 0.7 for v in values), values)  # of all pixels, not of the nearest two

    # ---- What it prints ----
    def test_report(self):
        code, out, err = self.run_amp(self.models["TOKENS"], "--shape", "ids=1x3", "--seconds", "0.05", "--threads", "1")
        self.assertEqual((code, err), (0, ""))
        for part in ("tokens.onnx:", "4 nodes", "made by tests", "[batch=1, tokens=3]", "Made up: ids, mask (seed 0)", "f32",
                     "load, ms", "prepare, ms", "first run, ms", "median run, ms", "10 %", "90 %", "peak memory, MB", "tokens a second",
                     "speed-up", "a/b [1, 3, 4], f32\n", "cosine 0.99", "1 thread;"):
            self.assertIn(part, out)
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)
        self.assertNotIn("CPU time", out)
        out = self.run_amp(self.models["TOKENS"], "--shape", "ids=1x3", "--runs", "3", "--cpu-time")[1]
        self.assertIn("CPU time; 3 runs of each", out)

    def test_open_extents(self):
        self.fails("input 'x' f32 [batch, 3, height, width] leaves extents open: give --shape x=1x3xHEIGHTxWIDTH, or --input "
                   "x=FILE", self.models["IMAGE"])
        self.fails("--shape ids=1xTOKENS", self.models["TOKENS"])
        image = self.models["IMAGE"]
        out = self.run_amp(self.write("b.onnx", model([node("Relu", ["x"], ["y"])], [value("x", FLOAT, "batch", 3)],
                                                      [value("y", FLOAT, "batch", 3)])), "--runs", "0")[1]
        self.assertIn("Open, and 1 here: batch; to set it: --shape x=BATCHx3.", out)
        self.assertEqual(self.run_amp(image, "--shape", "x=0x3x1x1", "--runs", "0")[0], 0)  # nothing is a shape too

    def test_json(self):
        code, out, err = self.run_amp(self.models["TOKENS"], "--shape", "ids=2x3", "--json", "--runs", "5")
        report = json.loads(out)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(report["model"]["opset"], 17)
        for kind in ("f32", "bf16"):
            times = report["times"][kind]
            self.assertEqual(len(times["sorted_ms"]), 5)
            self.assertTrue(times["p10_ms"] <= times["median_ms"] <= times["p90_ms"])
            self.assertTrue(times["load_ms"] > 0 and times["prepare_ms"] > 0 and times["first_ms"] > 0 and times["peak_bytes"] > 1e6, times)
            self.assertAlmostEqual(times["items_per_second"], 6000 / times["median_ms"], 3)
            self.assertEqual(times["items"], "tokens")

    def test_what_a_run_computes(self):
        cases = ((FLOAT, (2, 3, 8, 9), "images a second, 2 a run"), (FLOAT, (2, 8, 9, 1), "images a second, 2 a run"),
                 (FLOAT, (1, 3, 8, 9), "images a second "), (FLOAT, (2, 8, 9, 16), "items a second, 2 a run"),
                 (FLOAT, (2, 3), "items a second, 2 a run"))
        for kind, shape, line in cases:
            path = self.write("u.onnx", model([node("Relu", ["x"], ["y"])], [value("x", kind, *shape)],
                                              [value("y", kind, *shape)]))
            self.assertIn(line, self.run_amp(path, "--runs", "2")[1])
            report = json.loads(self.run_amp(path, "--runs", "2", "--json")[1])
            self.assertEqual(report["times"]["f32"]["items"], line.split()[0])

    def test_packs(self):
        packs, more = os.path.join(self.path, "packs"), ("--shape", "ids=2x3", "--runs", "1", "--bf16")
        for said in ("written now", "which was there"):
            code, out, err = self.run_amp(self.models["TOKENS"], "--packs", packs, *more)
            self.assertEqual((code, err), (0, ""))
            self.assertIn(said, " ".join(out.split()))
        report = json.loads(self.run_amp(self.models["TOKENS"], "--packs", packs, "--json", *more)[1])
        self.assertEqual((report["packs"], report["packs_written"]), (packs, False))
        with open(packs, "r+b") as file:
            file.truncate(5000)
        self.fails("it is not whole", self.models["TOKENS"], "--packs", packs, *more)
        self.fails("--packs is for the CPU", self.models["TOKENS"], "--packs", packs, "--device", "cuda")

    def test_a_model_without_inputs(self):
        constant = self.write("c.onnx", model([node("Identity", ["t"], ["y"])], [], [value("y", FLOAT, 1, 2)],
                                              [table("t", 1, 2, [3, 4])]))
        code, out, err = self.run_amp(constant, "--runs", "2")
        self.assertEqual((code, err), (0, ""))
        self.assertNotIn("a second", out)
        self.assertNotIn("Made up", out)
        self.assertRegex(out, r"both +3.0000 +4.0000\n")
        self.fails("the model has no input 'x'; it has none", constant, "--shape", "x=1")

    def test_names_with_an_equals_sign(self):
        odd = self.write("o.onnx", model([node("Add", ["a", "a=b"], ["y"])], [value("a", FLOAT, 2), value("a=b", FLOAT, 2)],
                                         [value("y", FLOAT, 2)]))
        file = self.write("v.npy", npy("<f4", (2,), struct.pack("<2f", 5, 6)))
        report = json.loads(self.run_amp(odd, "--json", "--runs", "0", "--input", "a=b=" + file)[1])
        self.assertEqual([i["source"] for i in report["inputs"]], ["random", "npy"])

    def test_only_one(self):
        for option, other in (("--f32", "bf16"), ("--bf16", "f32")):
            out = self.run_amp(self.models["TOKENS"], "--shape", "ids=1x1", "--json", "--runs", "1", option)[1]
            report = json.loads(out)
            self.assertNotIn(other, report["times"])
            self.assertNotIn(other, report["outputs"][0])
            self.assertNotIn("bf16_against_f32", report["outputs"][0])

    @staticmethod
    def all_of(leader):
        """What a terminal got that nobody writes to any more: it comes in pieces, and then an error."""
        said = b""
        try:
            while piece := os.read(leader, 65536):
                said += piece
        except OSError:
            pass
        return said

    def test_progress_on_a_terminal_leaves_nothing(self):
        try:
            leader, follower = pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal to be had: {error}")
        done = subprocess.run([AMP, "run", self.models["TOKENS"], "--shape", "ids=1x1", "--seconds", "0.7"],
                              stdout=subprocess.PIPE, stderr=follower, timeout=300)
        os.close(follower)
        said = self.all_of(leader).decode()
        os.close(leader)
        self.assertEqual(done.returncode, 0)
        self.assertIn("round ", said)
        self.assertTrue(said.endswith("\r\x1b[K"), said)

    def test_check(self):
        code, out, err = self.run_amp("--check", self.models["UNKNOWN"])
        self.assertEqual((code, err), (1, ""))
        self.assertIn("3 of 4 nodes cannot run", out)
        self.assertRegex(out, r"NoSuchOp +2 ")
        self.assertRegex(out, r"my.domain.Other +1 ")
        code, out, _ = self.run_amp("--check", "--json", self.models["UNKNOWN"])
        self.assertEqual(code, 1)
        self.assertEqual([n["node"] for n in json.loads(out)["unsupported"]], ["first", "second", "third"])
        self.assertEqual(self.run_amp("--check", self.models["TOKENS"])[:2],
                         (0, f"{self.models['TOKENS']}, opset 17: all 4 nodes can run\n"))

    # ---- Mistakes ----
    def test_usage(self):
        tokens = self.models["TOKENS"]
        for arguments, part in [
            ([], "a model is missing"),
            (["--nope", tokens], "there is no option '--nope'"),
            ([tokens, tokens], "one model at a time"),
            ([tokens, "--input"], "'--input' needs a value: NAME=FILE"),
            ([tokens, "--runs", "-1"], "'--runs' takes an integer from 0 to 1000000, not '-1'"),
            ([tokens, "--runs", "1e3"], "not '1e3'"),
            ([tokens, "--threads", "0"], "'--threads' takes an integer from 1 to 4096"),
            ([tokens, "--seconds", "nan"], "not 'nan'"),
            ([tokens, "--seed", "99999999999999999999"], "'--seed' takes an integer from 0 on"),
            ([tokens, "--device", "tpu"], "'--device' takes cpu or cuda, not 'tpu'"),
            ([tokens, "--isa", "sse"], "'--isa' takes ref, avx2, avx512, avx512bf16 or amx, not 'sse'"),
            ([tokens, "--layout", "chwn"], "'--layout' takes nchw or nhwc"),
            ([tokens, "--mean", "1,2"], "'--mean' takes a number, or three"),
            ([tokens, "--scale", "1,0,1"], "'--scale' takes a number other than 0"),
            ([tokens, "--mean", "0.5"], "--mean, --scale and --layout are for image files, and no --input is one"),
            ([tokens, "--shape", "ids=1y2"], "not '1y2'"),
            ([tokens, "--shape", "ids=1x2x"], "not '1x2x'"),
            ([tokens, "--shape", "ids=1x-2"], "not '1x-2'"),
            ([tokens, "--shape", "ids=99999999999999999999x1"], "not '99999999999999999999x1'"),
            ([tokens, "--shape", "ids=1x1x1x1x1x1x1x1x1"], "up to 8 extents"),
            ([tokens, "--shape", "1x2"], "does not say of which input; the model's are 'ids' i64 [batch, tokens], 'mask'"),
            ([tokens, "--shape", "ids=1x1", "--shape", "ids=1x2"], "--shape is given twice for input 'ids'"),
            (["--isa", "ref", "--check"], "a model is missing"),
        ]:
            self.fails(part, *arguments)

    def test_bad_files(self):
        tokens, image = self.models["TOKENS"], self.models["IMAGE"]
        floats = self.write("floats.npy", npy("<f8", (1, 2), bytes(16)))
        three = self.write("three.npy", npy("<i8", (1, 2, 1), bytes(16)))
        text = self.write("text.txt", b"hello")
        pipe = os.path.join(self.path, "pipe")
        os.mkfifo(pipe)
        cut = self.write("cut.npy", npy("<i8", (1, 2), bytes(9)))
        for arguments, part in [
            (["/no/such.onnx"], "/no/such.onnx"),
            ([text], text),
            ([self.path], self.path),
            ([self.models["UNKNOWN"]], "NoSuchOp"),
            ([tokens, "--input", "q=" + three], "the model has no input 'q'; its inputs are 'ids' i64 [batch, tokens], 'mask'"),
            ([image, "--shape", "q=1"], "the model has no input 'q'; it has 'x' f32 [batch, 3, height, width]"),
            ([tokens, "--input", "ids=/no/such.npy"], "cannot read '/no/such.npy': No such file"),
            ([tokens, "--input", "ids=" + self.path], "is no file of the ordinary kind"),
            ([tokens, "--input", "ids=" + pipe], "is no file of the ordinary kind"),
            ([tokens, "--input", "ids=" + text], "is no .npy file, and no PNG or JPEG image"),
            ([tokens, "--input", "ids=" + cut], cut),
            ([tokens, "--input", "ids=" + floats], "input 'ids' wants i64 [batch, tokens], but '" + floats + "' holds f64 [1, 2]"),
            ([tokens, "--input", "ids=" + three], "holds i64 [1, 2, 1]"),
            ([tokens, "--input", "ids=" + three, "--shape", "ids=1x1"], "has a file, which has a shape"),
            ([image, "--shape", "1x4x2x2"], "input 'x' wants f32 [batch, 3, height, width], but --shape gives [1, 4, 2, 2]"),
            ([image, "--shape", "99999999x3x99999999x999"], ""),
        ]:
            code = 1 if "99999999x3" in arguments[-1] else 2
            self.fails(part, *arguments, code=self.run_amp(*arguments)[0] if code == 1 else 2)

    def test_bad_images(self):
        image, grey = self.models["IMAGE"], self.models["GREY"]
        good = self.write("good.png", RED_GREEN)
        huge = self.write("huge.png", RED_GREEN[:16] + struct.pack(">II", 60000, 60000) + RED_GREEN[24:29] +
                          struct.pack(">I", zlib.crc32(b"IHDR" + struct.pack(">II", 60000, 60000) + RED_GREEN[24:29])) +
                          RED_GREEN[33:])
        for file, part in [
            (self.write("cut.png", RED_GREEN[:50]), "cannot read the image"),
            (self.write("bad.png", RED_GREEN[:45] + b"\xff" + RED_GREEN[46:]), "cannot read the image"),
            (self.write("cut.jpg", JPEG[:len(JPEG) - 20]), "cannot read the image"),
            (self.write("bad.jpg", JPEG[:30]), "cannot read the image"),
            (huge, "60000 x 60000 pixels"),
        ]:
            self.fails(part, image, "--input", file)
        self.fails("takes no image: that is four extents", self.models["TOKENS"], "--input", "ids=" + good)
        self.fails("a file is one image, not a batch", image, "--input", good, "--shape", "x=2x3x2x2")
        self.fails("numbers for three channels", grey, "--input", good, "--mean", "1,2,3")
        self.fails("its last extent is to be 1 or 3 channels", image, "--input", good, "--shape", "x=1x3x5x5", "--layout", "nhwc")
        self.fails("u8 has no room", self.models["BYTES"], "--input", good, "--mean", "1")

    def convert(self, *arguments):
        done = subprocess.run([AMP, "convert", *arguments], capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, done.stderr

    def test_convert(self):
        out, again = os.path.join(self.path, "out.onnx"), os.path.join(self.path, "again.onnx")
        for options in ((), ("--portable",), ("--f32",), ("--portable", "--f32")):
            code, said, error = self.convert(*options, "--shape", "x=1x3x4x5", self.models["IMAGE"], out)
            self.assertEqual((code, error), (0, ""))
            self.assertIn("extents are fixed: x [1, 3, 4, 5]", said)
            form = [o for o in options if o == "--portable"]
            self.assertEqual(self.convert("--f32", *form, out, again)[0], 0)
            with open(out, "rb") as one, open(again, "rb") as two:
                self.assertEqual(one.read(), two.read())
        self.assertEqual(self.convert("--external", "--shape", "x=1x3x4x5", self.models["IMAGE"], out)[0], 0)

    def test_convert_with_free_extents(self):
        out = os.path.join(self.path, "free.onnx")
        more = ("--shape", "x=1x3x4x5", self.models["IMAGE"], out)
        code, said, error = self.convert("--dynamic", "*", *more)
        self.assertEqual((code, error), (0, ""))
        self.assertRegex(said, r"extents are: x \[[a-z]")
        code, said, error = self.convert("--dynamic", "y:0=n", *more)
        self.assertEqual((code, said), (2, ""))
        self.assertIn("no such input", error)

    def test_convert_wrongly(self):
        image, out = self.models["IMAGE"], os.path.join(self.path, "none.onnx")
        for arguments, part in [
            ((), "a model is missing"),
            ((image,), "the name of the file to be written is missing"),
            ((image, out, image), "one model at a time"),
            (("--portabel", image, out), "there is no option '--portabel'"),
            ((image, out, "--shape"), "'--shape' needs a value"),
            ((image, out), "leaves extents open"),
            (("--shape", "x=1x3x4x5", image, "/no/such/folder/out.onnx"), "/no/such/folder/out.onnx"),
            (("--shape", "x=1x3x4x5", image, self.path), "is a directory"),
            (("/no/such.onnx", out), "/no/such.onnx"),
        ]:
            code, said, error = self.convert(*arguments)
            self.assertEqual((code, said), (2, ""), arguments)
            self.assertIn(part, error)
            self.assertTrue(error.startswith("amp convert: "), error)
            self.assertFalse(os.path.exists(out))

    def test_output_that_cannot_be(self):
        tokens, more = self.models["TOKENS"], ("--shape", "ids=1x1", "--runs", "0")
        self.fails("'/dev/full' is no folder", tokens, "--output", "/dev/full", *more)
        self.fails("cannot make the folder '/no/such/folder': No such file", tokens, "--output", "/no/such/folder", *more)
        out = os.path.join(self.path, "small")

        def no_room():  # as a full disk: the file may not grow
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
        done = subprocess.run([AMP, "run", tokens, "--output", out, *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              preexec_fn=no_room, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"a_b.npy", done.stderr)
        self.assertEqual(os.listdir(out), [])  # nothing half-written stays
        with open("/dev/full", "wb") as full:
            for arguments in (more, (*more, "--json"), ("--check",), ("--help",)):
                done = subprocess.run([AMP, "run", tokens, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=300)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"No space left on device", done.stderr)

    def test_texts_of_a_file_do_not_reach_the_terminal(self):
        hostile = self.models["HOSTILE"]
        out = os.path.join(self.path, "odd")
        for arguments in ([hostile, "--runs", "1", "--output", out], [hostile, "--shape", "q=1"], [hostile, "--shape", "9"],
                          [hostile, "--json", "--runs", "0"], ["--check", hostile]):
            _, text, err = self.run_amp(*arguments)
            self.assertNotIn("\x1b", text + err)
            self.assertNotIn("\x07", text + err)
        self.assertEqual(sorted(os.listdir(out)), ["__0_y_.bf16.npy", "__0_y_.npy"])

    def test_cut_models(self):
        for length in range(0, len(TOKENS), 7):
            path = self.write("cut.onnx", TOKENS[:length])
            code, out, err = self.run_amp(path, "--shape", "ids=1x1", "--runs", "0")
            self.assertIn(code, (0, 2), err)
            self.assertEqual(bool(err), code != 0, err)


# 8 × 8 of (200, 100, 50)
JPEG = base64.b64decode(
    "/9j/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/2wBD"
    "AQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wAARCAAIAAgD"
    "ASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAA"
    "Bwj/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCQAHqQf//Z")

if __name__ == "__main__":
    unittest.main()

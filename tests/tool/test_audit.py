#!/usr/bin/env python3
"""amp audit on small models made here: what it finds, the policy that it writes and what amp run makes of it, the page, and
its sentence for every mistake.

tests/tool/test_audit.py build/release/amp
"""
import html.parser
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from onnx_files import FLOAT, INT64, model, node, table, value

AMP = os.path.abspath(sys.argv.pop(1))


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


# Sums near 400, of which 400 is taken away: bf16 leaves little of the rest. The product behind it adds what any does.
LOUD_NODES = [node("MatMul", ["x", "loud_w"], ["t"], "/head/loud"), node("Sub", ["t", "offset"], ["u"], "/head/less"),
              node("MatMul", ["u", "quiet_w"], ["v"], "quiet \"\\ <i>"), node("Relu", ["v"], ["y"])]
LOUD_TENSORS = [table("loud_w", 4, 4, [100 + 0.37 * i for i in range(16)]), table("offset", 1, 4, [400] * 4),
                table("quiet_w", 4, 4, [0.3 + i / 16 for i in range(16)])]
LOUD = model(LOUD_NODES, [value("x", FLOAT, "rows", 4)], [value("y", FLOAT, "rows", 4)], LOUD_TENSORS)
# The same beside a result whose size depends on values: no net, and so no steps, but policies hold.
OP_BY_OP = model(LOUD_NODES + [node("NonZero", ["x"], ["n"])], [value("x", FLOAT, "rows", 4)],
                 [value("y", FLOAT, "rows", 4), value("n", INT64, 2, "count")], LOUD_TENSORS)
X = npy("<f4", (3, 4), struct.pack("<12f", *(1 + 0.013 * i for i in range(12))))
WHOLE = model([node("Identity", ["x"], ["y"])], [value("x", INT64, 2)], [value("y", INT64, 2)])
BY_VALUE = model([node("NonZero", ["x"], ["y"])], [value("x", FLOAT, 4)], [value("y", INT64, 1, "n")])


def chain(length):
    """Products that turn by an angle, and sines between."""
    nodes = [node("MatMul" if i % 2 == 0 else "Sin", [f"v{i}", "turn"][:2 - i % 2], [f"v{i + 1}"], f"/chain/{i}")
             for i in range(length)]
    return model(nodes, [value("v0", FLOAT, 1, 2)], [value(f"v{length}", FLOAT, 1, 2)],
                 [table("turn", 2, 2, [1.11, -0.7, 0.7, 1.11])])


class Page(html.parser.HTMLParser):
    """Every element that is opened is closed, in its order; which classes and texts there are."""
    VOID = {"meta", "line", "rect/", "circle", "polyline"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.bad = [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append(tag)

    def handle_data(self, data):
        self.text += data


class Audit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.path = folder.name
        self.addCleanup(folder.cleanup)
        self.loud, self.x = self.write("loud.onnx", LOUD), self.write("x.npy", X)
        self.policy, self.page = os.path.join(self.path, "policy.txt"), os.path.join(self.path, "page.html")

    def write(self, name, data):
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def run_amp(self, *arguments):
        done = subprocess.run([AMP, *arguments], capture_output=True, timeout=300, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def audit(self, *arguments, code=0):
        got, out, err = self.run_amp("audit", "--json", *arguments)
        self.assertEqual(got, code, err)
        return json.loads(out)

    def fails(self, part, *arguments, code=2):
        with self.subTest(arguments):
            got, out, err = self.run_amp(*arguments)
            self.assertIn(part, err)
            self.assertEqual((got, out), (code, ""))
            self.assertLessEqual(len([line for line in err.splitlines() if not line.startswith("Try ")]), 1, err)

    def cosine(self, *arguments, file=None):
        code, out, err = self.run_amp("run", file or self.loud, "--input", self.x, "--json", "--runs", "0", *arguments)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)["outputs"][0]["bf16_against_f32"]["cosine"]

    # ---- What it finds ----
    def test_the_step_that_adds_the_error_is_kept(self):
        report = self.audit(self.loud, "--input", self.x, "--cosine", "0.99999", "-o", self.policy, "--html", self.page)
        self.assertEqual((report["kept"], report["reached"], report["tried_all"]), (1, True, True))
        self.assertLess(report["before"]["cosine"], 0.99999)
        self.assertGreaterEqual(report["after"]["cosine"], 0.99999)
        kept = [step for step in report["steps"] if step["kept_in_f32"]]
        self.assertIn("/head/loud", kept[0]["nodes"])
        self.assertGreater(kept[0]["adds"], 1e-3)
        self.assertEqual(kept[0]["carries_with_policy"], 0)
        # and amp run says the same of the policy
        self.assertIn('f32 node "/head/loud"\n', self.read(self.policy))
        self.assertEqual(self.cosine(), report["before"]["cosine"])
        self.assertEqual(self.cosine("--policy", self.policy), report["after"]["cosine"])
        out = self.run_amp("run", self.loud, "--input", self.x, "--runs", "0", "--policy", self.policy)[1]
        self.assertIn("under the policy of", out)

    def test_by_hand(self):
        rules = {"f32 matmul": True, "f32 node \"/head\"": True, "f32 node \"quiet \\\"\\\\ <i>\"": False, "keep add": False}
        for rule, helps in rules.items():
            policy = self.write("hand.txt", f"# by hand\namp-policy 1\n{rule}\n".encode())
            if rule == "f32 matmul":  # which passes have made a linear of
                self.assertGreater(self.cosine("--policy", policy, "--exact"), 0.999999)
            self.assertEqual(self.cosine("--policy", policy) > 0.99999, helps, rule)

    def test_policies_of_models_without_steps(self):
        file, policy = self.write("op_by_op.onnx", OP_BY_OP), self.write("hand.txt", b"amp-policy 1\nf32 node \"/head\"\n")
        self.fails("no steps to watch", "audit", file, "--input", self.x)
        self.assertLess(self.cosine(file=file), 0.99999)
        self.assertGreater(self.cosine("--policy", policy, file=file), 0.99999)

    def test_nothing_to_do(self):
        report = self.audit(self.loud, "--input", self.x, "--cosine", "0.5", "-o", self.policy)
        self.assertEqual((report["kept"], report["policies_tried"], report["reached"]), (0, 0, True))
        self.assertNotIn("f32 node", self.read(self.policy))
        self.assertEqual(self.cosine("--policy", self.policy), self.cosine())

    def test_by_error(self):
        report = self.audit(self.loud, "--input", self.x, "--error", "1e-6", "-o", self.policy)
        self.assertTrue(report["reached"])
        self.assertEqual(report["kept"], 2)  # both products
        self.assertLessEqual(report["after"]["largest_error"], 1e-6)
        self.assertIn('f32 node "quiet \\"\\\\ <i>"', self.read(self.policy))
        self.assertEqual(self.cosine("--policy", self.policy), report["after"]["cosine"])

    def test_op_by_op(self):
        report = self.audit(self.loud, "--input", self.x, "--cosine", "0.99999", "--exact")
        self.assertEqual((report["kept"], len(report["steps"])), (1, 4))

    def test_several_sets(self):
        other = self.write("other.npy", npy("<f4", (3, 4), struct.pack("<12f", *(2 - 0.07 * i for i in range(12)))))
        report = self.audit(self.loud, "--input", "x=" + self.x, "--input", "x=" + other)
        self.assertEqual(report["sets"], 2)
        self.assertEqual(self.audit(self.loud, "--shape", "x=3x4", "--sets", "3")["sets"], 3)

    def test_integers_have_no_error(self):
        report = self.audit(self.write("whole.onnx", WHOLE))
        self.assertEqual((report["before"]["cosine"], report["kept"]), (1, 0))

    # ---- What it prints and draws ----
    def test_the_table(self):
        code, out, err = self.run_amp("audit", self.loud, "--input", self.x, "--cosine", "0.99999", "-o", self.policy)
        self.assertEqual((code, err), (0, ""))
        for part in ("steps, 2 of them add an error; 1 set of inputs", "with the policy", "For that 1 step stays in f32",
                     "/head/loud", "Written " + self.policy):
            self.assertIn(part, out)

    def check_page(self, text, steps):
        page = Page(text)
        self.assertEqual((page.open, page.bad), ([], []))
        self.assertNotRegex(text, r"(src|href)=|url\(|@import|<script")  # nothing from elsewhere
        self.assertEqual(sum(tag == "svg" for tag, _ in page.tags), 1)
        for tag, attributes in page.tags:
            for name in ("x", "y", "width", "height", "cx", "cy", "x1", "y1", "points"):
                if tag != "meta":
                    self.assertNotRegex(attributes.get(name) or "", "nan|inf", tag)
        bars = sum(tag == "rect" for tag, _ in page.tags)
        self.assertEqual(bars, steps)
        return page

    def test_the_page(self):
        self.audit(self.loud, "--input", self.x, "--cosine", "0.99999", "--html", self.page)
        page = self.check_page(self.read(self.page), 2)
        self.assertIn("quiet \"\\ <i>", page.text)
        self.assertIn("In f32 by the policy", page.text)
        self.assertEqual(sum("kept" == attributes.get("class") for tag, attributes in page.tags if tag == "rect"), 1)

    def test_pages_of_20_and_1300_steps(self):
        for length in (20, 1300):
            chained = self.write("chain.onnx", chain(length))
            report = self.audit(chained, "--html", self.page, "--seconds", "1", "--cosine", "0.5")
            self.assertEqual(len(report["steps"]), length)
            self.check_page(self.read(self.page), sum(step["adds"] > 0 for step in report["steps"]))

    # ---- Mistakes ----
    def test_what_cannot_be_reached(self):
        code, out, err = self.run_amp("audit", self.loud, "--input", self.x, "--error", "1e-30", "-o", self.policy)
        if code == 0:  # bits of f32
            return
        self.assertEqual(code, 1)
        self.assertIn("Not reached", out)
        self.assertIn("no policy was written", err)
        self.assertFalse(os.path.exists(self.policy))

    def test_wrong_options(self):
        for part, *arguments in [
                ("'--cosine' takes", "--cosine", "1.5"), ("'--cosine' takes", "--cosine", "0"),
                ("'--error' takes", "--error", "-1"), ("'--error' takes", "--error", "nan"),
                ("'--sets' takes", "--sets", "0"), ("'--html' needs a value", "--html"),
                ("no option '--bf16'", "--bf16"), ("no option '--policy'", "--policy", self.policy)]:
            self.fails(part, "audit", self.loud, *arguments)
        self.fails("a model is missing", "audit")
        self.fails("cannot open it", "audit", self.loud + ".none")

    def test_files_that_cannot_be_written(self):
        for option in ("-o", "--html"):
            self.fails("cannot write", "audit", self.loud, "--input", self.x, "--cosine", "0.5", option,
                       os.path.join(self.path, "no", "folder"))
        if os.path.exists("/dev/full"):
            self.fails("cannot write '/dev/full'", "audit", self.loud, "--input", self.x, "--cosine", "0.5", "-o", "/dev/full",
                       code=1)
            self.assertTrue(os.path.exists("/dev/full"))
        self.assertEqual([name for name in os.listdir(self.path) if name.endswith(".part")], [])

    def test_models_without_steps(self):
        self.fails("no steps to watch", "audit", self.write("by_value.onnx", BY_VALUE))

    def test_a_set_that_does_not_fit(self):
        self.fails("wants", "audit", self.loud, "--input", self.x, "--input", self.write("bad.npy", npy("<f4", (2, 5), bytes(40))))

    def test_broken_policies(self):
        for text, part in [(b"", "1: expected 'amp-policy 1'"), (b"f32 linear\n", "1: expected 'amp-policy 1'"),
                           (b"amp-policy 9\n", "version '9'"), (b"amp-policy 1\nf32 no_such_op\n", "2: there is no op"),
                           (b"amp-policy 1\n\x1b[31m\xff\n", "2: expected f32, lower or keep"),
                           (b"amp-policy 1\n\0", "zero byte"), (b"amp-policy 1\nf32 node \"a", "2: expected a quote"),
                           (b"amp-policy 1\nlower node \"a\"", "2: only 'f32'"), (b"amp-policy 1\n" + b"f32 " * 99999, "2: ")]:
            policy = self.write("broken.txt", text)
            self.fails(part, "run", self.loud, "--input", self.x, "--policy", policy)
            self.assertNotIn("\x1b", self.run_amp("run", self.loud, "--input", self.x, "--policy", policy)[2])
        policy = self.write("other.txt", b"amp-policy 1\nf32 node \"/head/loud\"\nf32 node \"/head/lod\"\n")
        for arguments in ([], ["--json"]):
            code, _, err = self.run_amp("run", self.loud, "--input", self.x, "--runs", "0", "--policy", policy, *arguments)
            self.assertEqual((code, "computes nothing at a node '/head/lod'" in err), (2, True))
        self.fails("cannot read", "run", self.loud, "--policy", self.policy)
        self.fails("--policy is for bf16", "run", self.loud, "--policy", self.policy, "--f32")
        self.fails("ordinary kind", "run", self.loud, "--policy", self.path)

    def test_help(self):
        code, out, err = self.run_amp("audit", "--help")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith("usage: amp audit"))
        self.assertEqual([line for line in out.splitlines() if len(line) > 90], [])
        self.assertIsNone(re.search(r"\t", out))


if __name__ == "__main__":
    unittest.main()

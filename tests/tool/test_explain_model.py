#!/usr/bin/env python3
"""amp explain model.onnx on models made here: what the page holds, that texts of a file stay texts, and mistakes.

tests/tool/test_explain_model.py build/release/amp
"""
import collections
import html.parser
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from onnx_files import FLOAT, INT64, model, node, table, value

AMP = os.path.abspath(sys.argv.pop(1))
EVIL = "</title><script>alert(1)</script>\"' onload=x &lt; \x1b[31m"
WEIGHTS = [table("w", 4, 4, [i / 3 - 2 for i in range(16)])]
PRODUCT = model([node("MatMul", ["x", "w"], ["p"], "first/product"), node("Relu", ["p"], ["r"], "first/relu"),
                 node("Softmax", ["r"], ["s"], "second/softmax"), node("Add", ["s", "x"], ["y"], "second/sum")],
                [value("x", FLOAT, "batch", 4)], [value("y", FLOAT, "batch", 4)], WEIGHTS)
HOSTILE = model([node("MatMul", [EVIL, "w"], ["p"], EVIL + "1"), node("Relu", ["p"], [EVIL + "y"], EVIL + "2")],
                [value(EVIL, FLOAT, EVIL, 4)], [value(EVIL + "y", FLOAT, None, 4)], WEIGHTS, producer=EVIL)
UNKNOWN = model([node("NoSuchOp", ["x"], ["y"])], [value("x", FLOAT, 2)], [value("y", FLOAT, 2)])
CONSTANT = model([node("Identity", ["w"], ["y"])], [], [value("y", FLOAT, 4, 4)], WEIGHTS)
DATA = model([node("NonZero", ["x"], ["y"])], [value("x", FLOAT, 4)], [value("y", INT64, 1, None)])


def long_model(count):
    """A chain with something beside it, which no pass shortens much."""
    nodes, names = [], ["x"]
    for i in range(count):
        kind = ("Sigmoid", "Tanh", "Softplus", "MatMul", "Add")[i % 5]
        more = {"MatMul": ["w"], "Add": names[-4:-3]}.get(kind, [])
        nodes.append(node(kind, [names[-1], *more], [f"t{i}"], f"node/{i}"))
        names.append(f"t{i}")
    return model(nodes + [node("Identity", [names[-1]], ["y"])], [value("x", FLOAT, 2, 4)], [value("y", FLOAT, 2, 4)], WEIGHTS)


class Page(html.parser.HTMLParser):
    """Tags, attributes and ids of a page, which must be closed as they were opened."""
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.ids, self.links, self.names, self.open, self.texts = collections.Counter(), [], [], set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.names |= {name for name, _ in attributes}
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if "href" in values:
            self.links.append(values["href"])
        if tag not in ("meta", "path", "rect", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "path", "rect", "input"):
            self.open.pop()

    def handle_endtag(self, tag):
        if tag == "path":
            return
        if self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes another tag")

    def handle_data(self, data):
        self.texts.append(data)


class Explain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        self.product = self.write("product.onnx", PRODUCT)

    def write(self, name, data):
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def explain(self, *arguments, **more):
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", **more.pop("environment", {})}
        done = subprocess.run([AMP, "explain", *arguments], capture_output=True, timeout=300, cwd=self.path, env=environment,
                              **more)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def page(self, *arguments, **more):
        out = os.path.join(self.path, "page.html")
        code, said, err = self.explain(*arguments, "-o", out, "--seconds", "0.05", **more)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(said, r"^.*page.html: \d+ steps?, [0-9.]+\s+MB\n$")
        with open(out, encoding="utf-8") as file:
            text = file.read()
        page = Page(text)
        self.assertEqual(page.open, [])
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertTrue(all(link[1:] in page.ids for link in page.links), page.links)
        self.assertEqual((page.tags["script"], page.tags["svg"]), (1, 1))
        self.assertFalse(page.names & {"src", "onload", "onclick", "onerror"}, page.names)
        self.lacks("http", re.sub(r'xmlns="http://www.w3.org/2000/svg"|http-equiv', "", text))  # nothing from elsewhere
        return page, text

    def has(self, part, text):
        self.assertTrue(part in text, f"the page does not hold {part!r}")

    def lacks(self, part, text):
        self.assertFalse(part in text, f"the page holds {part!r}")

    def fails(self, part, *arguments, code=2):
        with self.subTest(arguments):
            got, out, err = self.explain(*arguments)
            self.assertIn(part, err)
            self.assertEqual((got, out), (code, ""))
            self.assertEqual(len([line for line in err.splitlines() if not line.startswith("Try ")]), 1, err)
            self.assertFalse([name for name in os.listdir(self.path) if ".html" in name])

    def test_what_it_tells(self):
        page, text = self.page(self.product)
        told = re.sub(r"\s+", " ", " ".join(page.texts))
        for part in ("product.onnx", "4 nodes", "Where the time goes", "What each pass did", "idioms", "epilogues", "linear_pointwise",
                     "first/product", "first/relu", "second/softmax", "Runs in", "On the list of ops that run in the lower type",
                     "weight", "f32 → bf16, a constant", "input x", "output y", "gemm_", "f32 [1, 4]", "bf16 [1, 4]"):
            self.has(part, told)
        self.has('class="n bf16" id="n0" href="#s0"', text)
        self.has('class="e f32 cast" data-b="0"', text)  # the input is read in bf16
        self.assertEqual(text.count("<article "), text.count('<tr id="r'))

    def test_only_one(self):
        page, text = self.page(self.product, "--f32")
        self.has("The steps that run in f32", text)
        self.lacks('class="n bf16"', text)
        self.lacks('class="e f32 cast"', text)
        self.has("No autocast: in the type that its arguments have.", text)
        page, text = self.page(self.product, "--bf16", "--exact")
        self.has('<code>relu</code>', text)  # nothing is fused
        self.lacks("speed-up", text)

    def test_where_there_is_no_dot(self):
        _, text = self.page(self.product, environment={"PATH": "/nonexistent"})
        self.has("In the order of the run", text)
        self.assertEqual(text.count("<path "), 5)  # x twice, two between, y
        if shutil.which("dot"):
            _, text = self.page(self.product)
            self.lacks("In the order of the run", text)
            self.assertEqual(text.count("<path "), 5)

    def test_a_dot_that_fails(self):
        folder = os.path.join(self.path, "bin")
        os.mkdir(folder)
        for script in ("exit 1", "echo node 99999 1 1", "echo graph 1 1 1; echo edge 0 1 4 x"):
            with open(os.path.join(folder, "dot"), "w") as file:
                file.write("#!/bin/sh\n" + script + "\n")
            os.chmod(os.path.join(folder, "dot"), 0o755)
            _, text = self.page(self.product, environment={"PATH": folder})
            self.has("In the order of the run", text)

    def test_many_nodes(self):
        for environment in ({}, {"PATH": "/nonexistent"}):
            page, text = self.page(self.write("long.onnx", long_model(1600)), "--runs", "3", environment=environment)
            self.assertGreater(page.tags["article"], 800)
            self.assertEqual(page.tags["article"], text.count('id="n'))

    def test_texts_of_a_file_stay_texts(self):
        page, text = self.page(self.write("<b>hostile&.onnx", HOSTILE))
        told = "".join(page.texts)
        for part in ("<b>hostile", EVIL[:30], "alert(1)</script>\"' onload=x &lt; ?[31m1"):
            self.has(part, told)
        self.lacks("\x1b", text)
        self.lacks("<script>", text)
        self.assertEqual(page.tags["b"], 6 + page.tags["article"] * 2)  # cards, and two of each step

    def test_models_of_other_kinds(self):
        page, _ = self.page(self.write("constant.onnx", CONSTANT))
        self.assertEqual(page.tags["article"], 0)
        out = os.path.join(self.path, "model")  # told by its bytes, and named after it
        shutil.copy(self.product, out)
        self.assertEqual(self.explain(out, "--runs", "3")[0], 0)
        self.assertTrue(os.path.exists(os.path.join(self.path, "model.html")))

    def test_mistakes(self):
        product = self.product
        for arguments, part in [
            (["/no/such.onnx"], "/no/such.onnx"),
            ([self.write("text.onnx", b"hello")], "text.onnx"),
            ([self.write("unknown.onnx", UNKNOWN)], "NoSuchOp"),
            ([self.write("data.onnx", DATA)], "op by op"),
            ([product, "-o"], "'-o' needs a value: a file"),
            ([product, "-o", "/no/such/folder/x.html"], "cannot write '/no/such/folder/x.html': No such file"),
            ([product, "-o", self.path], "Is a directory"),
            ([product, "--json"], "there is no option '--json'"),
            ([product, "--runs", "0"], "'--runs' takes an integer from 1"),
            ([product, "--shape", "q=1"], "amp explain: the model has no input 'q'"),
            ([product, product], "one model at a time"),
        ]:
            self.fails(part, *arguments)

    def test_full_disk(self):
        def no_room():  # as a full disk: the file may not grow
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
        code, out, err = self.explain(self.product, "--runs", "3", preexec_fn=no_room, environment={"PATH": "/nonexistent"})
        self.assertEqual((code, out), (2, ""))
        self.assertIn("cannot write 'product.html': File too large", err)
        self.assertEqual([name for name in os.listdir(self.path) if "html" in name], [])

    def test_what_is_no_ordinary_file_is_written_to(self):
        done = subprocess.run([AMP, "explain", self.product, "--runs", "3", "-o", "/dev/stdout"], capture_output=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.startswith(b"<!DOCTYPE html>") and done.stdout.endswith(b"</html>\n"))
        self.assertFalse(os.path.isfile("/dev/stdout"))
        self.assertIn("No space left on device", self.explain(self.product, "--runs", "3", "-o", "/dev/full")[2])
        self.assertFalse(os.path.isfile("/dev/full"))

    def test_files_beside_it_stay(self):
        other = self.write("product.html.part", b"mine")
        self.assertEqual(self.explain(self.product, "--runs", "3")[0], 0)
        self.assertEqual(sorted(os.listdir(self.path)), ["product.html", "product.html.part", "product.onnx"])
        self.assertEqual(os.path.getsize(other), 4)

    def test_an_earlier_page_stays_where_there_is_no_new_one(self):
        page = self.write("p.html", b"before")
        self.assertEqual(self.explain(self.write("unknown.onnx", UNKNOWN), "-o", page)[0], 2)
        with open(page, "rb") as file:
            self.assertEqual(file.read(), b"before")


if __name__ == "__main__":
    unittest.main()

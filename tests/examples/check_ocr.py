#!/usr/bin/env python3
"""The OCR example as its user sees it: check_ocr.py PROGRAM. Exit status 77 (skipped) where the models are absent."""

import json
import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from example import ErrorsOfExample, run

MODELS = ".deps/models/ppocr"


def drawn():
    """The texts of the sample, in the order in which people read: draw_sample.py has them."""
    with open("examples/ocr/draw_sample.py", encoding="utf-8") as file:
        return re.findall(r'^    \("(.*?)", "DejaVu', file.read(), re.M)


class Sample(unittest.TestCase):
    def test_both_precisions_read_what_was_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = run("--json", "--svg", f"{folder}/page.svg")
            self.assertEqual((status, err), (0, ""))
            texts = [e.text for e in xml.parse(f"{folder}/page.svg").iter("{http://www.w3.org/2000/svg}text")]
        pages, expected = json.loads(out), drawn()
        self.assertEqual(len(expected), 8)
        self.assertEqual(texts, expected)
        for precision in ("f32", "bf16"):
            self.assertEqual([line["text"] for line in pages[precision]], expected, precision)
            for line in pages[precision]:
                self.assertGreater(line["confidence"], 0.9, line)
                self.assertLessEqual(line["confidence"], 1, line)
                for x, y in line["corners"]:
                    self.assertTrue(0 <= x <= 640 and 0 <= y <= 384, line)

    def test_boxes_know_where_text_begins(self):
        lines = {line["text"]: line["corners"] for line in json.loads(run("--json")[1])["bf16"]}
        (begin, end), (angled, behind) = lines["Turned upside down"][:2], lines["Read me at an angle"][:2]
        self.assertGreater(begin[0], end[0])
        self.assertGreater(angled[1], behind[1] + 20)

    def test_report(self):
        status, out, err = run("--threads", "1")
        self.assertEqual((status, err), (0, ""))
        for text in (*drawn(), "640 × 384 pixels", "finding the lines, ms", "speed-up", "8 of 8", "slowest convolution ran in", "1 thread, "):
            self.assertIn(text, out)
        self.assertNotIn("\033", out, "colours are for terminals")


class Errors(ErrorsOfExample):
    def test_pictures(self):
        self.fails(1, "ocr: no/such.png: cannot be read as a PNG file: No such file", "no/such.png")
        self.fails(1, "ocr: README.md: cannot be read as a PNG file: ", "README.md")
        with tempfile.NamedTemporaryFile(suffix=".png") as file:
            with open("examples/ocr/sample.png", "rb") as sample:
                file.write(sample.read()[:4000])
            file.flush()
            self.fails(1, f"ocr: {file.name}: cannot be read as a PNG file: ", file.name)

    def test_models(self):
        self.fails(1, "no/such/ppocr_det.onnx", "--models", "no/such")
        self.fails(1, "`scripts/setup demo` fetches them", "--models", "no/such")

    def test_output(self):
        self.fails(1, "/no/such/page.svg cannot be written: No such file", "--svg", "/no/such/page.svg", "--json")

    def test_command_line(self):
        self.fails(2, "--threads takes a number from 1 to 4096, not 'many'", "--threads", "many")
        self.fails(2, "one picture at a time, not 2", "a.png", "b.png")
        self.assertEqual(run("--nonsense")[0], 2)
        self.assertIn("Exit status", run("--help")[1])


if __name__ == "__main__":
    if not os.path.exists(os.path.join(MODELS, "complete")):
        print("skipped: no OCR models; scripts/setup fetches them")
        sys.exit(77)
    if os.environ.get("AMP_MAX_ISA") == "ref":
        print("skipped: in plain C each picture takes a minute")
        sys.exit(77)
    unittest.main()

#!/usr/bin/env python3
"""The training on text as its user sees it: check_train_text.py PROGRAM."""

import os
import re
import sys
import tempfile
import unittest

from example import ErrorsOfExample, run as run_example


def run(*arguments):
    return run_example(*arguments, errors="replace")  # what it writes are bytes


class Learning(unittest.TestCase):
    def test_a_text_that_repeats_itself_is_learned(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/text", "w", encoding="utf-8") as file:
                file.write("tick, tock; " * 200)
            status, out, err = run("--steps", "30", "--batch", "2", "--lr", "0.01", "--write", "60", folder)
        self.assertEqual((status, err), (0, ""))
        first, *_, last = (float(bits) for bits in re.findall(r"^step .* ([\d.]+) bits a byte", out, re.M))
        self.assertGreater(first, 4, out)
        self.assertLess(last, first / 2, out)
        self.assertNotIn("\r", out, "lines are written over on terminals alone")

    def test_every_type_runs_and_a_seed_repeats_itself(self):
        for dtype in ("f32", "bf16", "f16"):
            command = ("--dtype", dtype, "--steps", "2", "--batch", "2", "--write", "3", "src/train")
            written = [run(*command, "--threads", threads) for threads in ("1", "2")]
            self.assertEqual([(status, err) for status, _, err in written], [(0, "")] * 2)
            results = [re.search(r"Of what was held back: .*", out, re.S).group() for _, out, _ in written]
            self.assertEqual(*results, dtype)


class Errors(ErrorsOfExample):
    def test_folders(self):
        self.fails(1, "train_text: no/such: No such file", "no/such")
        with tempfile.TemporaryDirectory() as folder:
            self.fails(1, "there is no text in this folder", folder)
            with open(f"{folder}/short", "w", encoding="utf-8") as file:
                file.write("short")
            self.fails(1, "5 bytes of text are too few; expected more than 1290", folder)

    def test_command_line(self):
        self.fails(2, "--dtype is 'f64'; expected f32, bf16 or f16", "--dtype", "f64")
        self.fails(2, "--steps is '1.5'; expected a number from 1 to 1000000", "--steps", "1.5")
        self.fails(2, "'b' is too much", "a", "b")
        self.assertEqual(run("--nonsense")[0], 2)
        self.assertIn("Exit status", run("--help")[1])


if __name__ == "__main__":
    if os.environ.get("AMP_MAX_ISA") == "ref":
        print("skipped: in plain C it takes minutes")
        sys.exit(77)
    unittest.main()

#!/usr/bin/env python3
"""The training of digits as its user sees it: check_train_digits.py PROGRAM. Exit status 77 (skipped) where the digits are absent."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from example import PROGRAM, ErrorsOfExample, run

DIGITS = ".deps/digits/digits.csv"
SVG = "{http://www.w3.org/2000/svg}"


class Learning(unittest.TestCase):
    def test_all_types_learn_and_are_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = f"{folder}/losses.svg"
            status, out, err = run("--epochs", "2", "--batch", "32", "--svg", picture)
            self.assertEqual((status, err), (0, ""))
            root = xml.parse(picture).getroot()
        rows = dict(re.findall(r"^(f32|bf16|f16) +2 of 2 +[\d.]+ +([\d.]+) %", out, re.M))
        self.assertEqual(list(rows), ["f32", "bf16", "f16"], out)
        for dtype, accuracy in rows.items():
            self.assertGreater(float(accuracy), 80, dtype)
        self.assertNotIn("\r", out, "lines are written over on terminals alone")
        self.assertIn(picture, out)
        texts = [e.text for e in root.iter(f"{SVG}text")]
        self.assertTrue({"f32", "bf16", "f16", "steps"} <= set(texts), texts)
        self.assertEqual([len(e.get("points").split()) for e in root.iter(f"{SVG}polyline")], [88] * 6)

    def test_a_seed_gives_the_same_numbers_for_any_number_of_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            pictures = []
            for threads in ("1", "2"):
                status, _, err = run("--epochs", "1", "--dtype", "bf16", "--threads", threads, "--svg", f"{folder}/svg")
                self.assertEqual((status, err), (0, ""))
                with open(f"{folder}/svg", encoding="utf-8") as file:
                    pictures.append(file.read())
        self.assertEqual(*pictures)


class Ranks(unittest.TestCase):
    def curves(self, folder, *launcher):
        """What is drawn of an epoch whose batches are added up from four parts."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run([*launcher, PROGRAM, "--epochs", "1", "--dtype", "bf16", "--parts", "4", "--svg", f"{folder}/svg"],
                              capture_output=True, text=True, env=environment, timeout=300)
        if "libamp_mpi.so is not installed" in done.stderr:
            self.skipTest("built without MPI")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("digits to learn from"), 1, "one process speaks")
        with open(f"{folder}/svg", encoding="utf-8") as file:
            return file.read()

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_processes_together_draw_what_one_draws(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = self.curves(folder)
            for count in ("2", "4"):
                self.assertEqual(self.curves(folder, "mpirun", "--oversubscribe", "-n", count), alone)


class Errors(ErrorsOfExample):
    def test_digits(self):
        self.fails(1, "train_digits: no/such.csv: No such file", "--data", "no/such.csv")
        self.fails(1, "train_digits: README.md:1: expected 64 pixels from 0 to 16", "--data", "README.md")
        with tempfile.NamedTemporaryFile() as file:
            with open(DIGITS, "rb") as digits:
                file.writelines(digits.readlines()[:10])
            file.flush()
            self.fails(1, "10 digits can be read; expected more than 360", "--data", file.name)

    def test_command_line(self):
        self.fails(2, "--dtype is 'f64'; expected f32, bf16, f16 or all", "--dtype", "f64")
        self.fails(2, "--epochs is '0'; expected a number from 1 to 1000", "--epochs", "0")
        self.fails(2, "'more' is too much", "more")
        self.fails(2, "--parts is 3; expected a divisor of the batch, 64, and a multiple of the number of processes, 1", "--parts", "3")
        self.assertEqual(run("--nonsense")[0], 2)
        self.assertIn("Exit status", run("--help")[1])


if __name__ == "__main__":
    if not os.path.exists(DIGITS):
        print("skipped: no digits; scripts/setup fetches them")
        sys.exit(77)
    if os.environ.get("AMP_MAX_ISA") == "ref":
        print("skipped: in plain C it takes minutes")
        sys.exit(77)
    unittest.main()

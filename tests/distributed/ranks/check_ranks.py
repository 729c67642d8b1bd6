#!/usr/bin/env python3
"""Training in one process and in several under mpirun: check_ranks.py PROGRAM [TEST …]. PROGRAM is ranks_run. Exit status 77 (skipped) where there is no mpirun."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

# What MPI keeps until the process ends is not ours. Two ranks may have one core.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "ASAN_OPTIONS": "detect_leaks=0", "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SECONDS = 120
COUNTS = (1, 2, 4)


def run(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    return done.returncode, done.stdout, done.stderr


def alone(*words, environment=None):
    return run([PROGRAM, *words], environment)


def together(count, *words, environment=None):
    return run(["mpirun", "--oversubscribe", "-n", str(count), PROGRAM, *words], environment or ENVIRONMENT)


class Runs(unittest.TestCase):
    environment = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = f"{folder.name}/run.safetensors"

    def start(self, count, *words, **more):
        """Of so many ranks, 0 without mpirun; with more in the environment."""
        environment = {**self.environment, **more} if self.environment else None
        return together(count, *words, environment=environment) if count else alone(*words, environment=environment)

    def bits(self, count, *words):
        """The one line of all ranks."""
        status, out, err = self.start(count, *words)
        self.assertEqual(status, 0, f"{words} with {count}: {out}{err}")
        lines = re.findall("^bits .*$", out, re.M)
        self.assertEqual((len(lines), len(set(lines))), (count or 1, 1), out)
        self.assertEqual(set(re.findall(r"^stats size (\d+)$", out, re.M)) - {str(count or 1)}, set(), out)
        self.assertNotIn("changed", out)
        self.assertNotIn("has a gradient", out)
        return lines[0]

    def same_as(self, plain, *names):
        want = self.bits(0, plain)
        for count in COUNTS:
            for name in names:
                self.assertEqual(self.bits(count, name), want, f"{name} with {count} ranks")


class Ranks(Runs):
    # ---- Sums
    def test_bits_are_those_of_one_process(self):
        self.same_as("plain", "sum", "mean", "late", "one_bucket", "tiny_buckets")

    def test_without_mpi_a_process_is_a_group_of_one(self):
        self.assertEqual(self.bits(0, "sum"), self.bits(0, "plain"))
        self.assertEqual(self.bits(0, "sharded"), self.bits(0, "plain"))

    def test_bf16_on_the_wire(self):
        loss = lambda line: float(re.search(r"loss ([\d.]+)", line)[1])
        want = loss(self.bits(0, "plain"))
        sent = lambda count, name: int(re.search(r"bytes (\d+)", together(count, name)[1])[1])
        for count in COUNTS:
            bits = self.bits(count, "bf16_wire")
            self.assertAlmostEqual(loss(bits), want, delta=0.005)
            self.assertNotEqual(bits, self.bits(0, "plain"))
        self.assertLess(sent(2, "bf16_wire"), 0.7 * sent(2, "sum"))

    def test_ranks_accumulate_alone(self):
        self.assertEqual(self.bits(1, "local"), self.bits(0, "plain"))
        self.assertIn("loss 1.93855", self.bits(4, "local"))

    def test_bytes_are_counted(self):
        out = together(2, "sum")[1]
        told = re.findall(r"bytes (\d+) overlapped (\d+)", out)
        self.assertEqual(len(told), 2)
        for sent, through in told:
            self.assertGreater(int(sent), 20 * 4 * (37 * 19 + 7 * 37))
            self.assertLessEqual(int(through), int(sent))
        self.assertEqual(re.findall(r"overlapped (\d+)", together(2, "late")[1]), ["0", "0"])

    # ---- Scaled losses
    def test_an_infinity_on_one_rank_is_everybodys(self):
        self.same_as("plain_scaled", "scaled", "scaled_sharded")
        self.assertIn("scale 512", self.bits(2, "scaled"))

    # ---- Shards
    def test_sharded_optimizers(self):
        self.same_as("plain", "sharded")
        self.same_as("plain_momentum", "sharded_momentum")
        self.assertEqual(self.bits(1, "sharded_masters"), self.bits(0, "plain_masters"))
        self.bits(4, "sharded_masters")

    def test_states_lie_with_owners_alone(self):
        for count in COUNTS:
            states = [int(n) for n in re.findall(r"^states (\d+)$", together(count, "sharded")[1], re.M)]
            self.assertEqual((len(states), sum(states)), (count, 6), states)
            self.assertTrue(count == 1 or max(states) < 6, states)

    # ---- Checkpoints
    def test_a_checkpoint_of_two_goes_on_with_any_number(self):
        want = self.bits(0, "plain")
        self.assertEqual(self.bits(2, "save", self.file), want)
        for count in COUNTS:
            self.assertEqual(self.bits(count, "resume", self.file), want)
            self.assertEqual(self.bits(count, "resume_unsharded", self.file), want)
        self.assertEqual(self.bits(0, "plain_resume", self.file), want)

    def test_masters_go_through_a_checkpoint(self):
        want = self.bits(2, "save_masters", self.file)
        self.assertEqual(self.bits(2, "resume_masters", self.file), want)
        loss = lambda line: float(re.search(r"loss ([\d.]+)", line)[1])
        for count in (1, 4):
            bits = self.bits(count, "resume_masters", self.file)
            self.assertIn("step 5", bits)
            self.assertAlmostEqual(loss(bits), loss(want), delta=0.005)

    def test_a_file_that_one_rank_cannot_read_changes_nothing(self):
        _, out, _ = together(2, "load_one", self.file)
        self.bits(2, "load_one", self.file)
        self.assertIn("load_one: data_parallel_load: rank 1 of 2 failed: training_load: safetensors_open: /nowhere", out)
        self.assertIn("load_one: training_load: safetensors_open: /nowhere", out)
        self.assertIn("save: data_parallel_save: rank 0 of 2 failed: training_save: ", out)

    # ---- Trouble
    def test_a_backward_that_fails_on_one_rank(self):
        for count in (2, 4):
            out = together(count, "failing")[1]
            told = re.findall(r"^failing: data_parallel_backward: rank 1 of \d failed: backward: the record", out, re.M)
            self.assertEqual(len(told), count - 1, out)
            self.assertEqual(len(re.findall("^failing: backward: the record of ", out, re.M)), 1, out)
            self.assertEqual(self.bits(count, "failing"), self.bits(0, "plain"))

    def test_both_kinds_of_backward(self):
        out = together(2, "mixed")[1]
        self.assertEqual(out.count("mixed: data_parallel_backward: since the last one a plain amp_backward has added"), 2, out)
        self.assertEqual(self.bits(2, "mixed"), self.bits(0, "plain"))

    def test_gradients_that_one_rank_has_taken_away(self):
        out = together(4, "uneven")[1]
        self.assertEqual(out.count("uneven: data_parallel_backward: ranks 0 and 1 do not stand at the same place"), 4, out)
        self.assertEqual(self.bits(4, "uneven"), self.bits(0, "plain"))

    def test_a_step_that_not_all_can_make(self):
        out = together(2, "uneven_step")[1]
        self.assertEqual(out.count("uneven_step: optimizer_step: ranks 0 and 1 do not stand at the same place"), 2, out)
        self.assertEqual(self.bits(2, "uneven_step"), self.bits(0, "plain"))
        out = together(2, "failing_step")[1]
        self.assertEqual(out.count("failing_step: optimizer_step: rank 1 of 2 failed: mm: 'input' is"), 2, out)
        self.assertEqual(out.count("failing_step: mm: 'input' is"), 2, out)

    def test_a_rank_does_not_save_its_part_alone(self):
        out = together(2, "save_alone", self.file)[1]
        self.assertEqual(out.count("save_alone: training_save: optimizer0 is sharded among processes"), 2, out)
        self.assertFalse(os.path.exists(self.file))

    def test_models_that_differ(self):
        status, out, _ = together(4, "mismatch")
        self.assertNotEqual(status, 0)
        self.assertIn("models of ranks 0 and 1 differ from tensor 3 on; rank 1 has 'gain' there, [2] f64", out)
        self.assertIn("models of ranks 0 and 1 differ from tensor 3 on; rank 3 has 'gain' there, [1] f64", out)
        status, out, _ = together(2, "other_options")
        self.assertNotEqual(status, 0)
        self.assertEqual(out.count("error: data_parallel_create: rank 1 has other options than rank 0"), 2, out)

    def test_another_thread(self):
        self.assertEqual(together(2, "thread")[1].count("thread: data_parallel_backward: this is not the thread that"), 2)
        self.assertEqual(self.bits(2, "thread"), self.bits(0, "plain"))

    # ---- Ends
    def ends(self, count, name, sentence):
        begin = time.monotonic()
        status, out, err = together(count, name)
        self.assertNotEqual(status, 0, name)
        self.assertIn(sentence, err)
        self.assertNotIn("bits", out)
        self.assertLess(time.monotonic() - begin, SECONDS / 2)

    def test_a_rank_that_is_killed_ends_all(self):
        for count in (2, 4):
            self.ends(count, "killed", "exited on signal 9")

    def test_a_rank_that_leaves_ends_all(self):
        self.ends(2, "leaves", "libamp: rank 1 of 2 ended before amp_distributed_end\n")
        self.ends(2, "ends_failed", "libamp: rank 1 of 2 ended before amp_distributed_end: mm: 'input' is")
        self.ends(4, "leaves_failed", "libamp: rank 1 of 4 ended before amp_distributed_end: mm: 'input' is [37, 19] f32")


def find_program():
    """PROGRAM is the first word of the command line."""
    global PROGRAM
    PROGRAM = sys.argv.pop(1)
    # Where AddressSanitizer stands between, dlopen does not look where the program says.
    ENVIRONMENT["LD_LIBRARY_PATH"] = os.path.dirname(os.path.dirname(os.path.abspath(PROGRAM)))
    if not shutil.which("mpirun"):
        print("skipped: mpirun is not installed (openmpi-bin)")
        sys.exit(77)


if __name__ == "__main__":
    find_program()
    unittest.main()

#!/usr/bin/env python3
"""The same on GPUs, over the tests' CUDA driver and NCCL: check_gpus.py PROGRAM FOLDER [TEST …]. FOLDER has the two libraries. Exit status 77 (skipped) where there is no mpirun."""
import os
import re
import sys
import unittest

import check_ranks as ranks


def with_libraries(*folders, **more):
    places = ":".join([*folders, ranks.ENVIRONMENT["LD_LIBRARY_PATH"]])
    return {**ranks.ENVIRONMENT, "RANKS_DEVICE": "cuda", "LD_LIBRARY_PATH": places, **more}


class Gpus(ranks.Runs):
    def setUp(self):
        super().setUp()
        self.environment = with_libraries(FOLDER)

    def start(self, count, *words, **more):
        """The driver has nothing to complain of."""
        status, out, err = super().start(count, *words, **more)
        self.assertNotIn("fake CUDA", err)
        self.assertEqual(out.count("left on the GPU: 0\n"), count or 1, out)
        return status, out, err

    def together(self, count, *words, **more):
        return self.start(count, *words, **more)[1]

    def test_bits_are_those_of_one_process(self):
        want = self.bits(0, "plain")
        for count, name in ((0, "sum"), (4, "sum"), (2, "late")):
            self.assertEqual(self.bits(count, name), want, f"{name} with {count} ranks")
        self.assertIn("loss 1.85", want)
        out = self.together(2, "mean")
        self.assertEqual(re.findall("^bits .*$", out, re.M), [want] * 2)
        self.assertEqual(set(re.findall(r"^waits (\d+)$", out, re.M)), {"0"}) # for a GPU

    def test_bf16_on_the_wire(self):
        bits = self.bits(4, "bf16_wire")
        self.assertIn("loss 1.85", bits)
        self.assertNotEqual(bits, self.bits(0, "plain"))

    def test_sharded_optimizers_and_checkpoints(self):
        want = self.bits(0, "plain")
        self.assertEqual(self.bits(2, "save", self.file), want)
        self.assertEqual(self.bits(4, "resume", self.file), want)
        self.assertEqual(self.bits(2, "scaled_sharded"), self.bits(0, "plain_scaled"))

    def test_tensors_of_the_program(self):
        self.assertEqual(re.findall("^collectives: .*$", self.together(4, "collectives"), re.M), ["collectives: 10 13"] * 4)

    def test_a_call_that_fails_is_everybodys(self):
        """Of 6 buckets, in the second backward; the next ones go on."""
        want = self.bits(0, "plain")
        for call, number in (("Send", 17), ("AllGather", 13)):
            out = self.together(2, "carrier", AMP_FAKE_NCCL=f"{call}:1:{number}")
            sentence = f"data_parallel_backward: cuda: nccl{call} failed: unhandled system error (status 2)"
            self.assertEqual(sorted(re.findall("^carrier: (.*)$", out, re.M)),
                             [sentence, f"data_parallel_backward: rank 1 of 2 failed: {sentence}"], out)
            self.assertNotIn("changed", out)
            self.assertEqual(re.findall("^bits .*$", out, re.M), [want] * 2, out)

    def test_memory_that_ends_is_everybodys(self):
        for name in ("no_memory", "no_memory_on_all"):
            out = self.together(2, name)
            self.assertEqual(re.findall("^no_memory: .*$", out, re.M), ["no_memory: failures, then none"] * 2, out)
            for wrong in ("changed", "not all have failed", "another error", "no driver"):
                self.assertNotIn(wrong, out)

    def test_shards_that_do_not_arrive(self):
        for name, call in (("carrier_step", "AllGather:1:26"), ("carrier_save", "Broadcast:1:12")):
            out = self.together(2, name, self.file, AMP_FAKE_NCCL=call)
            self.assertEqual(len(re.findall(f"^carrier: .*nccl{call[:-5]} failed", out, re.M)), 2, out)
            self.assertEqual(len(set(re.findall("^after: [0-9a-f]{16}$", out, re.M))), 1, out)
            self.assertEqual(out.count("after: no error"), 2, out)
        self.assertFalse(os.path.exists(self.file))

    def test_a_model_that_does_not_arrive(self):
        out = self.together(2, "sum", AMP_FAKE_NCCL="CommInitRank:1:1")
        self.assertEqual(len(re.findall("^error: data_parallel_create: cuda: ncclCommInitRank failed", out, re.M)), 2, out)

    def test_places(self):
        for name, sentence in (
                ("two_places", "parameter 'gain' is on the CPU, others are on a GPU; all must be on one device"),
                ("other_place", "rank 1 has its tensors on the CPU, and rank 0 on a GPU"),
                ("one_gpu", "ncclCommInitRank failed: invalid usage (status 5); each rank of a machine needs a GPU of its own")):
            out = self.together(2, name)
            self.assertEqual(out.count(sentence), 2, out)

    def test_no_nccl(self):
        """An old one, and none on one rank alone; a process by itself needs none."""
        broken = f"{os.path.dirname(self.file)}/broken" # the machine may have a real one, which must not be found
        os.mkdir(broken)
        with open(f"{broken}/libnccl.so.2", "w") as file:
            file.write("no library")
        about = "data_parallel_create: tensors on GPUs go between processes by NCCL 2.7 or newer: libnccl.so.2 "
        old, missing = with_libraries(f"{FOLDER}/no_nccl", FOLDER), with_libraries(broken, FOLDER)
        self.assertEqual(ranks.together(2, "sum", environment=old)[1].count(f"error: {about}has no ncclGetUniqueId"), 2)
        words = ["-n", "1", "-x", "LD_LIBRARY_PATH", ranks.PROGRAM, "sum"]
        words += [":", "-n", "1", "-x", f"LD_LIBRARY_PATH={missing['LD_LIBRARY_PATH']}", ranks.PROGRAM, "sum"]
        out = ranks.run(["mpirun", "--oversubscribe", *words], self.environment)[1]
        self.assertIn(f"error: {about}cannot be loaded: ", out)
        self.assertIn(f"error: data_parallel_create: rank 1 of 2 failed: {about}cannot be loaded: ", out)
        self.environment = missing
        self.assertEqual(self.bits(1, "sum"), self.bits(0, "plain"))


if __name__ == "__main__":
    FOLDER = os.path.abspath(sys.argv.pop(2))
    ranks.find_program()
    unittest.main()

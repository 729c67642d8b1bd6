#!/usr/bin/env python3
"""Runs of training, killed at random moments and started again until they are done, end with the bits of one that was not.

kill_runs.py PROGRAM [RUNS [SEED]]
"""
import glob
import os
import random
import subprocess
import sys
import tempfile
import time

STEPS = "500"


def whole(program, folder):
    """The last line of a run that nobody kills, and how long it took."""
    begin = time.monotonic()
    done = subprocess.run([program, f"{folder}/whole.safetensors", STEPS], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the run fails: {done.stderr}")
    return done.stdout, time.monotonic() - begin


def killed(program, file, seconds, chance):
    """One run, killed at least once; its line, the number of kills, and how many hit while a file was being written."""
    kills = while_writing = 0
    while True:
        run = subprocess.Popen([program, file, STEPS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = run.communicate(timeout=chance.uniform(0, seconds) if kills < 20 else None)
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            kills += 1
            left = glob.glob(f"{file}.*.part")
            while_writing += len(left) > 0
            for each in left:
                os.unlink(each)
            continue
        if run.returncode != 0:
            sys.exit(f"after {kills} kills: {err}")
        if kills > 0:
            return out, kills, while_writing
        os.unlink(file)  # done before its time came: once more


def main():
    program, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    total = while_writing = 0
    with tempfile.TemporaryDirectory() as folder:
        want, seconds = whole(program, folder)
        for number in range(runs):
            got, kills, hit = killed(program, f"{folder}/{number}.safetensors", seconds, chance)
            total += kills
            while_writing += hit
            if got != want:
                sys.exit(f"run {number}, killed {kills} times, ends with {got}; expected {want}")
    print(f"{runs} runs, killed {total} times, {while_writing} of them while a file was written: all end with {want}", end="")


main()

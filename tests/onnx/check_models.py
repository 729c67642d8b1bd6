#!/usr/bin/env python3
"""Real models: what `amp run` computes in f32 agrees with digests of another engine's results.

    check_models.py AMP [MODEL…]
    check_models.py --modes PROGRAM [MODEL…]

The second form runs tests/onnx/model_modes.cc instead: exact graphs have eager's bits, all runs the same ones on any number
of threads, and what is fused under bf16 is no further from f32 than what is not.

AMP_MODELS names the folder with NAME.onnx, AMP_MODEL_CASES a script that knows their cases: "SCRIPT inputs DIR NAME" writes
DIR/NAME.CASE/INPUT.npy, "SCRIPT compare DIR NAME" prints a line "NAME.CASE.OUTPUT: … worst E … ok" for each output there;
../models/cases.json beside it lists them. Exit 77: one of them is not set, or Python lacks NumPy.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROW = "{:<22} {:<10} {:>7} {:>9} {:>12}  {}"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def safe(name):
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def run(amp, model, case, inputs, output):
    """The report of one case, or the sentence of what went wrong."""
    given = [w for name in case["inputs"] for w in ("--input", f"{name}={inputs / (safe(name) + '.npy')}")]
    command = [amp, "run", "--json", "--runs", "0", "--output", output, *given, model]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return json.loads(done.stdout) if done.returncode == 0 else None, done.stderr.strip()


def cosine(report):
    found = [o["bf16_against_f32"] for o in report["outputs"] if o["dtype"] in (None, "f32", "f16", "bf16", "f64")]
    found = [c["cosine"] for c in found if c and c["cosine"] is not None]
    return f"{min(found):.6f}" if found else "-"


def check_modes(program, script, model, entry, work):
    """What model_modes says of each case; how many it finds wrong."""
    bad = 0
    subprocess.run([sys.executable, script, "inputs", work / "in", entry["name"]], check=True)
    for case in entry["cases"]:
        folder = work / "in" / f"{entry['name']}.{case['case']}"
        done = subprocess.run([program, model, folder], capture_output=True, text=True, timeout=1200)
        print(f"{entry['name']:<22} {case['case']:<10} {(done.stdout + done.stderr).strip()}", flush=True)
        bad += done.returncode != 0
    return bad


def check(amp, script, model, entry, work):
    """A line for each case; how many do not agree."""
    name, bad = entry["name"], 0
    subprocess.run([sys.executable, script, "inputs", work / "in", name], check=True)
    for case in entry["cases"]:
        key = f"{name}.{case['case']}"
        report, error = run(amp, model, case, work / "in" / key, work / "out" / key)
        if report is None:
            print(ROW.format(name, case["case"], "FAILED", "", "", error), flush=True)
            bad += 1
            continue
        for file in (work / "out" / key).glob("*.bf16.npy"):
            file.unlink()
        compared = subprocess.run([sys.executable, script, "compare", work / "out", name], capture_output=True, text=True)
        lines = [line for line in compared.stdout.splitlines() if line.startswith(key + ".")]
        worst = max((float(m[1]) for m in re.finditer(r"worst (\S+)", "\n".join(lines))), default=float("nan"))
        good = bool(lines) and all(line.endswith(" ok") for line in lines)
        print(ROW.format(name, case["case"], "ok" if good else "DIFFERS", f"{worst:.1e}", cosine(report), ""), flush=True)
        bad += not good
    return bad


def main():
    by_modes = sys.argv[1] == "--modes"
    program, *wanted = sys.argv[2:] if by_modes else sys.argv[1:]
    program = os.path.abspath(program)
    models, script = os.environ.get("AMP_MODELS"), os.environ.get("AMP_MODEL_CASES")
    if not models or not script:
        skip("AMP_MODELS or AMP_MODEL_CASES is not set")
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode:
        skip(f"{sys.executable} has no NumPy")
    entries = json.loads((pathlib.Path(script).parent / "../models/cases.json").read_text("utf-8"))
    if not by_modes:
        print(ROW.format("model", "case", "f32", "largest", "cosine bf16", "").rstrip())
    bad, missing = 0, []
    for entry in entries:
        model = pathlib.Path(models, entry["name"] + ".onnx")
        if wanted and entry["name"] not in wanted:
            continue
        if not model.exists():
            missing.append(entry["name"])
            continue
        with tempfile.TemporaryDirectory() as work:
            (pathlib.Path(work) / "out").mkdir()
            bad += (check_modes if by_modes else check)(program, script, model, entry, pathlib.Path(work))
    if missing:
        print("not in AMP_MODELS:", ", ".join(missing))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

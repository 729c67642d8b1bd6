#!/usr/bin/env python3
"""Real models, saved: what `amp convert` writes, loaded again, gives the same bits, and saved again the same bytes.

    check_saved.py AMP [--f32] [--verify SCRIPT] [MODEL…]

AMP_MODELS names the folder with NAME.onnx, AMP_MODEL_CASES a script that knows their cases: "SCRIPT inputs DIR NAME" writes
DIR/NAME.CASE/INPUT.npy; ../models/cases.json beside it lists them; the first case of each
is taken. --f32: also without roundings. --verify: a script to which each file is given,
with --inputs and --outputs of what libamp computes, and whose lines are printed. Exit 77: something of it is not there.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROW = "{:<22} {:<9} {:>8} {:>8} {:>8}  {}"
FORMS = [("typed", []), ("portable", ["--portable"])]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def safe(name):
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=1800)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def same(one, other):
    files = sorted(f.name for f in one.iterdir())
    return bool(files) and files == sorted(f.name for f in other.iterdir()) and all(
        (one / f).read_bytes() == (other / f).read_bytes() for f in files)


def check_form(amp, model, given, folder, form, verify):
    """Whether the bits and the bytes are the same, the size, and what went wrong."""
    name, options = form
    out, again = folder / f"{name}.onnx", folder / f"{name}.again.onnx"
    run = [amp, "run", "--exact", "--runs", "0"]
    error = call(amp, "convert", *options, *given, model, out)
    error = error or call(*run, "--f32" if name == "f32" else "--bf16", "--output", folder / f"{name}.ours", *given, model)
    error = error or call(*run, "--f32", "--output", folder / f"{name}.loaded", *given, out)
    form_only = [o for o in options if o == "--portable"]
    error = error or call(amp, "convert", "--f32", *form_only, *given, out, again)
    if error:
        return False, False, 0, error
    bits = same(folder / f"{name}.ours", folder / f"{name}.loaded")
    lines = ""
    if verify:
        done = subprocess.run([sys.executable, verify, out, "--inputs", folder / "in", "--outputs", folder / f"{name}.ours"],
                              capture_output=True, text=True)
        lines = f"verify {done.returncode}\n" + done.stdout + done.stderr[-500:]
    return bits, out.read_bytes() == again.read_bytes(), out.stat().st_size, lines


def check(amp, model, script, entry, verify):
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        folder, case = pathlib.Path(work), entry["cases"][0]
        subprocess.run([sys.executable, script, "inputs", folder / "all", entry["name"]], check=True)
        (folder / "all" / f"{entry['name']}.{case['case']}").rename(folder / "in")
        given = [w for n in case["inputs"] for w in ("--input", f"{n}={folder / 'in' / (safe(n) + '.npy')}")]
        for form in FORMS:
            bits, twice, size, lines = check_form(amp, model, given, folder, form, verify)
            words = ["same" if bits else "DIFFER", "same" if twice else "DIFFER"]
            first, *rest = lines.split("\n")
            print(ROW.format(entry["name"], form[0], words[0], words[1], f"{size / 1e6:.1f}", first), flush=True)
            print("\n".join("    " + line for line in rest if line), end="\n" if rest else "", flush=True)
            bad += not (bits and twice)
    return bad


def main():
    words = sys.argv[1:]
    verify = words.pop(words.index("--verify") + 1) if "--verify" in words else None
    if "--f32" in words:
        FORMS.append(("f32", ["--f32"]))
    words = [w for w in words if not w.startswith("--")]
    amp, wanted = os.path.abspath(words[0]), words[1:]
    models, script = os.environ.get("AMP_MODELS"), os.environ.get("AMP_MODEL_CASES")
    if not models or not script:
        skip("AMP_MODELS or AMP_MODEL_CASES is not set")
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode:
        skip(f"{sys.executable} has no NumPy")
    entries = json.loads((pathlib.Path(script).parent / "../models/cases.json").read_text("utf-8"))
    print(ROW.format("model", "form", "bits", "bytes", "MB", "").rstrip())
    bad = 0
    for entry in entries:
        model = pathlib.Path(models, entry["name"] + ".onnx")
        if (not wanted or entry["name"] in wanted) and model.exists():
            bad += check(amp, model, script, entry, verify)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes a wheel of what is built, unpacks it elsewhere, and runs the tests of ops on it. Asks nothing of the network.

    check_wheel.py BUILD
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What a system has that runs C and C++.
SYSTEM = r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so.*"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def make(build, folder):
    """The wheel's file."""
    os.environ["AMP_WHEEL_BUILD"] = build
    sys.path.insert(0, str(HERE.parent))
    import backend  # pylint: disable=import-error,import-outside-toplevel
    return folder / backend.build_wheel(folder)


def strangers(tree):
    """Libraries that are found elsewhere than in the wheel."""
    for library in sorted(tree.rglob("*.so*")):
        shown = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
        for name, place in re.findall(r"^\s*(\S+) => (.+?)(?: \(0x.*)?$", shown, re.M):
            if not re.fullmatch(SYSTEM, name) and tree not in Path(place).resolve().parents:
                yield f"{library.relative_to(tree)} takes {name} from {place}"


def main():
    if not shutil.which("patchelf"):
        skip("patchelf is not installed (scripts/setup packages)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = make(sys.argv[1], folder)
        print(wheel.name)
        (folder / "moved").mkdir()
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "moved")
        found = list(strangers(folder / "moved"))
        print("\n".join(found))
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        environment["PYTHONPATH"] = str(folder / "moved")
        ran = subprocess.run([sys.executable, HERE / "run.py", "test_ops.py"], env=environment, cwd=folder)
        return ran.returncode or bool(found)


if __name__ == "__main__":
    sys.exit(main())

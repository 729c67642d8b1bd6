#!/usr/bin/env python3
"""Runs one file of tests for ctest: 77, which is "skipped" there, without NumPy, or where all of
them skip themselves.

    PYTHONPATH=build/release/python python/tests/run.py test_ops.py
"""
import sys
import unittest
from pathlib import Path


def skip(why):
    print(f"skipped: {why} ({sys.executable})")
    return 77


def main(file):
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    try:
        import numpy  # noqa: F401  pylint: disable=unused-import,import-outside-toplevel
        found = unittest.defaultTestLoader.loadTestsFromName(Path(file).stem)
    except (ModuleNotFoundError, unittest.SkipTest) as missing:
        return skip(missing)
    result = unittest.TextTestRunner(verbosity=2).run(found)
    if result.wasSuccessful() and len(result.skipped) == found.countTestCases():
        return skip(result.skipped[0][1])
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

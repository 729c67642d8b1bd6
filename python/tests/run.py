#!/usr/bin/env python3
"""Runs one file of tests for ctest: 77, which is "skipped" there, without NumPy.

    PYTHONPATH=build/release/python python/tests/run.py test_ops.py
"""
import sys
import unittest
from pathlib import Path

if __name__ == "__main__":
    try:
        import numpy  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing} for {sys.executable}")
        sys.exit(77)
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    found = unittest.defaultTestLoader.loadTestsFromName(Path(sys.argv[1]).stem)
    result = unittest.TextTestRunner(verbosity=2).run(found)
    sys.exit(not (result.wasSuccessful() and result.testsRun > 0))

"""The Python lines of the README and of docs/python.md run, and print what they say."""
import contextlib
import io
import re
import unittest
from pathlib import Path

import amp

ROOT = Path(__file__).resolve().parents[2]


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text("utf-8"), re.S | re.M)


class Docs(unittest.TestCase):
    def test_run(self):
        amp.manual_seed(1)
        names = {"amp": amp, "batches": [(amp.randn(5, 4), amp.tensor([0, 1, 2, 0, 1])) for _ in range(3)]}
        for document in ("README.md", "docs/python.md"):
            self.assertTrue(blocks(document))
            for block in blocks(document):
                with self.subTest(document=document, block=block.partition("\n")[0]):
                    shown = io.StringIO()
                    with contextlib.redirect_stdout(shown):
                        exec(compile(block, document, "exec"), dict(names))
                    wanted = " ".join(re.findall(r"^\s*print\(.*?\)\s*#\s*(.+?)…?$", block, re.M))
                    self.assertTrue(" ".join(shown.getvalue().split()).startswith(wanted), shown.getvalue())


if __name__ == "__main__":
    unittest.main()

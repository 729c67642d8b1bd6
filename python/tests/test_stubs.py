"""The stubs say what is there, and mypy, where it is installed, takes a program that is right and refuses one that is not."""
import ast
import importlib.util
import inspect
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import amp
from amp import _amp, _ops

PROGRAM = '''
import amp

@amp.autocast("cpu")
def layer(x: amp.Tensor, w: amp.Tensor) -> amp.Tensor:
    return amp.linear(x, w).relu() * 2

@amp.no_grad()
def largest(x: amp.Tensor) -> float:
    values, indices = x.max(dim=1)
    return float(values[0]) + amp.max_pool2d(x.view(1, 1, 2, 2), 2).numel()

w = amp.randn(2, 2).requires_grad_()
opt = amp.optim.AdamW([w], lr=1e-3)
scheduler = amp.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
layer(w, w).sum().backward()
opt.step()
scheduler.step()
amp.save_file({"w": w}, "f", {"made": "here"})
with amp.explain() as report:
    amp.add(w, w, alpha=2, out=amp.zeros(2, 2, dtype=amp.float32))
print(report.dict, largest(w))
'''
WRONG = ['amp.relu("a")', "amp.linear(w)", "amp.nonsense(w)", "w.reluu()", "amp.zeros(2, dtype=3)", 'amp.tensor(1).sum(dim="a")']


def names(module):
    """{function or class: names in the class} of a stub."""
    tree = ast.parse(Path(module).read_text("utf-8"))
    return {node.name: {n.name for n in node.body if isinstance(n, ast.FunctionDef)} if isinstance(node, ast.ClassDef) else set()
            for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


class Stubs(unittest.TestCase):
    folder = Path(inspect.getfile(amp)).parent

    def test_ops(self):
        stub = names(self.folder / "_ops.pyi")
        methods = stub.pop("TensorMethods")
        self.assertEqual({name for name in stub if not name.endswith("_result")}, set(_ops.__all__))
        self.assertEqual([name for name in methods if not hasattr(amp.Tensor, name)], [])

    def test_extension(self):
        stub = names(self.folder / "_amp.pyi")
        for name, members in stub.items():
            if name.startswith("_"):
                continue
            there = getattr(_amp, name)
            self.assertEqual([m for m in members if not hasattr(there, m)], [], name)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_mypy(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "program.py"
            file.write_text(PROGRAM + "\n".join(WRONG) + "\n")
            place = self.folder.parent
            environment = {"PATH": "/usr/bin:/bin"} if place.name == "site-packages" else {"MYPYPATH": str(place), "PATH": "/usr/bin:/bin"}
            shown = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"], cwd=folder,
                                   env=environment, capture_output=True, text=True)
        found = sorted({int(line.split(":")[1]) for line in shown.stdout.splitlines() if ": error:" in line})
        first = PROGRAM.count("\n") + 1
        self.assertEqual(found, list(range(first, first + len(WRONG))), shown.stdout + shown.stderr)


if __name__ == "__main__":
    unittest.main()

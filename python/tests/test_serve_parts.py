"""What python/examples/serve.py is made of, without Ray: which process gets which CPUs, batches, requests."""
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import load  # pylint: disable=wrong-import-position
import serve  # pylint: disable=wrong-import-position

DTYPES = {"ids": np.dtype("int64"), "scale": np.dtype("float32")}


def request(ids, scale=1.0):
    ids = np.array(ids, np.int64)
    return {"ids": ids, "scale": np.full((len(ids), 1), scale, np.float32)}


class Topology(unittest.TestCase):
    def test_lists(self):
        self.assertEqual(serve.cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11])
        self.assertEqual(serve.cpu_list("\n"), [])

    def test_nodes_of_a_made_up_machine(self):
        allowed = sorted(os.sched_getaffinity(0))
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(serve.numa_nodes(root), [allowed])
            for number, text in ((10, str(allowed[-1])), (2, ""), (1, f"{allowed[0]},4000-4095")):
                (Path(root) / f"node{number}").mkdir()
                (Path(root) / f"node{number}" / "cpulist").write_text(text + "\n")
            self.assertEqual(serve.numa_nodes(root), [[allowed[0]], [allowed[-1]]])

    def test_shares(self):
        nodes = [[0, 1, 2, 3], [4, 5, 6, 7]]
        self.assertEqual(serve.shares(1, nodes), [[0, 1, 2, 3, 4, 5, 6, 7]])
        self.assertEqual(serve.shares(2, nodes), nodes)
        self.assertEqual(serve.shares(3, nodes), [[0, 1], [4, 5, 6, 7], [2, 3]])
        self.assertEqual(serve.shares(4, nodes), [[0, 1], [4, 5], [2, 3], [6, 7]])
        self.assertEqual(serve.shares(3, [[0, 1]]), [[0], [1], [0, 1]])
        self.assertEqual(serve.shares(2, [[0], [1], [2]]), [[0, 2], [1]])


class Batches(unittest.TestCase):
    def setUp(self):
        self.shapes = []

    def run_it(self, inputs):
        self.shapes.append(inputs["ids"].shape)
        if inputs["ids"].shape[1] == 3:
            raise ValueError("no rows of 3")
        return {"sum": inputs["ids"].sum(1, keepdims=True) * inputs["scale"]}

    def test_those_that_fit_run_together(self):
        requests = [request([[1, 2]]), request([[1, 2, 3, 4]]), request([[3, 4], [5, 6]], 2.0), request([[1, 2, 3]])]
        answers = serve.run_batch(self.run_it, requests, 1)
        self.assertEqual(self.shapes, [(3, 2), (1, 4), (1, 3)])
        self.assertEqual([a["sum"].tolist() for a in answers[:3]], [[[3]], [[10]], [[14], [22]]])
        self.assertEqual(str(answers[3]), "no rows of 3")

    def test_batches_are_filled_up(self):
        answers = serve.run_batch(self.run_it, [request([[1, 2]])] * 5, 4)
        self.assertEqual(self.shapes, [(8, 2)])
        self.assertEqual([a["sum"].tolist() for a in answers], [[[3]]] * 5)


class Requests(unittest.TestCase):
    def test_npz_and_json(self):
        body = io.BytesIO()
        np.savez(body, scale=[[2.0]], ids=[[1, 2]])
        text = b'{"scale": [[2]], "ids": [[1, 2]]}'
        for arrays in (serve.decode(body.getvalue(), False, DTYPES), serve.decode(text, True, DTYPES)):
            self.assertEqual([(name, x.dtype, x.tolist()) for name, x in arrays.items()],
                             [("ids", np.int64, [[1, 2]]), ("scale", np.float32, [[2]])])
        self.assertEqual(serve.encode({"y": np.eye(2)}, True), b'{"y": [[1.0, 0.0], [0.0, 1.0]]}')
        self.assertEqual(np.load(io.BytesIO(serve.encode({"y": np.eye(2)}, False)))["y"].tolist(), [[1, 0], [0, 1]])

    def test_mistakes(self):
        for text, why in (('{"ids": [[1]]}', "the inputs are ids, scale, not ids"), ("[1]", "by name"), ("nonsense", ""),
                          ('{"ids": [[1]], "scale": 2}', "first extent"), ('{"ids": [], "scale": []}', "first extent"),
                          ('{"ids": [[1]], "scale": [[1], [2]]}', r"first extent of at least 1, not \[1, 1\], \[2, 1\]"),
                          ('{"ids": [["a"]], "scale": [[1]]}', "ids is no array of int64: invalid literal"), ("3", "by name"),
                          ('{"ids": null, "scale": [[1]]}', "ids is no array of int64"),
                          ('{"ids": [[1.7]], "scale": [[1]]}', "ids is no array of int64: it holds float64"),
                          ('{"ids": [[1e400]], "scale": [[1]]}', "ids is no array of int64"),
                          ('{"ids": [[1180591620717411303424]], "scale": [[1]]}', "ids is no array of int64"),
                          ('{"ids": [[1]], "scale": [[{}]]}', "scale is no array of float32"),
                          ('{"ids": [[1], [1, 2]], "scale": [[1], [1]]}', "")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, why):
                serve.decode(text.encode(), True, DTYPES)
        for body in (b"", b"PK\3\4", b"\x93NUMPY", b"nonsense"):
            with self.subTest(body), self.assertRaises(ValueError):
                serve.decode(body, False, DTYPES)


class Load(unittest.TestCase):
    def test_a_server_that_is_not_there(self):
        result = load.load("http://127.0.0.1:9/", ["ids=i64:1x4:9"], clients=2, seconds=0.1, warm=0)
        self.assertEqual((result["requests"], len(result["errors"])), (0, 1))
        self.assertIn("ConnectionRefusedError", result["errors"][0])


if __name__ == "__main__":
    unittest.main()

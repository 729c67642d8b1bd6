"""Regions, the report, files and graphs, errors, threads; and that nothing is left behind."""
import gc
import os
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
import weakref

import numpy as np

import amp


class Autocast(unittest.TestCase):
    def test_dtypes(self):
        x, w = amp.randn(4, 8), amp.randn(8, 8)
        with amp.autocast("cpu") as region:
            self.assertTrue(amp.is_autocast_enabled())
            self.assertEqual((amp.linear(x, w).dtype, (x + x).dtype), (amp.bfloat16, amp.float32))
            self.assertEqual(amp.mse_loss(x.bfloat16(), x.bfloat16()).dtype, amp.float32)
            with amp.autocast("cpu", enabled=False):
                self.assertEqual(amp.linear(x, w).dtype, amp.float32)
            with amp.autocast("cpu", dtype=amp.float16):
                self.assertEqual((amp.get_autocast_dtype(), (x @ w).dtype), (amp.float16, amp.float16))
            self.assertEqual((x @ w).dtype, amp.bfloat16)
        self.assertFalse(amp.is_autocast_enabled())
        with region:
            self.assertEqual((x @ w).dtype, amp.bfloat16)

    def test_decorator_and_errors(self):
        @amp.autocast("cpu")
        def layer(x):
            return x @ x

        self.assertEqual(layer(amp.ones(2, 2)).dtype, amp.bfloat16)
        for wrong in ({"dtype": amp.int64}, {"table": "nonsense"}, {"device_type": "tpu"}, {"dtype": 5}):
            with self.subTest(wrong=wrong), self.assertRaises((amp.Error, TypeError, ValueError)):
                with amp.autocast(**wrong):
                    pass
            self.assertFalse(amp.is_autocast_enabled())
        with self.assertRaises(KeyError), amp.autocast("cpu"):
            raise KeyError
        self.assertFalse(amp.is_autocast_enabled())

    def test_threads_have_their_own(self):
        seen = []
        with amp.autocast("cpu"):
            thread = threading.Thread(target=lambda: seen.append((amp.ones(2, 2) @ amp.ones(2, 2)).dtype))
            thread.start()
            thread.join()
        self.assertEqual(seen, [amp.float32])


class Explain(unittest.TestCase):
    def test_report(self):
        x = amp.ones(4, 4)
        with amp.explain() as report, amp.autocast("cpu"), amp.label("encoder"):
            amp.linear(x, x)
        self.assertIn("linear", str(report))
        self.assertIn("encoder", report.json)
        self.assertIsInstance(report.dict, dict)
        with amp.explain() as other:
            amp.relu(x)
        self.assertNotIn("linear", str(other))


def model(path):
    """y = x W, as ONNX by hand: the few fields of protobuf that it takes."""
    def field(number, payload):
        if isinstance(payload, int):
            return bytes([number << 3, payload])
        payload = payload.encode() if isinstance(payload, str) else payload
        return bytes([number << 3 | 2, len(payload)]) + payload

    def value(name, *extents):
        shape = b"".join(field(1, field(2, e) if isinstance(e, str) else field(1, e)) for e in extents)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    weight = field(1, 3) + field(1, 2) + field(2, 1) + field(8, "w") + field(9, np.arange(6, dtype="<f4").tobytes())
    product = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "MatMul")
    relu = field(1, "y") + field(2, "z") + field(4, "Relu")
    graph = (field(1, product) + field(1, relu) + field(2, "g") + field(5, weight) + field(11, value("x", "batch", 3)) +
             field(12, value("y", "batch", 2)) + field(12, value("z", "batch", 2)))
    with open(path, "wb") as file:
        message = graph
        head = bytes([7 << 3 | 2, len(message) & 127 | 128, len(message) >> 7]) if len(message) > 127 else bytes(
            [7 << 3 | 2, len(message)])
        file.write(field(1, 8) + head + message + field(8, field(1, "") + field(2, 17)))


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "file")

    def tearDown(self):
        self.folder.cleanup()

    def test_graph(self):
        model(self.path)
        graph = amp.load(self.path)
        self.assertEqual(graph.inputs, (("x", amp.float32, ("batch", 3)),))
        self.assertEqual([name for name, _, _ in graph.outputs], ["y", "z"])
        x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
        wanted = x @ np.arange(6, dtype=np.float32).reshape(3, 2)
        for y, z in (graph(x), graph(x=amp.from_numpy(x)), graph.named(x).values()):
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5)
            np.testing.assert_allclose(z.numpy(), np.maximum(wanted, 0), rtol=1e-5)
        with amp.autocast("cpu"):
            rounded = graph(x)[0].numpy()
        self.assertFalse((rounded == wanted).all())
        np.testing.assert_allclose(rounded, wanted, atol=0.1)
        for wrong in (lambda: graph(), lambda: graph(x, x), lambda: graph(q=x), lambda: graph(x, x=x)):
            with self.assertRaisesRegex(TypeError, "graph"):
                wrong()
        with self.assertRaisesRegex(amp.Error, "x"):
            graph(np.zeros((4, 4), np.float32))
        self.assertIsNone(graph.metadata("author"))
        graph.save(self.path + ".2", [amp.from_numpy(x)])
        np.testing.assert_allclose(amp.load(self.path + ".2")(x)[0].numpy(), wanted, rtol=1e-5)

    def test_safetensors(self):
        tensors = {"a": amp.randn(3, 4), "b": amp.ones(2, dtype=amp.bfloat16), "c": amp.tensor(5)}
        amp.save_file(tensors, self.path, metadata={"format": "pt"})
        back = amp.load_file(self.path)
        self.assertEqual(set(back), set(tensors))
        for name, tensor in tensors.items():
            self.assertEqual((back[name].tolist(), back[name].dtype), (tensor.tolist(), tensor.dtype))
        self.assertEqual(amp.load_metadata(self.path), {"format": "pt"})

    def test_errors(self):
        with open(self.path, "wb") as file:
            file.write(b"nonsense")
        for wrong in (lambda: amp.load(self.path), lambda: amp.load_file(self.path), lambda: amp.load(self.path + "x"),
                      lambda: amp.load_file(self.path + "x"), lambda: amp.save_file({"a": amp.ones(1)}, "/no/such/folder/f")):
            with self.assertRaises(amp.FileError) as caught:
                wrong()
            self.assertIsInstance(caught.exception, OSError)
        with self.assertRaises(TypeError):
            amp.save_file({"a": 1}, self.path)


class Errors(unittest.TestCase):
    # A call, the kinds it raises, and what the sentence says.
    WRONG = [
        (lambda: amp.add(amp.ones(2), amp.ones(3)), (amp.Error, ValueError), "add"),
        (lambda: amp.linear(amp.ones(2, 3), {}), (TypeError,), r"linear: argument 2: no op takes a dict"),
        (lambda: amp.linear(amp.ones(2, 3), weight=object()), (TypeError,), r"linear: 'weight': no op takes a object"),
        (lambda: amp.linear(amp.ones(2, 3), 1.0), (amp.Error,), "linear: 'weight' must be a tensor, but a number was given"),
        (lambda: amp.linear(amp.ones(2, 3)), (amp.Error,), "linear: the argument 'weight' is missing"),
        (lambda: amp.relu(amp.ones(2), nonsense=1), (amp.Error,), "relu: there is no argument 'nonsense'"),
        (lambda: amp.relu(amp.ones(2), amp.ones(2), amp.ones(2)), (amp.Error,), "too many arguments"),
        (lambda: amp.relu(*[1] * 40), (TypeError,), "too many arguments"),
        (lambda: amp.sum(amp.ones(2), dim=2**70), (OverflowError,), ""),
        (lambda: amp.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1), (amp.Error,), ""),
        (lambda: amp.cat([amp.ones(2), "a"]), (TypeError,), "cat"),
        (lambda: amp.cat([]), (amp.Error,), "cat"),
        (lambda: amp.cat([amp.ones(2, 2), amp.ones(3, 3)]), (amp.Error,), "cat"),
        (lambda: amp.zeros(2, dtype="nonsense"), (amp.Error,), "zeros"),
        (lambda: amp.ones(2).item(), (amp.Error,), ""),
        (lambda: amp.relu(amp.ones(2), out=amp.ones(3)), (amp.Error,), "relu"),
        (lambda: amp.sort(amp.ones(2), out=(amp.ones(2),)), (amp.Error,), "sort"),
        (lambda: amp.ones(2).view(3), (amp.Error,), "view"),
        (lambda: amp.split(amp.ones(4), 0), (amp.Error,), "split"),
        (lambda: amp.from_dlpack(5), (AttributeError,), "__dlpack__"),
        (lambda: amp.Tensor(), (TypeError,), "cannot create"),
        (lambda: amp.tensor(1.0).to("nonsense"), (amp.Error,), "to"),
        (lambda: amp.set_num_threads(0), (amp.Error,), ""),
    ]

    def test_sentences(self):
        for n, (call, kinds, sentence) in enumerate(self.WRONG):
            with self.subTest(n=n):
                with self.assertRaisesRegex(kinds[0], sentence) as caught:
                    call()
                for kind in kinds:
                    self.assertIsInstance(caught.exception, kind)
        self.assertEqual((amp.ones(2) + 1).tolist(), [2, 2])

    def test_nothing_is_left(self):
        def round_():
            for call, kinds, _ in self.WRONG:
                try:
                    call()
                except kinds:
                    pass

        round_()
        gc.collect()
        before = amp.memory_statistics()["live_tensors"]
        for _ in range(50):
            round_()
        gc.collect()
        self.assertEqual(amp.memory_statistics()["live_tensors"], before)

    def test_nothing_is_left_of_work(self):
        def work():
            x = amp.randn(4, 4).requires_grad_()
            with amp.autocast("cpu"):
                y = amp.cat([x @ x, np.ones((4, 4), np.float32)])[1:, ::2]
            y.sum().backward()
            x.grad.add_(1)
            amp.relu_(np.ones(3, np.float32))
            amp.sort(x.detach(), out=[amp.zeros(4, 4), amp.zeros(4, 4, dtype=amp.int64)])
            list(x), x.max(dim=0), x.tolist(), repr(x), x.numpy(), x + 1, 1 - x
            opt = amp.optim.Adam([x])
            opt.step()
            opt.state_dict()
            amp.Generator()
            amp.grad((x * 2).sum(), x)

        for _ in range(3):
            work()
        gc.collect()
        before = amp.memory_statistics()["live_tensors"]
        for _ in range(50):
            work()
        gc.collect()
        self.assertEqual(amp.memory_statistics()["live_tensors"], before)


    def test_no_objects_are_left(self):
        """Python's own memory: references that are not given back."""
        def calls():
            x = amp.from_numpy(np.ones((3, 4), np.float32))
            x.sum(dim=1, keepdim=True), x.split(1), x.max(dim=1), amp.cat([x, x]), x.view(2, 6), x[0, 1:], x.shape, x.dtype
            x.relu_(), amp.relu(x, out=amp.zeros(3, 4)), amp.from_dlpack(x), np.from_dlpack(x), memoryview(x), x.tolist()
            for call, kinds, _ in self.WRONG:
                try:
                    call()
                except kinds:
                    pass

        def growth(rounds):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(rounds):
                calls()
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before

        tracemalloc.start()
        growth(100)
        least = min(growth(200) for _ in range(4))  # caches fill once, a leak grows each time
        tracemalloc.stop()
        self.assertLess(least, 200 * 16)  # not an object a round


class Threads(unittest.TestCase):
    def test_buffers_go_on_other_threads(self):
        """What a backward lets go of, it lets go of without the interpreter."""
        class Array(np.ndarray):
            pass

        gone = []
        for _ in range(20):
            array = np.ones(8, np.float32).view(Array)
            gone.append(weakref.ref(array))
            leaf = amp.ones(8).requires_grad_()
            loss = (leaf * amp.from_numpy(array)).sum()
            del array
            loss.backward()
            del loss
        amp.from_numpy(np.ones(1))
        gc.collect()
        self.assertEqual([ref() for ref in gone], [None] * 20)

    def test_at_once(self):
        a = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
        wanted, failures = amp.matmul(a, a).tolist(), []

        def work(n):
            try:
                x = amp.from_numpy(a)
                for i in range(200):
                    with amp.autocast("cpu", enabled=i % 2 == 1):
                        y = amp.matmul(x, x)
                    if i % 2 == 0 and y.tolist() != wanted:
                        failures.append((n, i))
                    try:
                        amp.matmul(x, amp.ones(n + 1))
                    except amp.Error as error:
                        if f"[{n + 1}, 1]" not in str(error):
                            failures.append(str(error))
            except Exception as error:  # pylint: disable=broad-except
                failures.append(repr(error))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_others_run_meanwhile(self):
        """The interpreter is free while an op computes. Nobody takes it by force here: this thread sees the op on its way only
        if the op lets go."""
        x, seen, state = amp.randn(300, 300), 0, []

        def work():
            state.append("begun")
            amp.linalg_svd(x)
            state.append("done")

        interval = sys.getswitchinterval()
        sys.setswitchinterval(100)
        try:
            thread = threading.Thread(target=work)
            thread.start()
            while len(state) < 2:
                seen += state == ["begun"]
                time.sleep(0.0005)
            thread.join()
        finally:
            sys.setswitchinterval(interval)
        self.assertGreater(seen, 0)


if __name__ == "__main__":
    unittest.main()

"""Ops of each family against NumPy, on random data; how they are called; what operators and indices mean."""
import copy
import itertools
import pickle
import unittest

import numpy as np

import amp

RANDOM = np.random.default_rng(7)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


A, B, C = floats(3, 4), floats(3, 4), floats(4, 5)
POSITIVE = np.abs(A) + np.float32(0.1)

# The op's result, NumPy's.
CASES = {
    "relu": (lambda: amp.relu(A), lambda: np.maximum(A, 0)),
    "exp": (lambda: amp.exp(A), lambda: np.exp(A)),
    "log": (lambda: amp.log(POSITIVE), lambda: np.log(POSITIVE)),
    "sqrt": (lambda: amp.sqrt(POSITIVE), lambda: np.sqrt(POSITIVE)),
    "tanh": (lambda: amp.tanh(A), lambda: np.tanh(A)),
    "add": (lambda: amp.add(A, B, alpha=2), lambda: A + 2 * B),
    "sub": (lambda: amp.sub(A, B), lambda: A - B),
    "mul": (lambda: amp.mul(A, 3.0), lambda: A * 3),
    "div": (lambda: amp.div(A, POSITIVE), lambda: A / POSITIVE),
    "maximum": (lambda: amp.maximum(A, B), lambda: np.maximum(A, B)),
    "where": (lambda: amp.where(amp.gt(A, 0), A, B), lambda: np.where(A > 0, A, B)),
    "clamp": (lambda: amp.clamp(A, min=-0.5, max=0.5), lambda: np.clip(A, -0.5, 0.5)),
    "sum": (lambda: amp.sum(A, dim=1), lambda: A.sum(1)),
    "mean": (lambda: amp.mean(A, dim=[0, 1], keepdim=True), lambda: A.mean((0, 1), keepdims=True)),
    "var": (lambda: amp.var(A, dim=0), lambda: A.var(0, ddof=1)),
    "amax": (lambda: amp.amax(A, dim=1), lambda: A.max(1)),
    "argmax": (lambda: amp.argmax(A, dim=1), lambda: A.argmax(1)),
    "cumsum": (lambda: amp.cumsum(A, dim=1), lambda: A.cumsum(1)),
    "matmul": (lambda: amp.matmul(A, C), lambda: A @ C),
    "linear": (lambda: amp.linear(A, C.T), lambda: A @ C),
    "einsum": (lambda: amp.einsum("ij,jk->ik", [A, C]), lambda: A @ C),
    "softmax": (lambda: amp.softmax(A, -1), lambda: softmax(A)),
    "layer_norm": (lambda: amp.layer_norm(A, [4]),
                   lambda: (A - A.mean(1, keepdims=True)) / np.sqrt(A.var(1, keepdims=True) + 1e-5)),
    "mse_loss": (lambda: amp.mse_loss(A, B), lambda: ((A - B) ** 2).mean()),
    "cat": (lambda: amp.cat([A, B], dim=1), lambda: np.concatenate([A, B], 1)),
    "stack": (lambda: amp.stack([A, B]), lambda: np.stack([A, B])),
    "permute": (lambda: amp.permute(A, [1, 0]), lambda: A.T),
    "flip": (lambda: amp.flip(A, [1]), lambda: A[:, ::-1]),
    "sort": (lambda: amp.sort(A, dim=1).values, lambda: np.sort(A, 1)),
    "gather": (lambda: amp.gather(A, 1, np.argsort(A, 1)), lambda: np.sort(A, 1)),
    "embedding": (lambda: amp.embedding(np.array([2, 0]), A), lambda: A[[2, 0]]),
    "fft": (lambda: amp.fft_fft(A), lambda: np.fft.fft(A).astype(np.complex64)),
    "solve": (lambda: amp.linalg_solve(A @ A.T + np.eye(3, dtype=np.float32), A),
              lambda: np.linalg.solve(A @ A.T + np.eye(3, dtype=np.float32), A)),
    "arange": (lambda: amp.arange(5), lambda: np.arange(5)),
    "conv2d": (lambda: amp.conv2d(A.reshape(1, 1, 3, 4), np.ones((1, 1, 3, 4), np.float32)), lambda: A.sum().reshape(1, 1, 1, 1)),
}


class Values(unittest.TestCase):
    def test_like_numpy(self):
        for name, (ours, theirs) in CASES.items():
            with self.subTest(op=name):
                result, wanted = ours().numpy(), np.asarray(theirs())
                self.assertEqual(result.shape, wanted.shape)
                np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)

    def test_methods_are_the_functions(self):
        x = amp.from_numpy(A)
        self.assertEqual(x.sum(dim=1).tolist(), amp.sum(x, dim=1).tolist())
        self.assertEqual(x.view(2, 6).shape, (2, 6))
        self.assertEqual(x.view([2, 6]).shape, (2, 6))
        self.assertEqual(x.permute(1, 0).shape, (4, 3))
        self.assertEqual(amp.zeros(2, 3).shape, (2, 3))
        self.assertEqual([piece.shape for piece in x.split(2)], [(2, 4), (1, 4)])
        self.assertEqual(len(amp.zeros(100, 1).unbind()), 100)
        values, indices = x.max(dim=1)
        self.assertEqual((values.shape, indices.dtype), ((3,), amp.int64))

    def test_forms(self):
        x, out = amp.tensor([1.0, -2.0]), amp.zeros(2)
        self.assertIs(x.relu_(), x)
        self.assertEqual(x.tolist(), [1, 0])
        self.assertIs(amp.add(x, x, out=out), out)
        self.assertEqual(out.tolist(), [2, 0])
        values, indices = amp.zeros(2), amp.zeros(2, dtype=amp.int64)
        amp.sort(x, out=(values, indices))
        self.assertEqual((values.tolist(), indices.tolist()), ([0, 1], [1, 0]))

    def test_pools_give_indices_if_asked(self):
        x = amp.from_numpy(floats(1, 1, 4, 4))
        self.assertIsInstance(amp.max_pool2d(x, 2), amp.Tensor)
        self.assertEqual(len(amp.max_pool2d(x, 2, return_indices=True)), 2)

    def test_seeds(self):
        amp.manual_seed(3)
        first = amp.randn(4).tolist()
        amp.manual_seed(3)
        self.assertEqual(amp.randn(4).tolist(), first)
        own = amp.Generator().manual_seed(3)
        self.assertEqual(amp.randn(4, generator=own).tolist(), first)


class Operators(unittest.TestCase):
    BINARY = ["+", "-", "*", "/", "//", "%", "**", "@", "==", "!=", "<", "<=", ">", ">="]

    def test_binary(self):
        for text in self.BINARY:
            right = C if text == "@" else POSITIVE
            with self.subTest(operator=text):
                ours = eval(f"x {text} y", {"x": amp.from_numpy(POSITIVE), "y": amp.from_numpy(right)})
                np.testing.assert_allclose(ours.numpy(), eval(f"x {text} y", {"x": POSITIVE, "y": right}), rtol=2e-5)

    def test_numbers_on_either_side(self):
        for text, number in itertools.product(["+", "-", "*", "/", "//", "%", "**"], [2, 0.5]):
            for form in (f"x {text} n", f"n {text} x"):
                with self.subTest(form=form, number=number):
                    ours = eval(form, {"x": amp.from_numpy(POSITIVE), "n": number})
                    self.assertEqual(ours.dtype, amp.float32)
                    np.testing.assert_allclose(ours.numpy(), eval(form, {"x": POSITIVE, "n": np.float32(number)}), rtol=2e-5)

    def test_integers(self):
        x, y = np.array([5, 3, -2]), np.array([1, 2, 3])
        for text in ["+", "-", "*", "//", "%", "&", "|", "^", "<<"]:
            with self.subTest(operator=text):
                ours = eval(f"x {text} y", {"x": amp.from_numpy(x), "y": amp.from_numpy(y)})
                self.assertEqual(ours.tolist(), eval(f"x {text} y", {"x": x, "y": y}).tolist())
        self.assertEqual((~amp.tensor([True, False])).tolist(), [False, True])
        self.assertEqual((-amp.tensor([1, 2])).tolist(), [-1, -2])

    def test_types_with_numbers(self):
        for text, number, dtype, wanted in (
                ("n - x", 2, amp.int32, amp.int32), ("n - x", 2.5, amp.int32, amp.float32), ("n / x", 1, amp.int64, amp.float32),
                ("n + x", 1.0, amp.bfloat16, amp.bfloat16), ("n % x", 5, amp.bfloat16, amp.bfloat16),
                ("n // x", 5.0, amp.float16, amp.float16), ("n * x", 1j, amp.float32, amp.complex64), ("n | x", 1, amp.int8, amp.int8)):
            with self.subTest(form=text, number=number, dtype=dtype):
                self.assertEqual(eval(text, {"n": number, "x": amp.ones(2, dtype=dtype)}).dtype, wanted)
        self.assertEqual((0.001 - amp.ones(1, dtype=amp.bfloat16)).item(), amp.tensor(-0.999, dtype=amp.bfloat16).item())

    def test_arrays_on_the_left(self):
        self.assertIsInstance(A + amp.from_numpy(B), amp.Tensor)
        np.testing.assert_allclose((A - amp.from_numpy(B)).numpy(), A - B)

    def test_what_they_cannot_take(self):
        for wrong in (lambda: amp.zeros(2) + object(), lambda: amp.zeros(2) - object(), lambda: amp.zeros(2) < {},
                      lambda: amp.zeros(2) + [1, 2], lambda: amp.zeros(2) / "a"):
            with self.assertRaisesRegex(TypeError, "operand|not supported"):
                wrong()
        self.assertEqual((amp.zeros(2) == None, amp.zeros(2) != "a"), (False, True))  # noqa: E711

    def test_in_place(self):
        x = y = amp.tensor([1.0, 2.0])
        x += 1
        x *= 2
        self.assertIs(x, y)
        self.assertEqual(y.tolist(), [4, 6])


class Indices(unittest.TestCase):
    KEYS = [0, -1, (1, 2), slice(1, 3), (slice(None), 1), (Ellipsis, 0), (slice(None, None, 2), None), (0, slice(1, -1)), (),
            (None, Ellipsis), np.array([2, 0]), (slice(None), np.array([1, 1, 0])), (np.array([0, 1]), np.array([2, 3])),
            A > 0, ((A > 0)[:, 0], slice(1, 3)), [0, 2], slice(5, 2)]

    def test_read(self):
        for key in self.KEYS:
            with self.subTest(key=key):
                ours = amp.from_numpy(A)[key]
                np.testing.assert_array_equal(ours.numpy(), A[key])

    def test_write(self):
        for key in self.KEYS:
            with self.subTest(key=key):
                ours, theirs = amp.tensor(A), A.copy()
                ours[key] = 7.0
                theirs[key] = 7
                np.testing.assert_array_equal(ours.numpy(), theirs)

    def test_views(self):
        x = amp.zeros(3, 4)
        x[1][2] = 5
        x[:, 0] = amp.tensor([1.0, 2.0, 3.0])
        self.assertEqual(x.tolist(), [[1, 0, 0, 0], [2, 0, 5, 0], [3, 0, 0, 0]])

    def test_errors(self):
        for key in (3, (0, 0, 0), "a", (Ellipsis, Ellipsis), slice(None, None, -1)):
            with self.subTest(key=key), self.assertRaises((IndexError, TypeError, ValueError)):
                _ = amp.zeros(3, 4)[key]

    def test_rows(self):
        self.assertEqual([row.tolist() for row in amp.tensor([[1, 2], [3, 4]])], [[1, 2], [3, 4]])


class Making(unittest.TestCase):
    def test_from_lists(self):
        for data, dtype in ((1.5, amp.float32), ([1, 2], amp.int64), ([True], amp.bool), ([[1.0], [2.0]], amp.float32),
                            ([], amp.float32), (1 + 2j, amp.complex64), ([[1, 2.5]], amp.float32), (np.float32(2), amp.float32)):
            with self.subTest(data=data):
                made = amp.tensor(data)
                self.assertEqual(made.dtype, dtype)
                self.assertEqual(np.array(made.tolist()).tolist(), np.array(data).tolist())
        with self.assertRaises(ValueError):
            amp.tensor([[1, 2], [3]])

    def test_copies_and_pickles(self):
        for x in (amp.randn(3, 4).t(), amp.ones(2, dtype=amp.bfloat16), amp.tensor([]), amp.tensor(True), amp.tensor(1j),
                  amp.ones(2).requires_grad_()):
            for back in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
                self.assertEqual((back.tolist(), back.dtype, back.shape, back.requires_grad),
                                 (x.tolist(), x.dtype, x.shape, x.requires_grad))
                self.assertIsNot(back, x)
        self.assertIs(copy.deepcopy(amp.float32), amp.float32)

    def test_items(self):
        self.assertEqual(amp.tensor(2**62 + 1).item(), 2**62 + 1)
        self.assertIs(amp.tensor(True).item(), True)
        self.assertEqual(amp.tensor(1 - 2j).item(), 1 - 2j)
        self.assertEqual((float(amp.tensor(1.5)), int(amp.tensor(3)), bool(amp.tensor(0.0))), (1.5, 3, False))
        self.assertTrue(repr(amp.tensor([1.0, 2.0])).startswith("[2] f32 cpu"))
        self.assertEqual(amp.zeros(2, 3).T.shape, (3, 2))
        self.assertEqual(amp.zeros(2).half().dtype, amp.float16)
        self.assertIn("input @ weight^T", amp.linear.__doc__)


if __name__ == "__main__":
    unittest.main()

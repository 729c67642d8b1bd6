"""Gradients, optimizers, the scaler: against finite differences, by hand, and as loops that learn."""
import copy
import math
import unittest

import numpy as np

import amp

RANDOM = np.random.default_rng(3)


def doubles(*shape):
    return amp.from_numpy(RANDOM.standard_normal(shape))


def net(x, w1, b1, w2):
    return amp.linear(amp.linear(x, w1, b1).gelu(), w2)


class Gradients(unittest.TestCase):
    def test_against_finite_differences(self):
        x, labels = doubles(6, 4), amp.tensor([0, 1, 2, 0, 1, 2])
        leaves = [doubles(5, 4), doubles(5), doubles(3, 5)]
        for leaf in leaves:
            leaf.requires_grad_()
        amp.cross_entropy(net(x, *leaves), labels).backward()
        for leaf in leaves:
            values = leaf.detach().numpy().reshape(-1)
            for i in range(values.size):
                ends = []
                for step in (1e-5, -1e-5):
                    values[i] += step
                    with amp.no_grad():
                        ends.append(amp.cross_entropy(net(x, *leaves), labels).item())
                    values[i] -= step
                self.assertAlmostEqual((ends[0] - ends[1]) / 2e-5, leaf.grad.numpy().reshape(-1)[i], places=7)

    def test_grad(self):
        x = amp.tensor(3.0, requires_grad=True)
        first, = amp.grad(x**3, [x], create_graph=True)
        second, = amp.grad(first, [x])
        self.assertEqual((first.item(), second.item(), x.grad), (27, 18, None))
        with self.assertRaises(amp.Error):
            amp.grad(x * 2, [amp.tensor(1.0, requires_grad=True)])
        unused, = amp.grad(x * 2, [amp.tensor(1.0, requires_grad=True)], allow_unused=True)
        self.assertIsNone(unused)

    def test_leaves(self):
        w = amp.ones(2, dtype=amp.float32).requires_grad_()
        self.assertTrue(w.is_leaf and w.requires_grad and not (w * 2).is_leaf)
        (w * 3).sum().backward()
        (w * 3).sum().backward()
        self.assertEqual(w.grad.tolist(), [6, 6])
        w.grad = None
        self.assertIsNone(w.grad)
        w.grad = amp.ones(2)
        self.assertEqual(w.grad.tolist(), [1, 1])
        with self.assertRaises(amp.Error):
            w.grad = amp.ones(3)
        with self.assertRaisesRegex(amp.Error, "requires"):
            amp.ones(1).backward()
        middle = w * 2
        middle.retain_grad()
        middle.backward(amp.ones(2))
        self.assertEqual(middle.grad.tolist(), [1, 1])
        self.assertTrue(copy.deepcopy(w).requires_grad)

    def test_modes(self):
        w = amp.ones(2).requires_grad_()

        @amp.no_grad()
        def plain():
            return w * 2

        @amp.no_grad
        def bare():
            with amp.enable_grad():
                return w * 2

        self.assertFalse(plain().requires_grad)
        self.assertTrue(bare().requires_grad)
        self.assertTrue(amp.is_grad_enabled())
        with self.assertRaises(KeyError), amp.no_grad():
            raise KeyError
        self.assertTrue(amp.is_grad_enabled())

    def test_clipping(self):
        w = amp.ones(2).requires_grad_()
        w.grad = amp.tensor([3.0, 4.0])
        self.assertEqual(amp.clip_grad_norm_([w], 1.0), 5)
        np.testing.assert_allclose(w.grad.numpy(), [0.6, 0.8], rtol=1e-5)
        amp.clip_grad_value_(w, 0.5)
        self.assertEqual(w.grad.tolist(), [0.5, 0.5])
        w.grad = amp.tensor([math.inf, 0])
        with self.assertRaises(amp.Error):
            amp.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)


def adam(values, gradients, lr, beta1, beta2, eps, decay):
    """Steps of AdamW, in f64."""
    m, v = np.zeros_like(values), np.zeros_like(values)
    for t, g in enumerate(gradients, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        values = values * (1 - lr * decay) - lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return values


class Optimizers(unittest.TestCase):
    ALL = [amp.optim.SGD, amp.optim.Adam, amp.optim.AdamW, amp.optim.Adagrad, amp.optim.RMSprop, amp.optim.Adadelta,
           amp.optim.NAdam, amp.optim.RAdam, amp.optim.Adamax]

    def test_formula(self):
        start, gradients = RANDOM.standard_normal(5), RANDOM.standard_normal((4, 5))
        w = amp.tensor(start, requires_grad=True)
        opt = amp.optim.AdamW([w], lr=0.1, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.2)
        for gradient in gradients:
            w.grad = amp.from_numpy(gradient.copy())
            opt.step()
        np.testing.assert_allclose(w.detach().numpy(), adam(start, gradients, 0.1, 0.8, 0.9, 1e-6, 0.2), rtol=1e-12)

    def test_each_goes_down(self):
        for kind in self.ALL:
            with self.subTest(kind=kind.__name__):
                w = amp.tensor([2.0, -3.0], requires_grad=True)
                opt = kind([w], lr=0.1)
                for _ in range(20):
                    opt.zero_grad()
                    self.assertIsNone(w.grad)
                    (w * w).sum().backward()
                    opt.step()
                self.assertLess((w * w).sum().item(), 13)

    def test_groups_and_options(self):
        a, b, c = (amp.ones(1).requires_grad_() for _ in range(3))
        opt = amp.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
        opt.add_param_group({"params": [c]})
        self.assertEqual([opt.get("lr", g) for g in range(opt.group_count)], [0.1, 0.5, 0.1])
        opt.set("lr", 1.0)
        (a + b + c).sum().backward()
        opt.step()
        self.assertEqual([a.item(), b.item(), c.item()], [0, 0, 0])
        for wrong in ({"nonsense": 1}, {"lr": "x"}):
            with self.assertRaises(TypeError):
                amp.optim.SGD([a], **wrong)
        for wrong in ([], [amp.ones(2, dtype=amp.int64)], [(a * 2)]):
            with self.assertRaises(amp.Error):
                amp.optim.SGD(wrong)
        with self.assertRaises(TypeError):
            amp.optim.SGD([1.0])

    def test_state(self):
        def one(state=None):
            w = amp.tensor([1.0, 2.0], requires_grad=True)
            opt = amp.optim.Adam([w], lr=0.1)
            for _ in range(3 if state is None else 0):
                w.grad = amp.ones(2)
                opt.step()
            return w, opt

        w, opt = one()
        other, again = one({})
        with amp.no_grad():
            other.copy_(w)
        again.load_state_dict(opt.state_dict())
        for p, o in ((w, opt), (other, again)):
            p.grad = amp.tensor([1.0, -2.0])
            o.step()
        self.assertEqual(w.tolist(), other.tolist())
        with self.assertRaises((amp.Error, TypeError)):
            again.load_state_dict({"nonsense": amp.ones(1)})


class Loops(unittest.TestCase):
    def learn(self, dtype, scaler=None):
        """Two moons, nearly: the last of the losses and the first."""
        amp.manual_seed(1)
        x = amp.randn(256, 2)
        labels = (x[:, 0] * x[:, 1] > 0).long()
        leaves = [amp.randn(16, 2), amp.zeros(16), amp.randn(2, 16) * 0.3]
        opt = amp.optim.AdamW([p.requires_grad_() for p in leaves], lr=0.02)
        losses = []
        for _ in range(150):
            opt.zero_grad()
            with amp.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                loss = amp.cross_entropy(net(x, *leaves), labels)
            if scaler:
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                amp.clip_grad_norm_(leaves, 1.0)
                scaler.step(opt)
                scaler.update()
            else:
                loss.backward()
                opt.step()
            losses.append(loss.item())
        return losses[0], losses[-1]

    def test_learns(self):
        for dtype, scaler in ((None, None), (amp.bfloat16, None), (amp.float16, amp.GradScaler("cpu"))):
            with self.subTest(dtype=dtype):
                first, last = self.learn(dtype, scaler)
                self.assertGreater(first, 0.6)
                self.assertLess(last, 0.2)

    def test_scaler(self):
        w = amp.ones(1).requires_grad_()
        opt, scaler = amp.optim.SGD([w], lr=1.0), amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
        scaler.scale((w * math.inf).sum()).backward()
        self.assertFalse(scaler.step(opt))
        scaler.update()
        self.assertEqual((w.item(), scaler.get_scale()), (1, 4))
        opt.zero_grad()
        scaler.scale(w.sum()).backward()
        self.assertTrue(scaler.step(opt))
        scaler.update()
        self.assertEqual((w.item(), scaler.get_scale()), (0, 8))
        other = amp.GradScaler()
        other.load_state_dict(scaler.state_dict())
        self.assertEqual(other.state_dict(), scaler.state_dict())
        with self.assertRaises(TypeError):
            scaler.step(object())
        with self.assertRaises(TypeError):
            amp.GradScaler("cpu", nonsense=1)


if __name__ == "__main__":
    unittest.main()

"""Gradients, optimizers, the scaler: against finite differences, by hand, and as loops that learn."""
import copy
import math
import sys
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

    def test_hooks(self):
        w = amp.tensor([1.0, 2.0], requires_grad=True)
        seen = []
        handle = w.register_hook(lambda g: seen.append(g.tolist()))
        middle = w * 3
        middle.register_hook(lambda g: g * 2)
        middle.sum().backward()
        self.assertEqual((seen, w.grad.tolist()), ([[6, 6]], [6, 6]))
        handle.remove()
        with w.register_hook(lambda g: -g):
            (w * 1).sum().backward()
        (w * 1).sum().backward()
        self.assertEqual((len(seen), w.grad.tolist()), (1, [6, 6]))
        x = amp.tensor(3.0, requires_grad=True)
        square = x * x
        square.register_hook(lambda g: g * x)
        first, = amp.grad(square, [x], create_graph=True)
        self.assertEqual((first.item(), amp.grad(first, [x])[0].item()), (18, 12))
        with self.assertRaises(TypeError):
            w.register_hook(3)
        with self.assertRaisesRegex(amp.Error, "requires no gradients"):
            amp.ones(2).register_hook(lambda g: g)

    def test_hooks_that_fail(self):
        for wrong, kind in ((lambda g: {}[0], KeyError), (lambda g: 3, TypeError), (lambda g: g.sum(), amp.Error)):
            w = amp.tensor([1.0, 2.0], requires_grad=True)
            w.register_hook(wrong)
            with self.assertRaises(kind):
                (w * 2).sum().backward()
            with self.assertRaises(kind):
                amp.grad((w * 2).sum(), [w])
            self.assertEqual((w * 2).tolist(), [2, 4])

    def test_hooks_go_with_their_tensors(self):
        def hook(gradient):
            return gradient

        w = amp.tensor([1.0], requires_grad=True)
        before = sys.getrefcount(hook)
        for _ in range(10):
            middle = w * 2
            middle.register_hook(hook)
            middle.sum().backward()
        del middle
        self.assertEqual(sys.getrefcount(hook), before)

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


class Schedulers(unittest.TestCase):
    """Against PyTorch's documentation, in closed form; test_torch.py has them beside PyTorch's own."""

    def rates(self, make, steps, lr=1.0):
        opt = amp.optim.SGD([amp.ones(1).requires_grad_()], lr=lr)
        scheduler = make(opt)
        rates = []
        for _ in range(steps):
            rates += scheduler.get_last_lr()
            self.assertEqual(rates[-1], opt.get("lr"))
            opt.step()
            scheduler.step()
        return rates

    def test_formulas(self):
        lrs = amp.optim.lr_scheduler
        cases = {
            "step": (lambda o: lrs.StepLR(o, 2, gamma=0.5), lambda t: 0.5**(t // 2)),
            "milestones": (lambda o: lrs.MultiStepLR(o, [1, 4]), lambda t: 0.1**((t >= 1) + (t >= 4))),
            "constant": (lambda o: lrs.ConstantLR(o, 0.25, total_iters=3), lambda t: 0.25 if t < 3 else 1),
            "linear": (lambda o: lrs.LinearLR(o, 0.5, total_iters=4), lambda t: 0.5 + 0.5 * min(t, 4) / 4),
            "exponential": (lambda o: lrs.ExponentialLR(o, 0.9), lambda t: 0.9**t),
            "polynomial": (lambda o: lrs.PolynomialLR(o, 8, power=2), lambda t: (1 - min(t, 8) / 8)**2),
            "cosine": (lambda o: lrs.CosineAnnealingLR(o, 10, eta_min=0.2), lambda t: 0.2 + 0.4 * (1 + math.cos(math.pi * t / 10))),
            "restarts": (lambda o: lrs.CosineAnnealingWarmRestarts(o, 3), lambda t: (1 + math.cos(math.pi * (t % 3) / 3)) / 2),
            "lambda": (lambda o: lrs.LambdaLR(o, lambda t: 1 / (t + 1)), lambda t: 1 / (t + 1)),
        }
        for name, (make, formula) in cases.items():
            with self.subTest(name):
                np.testing.assert_allclose(self.rates(make, 7), [formula(t) for t in range(7)], rtol=1e-12)
        up_and_down = self.rates(lambda o: lrs.OneCycleLR(o, 2.0, total_steps=10, anneal_strategy="linear"), 9)
        self.assertAlmostEqual(up_and_down[0], 2 / 25)
        self.assertAlmostEqual(max(up_and_down), 2)

    def test_classes_of_a_program(self):
        class Mine(amp.optim.SGD):
            pass

        class Halved(amp.optim.lr_scheduler.StepLR):
            def __init__(self, optimizer):
                super().__init__(optimizer, 1, gamma=0.5)

        scheduler = Halved(Mine([amp.ones(1).requires_grad_()], lr=1.0))
        scheduler.step()
        self.assertEqual(scheduler.get_last_lr(), [0.5])

    def test_state(self):
        lrs = amp.optim.lr_scheduler
        first, second = (amp.optim.SGD([amp.ones(1).requires_grad_()], lr=0.3) for _ in range(2))
        one, other = lrs.StepLR(first, 2), lrs.StepLR(second, 2)
        for _ in range(5):
            one.step()
        other.load_state_dict(one.state_dict())
        self.assertEqual((other.last_epoch, other.get_last_lr()), (5, one.get_last_lr()))

    def test_plateau(self):
        lrs = amp.optim.lr_scheduler
        opt = amp.optim.SGD([{"params": amp.ones(1).requires_grad_()}, {"params": amp.ones(1).requires_grad_(), "lr": 0.5}], lr=1.0)
        plateau = lrs.ReduceLROnPlateau(opt, factor=0.5, patience=1, min_lr=[0.0, 0.4])
        for loss in (3, 2, amp.tensor(2.0), 2):
            plateau.step(loss)
        self.assertEqual(plateau.get_last_lr(), [0.5, 0.4])
        self.assertEqual(plateau.state_dict(), {"best": 2, "num_bad_epochs": 0, "cooldown_counter": 0})
        plateau.load_state_dict({"best": 1.0, "num_bad_epochs": 1, "cooldown_counter": 0})
        plateau.step(1.5)
        self.assertEqual(opt.get("lr"), 0.25)
        with self.assertRaises(ValueError):
            lrs.ReduceLROnPlateau(opt, mode="least")

    def test_bad_input(self):
        lrs = amp.optim.lr_scheduler
        opt = amp.optim.SGD([amp.ones(1).requires_grad_()], lr=1.0)
        for wrong in (lambda: lrs.StepLR(None, 2), lambda: lrs.StepLR(opt, "a"), lambda: lrs.LambdaLR(opt, 3),
                      lambda: lrs.LambdaLR(opt, lambda t: "a"), lambda: lrs.ReduceLROnPlateau(opt, min_lr="a")):
            with self.assertRaises(TypeError):
                wrong()
        for wrong in (lambda: lrs.StepLR(opt, 0), lambda: lrs.MultiStepLR(opt, range(9)), lambda: lrs.LambdaLR(opt, lambda t: -1),
                      lambda: lrs.OneCycleLR(opt, 1.0, 5, anneal_strategy="none")):
            with self.assertRaises(ValueError):
                wrong()
        with self.assertRaises(ZeroDivisionError):
            lrs.LambdaLR(opt, lambda t: 1 / t)
        with self.assertRaises(TypeError):
            lrs.MultiStepLR(opt, [1.5])
        with self.assertRaisesRegex(ValueError, "there is no scheduler 'LRScheduler'"):
            lrs.LRScheduler(opt, {})
        late = lrs.LambdaLR(opt, lambda t: 0.5 if t < 1 else {}[t])
        with self.assertRaises(KeyError):
            late.step()
        self.assertEqual(opt.get("lr"), 0.5)
        late.optimizer = None  # the C scheduler keeps what it needs
        del opt
        late.load_state_dict({"last_epoch": 0})


class Lbfgs(unittest.TestCase):
    def rosenbrock(self, **options):
        xy = amp.tensor([-1.2, 1.0], dtype=amp.float64, requires_grad=True)
        opt = amp.optim.LBFGS([xy], **options)

        def closure():
            opt.zero_grad()
            x, y = xy[0], xy[1]
            loss = (1 - x)**2 + 100 * (y - x * x)**2
            loss.backward()
            return loss

        return xy, opt, closure

    def test_the_valley(self):
        xy, opt, closure = self.rosenbrock(line_search_fn="strong_wolfe", max_iter=60, tolerance_change=0)
        self.assertAlmostEqual(opt.step(closure), 24.2)
        np.testing.assert_allclose(xy.tolist(), [1, 1], atol=1e-5)

    def test_state_goes_on(self):
        xy, opt, closure = self.rosenbrock(line_search_fn="strong_wolfe", max_iter=4)
        opt.step(closure)
        other, again, other_closure = self.rosenbrock(line_search_fn="strong_wolfe", max_iter=4)
        with amp.no_grad():
            other.copy_(xy)
        again.load_state_dict(opt.state_dict())
        self.assertEqual(opt.step(closure), again.step(other_closure))
        self.assertEqual(xy.tolist(), other.tolist())

    def test_an_exception_leaves_all_as_it_was(self):
        xy, opt, closure = self.rosenbrock(line_search_fn="strong_wolfe")
        calls = []

        def failing():
            calls.append(1)
            if len(calls) == 3:
                raise KeyError("three")
            return closure()

        with self.assertRaisesRegex(KeyError, "three"):
            opt.step(failing)
        self.assertEqual(xy.tolist(), [-1.2, 1.0])
        self.assertAlmostEqual(opt.step(closure), 24.2)
        with self.assertRaises(TypeError):
            opt.step(lambda: "no number")
        with self.assertRaises(TypeError):
            opt.step(None)
        with self.assertRaises(ValueError):
            amp.optim.LBFGS([xy], line_search_fn="weak")
        with self.assertRaises(amp.Error):
            amp.optim.LBFGS([xy], history_size=0)


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

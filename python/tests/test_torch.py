"""Beside PyTorch, where it is installed: memory shared through DLPack, values, types in a region, gradients, steps."""
import unittest

import amp

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"PyTorch is not installed: {missing}")


def ours(tensor):
    return amp.from_dlpack(tensor.detach())


class Beside(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def close(self, mine, theirs, **tolerance):
        torch.testing.assert_close(torch.from_dlpack(mine.detach()), theirs.detach(), **tolerance)

    def test_dlpack(self):
        for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"):
            with self.subTest(dtype=name):
                t = torch.arange(6).reshape(2, 3).to(getattr(torch, name)).t()
                x = amp.from_dlpack(t)
                self.assertEqual((x.dtype, x.shape, x.strides, x.data_ptr()), (getattr(amp, name), (3, 2), (1, 3), t.data_ptr()))
                back = torch.from_dlpack(x)
                self.assertEqual((back.data_ptr(), back.dtype), (t.data_ptr(), t.dtype))

    def test_types_in_a_region(self):
        x, w, i = torch.randn(4, 4), torch.randn(4, 4), torch.tensor([0, 1, 2, 3])
        a, b, j = ours(x), ours(w), ours(i)
        functional = torch.nn.functional
        cases = {"linear": (lambda: amp.linear(a, b), lambda: functional.linear(x, w)),
                 "matmul": (lambda: a @ b, lambda: x @ w),
                 "add": (lambda: a + b, lambda: x + w),
                 "softmax": (lambda: amp.softmax(a, -1), lambda: torch.softmax(x, -1)),
                 "layer_norm": (lambda: amp.layer_norm(a, [4]), lambda: functional.layer_norm(x, [4])),
                 "gelu": (lambda: (a @ b).gelu(), lambda: functional.gelu(x @ w)),
                 "cross_entropy": (lambda: amp.cross_entropy(a, j), lambda: functional.cross_entropy(x, i)),
                 "cat": (lambda: amp.cat([a, a @ b]), lambda: torch.cat([x, x @ w]))}
        for name, (mine, theirs) in cases.items():
            with self.subTest(op=name), amp.autocast("cpu"), torch.autocast("cpu", dtype=torch.bfloat16):
                m, t = mine(), theirs()
                self.assertEqual(m.dtype.name, str(t.dtype).split(".")[1])
                self.close(m.float(), t.float(), rtol=2e-2, atol=5e-2)

    def test_a_few_steps(self):
        x, labels = torch.randn(16, 8), torch.randint(0, 3, (16,))
        leaves = [(torch.randn(12, 8) * 0.3).requires_grad_(), torch.zeros(12).requires_grad_(),
                  (torch.randn(3, 12) * 0.3).requires_grad_()]
        mine = [ours(leaf.clone()).clone().requires_grad_() for leaf in leaves]
        optimizers = torch.optim.AdamW(leaves, lr=0.05), amp.optim.AdamW(mine, lr=0.05)
        for _ in range(5):
            for opt in optimizers:
                opt.zero_grad()
            linear = torch.nn.functional.linear
            theirs = torch.nn.functional.cross_entropy(linear(linear(x, *leaves[:2]).relu(), leaves[2]), labels)
            loss = amp.cross_entropy(amp.linear(amp.linear(ours(x), *mine[:2]).relu(), mine[2]), ours(labels))
            theirs.backward()
            loss.backward()
            for m, t in zip(mine, leaves):
                self.close(m.grad, t.grad, rtol=1e-3, atol=1e-5)
            for opt in optimizers:
                opt.step()
        self.assertAlmostEqual(loss.item(), theirs.item(), places=4)

    def test_schedulers(self):
        cases = [("StepLR", {"step_size": 3}), ("MultiStepLR", {"milestones": [2, 5]}), ("ConstantLR", {}), ("LinearLR", {}),
                 ("ExponentialLR", {"gamma": 0.8}), ("PolynomialLR", {"power": 2.0}), ("CosineAnnealingLR", {"T_max": 8}),
                 ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}), ("LambdaLR", {"lr_lambda": lambda t: 0.7**t}),
                 ("OneCycleLR", {"max_lr": 0.5, "total_steps": 12}),
                 ("OneCycleLR", {"max_lr": 0.5, "total_steps": 12, "three_phase": True, "anneal_strategy": "linear"})]
        for name, options in cases:
            with self.subTest(scheduler=name):
                theirs = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
                mine = amp.optim.SGD([amp.ones(1).requires_grad_()], lr=0.1)
                more = {"cycle_momentum": False} if name == "OneCycleLR" else {}
                pair = (getattr(amp.optim.lr_scheduler, name)(mine, **options),
                        getattr(torch.optim.lr_scheduler, name)(theirs, **options, **more))
                for _ in range(11):
                    self.assertAlmostEqual(mine.get("lr"), theirs.param_groups[0]["lr"], places=12)
                    theirs.step()
                    mine.step()
                    for scheduler in pair:
                        scheduler.step()

    def test_plateau(self):
        theirs = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        mine = amp.optim.SGD([amp.ones(1).requires_grad_()], lr=0.1)
        options = {"mode": "max", "patience": 1, "cooldown": 2, "threshold_mode": "abs", "threshold": 0.05}
        pair = (amp.optim.lr_scheduler.ReduceLROnPlateau(mine, **options),
                torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options))
        for metric in (0.5, 0.6, 0.62, 0.64, 0.6, 0.6, 0.6, 0.6, 0.7, 0.7, 0.7):
            for scheduler in pair:
                scheduler.step(metric)
            self.assertAlmostEqual(mine.get("lr"), theirs.param_groups[0]["lr"], places=12)

    def test_lbfgs(self):
        for search in (None, "strong_wolfe"):
            with self.subTest(line_search=search):
                w = torch.tensor([2.0, -1.5], dtype=torch.float64, requires_grad=True)
                mine = ours(w.clone()).clone().requires_grad_()
                options = {"lr": 0.5, "max_iter": 6, "line_search_fn": search}
                pair = [(torch.optim.LBFGS([w], **options), w), (amp.optim.LBFGS([mine], **options), mine)]

                def closure(opt, v):
                    opt.zero_grad()
                    loss = (v * v * v * v).sum() + (v.sum() - 1)**2
                    loss.backward()
                    return loss

                for _ in range(3):
                    loss, same = [opt.step(lambda o=opt, v=v: closure(o, v)) for opt, v in pair]
                    self.assertAlmostEqual(loss.item(), same, places=9)
                self.close(mine, w, rtol=1e-8, atol=1e-8)

    def test_modules_on_both_sides(self):
        pairs = [(amp.conv2d, torch.nn.functional.conv2d, [(2, 3, 8, 8), (4, 3, 3, 3)], {"padding": 1, "stride": 2}),
                 (amp.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention, [(2, 4, 8, 16)] * 3,
                  {"is_causal": True}),
                 (amp.group_norm, torch.nn.functional.group_norm, [(2, 4, 6)], {"num_groups": 2}),
                 (amp.var, torch.var, [(3, 5)], {"dim": 1, "keepdim": True})]
        for mine, theirs, shapes, options in pairs:
            with self.subTest(op=theirs.__name__):
                tensors = [torch.randn(*shape) for shape in shapes]
                self.close(mine(*map(ours, tensors), **options), theirs(*tensors, **options), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()

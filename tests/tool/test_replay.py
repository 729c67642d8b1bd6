#!/usr/bin/env python3
"""amp replay against cases made here: what must fail fails, and says why.

tests/tool/test_replay.py build/release/amp build/release/tests/plugin.so
"""

import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import unittest

AMP = os.path.abspath(sys.argv.pop(1))
PLUGIN = os.path.abspath(sys.argv.pop(1))


def write_safetensors(path, tensors):
    """tensors: name → (dtype, shape, bytes)"""
    header, blocks, offset = {}, b"", 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        blocks += data
        offset += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + blocks)


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def add_case(**changes):
    """3 + 4 = 7, twice."""
    case = {
        "name": "add/0/off-f32",
        "op": "add",
        "policy": "fallthrough",
        "autocast": None,
        "inputs": {
            "input": {"tensor": "a", "dtype": "f32", "shape": [2]},
            "other": {"tensor": "b", "dtype": "f32", "shape": [2]},
        },
        "outputs": [
            {
                "dtype": "f32",
                "shape": [2],
                "compare": "close",
                "rtol": 0,
                "atol": 1e-6,
                "torch_error": 0.0,
                "tensor": "sum",
            }
        ],
    }
    case.update(changes)
    return case


TENSORS = {
    "a": ("F32", [2], f32(3, 1)),
    "b": ("F32", [2], f32(4, 1)),
    "sum": ("F32", [2], f32(7, 2)),
    "wrong": ("F32", [2], f32(7, 2.5)),
    "nan": ("F32", [2], f32(7, float("nan"))),
    "inf": ("F32", [2], f32(7, float("inf"))),
    "short": ("F32", [1], f32(7)),
}


def output(**changes):
    return [{**add_case()["outputs"][0], **changes}]


class Replay(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def run_amp(self, *arguments):
        done = subprocess.run([AMP, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def replay(self, *cases, options=(), tensors=None):
        with open(self.path + "/x.json", "w", encoding="utf-8") as file:
            json.dump(list(cases), file)
        write_safetensors(self.path + "/x.safetensors", tensors or TENSORS)
        return self.run_amp("replay", *options, self.path)

    def test_a_right_case_passes(self):
        code, out, _ = self.replay(add_case())
        self.assertEqual(code, 0, out)
        self.assertIn("1 cases on cpu: 1 passed, 0 failed", out)

    def test_strided_inputs_give_the_same(self):
        self.assertEqual(self.replay(add_case(), options=["--strided"])[0], 0)

    def test_wrong_results_fail_with_expected_and_got(self):
        for change, part in [
            (dict(tensor="wrong"), "at [1] expected 2.5, got 2: off by 0.5, allowed 1e-06 (1 of 2"),
            (dict(tensor="nan"), "expected nan, got 2"),
            (dict(tensor="inf"), "expected inf, got 2"),
            (dict(dtype="bf16"), "expected bf16 [2], got f32 [2]"),
            (dict(shape=[1, 2]), "expected f32 [1, 2], got f32 [2]"),
            (dict(shape=[1, 2], compare="dtype_and_shape"), "expected f32 [1, 2], got f32 [2]"),
            (dict(tensor="wrong", compare="exact"), "expected 2.5, got 2"),
        ]:
            with self.subTest(part):
                code, out, _ = self.replay(add_case(outputs=output(**change)))
                self.assertEqual(code, 1)
                self.assertIn("FAILED x/add/0/off-f32: output 0: ", out)
                self.assertIn(part, out)

    def test_the_tolerance_is_a_boundary(self):
        self.assertEqual(self.replay(add_case(outputs=output(tensor="wrong", atol=0.5)))[0], 0)
        self.assertEqual(self.replay(add_case(outputs=output(tensor="wrong", atol=0.49)))[0], 1)
        self.assertEqual(self.replay(add_case(outputs=output(tensor="wrong", atol=0, rtol=0.2)))[0], 0)
        self.assertEqual(self.replay(add_case(outputs=output(tensor="wrong", atol=0, rtol=0.19)))[0], 1)

    def test_values_that_the_rule_leaves_out_are_not_compared(self):
        self.assertEqual(self.replay(add_case(outputs=output(tensor="wrong", compare="dtype_and_shape")))[0], 0)

    def test_missing_outputs_and_errors_of_the_op_fail(self):
        code, out, _ = self.replay(add_case(outputs=output() * 2))
        self.assertEqual((code, "expected 2 outputs, got 1" in out), (1, True))
        code, out, _ = self.replay(add_case(inputs={"input": add_case()["inputs"]["input"]}))
        self.assertEqual((code, "FAILED x/add/0/off-f32: add: " in out), (1, True))

    def test_inputs_that_must_change_are_compared(self):
        code, out, _ = self.replay(add_case(after={"input": {"tensor": "b", "rtol": 0, "atol": 0}}))
        self.assertEqual(code, 1)
        self.assertIn("input afterwards: at [0] expected 4, got 3", out)
        self.assertEqual(self.replay(add_case(after={"input": {"tensor": "a", "rtol": 0, "atol": 0}}))[0], 0)

    def test_inputs_that_change_fail(self):
        code, out, _ = self.replay(add_case(op="add_"))
        self.assertEqual((code, "input was changed by the call" in out), (1, True))

    def test_cases_run_in_their_region(self):
        region = {"device": "cpu", "dtype": "bf16"}
        tensors = {**TENSORS, "m": ("F32", [2, 2], f32(1.001, 0, 0, 1)), "product": ("F32", [2, 2], f32(1, 0, 0, 1))}
        m = {"tensor": "m", "dtype": "f32", "shape": [2, 2]}
        case = add_case(
            name="mm/0/on-f32",
            op="mm",
            autocast=region,
            inputs={"input": m, "mat2": m},
            outputs=output(dtype="bf16", shape=[2, 2], tensor="product", atol=0),
        )
        self.assertEqual(self.replay(case, tensors=tensors)[0], 0)
        code, out, _ = self.replay({**case, "autocast": None}, tensors=tensors)
        self.assertEqual((code, "got f32" in out), (1, True))

    def test_cases_of_another_device_are_not_run(self):
        code, out, _ = self.replay(
            add_case(), add_case(name="add/1/on-f32", autocast={"device": "cuda", "dtype": "f16"})
        )
        self.assertEqual(code, 0)
        self.assertIn("1 more cases belong to another device", out)

    def test_the_list_of_missing_ops_may_only_shrink(self):
        listed = self.path + "/list.txt"
        unknown = add_case(name="nosuchop/0/off-f32", op="nosuchop")
        code, out, _ = self.replay(add_case(), unknown)
        self.assertEqual((code, "not in the list of --allow-missing: nosuchop" in out), (1, True))
        for text, expected, part in [
            ("add  # comment\n", 1, "remove them from"),
            ("nosuchop\n", 2, "'nosuchop': there is no such op"),
            ("\n# nothing\nsub\n", 0, ""),
            ("sub\nsub\n", 2, "'sub': listed twice"),
            ("add/1/*\n", 0, ""),
            ("add/0/*\n", 1, "remove them from"),
            ("nosuchop/0/*\n", 2, "'nosuchop/0/*': there is no such op"),
        ]:
            with open(listed, "w", encoding="utf-8") as file:
                file.write(text)
            code, out, err = self.replay(add_case(), options=["--allow-missing", listed])
            self.assertEqual(code, expected, out + err)
            self.assertIn(part, out + err)

    def test_wrongly_recorded_cases_must_fail(self):
        listed = self.path + "/list.txt"
        bad = add_case(outputs=output(tensor="wrong", atol=0))
        for case, text, expected, part in [
            (bad, "x/add/0/*  # the proof\n", 0, "1 recorded wrongly"),
            (bad, "x/add/1/*\n", 1, "1 failed"),
            (add_case(), "x/add/0/*\n", 1, "they pass, so remove them"),
            (bad, "add\n", 2, "'add': expected FILE/op/sample/mode"),
        ]:
            with open(listed, "w", encoding="utf-8") as file:
                file.write(text)
            code, out, err = self.replay(case, options=["--allow-wrong", listed])
            self.assertEqual(code, expected, out + err)
            self.assertIn(part, out + err)

    def test_malformed_cases_are_named(self):
        for change, part in [
            (dict(inputs=None), "'inputs' is missing"),
            (dict(outputs={}), "'outputs' is missing"),
            (dict(autocast="x"), "'device' is missing"),
            (dict(outputs=output(compare="x")), "'compare' is 'x'"),
            (dict(outputs=output(tensor="none")), "no tensor 'none'"),
            (dict(outputs=output(tensor="short")), "another number of elements"),
            (dict(outputs=output(dtype="f99")), "'f99' is no dtype"),
            (dict(inputs={"input": {"what": 1}}), "argument 'input' is of no kind"),
            (dict(inputs={"input": {"tensor": "a", "dtype": "f64", "shape": [2]}}), "not what the case says"),
            (dict(inputs={"input": {"tensor": "a", "dtype": "f32", "shape": [-2]}}), "a bad extent"),
            (dict(inputs={"input": {"tensor": "a", "dtype": "f32", "shape": [2**40, 2**40]}}), "too large"),
            (dict(inputs={"input": list(range(9))}), ""),
        ]:
            with self.subTest(part):
                code, out, _ = self.replay(add_case(**change))
                self.assertIn("x/add/0/off-f32", out)
                self.assertIn(part, out)
                self.assertEqual(code, 2 if part else 1)
        code, out, _ = self.replay(add_case(), add_case())
        self.assertEqual((code, "malformed case: the name is given twice" in out), (2, True))
        code, out, _ = self.replay({**add_case(), "name": 7})
        self.assertEqual((code, "x/case 1: malformed case: 'name' is missing" in out), (2, True))

    def test_malformed_files_are_named(self):
        self.replay(add_case())
        with open(self.path + "/x.json", "a", encoding="utf-8") as file:
            file.write("]")
        code, _, err = self.run_amp("replay", self.path)
        self.assertEqual((code, "x.json:1" in err), (2, True))
        self.replay(add_case())
        os.truncate(self.path + "/x.safetensors", 20)
        code, _, err = self.run_amp("replay", self.path)
        self.assertEqual((code, "x.safetensors" in err), (2, True))
        os.unlink(self.path + "/x.safetensors")
        code, _, err = self.run_amp("replay", self.path)
        self.assertEqual((code, "No such file" in err), (2, True))
        os.unlink(self.path + "/x.json")
        code, _, err = self.run_amp("replay", self.path)
        self.assertEqual((code, "there are no case files" in err), (2, True))

    def test_json_is_json(self):
        code, out, _ = self.replay(
            add_case(), add_case(name="add/1/off-f32", outputs=output(tensor="inf")), options=["--json"]
        )
        report = json.loads(out)
        self.assertEqual((code, report["exit_code"], report["passed"], report["failed"]), (1, 1, 1, 1))
        self.assertEqual(report["ops"][0]["op"], "add")
        self.assertEqual(report["failures"][0]["case"], "add/1/off-f32")

    def test_the_error_is_compared_with_pytorchs(self):
        def ratio(torch_error, **changes):
            _, out, _ = self.replay(add_case(outputs=output(torch_error=torch_error, **changes)), options=["--json"])
            return json.loads(out)["error_ratio"]

        # 0.5 off; half a unit in the last place of 7 is 2^-22
        self.assertAlmostEqual(ratio(0.25, tensor="wrong"), 2)
        self.assertAlmostEqual(ratio(0, tensor="wrong"), 0.5 * 2**22)
        self.assertAlmostEqual(ratio(0), 1)
        self.assertAlmostEqual(ratio(2**-30), 1)
        self.assertAlmostEqual(ratio(2**-20), 0.25)
        self.assertIsNone(ratio(1, compare="exact"))
        two = [
            add_case(outputs=output(torch_error=0.25, tensor="wrong", atol=1)),
            add_case(name="add/1/off-f32", outputs=output(torch_error=2**-19)),
        ]
        code, out, _ = self.replay(*two)
        self.assertEqual(code, 0)
        self.assertIn("our error over PyTorch's: 0.500 (geometric mean of 2 outputs)", out)

    def test_ops_of_a_plugin_are_replayed(self):
        m = {"tensor": "a", "dtype": "f32", "shape": [2]}
        doubled = {**TENSORS, "doubled": ("F32", [2], f32(6, 2))}
        case = add_case(name="plugin_twice/0/off-f32", op="plugin_twice", inputs={"input": m})
        case["outputs"] = output(tensor="doubled")
        self.assertEqual(self.replay(case, options=["--load", PLUGIN], tensors=doubled)[0], 0)
        code, out, _ = self.replay(case, tensors=doubled)
        self.assertEqual((code, "not implemented, and not in the list" in out), (1, True))
        code, _, err = self.replay(case, options=["--load", "/no/such.so"])
        self.assertEqual((code, "--load" in err), (2, True))

    def test_progress_is_for_terminals(self):
        self.replay(add_case())
        try:
            terminal, side = pty.openpty()
        except OSError as problem:  # a container may have none
            self.skipTest(f"no terminal here: {problem}")
        done = subprocess.run([AMP, "replay", self.path], stdout=subprocess.PIPE, stderr=side, check=True)
        os.close(side)
        self.assertIn(b"1/1 x/add/0/off-f32", os.read(terminal, 1000))
        os.close(terminal)
        self.assertNotIn(b"\r", done.stdout)
        self.assertEqual(self.replay(add_case())[2], "")

    def test_filters_choose_by_op_name_and_file(self):
        cases = [add_case(), add_case(name="sub/0/off-f32", op="sub", outputs=output(tensor="wrong"))]
        for pattern, expected in [("add", 0), ("sub", 1), ("*/off-f32", 1), ("x/add/*", 0), ("y/*", 2)]:
            self.assertEqual(self.replay(*cases, options=["--filter", pattern])[0], expected, pattern)

    def test_usage(self):
        for arguments, part in [
            ([], "usage: amp COMMAND"),
            (["nope"], "there is no command 'nope'"),
            (["--nope"], "there is no option"),
            (["replay"], "FOLDER is missing"),
            (["replay", "--nope", "x"], "there is no option '--nope'"),
            (["replay", "--device", "tpu", "x"], "takes 'cpu' or 'cuda', not 'tpu'"),
            (["replay", "--filter"], "needs a value"),
            (["replay", "a", "b"], "one FOLDER at a time"),
            (["replay", "/no/such/folder"], "No such file"),
            (["replay", "--allow-missing=/no/list", self.path], "/no/list: cannot read"),
        ]:
            with self.subTest(arguments):
                code, out, err = self.run_amp(*arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(part, err)
        for arguments in (["--help"], ["replay", "--help"], ["--version"]):
            code, out, err = self.run_amp(*arguments)
            self.assertEqual((code, err), (0, ""))
            self.assertTrue(out)


if __name__ == "__main__":
    unittest.main()

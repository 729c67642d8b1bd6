#!/usr/bin/env python3
"""amp run and bench --numa, on a made-up topology: two nodes of two CPUs of this machine; and the variables that pin threads.

tests/tool/test_numa.py build/release/amp
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from onnx_files import FLOAT, model, node, table, value

AMP = os.path.abspath(sys.argv.pop(1))
CPUS = sorted(os.sched_getaffinity(0))[:2]
SIZE = 256
# Large enough that two threads share a run.
PRODUCT = model([node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])], [value("x", FLOAT, "batch", SIZE)],
                [value("y", FLOAT, "batch", SIZE)],
                [table("w", SIZE, SIZE, [(i * 7919 % 1009) / 500 - 1 for i in range(SIZE * SIZE)])])


def cpus_of(process):
    """{the CPUs that each thread may run on} of a process, as the system writes them; nothing once it has ended."""
    found = set()
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/status", encoding="utf-8") as file:
                found.update(line.split()[1] for line in file if line.startswith("Cpus_allowed_list:"))
    except (OSError, IndexError):
        pass
    return found


def children_of(process):
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


class Numa(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        self.product = os.path.join(self.path, "product.onnx")
        with open(self.product, "wb") as file:
            file.write(PRODUCT)

    def nodes(self, lists):
        """A folder like /sys/devices/system/node; an entry without a text has no list."""
        folder = tempfile.mkdtemp(dir=self.path)
        for number, text in lists.items():
            os.mkdir(os.path.join(folder, f"node{number}"))
            if text is not None:
                with open(os.path.join(folder, f"node{number}", "cpulist"), "w", encoding="utf-8") as file:
                    file.write(text + "\n")
        for name in ("node", "nodes7", "node1x", "power"):  # what is no node
            os.mkdir(os.path.join(folder, name))
        return folder

    def two(self):
        return self.nodes({0: str(CPUS[0]), 1: str(CPUS[1])})

    def environment(self, nodes=None, **more):
        pinning = ("GOMP_CPU_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND", "OMP_NUM_THREADS")
        kept = {name: text for name, text in os.environ.items() if name not in pinning}
        return {**kept, "OMP_WAIT_POLICY": "passive", **({"AMP_TEST_NODES": nodes} if nodes else {}), **more}

    def run_amp(self, command, *arguments, **environment):
        done = subprocess.run([AMP, command, self.product, "--shape", f"64x{SIZE}", *arguments], capture_output=True, timeout=300,
                              env=self.environment(**environment))
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def report(self, command, *arguments, **environment):
        code, out, err = self.run_amp(command, "--json", "--runs", "5", *arguments, **environment)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def await_cpus(self, expected, *arguments, **environment):
        """Starts a run that is long enough for any machine, and stops it once expected(its CPUs, {other process: CPUs})."""
        seen = None
        command = [AMP, "run", self.product, "--shape", f"64x{SIZE}", "--json", "--seconds", "30", *arguments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=self.environment(**environment)) as running:
            while running.poll() is None:
                seen = cpus_of(running.pid), {process: cpus_of(process) for process in children_of(running.pid)}
                if expected(*seen):
                    running.kill()
                    return
                time.sleep(0.02)
        self.fail(f"the run ended with {running.returncode}; CPUs seen last: {seen}")

    def fails(self, part, *arguments, **environment):
        with self.subTest(part):
            code, out, err = self.run_amp("run", *arguments, **environment)
            self.assertIn(part, err)
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(len([line for line in err.splitlines() if not line.startswith("Try ")]), 1, err)

    def outputs(self, *arguments, **environment):
        folder = tempfile.mkdtemp(dir=self.path)
        self.report("run", "--output", folder, *arguments, **environment)
        files = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
        return files

    # ---- Two nodes ----
    def test_local_keeps_to_the_first_node(self):
        report = self.report("run", "--numa", "local", nodes=self.two())
        self.assertEqual({name: report["numa"][name] for name in ("mode", "nodes")}, {"mode": "local", "nodes": 2})
        (used,) = report["numa"]["used"]
        self.assertEqual((used["node"], used["cpus"], report["machine"]["threads"]), (0, CPUS[:1], 1))
        self.await_cpus(lambda its, _: its == {str(CPUS[0])}, "--numa", "local", nodes=self.two())

    def test_replicate_has_a_process_on_each(self):
        report = self.report("run", "--numa", "replicate", nodes=self.two())
        used = report["numa"]["used"]
        self.assertEqual([(u["node"], u["cpus"]) for u in used], [(0, CPUS[:1]), (1, CPUS[1:])])
        for its in used:
            for kind in ("f32", "bf16"):
                self.assertEqual(its[kind]["runs"], 5)
                self.assertGreater(its[kind]["median_ms"], 0)
        self.await_cpus(lambda its, others: its == {str(CPUS[0])} and {str(CPUS[1])} in others.values(),
                        "--numa", "replicate", nodes=self.two())

    def test_the_bits_are_the_same_everywhere(self):
        plain = self.outputs()
        self.assertEqual(sorted(plain), ["y.bf16.npy", "y.npy"])
        for mode in ("local", "replicate"):
            self.assertEqual(self.outputs("--numa", mode, nodes=self.two()), plain)
        self.assertEqual(self.outputs("--numa", "replicate", "--runs", "0", nodes=self.two()), plain)

    def test_report_for_people(self):
        code, out, err = self.run_amp("run", "--runs", "3", "--numa", "replicate", nodes=self.two())
        self.assertEqual((code, err), (0, ""))
        text = " ".join(out.split())
        self.assertIn(f"A process on each of 2 NUMA nodes: node 0, CPUs {CPUS[0]}; node 1, CPUs {CPUS[1]}.", text)
        for part in ("median run on node 1, ms", "items a second on 2 nodes", "their outputs have the same bits"):
            self.assertIn(part, text)
        _, out, _ = self.run_amp("run", "--runs", "3", "--numa", "local", nodes=self.two())
        self.assertIn(f"On one of 2 NUMA nodes: node 0, CPUs {CPUS[0]}.", " ".join(out.split()))

    def test_gaps_and_nodes_without_cpus(self):
        nodes = self.nodes({0: "", 2: str(CPUS[0]), 10: f"{CPUS[1]},4000-4001", 3: "4095"})
        report = self.report("run", "--numa", "replicate", nodes=nodes)
        self.assertEqual([(u["node"], u["cpus"]) for u in report["numa"]["used"]], [(2, CPUS[:1]), (10, CPUS[1:])])

    def test_bench(self):
        for mode, used in (("local", [0]), ("replicate", [0, 1])):
            report = self.report("bench", "--threads", "1", "--runs", "4", "--seconds", "0.2", "--isa", "ref", "--numa", mode,
                                 nodes=self.two())
            self.assertEqual([u["node"] for u in report["numa"]["used"]], used)
            self.assertEqual([row["dtype"] for row in report["rows"]], ["f32", "bf16"])
            self.assertTrue(all(0 < len(row["sorted_ms"]) <= 4 for row in report["rows"]), report["rows"])
        code, out, _ = self.run_amp("bench", "--runs", "4", "--isa", "ref", "--numa", "replicate", nodes=self.two())
        self.assertEqual(code, 0)
        self.assertIn("All nodes ran at once", " ".join(out.split()))

    # ---- One node ----
    def test_one_node_changes_nothing(self):
        everywhere = ",".join(map(str, CPUS))
        for nodes in (self.nodes({0: everywhere}), self.nodes({}), self.nodes({0: everywhere, 1: "4095"}), "/nowhere"):
            for mode in ("local", "replicate"):
                report = self.report("run", "--runs", "1", "--numa", mode, nodes=nodes)
                self.assertEqual(report["numa"], {"mode": mode, "nodes": 1, "used": []})
        code, out, _ = self.run_amp("run", "--runs", "1", "--numa", "local", nodes="/nowhere", OMP_PROC_BIND="false")
        self.assertEqual(code, 0)
        self.assertIn("There is one NUMA node: --numa changes nothing.", out)

    # ---- Mistakes ----
    def test_mistakes(self):
        self.fails("'--numa' takes local or replicate, not 'both'", "--numa", "both")
        self.fails("'--numa' needs a value: local or replicate", "--numa")
        broken = os.path.join(self.path, "broken.onnx")
        with open(broken, "wb") as file:
            file.write(PRODUCT[:40])
        for runs in ("0", "1"):
            done = subprocess.run([AMP, "run", broken, "--numa", "replicate", "--runs", runs], capture_output=True, text=True,
                                  env=self.environment(self.two()))
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        self.fails("--numa is for the CPU", "--numa", "local", "--device", "cuda")
        for text in ("0-", "a", "3-1", "0,,1", "0;1", "99999", "-1", "0 1"):
            self.fails(f"cpulist is '{text}'; a list of CPUs like 0-3,8 was expected", "--numa", "local",
                       nodes=self.nodes({0: "0", 1: text}))
        self.fails("node1/cpulist has CPUs of another node: '0-1'", "--numa", "local", nodes=self.nodes({0: "0", 1: "0-1"}))
        self.fails("node1/cpulist: No such file or directory", "--numa", "replicate", nodes=self.nodes({0: "0", 1: None}))
        for name, text in (("OMP_PLACES", "cores"), ("OMP_PROC_BIND", "close"), ("GOMP_CPU_AFFINITY", "0 1")):
            self.fails(f"--numa places threads by itself, and {name} does too", "--numa", "local", nodes=self.two(),
                       **{name: text})

    def test_a_process_that_is_killed_ends_all(self):
        command = [AMP, "run", self.product, "--shape", f"64x{SIZE}", "--seconds", "10", "--numa", "replicate"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment(self.two())) as running:
            other = None
            while not other and running.poll() is None:
                time.sleep(0.02)
                other = next((c for c in map(int, children_of(running.pid)) if str(CPUS[1]) in cpus_of(c)), None)
            self.assertIsNotNone(other, "the run ended before its second process was seen on its CPU")
            os.kill(other, signal.SIGKILL)
            running.wait(120)
            self.assertIn("a node's process ended with signal 9", running.stderr.read().decode())
        self.assertEqual(running.returncode, 1)

    # ---- The usual variables, without --numa ----
    def test_variables_that_pin_threads(self):
        plain, threads = self.outputs("--threads", "2"), self.report("run")["machine"]["threads"]
        places = ",".join(f"{{{cpu}}}" for cpu in CPUS)
        for pinning in ({"GOMP_CPU_AFFINITY": " ".join(map(str, CPUS))}, {"OMP_PROC_BIND": "close", "OMP_PLACES": places},
                        {"OMP_PROC_BIND": "spread", "OMP_PLACES": places}):
            with self.subTest(pinning):
                self.assertEqual(self.report("run", **pinning)["machine"]["threads"], threads)
                self.await_cpus(lambda its, _: its >= {str(cpu) for cpu in CPUS}, "--threads", "2", **pinning)
                self.assertEqual(self.outputs("--threads", "2", **pinning), plain)


if __name__ == "__main__":
    if len(CPUS) < 2:
        print("skipped: two nodes need two CPUs, and this process may use one")
        sys.exit(77)
    os.sched_setaffinity(0, CPUS)  # all that is started here has these two
    unittest.main()

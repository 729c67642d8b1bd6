"""`amp blas` with programs that know nothing of it.

    check_blas.py TEST AMP FOLDER     FOLDER has the programs of tests/blas/program
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

AMP, FOLDER = sys.argv[2], pathlib.Path(sys.argv[3])
EVERY = ["f32", "bf16x3", "bf16x2", "bf16"]
failures = []


def fail(text):
    failures.append(text)


def run(options, program, expect=0, env=None):
    """The program under `amp blas`, with one thread unless `env` says more: what it printed, and its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        done = subprocess.run([AMP, "blas", "--json", "--report", str(report), *options, "--", *map(str, program)],
                              capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})
        if done.returncode != expect:
            fail(f"{options} {program}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        lines = report.read_text("utf-8").splitlines() if report.exists() else []
        return done.stdout, [json.loads(line) for line in lines]


def call_blas(test, precision, *options, env=None):
    return run(["--precision", precision, *options], [FOLDER / "call_blas", test, precision], env=env)


def expect(what, is_so):
    if not is_so:
        fail(what)


def original_calls(printed):
    return int(printed.split("calls ")[1].split()[0])


def test_routines():
    call_blas("routines", "f32")
    for precision in EVERY[1:]:
        call_blas("routines", precision)
        _, reports = call_blas("routines", precision, "--all", *(["--check"] if precision == "bf16" else []))
        took, calls = reports[0]["taken"], reports[0]["calls"]
        expect(f"{precision} takes {took} calls of {calls}", took > 0.7 * calls)  # the others have alpha = 0
    for isa in ("ref", "avx2"):
        call_blas("routines", "bf16x3", "--all", env={"AMP_MAX_ISA": isa})


def test_names():
    for precision in EVERY:
        printed, reports = call_blas("names", precision, "--all", "--cache", "0")
        calls = sum(report["calls"] for report in reports)
        expect(f"names: {calls} calls are seen of 77", calls == 77)
        if precision != "f32":  # strmm is called with alpha = 0: nothing to multiply
            expect(f"names, {precision}: the library got {original_calls(printed)} calls, not 11", original_calls(printed) == 11)


def test_hard():
    for precision in EVERY[1:]:
        call_blas("hard", precision, "--all")
    call_blas("hard", "bf16x3")
    call_blas("hard", "f32")


def test_stale():
    for precision in EVERY[1:]:
        for cache in ("0", "1", "256"):
            call_blas("stale", precision, "--all", "--cache", cache, env={"OMP_NUM_THREADS": "2"})


def test_threads():
    for options in ([], ["--all"]):
        for precision in ("bf16x3", "bf16"):
            call_blas("threads", precision, *options, env={"OMP_NUM_THREADS": "2"})


def test_fork():
    for precision in ("bf16x3", "bf16"):
        printed, reports = call_blas("fork", precision, "--all", env={"OMP_NUM_THREADS": "2"})
        expect(f"fork: {[r['calls'] for r in reports]} calls, not those of child and parent", sorted(r["calls"] for r in reports) == [1, 2])


def test_invalid():
    printed, reports = call_blas("invalid", "bf16", "--all")
    expect("invalid arguments are taken", reports and reports[0]["taken"] == 0)


def test_loops():
    """The stand-in is not known to have kernels, OpenBLAS before it is: f32 pays over the one with AVX2."""
    if "avx2" not in pathlib.Path("/proc/cpuinfo").read_text("utf-8"):
        print("skipped: this CPU has no AVX2")
        sys.exit(77)
    for preload, taken in (("", 5), ("libopenblas.so.0", 0)):
        _, reports = run([], [FOLDER / "call_blas", "again", "5"], env={"AMP_MAX_ISA": "avx2", "LD_PRELOAD": preload})
        expect(f"loops, '{preload}' before: {reports}", [(r["calls"], r["taken"]) for r in reports] == [(5, taken)])


def test_local():
    """The program's BLAS was opened with RTLD_LOCAL: it is found all the same."""
    for test in ("hard", "names"):
        for precision in ("f32", "bf16x3"):
            printed, reports = run(["--precision", precision, "--all"],
                                   [FOLDER / "open_blas", FOLDER / "libcall_blas_local.so", test, precision])
            expect(f"local {test}: no calls are seen", reports and reports[0]["calls"] > 0)


def test_tool():
    def says(text, code, *arguments, amp=AMP, **more):
        done = subprocess.run([amp, "blas", *arguments], capture_output=True, text=True, **more)
        expect(f"amp blas {arguments}: code {done.returncode}, not {code}: {done.stderr}", done.returncode == code)
        expect(f"amp blas {arguments} does not say '{text}': {done.stdout}{done.stderr}", text in done.stdout + done.stderr)

    again = [str(FOLDER / "call_blas"), "again", "5"]
    says("usage: amp blas", 0, "--help")
    says("'--' and a program are missing", 2)
    says("'--' and a program are missing", 2, "--check", "--")
    says("'--' is missing before 'ls'", 2, "ls")
    says("there is no option '--wrong'", 2, "--wrong", "--", "true")
    says("a precision is f32, bf16x3, bf16x2 or bf16, not 'f16'", 2, "--precision", "f16", "--", "true")
    says("a cache is a number of megabytes, not '-1'", 2, "--cache", "-1", "--", "true")
    says("a value is missing after '--report'", 2, "--report")
    says("cannot write '/nowhere/report'", 2, "--report", "/nowhere/report", "--", "true")
    says("cannot run '/nowhere/program'", 1, "--", "/nowhere/program")
    says("", 7, "--", "sh", "-c", "exit 7")
    says("precision bf16x3: 5 calls", 0, "--", *again)
    says("f32 is asked for", 0, "--precision", "f32", "--", *again)
    says("calls were checked: the library took", 0, "--check", "--all", "--", *again)
    says("AMP_BLAS_PRECISION is 'f16'; it must be", 0, "--", "env", "AMP_BLAS_PRECISION=f16", *again)
    done = subprocess.run([AMP, "blas", "--", "true"], capture_output=True, text=True)
    expect(f"a program without BLAS reports: {done.stderr}", done.stderr == "")
    with tempfile.TemporaryDirectory() as folder:  # what the loader finds first is no library
        pathlib.Path(folder, "libamp_blas.so").write_text("", "utf-8")
        says("the module libamp_blas.so cannot be loaded", 1, "--", "true", env={**os.environ, "LD_LIBRARY_PATH": folder})


FORTRAN = """
program multiply
  implicit none
  integer, parameter :: m = 150, n = 130, k = 140
  real :: a(m, k), b(k, n), c(m, n)
  real(8) :: exact(m, n), error
  call random_number(a)
  call random_number(b)
  c = 7
  call sgemm('N', 'N', m, n, k, 2.0, a, m, b, k, 0.0, c, m)
  exact = 2 * matmul(real(a, 8), real(b, 8))
  error = maxval(abs(c - exact) / exact)
  if (error > BOUND) stop 9
end program
"""


def test_fortran():
    compiler = shutil.which("gfortran")
    if not compiler:
        print("skipped: there is no gfortran")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        for precision, bound in (("bf16x3", "1e-5"), ("bf16", "8e-3")):
            source, program = pathlib.Path(folder, "multiply.f90"), pathlib.Path(folder, "multiply")
            source.write_text(FORTRAN.replace("BOUND", bound), "utf-8")
            built = subprocess.run([compiler, source, "-o", program, f"-L{FOLDER}", "-lstand_in", f"-Wl,-rpath,{FOLDER}"],
                                   capture_output=True, text=True)
            expect(f"gfortran: {built.stderr}", built.returncode == 0)
            _, reports = run(["--precision", precision, "--all"], [program])
            expect(f"fortran {precision}: {reports}", reports and reports[0]["taken"] == 1)


NUMPY = """
import numpy, sys
rng = numpy.random.default_rng(1)
a, b = (rng.standard_normal((n, m)).astype("f4") for n, m in ((300, 200), (200, 256)))
for x, y in ((a, b), (b.T, a.T), (a, a.T), (a[::2, ::2], b[::2]), (a[:, 7:], b[7:])):
    exact = x.astype("f8") @ y.astype("f8")
    error = (abs(x @ y - exact) / (abs(x.astype("f8")) @ abs(y.astype("f8")))).max()
    assert error <= float(sys.argv[1]), error
assert numpy.isnan((a[:64, :64] @ numpy.full((64, 64), numpy.nan, "f4"))).all()
"""


def test_numpy():
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: this Python has no NumPy")
        sys.exit(77)
    for precision, bound in (("f32", 2**-16), ("bf16x3", 2**-16), ("bf16x2", 2**-14), ("bf16", 2**-7)):
        for options in ([], ["--all"]):
            _, reports = run(["--precision", precision, *options], [sys.executable, "-W", "error", "-c", NUMPY, bound])
            calls = sum(report["calls"] for report in reports)
            if not calls:
                print("skipped: this Python's NumPy calls no BLAS by a name of its own")
                sys.exit(1 if failures else 77)
            if options and precision != "f32":
                expect(f"numpy {precision}: none of {calls} calls is taken", sum(r["taken"] for r in reports) > 0)


globals()["test_" + sys.argv[1]]()
print("\n".join(failures) or "all is well")
sys.exit(1 if failures else 0)

"""What the documents say of the code is true of it.

    check_docs.py [COMPILER]        from the root of the sources
    check_docs.py --links FOLDER    of documents elsewhere, only that their links lead somewhere

- C blocks of the README and of what users read are a piece of an example, or compile; so does each call in
  the columns `here` of coming_from_torch.md.
- Links and headings they lead to, paths, and names of the API and of the environment exist; those of the man pages too.
- The floors that docs/architecture.md draws are those of scripts/check-floors.
"""
import pathlib
import re
import runpy
import subprocess
import sys

COMPILED = ["README.md", "docs/guide.md", "docs/coming_from_torch.md", "docs/cuda.md", "docs/training.md", "docs/distributed.md"]
# What the snippets use and do not declare.
PRELUDE = """#include <amp/amp.h>
#include <stdio.h>
static amp_tensor *x, *y, *z, *w, *b, *q, *k, *v, *mask, *mean, *var, *grad, *found_inf, *inv_scale, *residual, *scale, *shift;
static amp_tensor *weights, *input, *gamma_, *beta, *running_mean, *running_var, *grads[2], *tensors[2];
static float values[6];
static const char *names[2], *why;
static bool flag;
static amp_status f(void *context, amp_tensor *const *inputs, amp_tensor **outputs) { outputs[0] = inputs[0]; return context ? AMP_OK : amp_last_status(); }
static amp_tensor *hook(void *context, amp_tensor *gradient) { return context ? gradient : NULL; }
static void *stream, *mine;
int cudaStreamCreate(void **stream);
int cudaStreamDestroy(void *stream);
static size_t free_bytes, all_bytes;
static amp_autocast_state state;
static amp_generator *generator;
static amp_generator_state random_state;
static amp_cuda_event *event;
static amp_safetensors *file;
static struct DLManagedTensorVersioned *managed;
static amp_tensor *loss, *labels, *images;
static amp_parameters *parameters;
static amp_optimizer *optimizer, *other;
static amp_scheduler *scheduler;
static amp_plateau *plateau;
static amp_grad_scaler *scaler;
static amp_apex *apex, *handle;
static amp_optimizer_wrapper *wrapper;
static amp_loss_scaler_state states[2];
static amp_data_parallel *ddp;
#define gamma gamma_ /* the C library has a function of that name */
"""
# What documents speak of and that is not there: of a user, of the system, made by a program, examples of names.
NO_FILES = {"program.c", "ops.c", "cublasLt.h", "cuda.h", "report.txt", "NAME.json", "NAME.safetensors", "ops.html",
            "amp-self-check.json", "amp.spdx.json", "model.safetensors", "model.html", "policy.txt", "error.html", "x.npy", "gemm_avx512fp16.c", "src/cpu/gemm/gemm_avx512fp16.c"}
NO_NAMES = {"amp_verb_noun", "amp_C", "amp_gemm_bf16_avx512fp16"}
SUFFIXES = "c|cc|h|hpp|cu|def|py|sh|md|txt|svg|html|cmake|inc|json|safetensors|npy"
SOURCES = "c|cc|h|hpp|cu|def|py|sh|cmake|inc|in|map|txt"
failures = []


def fail(text):
    failures.append(text)


def documents():
    return [pathlib.Path(p) for p in ("README.md", "CONTRIBUTING.md")] + sorted(pathlib.Path("docs").glob("*.md"))


def snippets(document):
    """(line, text) of each C block that is in no example, and of each call in a column `here`."""
    text, examples = document.read_text("utf-8"), [p.read_text("utf-8") for p in pathlib.Path("examples").rglob("*.c")]
    for block in re.finditer(r"^```c\n(.*?)^```", text, re.S | re.M):
        if not any(block[1] in example for example in examples):
            yield text.count("\n", 0, block.start()) + 2, block[1]
    here = False
    for number, line in enumerate(text.splitlines(), 1):
        cells = re.split(r"(?<!\\)\|", line)
        here = line.startswith("|") and (here or cells[2].strip() == "here")
        for code in re.findall(r"`([^`]+)`", cells[2]) if here else []:
            if re.search(r"\bamp_\w+\(", code):
                yield number, code if code.endswith((";", "}")) else code + ";"


def compile_all(compiler):
    source = [PRELUDE]
    for name in COMPILED:
        for line, text in snippets(pathlib.Path(name)):
            place = f'#line {line} "{name}"\n'
            if re.match(r"static\b(?!.*=)|#include", text):
                source.append(place + text)
            else:
                source.append(f"static void snippet_{len(source)}(void) {{\n{place}{text}\n}}\n")
    run = subprocess.run([compiler, "-std=c11", "-Iinclude", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
                          "-fsyntax-only", "-x", "c", "-"], input="".join(source), text=True, capture_output=True)
    if run.returncode:
        fail(run.stderr)
    return len(source) - 1


def anchors(document):
    """The names that headings have in a page."""
    plain = lambda title: re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    text = document.read_text("utf-8")
    if len(re.findall(r"^ *```", text, re.M)) % 2:
        fail(f"{document}: a block of code is not closed")
    return {plain(title) for title in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)}


def check_links(document):
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", document.read_text("utf-8")):
        if re.match(r"https?:", link):
            continue
        target = document.parent / link if link else document
        if not target.exists():
            fail(f"{document}: the link {link} leads nowhere")
        elif anchor and anchor not in anchors(target):
            fail(f"{document}: {link or document} has no heading #{anchor}")


def check_paths(document, known):
    for number, line in enumerate(document.read_text("utf-8").splitlines(), 1):
        for path in re.findall(rf"(?<![\w./$~<>*-])((?:[\w.*-]+/)*[\w.*-]+\.(?:{SUFFIXES}))(?![\w/<])", line):
            places = (pathlib.Path(folder) for folder in (".", "src", "include", document.parent))
            found = path in known if "/" not in path else any(any(p.glob(path)) for p in places)
            if not found and path not in NO_FILES and not re.match(r"build/|\*[^/]*$", path):
                fail(f"{document}:{number}: there is no file {path}")
        for folder in re.findall(r"`((?:src|tests|tools|docs|include|examples|bench|cmake|scripts)/[\w/]*)`", line):
            if not pathlib.Path(folder).exists():
                fail(f"{document}:{number}: there is no folder {folder}")


def check_names(document, api, code):
    """`amp_…` and AMP_… between backticks: of the API where users read, else of the sources."""
    text = document.read_text("utf-8")
    spans = re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M)
    spans += re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    for name in sorted({n for span in spans for n in re.findall(r"\b(?:amp|AMP)_\w+", span)}):
        whole = api if name.startswith("amp_") and str(document) in COMPILED else code
        starts = name.endswith("_") and any(word.startswith(name) for word in whole)
        if name not in whole and not starts and name not in NO_NAMES:
            fail(f"{document}: there is no {name}")


def check_floors():
    floors = runpy.run_path("scripts/check-floors")["FLOORS"]
    page = pathlib.Path("docs/architecture.md").read_text("utf-8")
    drawn = {int(n): text for n, text in re.findall(r"^ *(\d+) [│|]([^│|\n]*)[│|]", page, re.M)}
    for number, rooms in enumerate(floors, 1):
        words = drawn.get(number, "").replace(",", " ").split()
        if sorted(words) != sorted(rooms):
            fail(f"docs/architecture.md draws floor {number} as {words}, scripts/check-floors has {rooms}")
    if len(drawn) != len(floors):
        fail(f"docs/architecture.md draws {len(drawn)} floors, scripts/check-floors has {len(floors)}")


def words_of(*folders):
    files = [p for folder in folders for p in [pathlib.Path(folder), *pathlib.Path(folder).rglob("*")]]
    wanted = re.compile(rf".*\.({SOURCES})|check-\w+|gpu-check|setup")
    texts = (p.read_text("utf-8", "replace") for p in files if p.is_file() and wanted.fullmatch(p.name))
    return {word for text in texts for word in re.findall(r"\b(?:amp|AMP)_\w+", text)}


def check_man(page, api):
    """Names of the API, and the example, which is one of ours."""
    text = page.read_text("utf-8").replace("\\e", "\\").replace("\\-", "-")
    for name in sorted(set(re.findall(r"\b(?:amp|AMP)_[a-zA-Z]\w+", text))):
        if name not in api:
            fail(f"{page}: there is no {name}")
    for example in re.findall(r"^\.EX\n(.*?)^\.EE", text, re.S | re.M):
        if not any(example in p.read_text("utf-8") for p in pathlib.Path("examples").glob("*.c")):
            fail(f"{page}: its example is none of examples/")


def main():
    if sys.argv[1:2] == ["--links"]:
        for document in sorted(pathlib.Path(sys.argv[2]).glob("*.md")):
            check_links(document)
        print("\n".join(failures) or "every link leads somewhere")
        return 1 if failures else 0
    count = compile_all(sys.argv[1] if len(sys.argv) > 1 else "gcc")
    skipped = {".git", "build", ".deps"}
    known = {p.name for top in pathlib.Path(".").iterdir() if top.name not in skipped for p in [top, *top.rglob("*")]}
    api = words_of("include", "cmake")
    code = api | words_of("src", "tools", "tests", "bench", "scripts", "CMakeLists.txt", "examples")
    for document in documents():
        check_links(document)
        check_paths(document, known)
        check_names(document, api, code)
    check_man(pathlib.Path("docs/libamp.3"), code)
    check_man(pathlib.Path("tools/amp/amp.1"), code)
    check_floors()
    print("\n".join(failures) or f"{count} pieces of C and {len(documents())} documents")
    return 1 if failures else 0


sys.exit(main())

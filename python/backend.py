"""Builds the wheel (PEP 517), for `pip wheel python` and `python -m build --wheel python`: CMake, patchelf and what
scripts/setup packages installs; nothing from the network. The library and what it needs lie in amp/lib of the wheel, so that it
needs of a system only the C and C++ run-time libraries. The CUDA module is not in it.

It is built in build/wheel; AMP_WHEEL_BUILD names a folder where everything is built already, and is taken from there. A source
archive has the project's files as git knows them; oneDNN it has not: CMake must find one.
"""
import base64
import gzip
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In a source archive the project lies beside this file.
ROOT = HERE / "libamp" if (HERE / "libamp" / "CMakeLists.txt").exists() else HERE.parent
NAME = "libamp"


def version():
    """The one of include/amp/version.h."""
    numbers = re.findall(r"#define AMP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/amp/version.h").read_text())
    return ".".join(numbers)


def metadata():
    return f"""Metadata-Version: 2.1
Name: {NAME}
Version: {version()}
Summary: Automatic mixed precision on CPUs
License: Apache-2.0
Requires-Python: >=3.10
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: bfloat16
Requires-Dist: numpy; extra == "bfloat16"
Requires-Dist: ml_dtypes; extra == "bfloat16"
Description-Content-Type: text/markdown

{(ROOT / "docs/python.md").read_text()}"""


def tag():
    """The interpreter's, and the glibc that it was built with: an older one may lack symbols."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    libc, glibc = platform.libc_ver()
    machine = platform.machine()
    where = f"manylinux_{glibc.replace('.', '_')}_{machine}" if libc == "glibc" else f"linux_{machine}"
    return f"{python}-{python}-{where}"


def run(*command):
    # Standard output belongs to whoever called the backend.
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)


# ---- The tree ---------------------------------------------------------------------------------------------------------

def built():
    """The folder that everything is built in."""
    if "AMP_WHEEL_BUILD" in os.environ:
        return Path(os.environ["AMP_WHEEL_BUILD"])
    build = ROOT / "build/wheel"
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DAMP_CUDA=OFF", "-DAMP_PYTHON=ON",
        "-DBUILD_TESTING=OFF", "-DAMP_BENCH=OFF", "-DCMAKE_INSTALL_LIBDIR=lib", f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DPython3_INCLUDE_DIR={sysconfig.get_paths()['include']}")
    run("cmake", "--build", build, "--target", "amp_python", "--parallel", os.cpu_count() or 1)
    return build


def build_tree(stage):
    """Makes what is in the wheel, below stage/amp. Returns the folder of documents there."""
    build, package = built(), stage / "amp"
    documents = cached(build, "CMAKE_INSTALL_DOCDIR") or "share/doc/amp"
    onednn = Path(cached(build, "dnnl_DIR")).parents[1]  # …/lib, of lib/cmake/dnnl
    libraries = cached(build, "CMAKE_INSTALL_LIBDIR")
    run("cmake", "--install", build, "--component", "python", "--prefix", stage, "--strip")
    run("cmake", "--install", build, "--component", "runtime", "--prefix", package, "--strip")
    run("cmake", "-DCPACK_GENERATOR=TGZ", f"-DCPACK_TEMPORARY_INSTALL_DIRECTORY={package}", f"-DCPACK_AMP_LIBRARIES={libraries}",
        f"-DCPACK_AMP_PRIVATE_DIR={libraries}/amp", "-DCPACK_AMP_PROGRAMS=bin", f"-DCPACK_AMP_DOCUMENTS={documents}",
        f"-DAMP_BUNDLE_FROM={onednn}", "-P", ROOT / "cmake/packages/bundle.cmake")
    for pattern, where in (("_amp.*.so", f"$ORIGIN/{libraries}"), (f"{libraries}/libamp.so.*", "$ORIGIN/amp")):
        for file in package.glob(pattern):
            if not file.is_symlink():
                run("patchelf", "--set-rpath", where, file)
    return package / documents


def cached(build, name):
    """A variable of CMake's cache; None where it is empty."""
    found = re.search(rf"^{name}:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else None


def wheel_files(stage, documents):
    """{name in the wheel: file}. A wheel holds no links: of a library only the name that it is asked for by is in it."""
    files = {}
    for path in sorted(stage.rglob("*")):
        if path.is_dir() or (path.name.startswith("libamp.so") and path.name != soname(stage)):
            continue
        inside = path.relative_to(stage)
        if documents in path.parents:
            inside = Path(f"{NAME}-{version()}.dist-info/licenses") / path.relative_to(documents)
        files[inside.as_posix()] = path
    return files


def soname(stage):
    """libamp.so.0.1."""
    library = next((stage / "amp").rglob("libamp.so.*"))
    shown = subprocess.run(["patchelf", "--print-soname", library], check=True, capture_output=True, text=True)
    return shown.stdout.strip()


# ---- The archives ---------------------------------------------------------------------------------------------------------

def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def write_wheel(path, contents, info):
    """contents: {name: (bytes, mode)}. In one order and with one time, so that the same tree makes the same wheel."""
    records = [record_line(name, data) for name, (data, _) in contents.items()] + [f"{info}/RECORD,,"]
    contents[f"{info}/RECORD"] = ("\n".join(records + [""]).encode(), 0o644)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, (data, mode) in contents.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


def information():
    """What is in the wheel's own folder, but for the licenses and the record: {name: text}."""
    return {"METADATA": metadata(), "WHEEL": f"Wheel-Version: 1.0\nGenerator: libamp\nRoot-Is-Purelib: false\nTag: {tag()}\n"}


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = Path(metadata_directory) / f"{NAME}-{version()}.dist-info"
    folder.mkdir()
    for name, text in information().items():
        (folder / name).write_text(text, "utf-8")
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"{NAME}-{version()}.dist-info"
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        documents = build_tree(stage)
        contents = {name: (path.read_bytes(), 0o755 if ".so" in path.name else 0o644)
                    for name, path in wheel_files(stage, documents).items()}
    contents.update({f"{info}/{name}": (text.encode(), 0o644) for name, text in information().items()})
    name = f"{NAME}-{version()}-{tag()}.whl"
    write_wheel(Path(wheel_directory) / name, contents, info)
    return name


def project_files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def build_sdist(sdist_directory, config_settings=None):
    base = f"{NAME}-{version()}"
    own = ["pyproject.toml", "backend.py"]
    files = {f"{base}/{name}": HERE / name for name in own}
    files.update({f"{base}/libamp/{name}": ROOT / name for name in project_files()})
    with gzip.GzipFile(Path(sdist_directory) / f"{base}.tar.gz", "wb", mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        data = metadata().encode()
        entry = tarfile.TarInfo(f"{base}/PKG-INFO")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
        for name, path in files.items():
            archive.add(path, name, recursive=False)
    return f"{base}.tar.gz"

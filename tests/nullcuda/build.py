"""Builds the null CUDA and starts processes that meet it: see README.md beside this file."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import torch

from tests.nullcuda import VARIABLE
from tests.nvml import machines

HERE = Path(__file__).parent
RUNTIME = ("devices", "memory", "kernels", "streams", "captures", "races")
# soname -> its sources, and whether its symbols carry the soname as their version
LIBRARIES = {
    "libcudart.so.13": (RUNTIME, True),
    "libnccl.so.2": (("nccl",), False),
    "libcuda.so.1": (("driver",), False),
    "libcupti.so.13": (("cupti",), True),
}
OPERATORS = "liboperators.so"
_OPTIONS = ["-O1", "-fPIC", "-Wall", "-Werror"]
# torch calls it at the end of its import, as an entry point of torch.backends.
_LOADER = """\
import ctypes
import importlib.util
import os
import sys


def load():
    import cuda.bindings
    import torch

    torch.backends.cudnn.enabled = False
    folder = os.path.dirname(__file__)
    ctypes.CDLL(os.path.join(folder, "liboperators.so")).null_replace_operators()
    spec = importlib.util.spec_from_file_location("cuda.bindings.runtime", os.path.join(folder, "bindings.py"))
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])
    sys.modules["cuda.bindings"].runtime = sys.modules[spec.name]  # torch has imported the real one
"""


def missing() -> str:
    """Why this machine cannot build it; "" where it can."""
    if sys.platform != "linux":
        return "the null CUDA is built on Linux"
    for program in ("g++", "gcc", "cc", "nm", "objdump"):
        if shutil.which(program) is None:
            return f"the null CUDA needs {program}, which this machine lacks"
    if (torch.version.cuda or "").split(".")[0] != "13":
        return f"the null CUDA is built for CUDA 13, and this torch is of CUDA {torch.version.cuda}"
    for folder in _includes()[1:]:
        if not folder.is_dir():
            return f"the null CUDA needs NVIDIA's headers in {folder.parent.name}, which are not installed"
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        return "the null CUDA stands in for cuda-bindings, which is not installed"
    return ""


def built(folder: Path) -> Path:
    """A folder with the libraries, compiled, and with what loads the operators whenever torch is imported."""
    includes = [f"-I{each}" for each in _includes()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        operators = pool.submit(_operators, folder)
        sources = [source for parts, _ in LIBRARIES.values() for source in parts]
        list(pool.map(lambda source: _run("g++", "-std=c++17", *_OPTIONS, *includes, "-c", HERE / f"{source}.cpp",
                                          "-o", folder / f"{source}.o"), sources))  # fmt: skip
        for name, (parts, versioned) in LIBRARIES.items():
            _link(folder, name, parts, versioned)
        operators.result()
    shutil.copy(HERE / "bindings.py", folder)
    machines.built(folder)  # NVML
    (folder / "nullcuda_loader.py").write_text(_LOADER)
    entry = folder / "nullcuda-1.dist-info"
    entry.mkdir(exist_ok=True)
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: nullcuda\nVersion: 1\n")
    (entry / "entry_points.txt").write_text("[torch.backends]\nnullcuda = nullcuda_loader:load\n")
    return folder


def kept(folder: Path) -> Path:
    """What `built` makes, built again only where a source, torch or the compiler has changed."""
    own = [*sorted(HERE.rglob("*.cpp")), *sorted(HERE.rglob("*.h")), HERE / "build.py", HERE / "bindings.py"]
    parts = [*own, Path(machines.__file__).with_name("mock_nvml.c")]
    known = [torch.__version__, _run("g++", "--version"), *(part.read_text() for part in parts)]
    mine = folder / sha256("\0".join(known).encode()).hexdigest()[:16]
    if not mine.exists():
        half = Path(tempfile.mkdtemp(dir=folder))
        built(half)
        with suppress(OSError):  # another process was faster
            half.rename(mine)
        shutil.rmtree(half, ignore_errors=True)
    return mine


def playing(folder: Path, gpus: int, **settings: object) -> dict[str, str]:
    """The environment of a process that is to meet this many H100s; `settings`: those of README.md."""
    machine = folder / f"machine-{gpus}.txt"
    machine.write_text(machines.Machine(*machines.H100, count=gpus, fabric=machines.READY, switch_links=18).text)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **{name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"},
        "LD_PRELOAD": ":".join(str(folder / name) for name in LIBRARIES),  # it wins over torch's RPATH
        "LD_LIBRARY_PATH": str(folder),  # of NVML
        "PYTHONPATH": ":".join(paths),
        "MOCK_NVML": str(machine),
        "MOCK_NVML_CLOCKS": str(folder / machines.CLOCKS),
        VARIABLE: str(gpus),
        **{f"NULLCUDA_{name.upper()}": str(value) for name, value in settings.items()},
    }


def _includes() -> list[Path]:
    """The project's own headers come first: they stand for what torch's wheels do not bring."""
    nvidia = _torch().parent / "nvidia"
    return [HERE / "headers", nvidia / "cu13" / "include", nvidia / "nccl" / "include"]


def _torch() -> Path:
    return Path(torch.__file__).parent


def _operators(folder: Path) -> None:
    include, libraries = _torch() / "include", _torch() / "lib"
    includes = [f"-I{include}", f"-I{include / 'torch/csrc/api/include'}"]
    _run("g++", "-std=c++20", "-O1", "-fPIC", "-w", "-shared", *includes, HERE / "operators.cpp",
         "-o", folder / OPERATORS, f"-L{libraries}", "-ltorch_cpu", "-lc10")  # fmt: skip


def _link(folder: Path, name: str, parts: Iterable[str], versioned: bool) -> None:
    """Links a library; what torch needs of it and no source defines says its name and fails."""
    objects = [folder / f"{part}.o" for part in parts]
    defined = set(re.findall(r" [TDBR] (\S+)", _run("nm", *objects)))
    rest = folder / f"rest-of-{name}.c"
    text = "#include <stdio.h>\n" + "".join(
        f'int {symbol}(void) {{ fputs("null CUDA: has no {symbol}\\n", stderr); return 801; }}\n'
        for symbol in sorted(_needed(name) - defined)
    )
    rest.write_text(text)
    _run("gcc", "-fPIC", "-w", "-c", rest, "-o", rest.with_suffix(".o"))
    names = folder / f"{name}.versions"
    names.write_text(f"{name} {{ global: *; }};\n")
    version = [f"-Wl,--version-script={names}"] if versioned else []
    others = [] if versioned else [folder / "libcudart.so.13"]
    rest_object = rest.with_suffix(".o")
    options = [f"-Wl,-soname,{name}", *version, *others, "-lrt", "-lpthread"]
    _run("g++", "-shared", "-o", folder / name, *objects, rest_object, *options)


_PREFIXES = {"libnccl.so.2": "nccl", "libcuda.so.1": "cu[A-Z]"}


def _needed(name: str) -> set[str]:
    """Functions that torch's libraries expect of this one."""
    found: set[str] = set()
    for library in sorted((_torch() / "lib").glob("libtorch*.so")) + sorted((_torch() / "lib").glob("lib*c*.so")):
        table = _run("objdump", "-T", library)
        if LIBRARIES[name][1]:
            found |= set(re.findall(rf"\*UND\*.*\({re.escape(name)}\) +(\S+)", table))
        else:
            found |= set(re.findall(rf"\*UND\*\s+\S+\s+(?:Base\s+)?({_PREFIXES[name]}\w+)$", table, re.MULTILINE))
    if LIBRARIES[name][1]:
        return found
    return {each for each in found if not re.match("cu(blas|dnn|sparse|fft|solver|File|pti|rand)", each)}


def _run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr[-4000:]}"
    return done.stdout

"""A package that is not installed is a sentence with the command that installs it; any other module is a bug."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from resnetx import packages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent

# Hides modules from a process, as if they were not installed, and runs command lines: of each what it printed.
WITHOUT = """
import contextlib, io, json, sys

for module in list(sys.modules):
    if any(module == name or module.startswith(name + ".") for name in {hidden!r}):
        del sys.modules[module]

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
{changes}
from resnetx.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


# Probes run in this process, as in another one nothing is hidden.
PROBED_HERE = """
from resnetx.measure import examination
examination.apart = lambda probes, *_: {name: probe() for name, probe in probes.items()}
"""


@pytest.fixture
def each_without(tmp_path, light_python):
    """Runs verbs without some modules, in an empty folder: (status, what is printed, what is said of mistakes) of each.

    They share a process, as a module that is not there stays so however many verbs ask for it.
    """

    def run(hidden, commands, changes="", before=""):
        program = before + WITHOUT.format(hidden=set(hidden), changes=changes)
        words = [light_python, "-c", program, json.dumps(commands)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture
def without(each_without):
    """The same of one verb."""
    return lambda hidden, *words, changes="": each_without(hidden, [words], changes)[0]


STUDY = str(ROOT / "results" / "cpu-2core" / "quickstart")
MOBILE = ["model=torchvision", "model.name=mobilenet_v3_small", "batch_size=4"]
MESH = ["topology", "systems=dgx1-p100", "collective=allreduce", "devices=[0,1,2]"]


SYNTHETIC = ["input=synthetic"]
TORCH = [
    *([verb, *SYNTHETIC] for verb in ("train", "sweep", "trace", "verify")),
    ["bench"],
    ["describe", "model=googlenet", "image_size=128"],
]
TORCHVISION = [["describe", *MOBILE], ["train", *MOBILE, *SYNTHETIC], ["train", "input=torchvision"]]


@pytest.mark.parametrize(
    ("module", "commands", "extra"),
    [
        ("altair", [["report", STUDY, "out=page"]], ""),
        ("jinja2", [["report", STUDY, "out=page"]], ""),
        ("torch", TORCH, "[train]"),
        ("torchvision", TORCHVISION, "[train]"),
        ("nvidia.dali", [["train", "input=dali"]], "[train]"),
        ("nvidia", [["train", "input=dali"]], "[train]"),
        ("PIL", [["images"]], "[train]"),
        ("pynvml", [["train", *SYNTHETIC]], ""),
        ("wandb", [[verb, *SYNTHETIC, "tracker=wandb"] for verb in ("train", "sweep")], "[wandb]"),
        ("yaml", [["describe"]], ""),
        ("rich", [["describe"]], ""),
    ],
)
def test_what_is_missing_is_one_sentence_with_the_command_that_installs_it(
    each_without, tmp_path, module, commands, extra
):
    told = each_without([module], commands)
    assert len(told) == len(commands)
    for status, out, err in told:
        assert (status, out) == (2, "")
        assert err.startswith("resnetx: ")
        assert err.count("\n") == 1, err
        assert f'install it with `python -m pip install -e "{ROOT}{extra}"`' in err
    assert not list(tmp_path.glob("**/record.json"))


def test_rings_need_scipy(without):
    status, _, err = without(["scipy", "scipy.optimize"], *MESH)
    assert (status, err.count("\n")) == (2, 1)
    assert f'`python -m pip install -e "{ROOT}"`' in err


def test_a_module_that_nobody_knows_stays_a_bug(without):
    status, _, err = without(["resnetx.record.topologies"], "describe")
    assert status == 1
    assert "a bug in resnetx (ModuleNotFoundError: No module named 'resnetx.record.topologies')" in err
    assert "pip install" not in err
    kept = Path(err.split()[-1])
    assert "Traceback" in kept.read_text()
    kept.unlink()


def files(folder, kind):
    """Names of the files of a kind, without it."""
    return {path.name.removesuffix(kind) for path in folder.glob(f"*{kind}")}


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["topology", "systems=[gx8,dgx1-p100]"], 2),
        (["predict", "systems=[dgx1-p100]", "model=alexnet", "batch_size=256", "gpus=[2]", "timeline=true"], 1),
        (["compare", "systems=[dgx1-p100,gx8]", "model=alexnet", "batch_size=256", "gpus=[1,8]"], 4),
        (["report", STUDY], 3),
    ],
)
def test_without_what_draws_figures_are_vega_lite_and_one_sentence_says_so(without, tmp_path, words, count):
    status, out, err = without(["vl_convert"], *words, "out=drawn")
    assert (status, bool(out)) == (0, True)
    assert err.count("Left out: drawings (SVG, PDF)") == err.count(f'`python -m pip install -e "{ROOT}[pdf]"`') == 1
    assert len(plain := files(tmp_path / "drawn", ".vl.json")) >= count
    assert all(json.loads((tmp_path / f"drawn/{name}.vl.json").read_text())["$schema"] for name in plain)
    assert words[0] == "topology" or plain <= files(tmp_path / "drawn", ".csv")
    assert not [*tmp_path.glob("drawn/*.svg"), *tmp_path.glob("drawn/*.pdf")]


def test_a_page_without_drawings_shows_their_data_and_links_no_file_that_is_not_there(without, tmp_path):
    assert without(["vl_convert"], "report", STUDY, "out=page")[0] == 0
    page = (tmp_path / "page/index.html").read_text()
    assert "made without vl-convert" in page and "<svg" not in page and "<details open>" in page
    linked = set(re.findall(r'href="([^"#]+)"', page))
    assert linked and all((tmp_path / "page" / name).is_file() for name in linked)


def test_a_drawn_system_has_its_vega_lite_beside_it(without, tmp_path):
    status, _, err = without([], "topology", "systems=gx8", "out=drawn")
    assert (status, err.splitlines()[1]) == (0, "figure: drawn/gx8.svg")
    assert {path.name for path in (tmp_path / "drawn").iterdir()} >= {"gx8.svg", "gx8.vl.json", "topology.jsonl"}


def test_the_doctor_examines_what_is_there_and_lists_what_is_not(without):
    status, out, _ = without(["torch", "torchvision", "pynvml", "altair"], "doctor", "--json", changes=PROBED_HERE)
    assert status == 1
    assert f'python -m pip install -e \\"{ROOT}[train]\\"' in out
    assert '"topic":"torch","state":"missing","what":"PyTorch is not installed"' in out
    assert '"topic":"DALI","state":"ok"' in out


def test_a_rank_without_a_package_says_so_too(monkeypatch):
    from resnetx.measure import rank_process

    failure = rank_process._failure(ModuleNotFoundError("No module named 'torchvision'", name="torchvision"))
    assert (failure.kind, failure.message.endswith('[train]"`')) == ("config", True)
    assert rank_process._failure(ModuleNotFoundError("No module named 'x'", name="x")).kind == "error"


# What the extras call a package, where it is not the name that is imported.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "hydra": "hydra-core",
    "nvidia.dali": "nvidia-dali-cuda130",
    "omegaconf": "hydra-core",  # comes with it
    "pynvml": "nvidia-ml-py",
    "vl_convert": "vl-convert-python",
    "yaml": "pyyaml",
}


def declared(requirements):
    return {re.match(r"[\w-]+", each)[0] for each in requirements}


def test_each_package_is_in_the_extra_that_its_command_installs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {packages.CORE: project["dependencies"], **project["optional-dependencies"]}
    for module, package in packages.KNOWN.items():
        assert DISTRIBUTIONS.get(module, module) in declared(extras[package.extra]), module


def test_the_core_brings_none_of_the_gpu_stack():
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not declared(core) & {"torch", "torchvision", "nvidia-dali-cuda130", "pillow", "vl-convert-python", "wandb"}


def test_an_installed_package_is_extended_by_its_name_and_a_checkout_in_its_folder(monkeypatch, tmp_path):
    assert packages.install("train", "pdf") == f'python -m pip install -e "{ROOT}[pdf,train]"'
    monkeypatch.setattr(packages, "_HOME", tmp_path)
    assert packages.install("train", "pdf", packages.CORE) == 'python -m pip install "resnetx[pdf,train]"'
    assert packages.install() == 'python -m pip install "resnetx"'


def test_with_a_torch_for_amd_the_command_is_that_of_pytorchs_pages(monkeypatch):
    monkeypatch.setattr(packages, "hip_version", lambda: "6.4.43482")
    assert packages.KNOWN["torchvision"].command == packages.rocm_torch()
    assert packages.KNOWN["amdsmi"].command == packages.install("rocm")


@pytest.mark.parametrize("here", ["darwin arm64", "win32 AMD64", "linux aarch64"])
def test_where_the_extra_brings_no_dali_no_command_claims_it(monkeypatch, here):
    monkeypatch.setattr(packages, "_here", lambda: here)
    sentence = packages.KNOWN["nvidia.dali"].sentence
    assert sentence.endswith(f"resnetx installs it on linux x86_64 only, and this is {here}")
    monkeypatch.setattr(packages, "installed", lambda _: False)
    assert "nvidia.dali" not in packages.useful() and "torch" in packages.useful()


# ---- other systems --------------------------------------------------------------------------------------------------

# Takes away what Windows has not. It shows what is asked for on Unix only, and is no trial on Windows.
NOT_UNIX = """
import multiprocessing, os, signal, subprocess, sys, tempfile

for name in ("sched_getaffinity", "sysconf", "getuid", "geteuid", "fork", "pread", "O_NONBLOCK", "O_CLOEXEC"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGCHLD", "pthread_sigmask", "sigwaitinfo"):
    delattr(signal, name)
for name in ("fcntl", "resource"):
    sys.modules.pop(name, None)
"""
UNIX_ONLY = ["fcntl", "resource", "pwd", "grp", "termios"]
COLUMNS = "id name forward backward comm size\n0 data 100 0 0 0\n1 conv1 200 300 50 1024\n2 loss 10 5 0 0\n"


PREDICTED = ["model=alexnet", "batch_size=256", "gpus=[1,8]"]
IMPORTED = ["device=k80-562mhz", "workload=AlexNet", "batch_size=8"]
MEASURING_NOTHING = [
    ["list"],
    ["describe", "model.x=77"],
    ["topology", "systems=gx8", "out=drawn"],
    ["predict", "systems=[gx8]", *PREDICTED, "out=predicted"],
    ["compare", "systems=[dgx1-p100,gx8]", *PREDICTED, "out=compared"],
    ["report", STUDY, "out=page"],
    ["trace", "--import", "alexnet.tsv", *IMPORTED],
]
MEASURING = [[verb] for verb in ("train", "sweep", "verify", "trace", "bench", "doctor")]


def test_what_measures_nothing_asks_for_nothing_that_only_unix_has(each_without, tmp_path):
    (tmp_path / "alexnet.tsv").write_text(COLUMNS)
    told = each_without(UNIX_ONLY, MEASURING_NOTHING, before=NOT_UNIX)
    assert [(status, bool(out)) for status, out, _ in told] == [(0, True)] * len(MEASURING_NOTHING), told


def test_where_nothing_can_be_measured_one_sentence_says_so(each_without):
    told = each_without(UNIX_ONLY, MEASURING, before=NOT_UNIX)
    assert len(told) == len(MEASURING)
    for status, out, err in told:
        assert (status, out) == (2, "")
        *notes, refused = err.splitlines()
        assert refused.startswith("resnetx: measuring needs Linux or macOS, and this is linux")
        assert not notes or "synthetic input is used" in " ".join(notes)

"""A package that is not installed is a sentence with the command that installs it; any other module is a bug."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from resnetx import packages

ROOT = Path(__file__).parent.parent

# Hides modules from a fresh process, as if they were not installed, and runs the command line.
WITHOUT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
from resnetx.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def without(tmp_path):
    """Runs a verb without some modules, in an empty folder: (status, what is printed, what is said of mistakes)."""

    def run(hidden, *words):
        program = WITHOUT.format(hidden=set(hidden))
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


STUDY = str(ROOT / "results" / "cpu-2core" / "quickstart")
MOBILE = ["model=torchvision", "model.name=mobilenet_v2", "batch_size=4"]
MESH = ["topology", "systems=dgx1-p100", "collective=allreduce", "devices=[0,1,2]"]


@pytest.mark.parametrize(
    ("module", "words", "distribution"),
    [
        ("altair", ["report", STUDY, "out=page"], "altair"),
        ("vl_convert", ["report", STUDY, "out=page"], "vl-convert-python"),
        ("jinja2", ["report", STUDY, "out=page"], "jinja2"),
        ("torch", ["train", "input=synthetic"], "torch"),
        ("torch", ["sweep", "input=synthetic"], "torch"),
        ("torch", ["trace", "input=synthetic"], "torch"),
        ("torch", ["bench"], "torch"),
        ("torch", ["verify", "input=synthetic"], "torch"),
        ("torch", ["describe", "model=googlenet", "image_size=128"], "torch"),
        ("torchvision", ["describe", *MOBILE], "torchvision"),
        ("torchvision", ["train", *MOBILE, "input=synthetic"], "torchvision"),
        ("torchvision", ["train", "input=torchvision"], "torchvision"),
        ("nvidia.dali", ["train"], "nvidia-dali-cuda130"),
        ("nvidia", ["train"], "nvidia-dali-cuda130"),
        ("pynvml", ["train", "input=synthetic"], "nvidia-ml-py"),
        ("wandb", ["train", "input=synthetic", "tracker=wandb"], "wandb"),
        ("wandb", ["sweep", "input=synthetic", "tracker=wandb"], "wandb"),
        ("yaml", ["describe"], "pyyaml"),
        ("rich", ["describe"], "rich"),
    ],
)
def test_what_is_missing_is_one_sentence_with_the_command_that_installs_it(
    without, tmp_path, module, words, distribution
):
    status, out, err = without([module], *words)
    assert (status, out) == (2, "")
    assert err.startswith("resnetx: ")
    assert err.count("\n") == 1, err
    assert f"install it with `python -m pip install {distribution}`" in err
    assert not list(tmp_path.glob("**/record.json"))


def test_rings_need_scipy(without):
    status, _, err = without(["scipy", "scipy.optimize"], *MESH)
    assert (status, err.count("\n")) == (2, 1)
    assert "`python -m pip install scipy`" in err


def test_a_module_that_nobody_knows_stays_a_bug(without):
    status, _, err = without(["resnetx.workloads.buckets"], "describe")
    assert status == 1
    assert "a mistake of resnetx (ModuleNotFoundError: No module named 'resnetx.workloads.buckets')" in err
    assert "pip install" not in err
    kept = Path(err.split()[-1])
    assert "Traceback" in kept.read_text()
    kept.unlink()


@pytest.mark.parametrize("module", ["vl_convert", "altair"])
def test_without_what_draws_topology_prints_its_tables_and_says_why_nothing_is_drawn(without, tmp_path, module):
    status, out, err = without([module], "topology", "systems=gx8", "out=drawn")
    assert status == 0
    assert "GPU0  X     PIX" in out
    assert err.startswith("no drawing drawn/gx8.svg: ")
    assert "`python -m pip install " in err
    assert not (tmp_path / "drawn").exists()


def test_the_doctor_examines_what_is_there_and_lists_what_is_not(without):
    status, out, _ = without(["torch", "torchvision", "pynvml", "altair"], "doctor", "--json")
    assert status == 1
    assert "python -m pip install altair nvidia-ml-py torch torchvision" in out
    assert '"topic":"torch","state":"missing","what":"PyTorch is not installed"' in out
    assert '"topic":"DALI","state":"ok"' in out


def test_a_rank_without_a_package_says_so_too(monkeypatch):
    from resnetx.measure import rank_process

    failure = rank_process._failure(ModuleNotFoundError("No module named 'torchvision'", name="torchvision"))
    assert (failure.kind, "`python -m pip install torchvision`" in failure.message) == ("config", True)
    assert rank_process._failure(ModuleNotFoundError("No module named 'x'", name="x")).kind == "error"


def test_the_commands_install_what_the_project_depends_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [
        *project["dependencies"],
        *(each for extra in ("cuda13", "rocm") for each in project["optional-dependencies"][extra]),
    ]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in declared}
    indirect = {"omegaconf"}  # comes with hydra-core
    assert {package.distribution for package in packages.KNOWN.values()} - indirect <= names

"""The built wheel works where no checkout is: it carries its configuration files and schema, and needs no torch."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import uv

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = folder.glob("resnetx-*.whl")
    return built


@pytest.mark.slow
def test_every_file_of_the_package_is_in_the_wheel(wheel):
    """What other tests read in the checkout, an installed resnetx reads from the wheel."""
    kept = {"resnetx": "resnetx", "configs": "resnetx/configs", "results/published": "resnetx/results/published"}
    listed = subprocess.run(["git", "ls-files", *kept], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not listed:
        pytest.skip("no git checkout")
    wanted = {
        kept[start] + name.removeprefix(start)
        for name in listed.split()
        for start in kept
        if name.startswith(start + "/")
    }
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()


# ---- the core alone -------------------------------------------------------------------------------------------------

STUDY = ROOT / "results" / "cpu-2core" / "quickstart"
UNREACHABLE = re.compile(r".*(connection|error sending request|name resolution|dns error|timed out).*", re.I)


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    """Runs resnetx in an empty environment into which the wheel was installed, with what it depends on and no extra."""
    folder = tmp_path_factory.mktemp("core")
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["COLUMNS"] = "0"  # sentences in one line
    command = [uv.find_uv_bin(), "pip", "install", "--python", python, "-q", "-c", ROOT / "constraints.txt", wheel]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and (unreachable := UNREACHABLE.search(done.stderr)):
        pytest.skip(f"no package registry can be reached: {unreachable[0].strip()}")
    assert done.returncode == 0, done.stderr

    def run(*words, program=("-m", "resnetx")):
        command = [python, *program, *words]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.slow
def test_the_core_alone_describes_predicts_compares_and_reports(core, tmp_path):
    absent = ["torch", "torchvision", "nvidia.dali", "PIL", "wandb", "vl_convert"]
    imports = "from resnetx import packages, __file__; from resnetx.settings.files import CONFIGS"
    program = f"{imports}; print(__file__, CONFIGS, *map(packages.installed, {absent}))"
    *where, found = core(program=("-c", program)).stdout.split(maxsplit=2)
    assert ([Path(path).is_relative_to(ROOT) for path in where], set(found.split())) == ([False, False], {"False"})
    assert "quickstart" in core("list", program=["bin/resnetx"]).stdout
    paper = ["systems=[dgx1-p100,gx8]", "study=paper"]
    asked = {
        "ResNet/77": ["describe", "model.x=77"],
        "gx8: Cirrascale GX8": ["topology", "systems=gx8", f"out={tmp_path}/drawn"],
        "Predicted: efficiency on 8 GPUs of dgx1-p100 from ": [
            "predict",
            "systems=[dgx1-p100]",
            "study=paper",
            f"out={tmp_path}",
        ],
        "statements of Tallent et al. 2017": ["compare", *paper, f"out={tmp_path}/compared"],
        f"page: {tmp_path}/page/index.html": ["report", STUDY, f"out={tmp_path}/page"],
    }
    for said, words in asked.items():
        done = core(*words)
        assert (done.returncode, said in done.stdout) == (0, True), done.stderr
    written = [*tmp_path.glob("**/*.vl.json"), tmp_path / "prediction.json", tmp_path / "page" / "points.csv"]
    assert len(written) > 10 and all(file.stat().st_size for file in written)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["train", "input=synthetic"], ["bench"], ["describe", "model=alexnet", "image_size=128"], ["images"]]
)
def test_a_verb_whose_extra_is_missing_says_the_one_command(core, words):
    done = core(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert 'install it with `python -m pip install "resnetx[train]"`' in done.stderr

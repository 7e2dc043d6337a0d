"""The built wheel works where no checkout is: it carries its configuration files and schema."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A new environment with the wheel in it; the libraries it needs are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("resnetx-*.whl")
    # --ignore-installed: else pip removes the editable install of the checkout, which it takes for an older version.
    prefix = ["--prefix", folder / "venv", "--ignore-installed", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *prefix, wheel], check=True, capture_output=True)
    return python


def run(python, *words):
    """Runs in the new environment, away from the checkout. Libraries come by PYTHONPATH, which reads no .pth file:
    the editable install of the checkout stays out of sight."""
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    done = subprocess.run([python, *words], cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_what_runs(installed):
    program = "import resnetx, resnetx.config as c; print(resnetx.__file__, c.CONFIGS)"
    module, configs = run(installed, "-c", program).split()
    assert Path(module).is_relative_to(installed.parent.parent)
    assert Path(configs).is_relative_to(installed.parent.parent)


def test_describe_and_list_work_from_the_wheel(installed):
    resnetx = installed.with_name("resnetx")
    assert "60,965,224" in run(installed, resnetx, "describe")
    assert "quickstart" in run(installed, resnetx, "list")


def test_systems_and_published_figures_are_in_the_wheel(installed):
    resnetx = installed.with_name("resnetx")
    assert '"PHB"' in run(installed, resnetx, "topology", "systems=gx8", "--json")
    assert "holds" in run(installed, resnetx, "topology", "--validate")
    assert "holds" in run(installed, resnetx, "predict", "--validate")
    assert "Tallent et al. 2017 state" in run(installed, resnetx, "compare", "systems=[dgx1-p100,gx8]", "study=paper")

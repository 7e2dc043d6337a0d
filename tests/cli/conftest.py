"""What tests of the command line share."""

import json
from argparse import Namespace

import pytest

from resnetx.cli import main, show


@pytest.fixture(autouse=True)
def _a_screen_without_flags():
    """What a test shows without a command line does not have the flags of the one before."""
    show.begin(Namespace())


@pytest.fixture
def predict(capsys):
    """Runs `resnetx predict --json`; answers (status, JSON objects, without the answer that each begins with)."""

    def run(*words):
        capsys.readouterr()
        status = main(["predict", "--json", *words])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert all(each.pop("answer") for each in found)
        return status, found

    return run

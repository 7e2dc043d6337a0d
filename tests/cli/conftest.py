"""What tests of the command line share."""

import json

import pytest

from resnetx.cli import main


@pytest.fixture
def predict(capsys):
    """Runs `resnetx predict --json`; answers (status, JSON objects)."""

    def run(*words):
        capsys.readouterr()
        status = main(["predict", "--json", *words])
        return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run

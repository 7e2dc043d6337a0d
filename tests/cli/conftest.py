"""What tests of the command line share."""

import json

import pytest

from resnetx.cli import main


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

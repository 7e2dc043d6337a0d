"""What the first line of `doctor` says: on a laptop without PyTorch, what works there."""

import pytest

from resnetx.cli import main
from resnetx.cli.verbs import show_doctor
from resnetx.measure.probes import Finding


@pytest.fixture
def found(monkeypatch):
    """Makes the examination find something in this state."""

    def make(state):
        finding = Finding(topic="torch", state=state, what="PyTorch", fix="pip install torch")
        assert finding.needed
        monkeypatch.setattr(show_doctor, "findings", lambda asked: [finding])

    return make


def test_without_what_runs_need_it_says_what_works_and_what_measuring_needs(found, capsys):
    found("missing")
    assert main(["doctor"]) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "Predicting, comparing and reporting work here. Measuring needs what is missing: torch."
    assert any("pip install torch" in line for line in rest)


def test_where_runs_work_it_says_so(found, capsys):
    found("ok")
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.startswith("Runs work here")

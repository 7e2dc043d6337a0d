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
    assert capsys.readouterr().out.startswith("Predicting, comparing, reporting and measuring work here.")


def test_without_gpus_what_only_gpus_have_is_no_finding_and_the_answer_says_on_what_it_measures(capsys, monkeypatch):
    found = [
        Finding("GPU", "limited", "no NVIDIA GPU on the PCI bus", ""),
        Finding("NCCL", "limited", "NCCL is installed, but torch finds no GPU", ""),
        Finding("torch", "ok", "torch 2.15.0", ""),
        Finding("images", "missing", "input.root=data/images: no such folder", "resnetx images data/images"),
    ]
    monkeypatch.setattr(show_doctor, "findings", lambda asked: found)
    monkeypatch.setattr("resnetx.api.doctor.cores", lambda: 2)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Predicting, comparing, reporting and measuring on 2 CPU cores work here; not here: GPUs, images.",
        "",
        "state    topic   finding",
        "missing  images  input.root=data/images: no such folder",
        "",
        "images  resnetx images data/images",
        "more: 4 tests, 1 ok: --all",
    ]


def test_gpus_that_do_not_start_are_the_answer(capsys, monkeypatch):
    found = [Finding("GPU", "missing", "8 x NVIDIA H200; the NVLink fabric is not ready on 8 of them", "sudo ...")]
    monkeypatch.setattr(show_doctor, "findings", lambda asked: found)
    main(["doctor", "-q"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("measuring on GPUs does not: 8 x NVIDIA H200; the NVLink fabric is not ready on 8 of them.")

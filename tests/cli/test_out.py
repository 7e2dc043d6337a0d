"""`out=` of every verb: a record or rows, tables, figures and a page, or why there is no figure."""

import pytest

from resnetx.cli import main
from resnetx.measure import examination
from resnetx.measure.probes import Finding
from resnetx.settings.files import CONFIGS

RESULTS = CONFIGS.parent / "results"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "figures", "kept"),
    [
        ("topology dgx1-p100,gx8 pick=4", ["choices", "dgx1-p100", "gx8"], "topology.jsonl"),
        ("topology dgx1-p100 devices=0,5", ["dgx1-p100"], "topology.jsonl"),
        ("lab gx8", ["gx8"], "lab.jsonl"),
        ("explain results/lab/links/dgx1-p100-copies results/lab/links/gx8-copies", ["times"], "explain.jsonl"),
        ("doctor", [], "doctor.jsonl"),
    ],
)
def test_out_has_figures_or_says_why_not(capsys, tmp_path, monkeypatch, undrawn, words, figures, kept):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examination, "examine", lambda *asked: [Finding("torch", "ok", "torch 2.15.0", "")])
    (tmp_path / "results").symlink_to(RESULTS)
    main([*words.split(), "out=kept"])
    out, err = capsys.readouterr()
    folder = tmp_path / "kept"
    assert sorted(path.stem for path in folder.glob("*.svg")) == figures
    assert (folder / "index.html").is_file() and (folder / kept).is_file()
    assert ("no figure: " in err) is (not figures)
    assert "out=FOLDER" not in out


@pytest.mark.dist
def test_what_is_measured_has_its_record_beside_its_figures(capsys, tmp_path, monkeypatch, preloaded):
    monkeypatch.chdir(tmp_path)
    words = "model.x=1 model.width=4 batch_size=4 image_size=16 gpus=2 input=synthetic"
    assert main(["verify", *words.split(), "out=kept"]) == 0
    (kept,) = (tmp_path / "results").glob("*/train/*/record.json")
    assert (tmp_path / "kept" / "record.json").read_bytes() == kept.read_bytes()
    assert (tmp_path / "kept" / "deviations.svg").is_file()
    assert main(["bench", "collective=allreduce", "gpus=2", "size=8", "iterations=3", "out=one"]) == 0
    assert "no figure: its one figure is in the answer" in capsys.readouterr().err

"""`out=` of every verb: a record or rows, tables, figures and a page, or why there is no figure."""

import pytest

from resnetx.api import measuring
from resnetx.cli import main
from resnetx.errors import ConfigError
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


@pytest.mark.parametrize("out", ["FILE", "FILE/below", "LINK", "/proc/nowhere", "/dev/full/below"])
@pytest.mark.parametrize(
    "words",
    ["train", "verify", "sweep", "trace", "bench collective=allreduce gpus=2 size=8", "check gpus=1"],
)
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_measured(
    capsys, tmp_path, monkeypatch, words, out
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").touch()
    (tmp_path / "LINK").symlink_to(tmp_path / "nowhere" / "at" / "all")
    given = [] if words.startswith(("bench", "check")) else ["model.x=1", "input=synthetic"]
    assert main([*words.split(), *given, f"out={out}"]) == 2
    assert f"out={out}: cannot be written (" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_what_is_measured_is_kept_where_the_disk_of_its_page_is_full_by_then(tmp_path, monkeypatch):
    def full(*folders, out):
        raise ConfigError(f"out={out}: cannot be written (No space left on device); give another folder")

    monkeypatch.setattr("resnetx.api.report.report", full)
    with pytest.raises(ConfigError, match=f"what was measured is kept: resnetx report {tmp_path} out=FOLDER"):
        measuring.page([tmp_path], tmp_path / "page")

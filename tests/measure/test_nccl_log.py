import os
from dataclasses import replace
from pathlib import Path

from resnetx.measure.launch import ending
from resnetx.measure.launch.ending import Ending, cause
from resnetx.record import RunFolder

LOG = """\
h200:812:840 [0] NCCL INFO cudaDriverVersion 13000
h200:812:840 [0] transport.cc:112 NCCL WARN Cuda failure 2 'out of memory'
h200:812:840 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
h200:812:840 [0] transport.cc:112 NCCL WARN Cuda failure 2 'out of memory'
h200:812:840 [0] init.cc:1021 NCCL WARN Duplicate GPU detected
"""
WARNINGS = [
    "h200:812:840 [0] transport.cc:112 NCCL WARN Cuda failure 2 'out of memory'",
    "h200:812:840 [0] init.cc:1021 NCCL WARN Duplicate GPU detected",
]


def test_what_nccl_warned_of_is_kept_of_a_rank_that_could_not_say_so_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        monkeypatch.delenv(name, raising=False)
    log = ending.new_log()
    assert ending.variables(log)["NCCL_DEBUG_FILE"] == str(log)
    log.write_text(LOG)
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.stderr.write_text("a line\n")
    end = replace(ending.read(Ending(), folder, tmp_path), rank_statuses={0: 1})
    assert end.stderr_end.splitlines() == ["a line", *WARNINGS]
    assert cause(end, 2)[0] == "oom"
    assert not log.exists()


def test_a_rank_that_fails_takes_the_warnings_of_its_own_log(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        monkeypatch.delenv(name, raising=False)
    others = tmp_path / f"resnetx-nccl-{os.getpid()}-x.log"  # whoever may write there can name a file so
    others.write_text(LOG)
    ending.new_log().write_text(LOG)
    assert ending.warnings_left().splitlines() == WARNINGS
    assert ending.warnings_left() == ""
    assert others.exists()


def test_a_log_that_the_user_asked_for_is_left_to_him(tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    assert ending.new_log() is None
    assert ending.taken(None) == ""
    assert ending.taken(Path(tmp_path / "gone")) == ""

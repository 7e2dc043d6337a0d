import os
import sys
from pathlib import Path

import pytest

from resnetx.inputs import folders
from resnetx.record import Unknown

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mincore is asked on Linux only")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    return path


def test_a_file_just_read_is_in_memory(file: Path) -> None:
    file.read_bytes()
    assert folders.resident_share([file]) == 1.0


def test_a_file_dropped_from_memory_is_not(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if folders.resident_share([file]) == 1.0:
        pytest.skip("this file system lives in memory")
    assert folders.resident_share([file]) == 0.0


def test_somebody_elses_file_is_unknown_because_the_kernel_would_say_all(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    share = folders.resident_share([file])
    assert isinstance(share, Unknown)
    assert "may write" in share


def test_empty_and_missing_files_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert isinstance(folders.resident_share([tmp_path / "empty"]), Unknown)
    assert isinstance(folders.resident_share([tmp_path / "missing"]), Unknown)

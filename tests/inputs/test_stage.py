"""Images copied to a folder of the node: complete, unchanged, one copier at a time, and refused in one sentence."""

import errno
import os
import re
import subprocess
import sys
import threading

import pytest

from resnetx.errors import ConfigError
from resnetx.inputs import folders
from tests.patience import PATIENCE_S

BYTES = {"a/1.jpg": b"one", "a/2.JPEG": b"twotwo", "b/1.jpeg": b"3"}  # nothing here decodes them


@pytest.fixture
def root(tmp_path):
    for name, content in BYTES.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "root"


@pytest.fixture
def local(tmp_path):
    return tmp_path / "local"


@pytest.fixture(autouse=True)
def _listed_anew():
    folders.read.cache_clear()


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_copy_is_complete_and_the_next_run_uses_it(root, local):
    first = folders.copied(root, local)
    assert contents(first.folder) == BYTES
    assert (first.images, first.size_bytes, first.copied_bytes) == (3, 10, 10)
    before = {path: path.stat().st_ino for path in first.folder.rglob("*")}
    second = folders.copied(root, local)
    assert (second.folder, second.size_bytes, second.copied_bytes) == (first.folder, 10, 0)
    assert {path: path.stat().st_ino for path in first.folder.rglob("*")} == before


def test_what_is_missing_or_cut_short_is_copied_again(root, local):
    folder = folders.copied(root, local).folder
    (folder / "a/1.jpg").unlink()
    (folder / "a/2.JPEG").write_bytes(b"tw")
    (folder / "b/.1.jpeg.partial").write_bytes(b"of a copier that was killed")
    again = folders.copied(root, local)
    assert again.copied_bytes == 9
    assert folders.read(folder).files == folders.read(root).files
    assert (folder / "a/2.JPEG").read_bytes() == BYTES["a/2.JPEG"]


def test_images_that_changed_go_elsewhere_and_leave_the_copy_that_others_read(root, local):
    first = folders.copied(root, local)
    (root / "a/1.jpg").write_bytes(b"ONE")
    os.utime(root / "a/1.jpg", ns=(1, 1))
    second = folders.copied(root, local)
    assert second.folder != first.folder
    assert (contents(first.folder)["a/1.jpg"], contents(second.folder)["a/1.jpg"]) == (b"one", b"ONE")


def test_a_second_job_waits_for_the_first_and_copies_nothing(root, local, monkeypatch):
    copying, go_on, found = threading.Event(), threading.Event(), []
    copyfile = folders.shutil.copyfile

    def slow(source, target):
        copying.set()
        assert go_on.wait(PATIENCE_S)
        return copyfile(source, target)

    monkeypatch.setattr(folders.shutil, "copyfile", slow)
    jobs = [threading.Thread(target=lambda: found.append(folders.copied(root, local))) for _ in range(2)]
    jobs[0].start()
    assert copying.wait(PATIENCE_S)
    jobs[1].start()
    go_on.set()
    for job in jobs:
        job.join()
    assert sorted(each.copied_bytes for each in found) == [0, 10]
    assert contents(found[0].folder) == BYTES


@pytest.mark.slow  # a process
def test_the_lock_of_a_copier_that_was_killed_is_free(root, local):
    folder = folders.copied(root, local).folder
    program = (
        "import fcntl, os, sys\n"
        "fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program, f"{folder}.lock"], **pipes) as holder:
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    assert folders.copied(root, local).copied_bytes == 0


def refusal(root, local):
    with pytest.raises(ConfigError) as refused:
        folders.copied(root, local)
    return str(refused.value)


def test_a_stage_that_is_too_small_is_refused_before_anything_is_copied(root, local, monkeypatch):
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: folders.shutil._ntuple_diskusage(100, 95, 5))
    said = refusal(root, local)
    assert re.match(
        r"input\.stage=.*/local: 10.0 B of images do not fit into the 5.00 B that are free on \S+; make room", said
    )
    assert not list(local.rglob("*.j*"))


def test_a_disk_that_fills_up_is_a_sentence_and_leaves_no_part_of_a_file(root, local, monkeypatch):
    def full(source, target):
        target.write_bytes(b"o")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folders.shutil, "copyfile", full)
    assert "cannot be copied there (No space left on device)" in refusal(root, local)
    assert not [path for path in local.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_stage_that_is_a_file_cannot_be_written(root, tmp_path):
    (tmp_path / "file").write_text("")
    assert "/file: cannot be written (Not a directory) on " in refusal(root, tmp_path / "file")


def test_images_that_came_from_elsewhere_are_not_read(root, local):
    folder = folders.copied(root, local).folder
    (folder / "a/other.jpg").write_bytes(b"x")
    assert "has images that input.root does not have, e.g. a/other.jpg; delete this folder" in refusal(root, local)


@pytest.mark.parametrize("inside", [".", "stage"])
def test_a_stage_among_the_images_is_refused(root, inside):
    with pytest.raises(ConfigError, match="where copies would be images, too"):
        folders.check(root, root / inside)
    folders.check(root, root.parent / "elsewhere")

"""Files as bytes and text: regular ones within their limit, and a sentence for all others."""

import gzip
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from resnetx.errors import ConfigError, FileError
from resnetx.loading import MOST_BLANKS, File, is_file, is_folder

LIMIT = 1000


def file(path: Path, **more) -> File:
    return File(path, "a letter", LIMIT, **more)


def test_a_file_is_read_whole_and_a_link_is_followed(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * LIMIT)
    (tmp_path / "b").symlink_to("a")
    assert file(tmp_path / "b").content() == b"x" * LIMIT
    assert file(tmp_path / "b").unpacked() == b"x" * LIMIT


def test_what_the_kernel_says_has_no_size_beforehand():
    assert b"Name:" in File(Path("/proc/self/status"), "a status", 2**20).content()


@pytest.mark.parametrize("read", [File.content, File.unpacked])
def test_one_byte_more_is_refused(tmp_path, read):
    (tmp_path / "a").write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(FileError, match=rf"^{tmp_path}/a: larger than 1\.00 kB; expected a letter$"):
        read(file(tmp_path / "a"))


def socket_at(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def loop_at(path):
    path.symlink_to(path.with_name("other"))
    path.with_name("other").symlink_to(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "a pipe; expected a letter, which is a regular file"),
        (Path.mkdir, "a folder; expected"),
        (socket_at, "a socket; expected"),
        (lambda path: path.symlink_to("/dev/zero"), "a device; expected"),
        (loop_at, "Too many levels of symbolic links"),
        (lambda path: None, "no such file; expected "),
    ],
)
def test_what_is_no_regular_file_ends_at_once_with_a_sentence(tmp_path, monkeypatch, make, said):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(Path("it"))
    for read in (File.content, File.unpacked, File.text):
        with pytest.raises(FileError, match=re.escape(f"it: {said}")):
            read(file(Path("it")))
    assert not is_file(Path("it"))


@pytest.mark.parametrize(
    ("name", "said"), [("a\0b", "not a file name: it contains a NUL character"), ("a" * 5000, "File name too long")]
)
def test_names_that_no_file_can_have_are_refused_and_are_no_files(name, said):
    with pytest.raises(FileError, match=said):
        file(Path(name)).content()
    assert not is_file(Path(name))
    assert not is_folder(Path(name))


def test_a_folder_is_one(tmp_path):
    assert is_folder(tmp_path)
    assert not is_file(tmp_path)


def test_text_is_utf8_and_what_is_not_is_named_by_its_line(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("\ufeffä\n".encode())
    assert file(path).text() == "ä\n"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(FileError, match=rf"^study={path}, line 2: byte 0xff is not UTF-8; expected a letter$"):
        file(path, where=f"study={path}").text()


# ---- packed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blanks", [" ", "\n", "\t \r\n"])
def test_blanks_without_end_are_refused_with_their_line(tmp_path, blanks):
    path = tmp_path / "copies.txt"
    file = File(path, "a table", 10**6)
    path.write_text("one\ntwo" + (blanks * MOST_BLANKS)[:MOST_BLANKS] + "three")
    assert file.text().endswith("three")
    path.write_text("one\ntwo" + (2 * blanks * MOST_BLANKS)[: MOST_BLANKS + 1] + "three")
    with pytest.raises(FileError, match=r"copies.txt, line 2: more than 1,000 blanks in a row; expected a table"):
        file.text()


def test_what_is_packed_is_unpacked_in_all_its_members(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert file(path).unpacked() == b"one two"


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(b"x" * 500)[:-10], b"\x1f\x8bnonsense", gzip.compress(b"x") + b"more", b"\x1f\x8b"],
    ids=["cut short", "nonsense", "more behind it", "a header alone"],  # not the bytes, which hold the time
)
def test_what_is_not_packed_well_is_refused(tmp_path, packed):
    (tmp_path / "a.gz").write_bytes(packed)
    with pytest.raises(FileError, match="truncated or not gzip"):
        file(tmp_path / "a.gz").unpacked()


@pytest.mark.slow
def test_a_bomb_is_refused_after_its_limit_in_bytes_and_in_memory(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(2**28), 1))
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))\n"
        "from pathlib import Path; from resnetx.loading import File\n"
        "File(Path(sys.argv[1]), 'a letter', 2**24).unpacked()"
    )
    ended = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1].endswith("bomb.gz: larger than 16 MiB; expected a letter")


def test_a_small_compressed_file_has_a_limit_by_its_own_size(tmp_path):
    """115 MB of JSON, of which the values would take ten times that, in 112 kB."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"[]," * 38_000_000, 9))
    packed_bytes = path.stat().st_size
    assert packed_bytes < 2**17
    with pytest.raises(
        FileError, match=f"{packed_bytes:,} compressed bytes that unpack to more than 16 MiB; at most 100"
    ):
        File(path, "a letter", 2**29).unpacked()


def test_a_larger_one_may_unpack_to_a_hundred_times_its_size(tmp_path):
    """Which real ones do not reach."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(os.urandom(2**19) + bytes(2**25)))
    assert len(File(tmp_path / "a.gz", "a letter", 2**29).unpacked()) == 2**19 + 2**25
    (tmp_path / "b.gz").write_bytes(gzip.compress(os.urandom(2**18) + bytes(2**26)))
    with pytest.raises(FileError, match="at most 100 times as many are unpacked, or 16 MiB: unpack the file yourself"):
        File(tmp_path / "b.gz", "a letter", 2**29).unpacked()


def test_the_error_of_a_file_is_an_error_of_the_user(tmp_path):
    with pytest.raises(ConfigError):
        file(tmp_path / "none").content()

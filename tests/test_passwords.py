"""No record and no log has the password of an address, wherever it came from."""

import msgspec
import pytest

from resnetx import record
from resnetx.compose import asked
from resnetx.errors import ConfigError
from resnetx.variables import has_password, hide_in, without_passwords


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("http_proxy=http://me:hunter2@proxy:3128", "http_proxy=http://***@proxy:3128"),
        ("origin\thttps://hunter2@github.com/a/b.git (fetch)", "origin\thttps://***@github.com/a/b.git (fetch)"),
        ("ssh://git:hunter2@host/x and s3://k:hunter2@bucket", "ssh://***@host/x and s3://***@bucket"),
        ("redis://:hunter2@host", "redis://***@host"),
        ("https://me:p@ss@host/x", "https://***@host/x"),
        ("https://me:hun/ter2@host/x", "https://***@host/x"),
    ],
)
def test_the_password_of_an_address_is_hidden(text, hidden):
    assert has_password(text)
    assert without_passwords(text.encode()).decode() == hidden
    assert not has_password(hidden)


@pytest.mark.parametrize("text", ["tcp://10.0.0.1:2000", "https://host:80/a b@c", "me@host:/x", "a://b?c=d@e", ""])
def test_what_has_none_stays(text):
    assert not has_password(text)
    assert without_passwords(text.encode()).decode() == text


def test_a_record_is_written_without_any(record_of, tmp_path):
    failed = msgspec.structs.replace(record_of(), reason="cannot fetch https://me:hunter2@host/x")
    record.write(tmp_path / "record.json", failed)
    assert b"hunter2" not in (tmp_path / "record.json").read_bytes()
    assert record.read(tmp_path / "record.json", record.RunRecord).reason == "cannot fetch https://***@host/x"


def test_a_log_is_rewritten_only_where_it_has_one(tmp_path):
    log = tmp_path / "stderr.log"
    log.write_bytes(b"one\nhttps://me:hunter2@host\nthree \xff\n")
    hide_in(log)
    assert log.read_bytes() == b"one\nhttps://***@host\nthree \xff\n"
    before = log.stat().st_mtime_ns
    hide_in(log)
    assert log.stat().st_mtime_ns == before


@pytest.mark.parametrize("before", [2**20 - 12, 2**20, 2**21 - 20])
def test_a_line_of_any_length_is_read_in_pieces_which_divide_no_address(before, tmp_path):
    log = tmp_path / "stderr.log"
    words = b"x " * (before // 2)
    log.write_bytes(words + b"https://me:hunter2@host " + words + b"x" * 2**22)
    hide_in(log)
    assert log.read_bytes() == words + b"https://***@host " + words + b"x" * 2**22


def test_a_setting_with_one_is_refused():
    with pytest.raises(ConfigError, match=r"input\.root: its address has a user or a password"):
        asked("train", {"input": {"root": "s3://me:hunter2@bucket/images"}})


@pytest.mark.parametrize(
    "text", ["://" + "a:" * 500_000, "://" * 300_000 + "@", "://u@" * 200_000], ids=["a:", "://", "://u@"]
)
def test_a_megabyte_of_beginnings_is_read_once(text):
    """A pattern that begins anew at each of them takes minutes."""
    assert has_password(text) == (text.endswith("@"))


def test_several_addresses_in_one_word_lose_their_passwords():
    word = b"http://h/p,http://u:p/w@h2,ftp://h3"
    assert without_passwords(word) == b"http://h/p,http://***@h2,ftp://h3"
    assert without_passwords(b"http://***@h,ftp://t@k") == b"http://***@h,ftp://***@k"

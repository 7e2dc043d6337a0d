"""No tracked file says where it was made: no home folder, temporary folder or checkout of somebody's machine."""

import gzip
import io
import re
import subprocess
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = re.compile(
    rb"(?<![\w.~-])(?:/(?:var/)?tmp/|/home/|/root/|/Users/|/private/|/var/folders/|/mnt/|/builds?/|/work(?:space)?/"
    rb"|[A-Z]:[\\/]+Users[\\/])[\w.~+-]+(?:[\\/][\w.~+-]+)*"
)
INVENTED = {  # in docs and tests
    b"/home/me/results/alps/jobs", b"/home/some", b"/tmp/pwned", b"/home/me/x.so", b"C:\\Users\\kudu",
}  # fmt: skip
# Predictions that are older than what checks them: their digest covers the words that they were made with.
DATED = re.compile(r"results/lab/(factors|paper|steered|truth)/prediction/prediction\.json")


def contents(data: bytes) -> Iterator[bytes]:
    """A file, and whatever is packed in it."""
    yield data
    if data.startswith(b"\x1f\x8b"):
        try:
            yield from contents(gzip.decompress(data))
        except (OSError, EOFError, zlib.error):
            unpacking = zlib.decompressobj(wbits=31)  # broken ones of the corpus, as far as they go
            try:
                yield unpacking.decompress(data)
            except zlib.error:
                return
    elif data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield name.encode()
                yield from contents(archive.read(name))
    elif data.startswith(b"%PDF"):
        for stream in re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL):
            try:
                yield zlib.decompressobj().decompress(stream)
            except zlib.error:
                continue


def found_in(data: bytes) -> set[bytes]:
    return {place for content in contents(data) for place in PLACES.findall(content)} - INVENTED


def test_no_tracked_file_has_a_path_of_a_machine():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in names.split("\0") if name and not DATED.fullmatch(name)]
    found = {
        str(path.relative_to(ROOT)): found_in(path.read_bytes())
        for path in files
        if path.is_file() and path != Path(__file__)
    }
    assert len(found) > 1000
    assert {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "content",
    [
        b"at /home/jane/src/x.py", b'{"source": "/tmp/w/results"}', b"out=/var/tmp/x", b"/root/.cache", b"/Users/j/x",
        b"C:\\Users\\jane", b"'/builds/group/resnetx'",
    ],
)  # fmt: skip
def test_one_is_found_packed_or_not(content):
    assert found_in(content)
    assert found_in(gzip.compress(content))
    assert found_in(gzip.compress(gzip.compress(content)))
    assert found_in(gzip.compress(content * 100)[:-8])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", content)
    assert found_in(archive.getvalue())
    assert found_in(b"%PDF-1.4\nstream\n" + zlib.compress(content) + b"endstream")


@pytest.mark.parametrize(
    "content", [b"results/cpu-2core", b"https://a.org/home/x", b"~/tmp/x", b"a/tmp/b", b"/dev/null"]
)
def test_what_is_no_place_of_a_machine_is_not(content):
    assert found_in(content) == set()

"""The targets that read words: sizes, durations, settings."""

from collections.abc import Callable
from pathlib import Path

from resnetx.cli.words import settings_of
from resnetx.compose import compose
from resnetx.config import check, request_from, sizes_from
from resnetx.units import seconds, size
from tests.fuzz.harness import Target

SIZES = [b"64MiB", b"1.5 GB", b"4096", b"8"]
DURATIONS = [b"90", b"90s", b"15min", b"1.5 h"]
SETTINGS = [
    b"model.x=4", b"model.x=[1,4,16]", b"devices=[[0,1],[0,4]]", b"input.root='a b'", b"env.NCCL_ALGO=Ring",
    b"timeout=90s", b"strategy=bucket", b"what_if.bandwidth={nvlink1:2}", b"budget=2h", b"image_size=null",
    b"optimizer.learning_rate=1e-3", b"scaling=weak", b"gpus=5", b"batch_size=256",
]  # fmt: skip


def _text(path: Path) -> str:
    """As Python gets the words of a command line."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _number(parse: Callable[[str], float]) -> Callable[[Path], object]:
    def use(path: Path) -> None:
        try:
            parse(_text(path))
        except ValueError:  # as they promise
            return

    return use


def _use_setting(path: Path) -> None:
    asked = settings_of([_text(path)])
    check(request_from(compose({key: value for key, value in asked.items() if key != "study"})))


TARGETS = (
    Target("size", "word.txt", lambda: SIZES, _number(size), named=False),
    Target("sizes", "word.txt", lambda: SIZES, lambda path: sizes_from([_text(path)]), named=False),
    Target("duration", "word.txt", lambda: DURATIONS, _number(seconds), named=False),
    Target("setting", "word.txt", lambda: SETTINGS, _use_setting, named=False),
)

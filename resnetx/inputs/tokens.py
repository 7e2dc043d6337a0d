"""Tokens from a file: 16-bit whole numbers, one behind the other, as nanoGPT writes them (`train.bin`).

The file is mapped into memory, so that one larger than it can be read, and is cut into sequences that do not overlap:
what a sequence learns at its end is the first token of the next. They are read in the order in which all inputs read
(`order`), and there is nothing to decode.

    make(Path("data/tokens.bin"), tokens=1_000_000, vocabulary=50_257, seed=0)
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resnetx.choices import Sample, TokensInput
from resnetx.errors import ConfigError
from resnetx.inputs import Batches, Share, folders, no_images
from resnetx.record import whole

if TYPE_CHECKING:
    import torch

TOKEN = np.dtype("<u2")
AT_ONCE = 2**20  # tokens that are made, or looked through, at a time

Tokens = NDArray[np.uint16]


class TokenBatches(Batches):
    """One rank's endless batches; see `inputs.Batches`."""

    def __init__(self, input: TokensInput, share: Share) -> None:
        self._share, self._path = share, Path(input.file)
        self._cached_share = folders.resident_share([self._path])
        self._tokens = _mapped(self._path)
        self._length = share.sample.shape[0]
        self._order = folders.batches(_sequences(self._tokens, self._length), share)

    def __next__(self) -> "tuple[torch.Tensor, torch.Tensor]":
        import torch

        begins = np.array(next(self._order)) * self._length
        places = begins[:, None] + np.arange(self._length + 1)
        read = torch.from_numpy(self._tokens[places].astype(np.int64))
        self._share.arrived()
        if self._share.device.type == "cuda":
            read = read.pin_memory().to(self._share.device, non_blocking=True)
        return read[:, :-1].contiguous(), read[:, 1:].contiguous()

    def state(self) -> dict[str, Any]:
        size_bytes, cached_share = self._tokens.nbytes, self._cached_share
        return no_images("tokens are no images", size_bytes=size_bytes, page_cache_share=cached_share)


def check(path: Path, sample: Sample, batch_size: int, gpus: int) -> None:
    """Raises a `ConfigError` for a file from which no rank could take a batch; all its tokens are looked at."""
    (length,) = sample.shape
    tokens = _mapped(path)
    needed = -(-batch_size // gpus)
    if _sequences(tokens, length) // gpus < needed:
        raise ConfigError(
            f"input.file={path}: {len(tokens):,} tokens are {_sequences(tokens, length)} sequences of {length}, over "
            f"gpus={gpus} fewer than the {needed} of every batch; use a longer file, or lower batch_size or model.seq"
        )
    largest = max(int(part.max()) for part in _parts(tokens))
    if largest >= sample.vocabulary:
        raise ConfigError(
            f"input.file={path}: has the token {largest}, but model.vocabulary={sample.vocabulary}; set that to at "
            f"least {largest + 1}, or use another file"
        )


def make(path: Path, *, tokens: int, vocabulary: int, seed: int) -> None:
    """Writes a file of random tokens below `vocabulary`, rare ones as rare as words are (Zipf's law)."""
    if path.exists():
        raise ConfigError(f"{path}: exists already, and is not overwritten; delete it, or give another file")
    chance = 1 / np.arange(1, vocabulary + 1)
    edges = np.cumsum(chance / chance.sum())[:-1]
    random = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as unfinished, unfinished.open("wb") as file:
        for begin in range(0, tokens, AT_ONCE):
            drawn = random.random(min(AT_ONCE, tokens - begin))
            file.write(np.searchsorted(edges, drawn, side="right").astype(TOKEN).tobytes())


def _mapped(path: Path) -> Tokens:
    """The tokens of a file, read where they are used."""
    try:
        size_bytes = path.stat().st_size if path.is_file() else None
    except OSError as error:
        raise ConfigError(f"input.file={path}: cannot be read ({error.strerror})") from None
    if size_bytes is None:
        raise ConfigError(f"input.file={path}: no such file; make one with `resnetx images FILE images.tokens=1000000`")
    if not size_bytes or size_bytes % TOKEN.itemsize:
        raise ConfigError(f"input.file={path}: {size_bytes} B are no 16-bit tokens, of 2 B each; expected some")
    try:
        return np.memmap(path, TOKEN, mode="r")
    except OSError as error:
        raise ConfigError(f"input.file={path}: cannot be read ({error.strerror})") from None


def _sequences(tokens: Tokens, length: int) -> int:
    """Each but for its last token has one behind it to learn."""
    return (len(tokens) - 1) // length


def _parts(tokens: Tokens) -> Iterator[Tokens]:
    for begin in range(0, len(tokens), AT_ONCE):
        yield tokens[begin : begin + AT_ONCE]

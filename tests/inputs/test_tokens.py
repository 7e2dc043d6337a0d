"""Files of tokens: what is made, what ranks read of it, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from resnetx import choices, inputs
from resnetx.errors import ConfigError
from resnetx.inputs import tokens

SEQ, VOCABULARY = 8, 50
SAMPLE = choices.Sample((SEQ,), VOCABULARY)


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """Tokens that tell where they stand."""
    (np.arange(SEQ * 5 + 1) % VOCABULARY).astype("<u2").tofile(tmp_path / "tokens.bin")
    return tmp_path / "tokens.bin"


def rank(file: Path, number: int, ranks: int, batch_size: int) -> inputs.Batches:
    return inputs.open_input(
        choices.TokensInput(file=str(file)),
        inputs.Share(
            **{"batch_size": batch_size, "sample": SAMPLE, "classes": VOCABULARY, "rank": number, "world_size": ranks},
            device=torch.device("cpu"),
            seed=1,
        ),
    )


def test_a_sequence_learns_the_tokens_behind_its_own(counted: Path) -> None:
    read, learnt = next(rank(counted, 0, 1, batch_size=5))
    assert torch.equal(learnt, read + 1)
    assert sorted(read[:, 0].tolist()) == [0, 8, 16, 24, 32]


def test_ranks_share_a_pass_out(counted: Path) -> None:
    begins = [next(rank(counted, number, 2, batch_size=2))[0][:, 0].tolist() for number in (0, 1)]
    assert len({*begins[0], *begins[1]}) == 4


def test_what_is_made_is_read_and_rare_tokens_are_rare(tmp_path: Path) -> None:
    file = tmp_path / "new" / "made.bin"
    tokens.make(file, tokens=5000, vocabulary=VOCABULARY, seed=0)
    tokens.check(file, SAMPLE, batch_size=8, gpus=2)
    made = np.fromfile(file, "<u2")
    often = np.bincount(made, minlength=VOCABULARY)
    assert len(made) == 5000
    assert often[0] > 4 * often[9] > 0
    with pytest.raises(ConfigError, match="exists already"):
        tokens.make(file, tokens=5000, vocabulary=VOCABULARY, seed=0)


@pytest.mark.parametrize(
    ("content", "vocabulary", "sentence"),
    [
        (b"", 50, "0 B are no 16-bit tokens"),
        (b"abc", 50, "3 B are no 16-bit tokens"),
        (b"\1\0" * 30, 50, "30 tokens are 3 sequences of 8, over gpus=2 fewer than the 2 of every batch"),
        (b"\1\0" * 90, 1, "has the token 1, but model.vocabulary=1; set that to at least 2"),
    ],
)
def test_a_file_that_no_rank_could_train_on_is_refused(
    content: bytes, vocabulary: int, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "tokens.bin").write_bytes(content)
    with pytest.raises(ConfigError, match=sentence):
        tokens.check(tmp_path / "tokens.bin", choices.Sample((SEQ,), vocabulary), batch_size=4, gpus=2)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file; make one with `resnetx images FILE images\.tokens=1000000`"):
        tokens.check(tmp_path / "none.bin", SAMPLE, batch_size=4, gpus=2)

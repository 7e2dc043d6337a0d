"""A command line in this process."""

from resnetx.cli import main


def run(capsys, *words: str) -> tuple[int, str, str]:
    """The status of `resnetx WORDS`, what it prints, and what it says of mistakes."""
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err

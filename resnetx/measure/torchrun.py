"""What a rank hears from those who started it: torchrun's environment variables, and one of our own."""

import os
from pathlib import Path

from resnetx.record import RunFolder

FOLDER_VARIABLE = "RESNETX_RUN_FOLDER"


def world_size() -> int:
    """Number of ranks that torchrun started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """This process's number among all ranks."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """This process's number among the ranks of its node."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def launched_folder() -> RunFolder | None:
    """The folder that `launch` prepared for this run and looks into afterwards; None in a run started by hand."""
    path = os.environ.get(FOLDER_VARIABLE)
    return RunFolder(Path(path)) if path else None

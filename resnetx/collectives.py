"""The entry point of `torchrun ... -m resnetx.collectives RUN.json`: one rank of one bench."""

from resnetx.cli import main_of_rank

if __name__ == "__main__":
    main_of_rank("bench")

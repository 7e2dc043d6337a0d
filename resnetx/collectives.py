"""The door for `torchrun ... -m resnetx.collectives RUN.json`: one rank of one bench."""

from resnetx.cli import door

if __name__ == "__main__":
    door("bench")

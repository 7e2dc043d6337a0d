"""The door for `torchrun ... -m resnetx.train (RUN.json | key=value ...)`: one rank of one run."""

from resnetx.cli import door

if __name__ == "__main__":
    door("run")

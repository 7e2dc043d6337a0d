"""The door for `torchrun ... -m resnetx.train (RUN.json | key=value ...)`: one rank of one run."""

from resnetx.cli import worker

if __name__ == "__main__":
    raise SystemExit(worker())

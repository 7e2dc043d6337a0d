"""The door for `torchrun ... -m resnetx.train (RUN.json | key=value ...)`: one rank of one run."""

import os
import sys

from resnetx.cli import worker

if __name__ == "__main__":
    status = worker()
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is on disk. Taking down gloo's and DALI's threads in the order of an ordinary exit aborts now and then
    # ("terminate called without an active exception", on a loaded machine), and torchrun would end the other ranks.
    os._exit(status)

"""The entry point of `torchrun ... -m resnetx.train (RUN.json | key=value ...)`: one rank of one run.

The library has a function of this name: an import of this module, by mistake or to list all modules, leaves it there.
"""

import sys

if __name__ == "__main__":
    from resnetx.cli import main_of_rank

    main_of_rank("run")
else:
    from resnetx.api.train import train

    sys.modules[__name__] = train  # type: ignore[assignment]  # what `import` then binds as resnetx.train

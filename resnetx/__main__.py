"""`python -m resnetx` is `resnetx`."""

from resnetx.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

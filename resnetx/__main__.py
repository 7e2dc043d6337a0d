"""The entry point of `resnetx` and `python -m resnetx`: Ctrl-C is answered from the first import on."""

import sys


def main() -> int:
    """Entry point of `resnetx`; see `resnetx.cli.main` for the exit status."""
    try:
        from resnetx.cli import main as run

        return run()
    except KeyboardInterrupt:  # before anything has begun
        print("resnetx: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())

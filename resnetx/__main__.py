"""The entry point of `resnetx` and `python -m resnetx`: Ctrl-C is answered from the first import on.

Before that is the start of Python itself, some 10 ms on an idle machine, whose traceback no program of its can replace.
"""


def main() -> int:
    """Entry point of `resnetx`; see `resnetx.cli.main` for the exit status."""
    try:
        import signal

        # An exception in the middle of an import may be lost, or become another one: nothing has begun that has to end.
        answered = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where a shell has it ignored
        if answered:
            signal.signal(signal.SIGINT, _interrupted)
        from resnetx.cli import main as run

        if answered:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()
    except KeyboardInterrupt:
        _interrupted()
        raise


def _interrupted(*_: object) -> None:
    import os

    os.write(2, b"resnetx: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    raise SystemExit(main())

"""resnetx: how does deep-learning training scale on this GPU interconnect, and on that one?

    import resnetx

    made = resnetx.predict(systems=["dgx1-p100", "gx8"], model="alexnet", batch_size=256, gpus=[1, 2, 4, 8])
    made.to_pandas()

One function for each verb of the command line, with settings as keyword arguments of the same names and records back;
see docs/library.md. Importing this loads nothing: each function is imported when it is first asked for. Checkers read
`__init__.pyi`, which `python -m resnetx.cli.reference` writes.
"""

TYPE_CHECKING = False  # as checkers take it; `typing` is not loaded for it
if TYPE_CHECKING:
    from collections.abc import Mapping

    from resnetx.settings.verbs import Verb

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_public())
    if name.startswith("_") or name not in _public():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    importlib.import_module("resnetx.api.answers")  # what the repr of records shows
    value = getattr(importlib.import_module(_public()[name]), name)
    if verb := _verbs().get(name):
        value.__doc__ = verb.documented(value.__doc__ or "")
    return value


def __dir__() -> list[str]:
    return [*globals(), *_public()]


def _verbs() -> "Mapping[str, Verb]":
    from resnetx.settings.verbs import VERBS

    return VERBS


def _public() -> dict[str, str]:
    from resnetx.settings.verbs import PUBLIC

    return PUBLIC

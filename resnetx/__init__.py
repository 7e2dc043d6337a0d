"""resnetx: how does deep-learning training scale on this GPU interconnect, and on that one?

    import resnetx

    made = resnetx.predict(systems=["dgx1-p100", "gx8"], model="alexnet", batch_size=256, gpus=[1, 2, 4, 8])
    made.to_pandas()

One function for each verb of the command line, with settings as keyword arguments of the same names and records back;
see docs/library.md. Importing this loads nothing: each function is imported when it is first asked for.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing's would be imported: the command line answers Ctrl-C once this module is read
if TYPE_CHECKING:
    from resnetx.api.bench import bench
    from resnetx.api.check import check
    from resnetx.api.compare import compare
    from resnetx.api.describe import describe
    from resnetx.api.doctor import doctor
    from resnetx.api.figures import figures
    from resnetx.api.images import images
    from resnetx.api.lab import lab
    from resnetx.api.load import load
    from resnetx.api.plan import plan
    from resnetx.api.predict import predict
    from resnetx.api.report import report
    from resnetx.api.steer import steer
    from resnetx.api.sweep import sweep
    from resnetx.api.topology import topology
    from resnetx.api.trace import trace
    from resnetx.api.train import train
    from resnetx.api.validate import validate
    from resnetx.api.verify import verify
    from resnetx.errors import ConfigError
    from resnetx.settings.files import config_dir

__all__ = [
    "ConfigError",
    "bench",
    "check",
    "compare",
    "config_dir",
    "describe",
    "doctor",
    "figures",
    "images",
    "lab",
    "load",
    "plan",
    "predict",
    "report",
    "steer",
    "sweep",
    "topology",
    "trace",
    "train",
    "validate",
    "verify",
]


_ELSEWHERE = {"ConfigError": "resnetx.errors", "config_dir": "resnetx.settings.files"}

if not TYPE_CHECKING:  # a checker knows the names from above, and finds misspelt ones

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_ELSEWHERE.get(name, f"resnetx.api.{name}")), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

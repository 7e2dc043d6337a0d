from resnetx.api.bench import bench as bench
from resnetx.api.compare import compare as compare
from resnetx.api.describe import describe as describe
from resnetx.api.doctor import doctor as doctor
from resnetx.api.images import images as images
from resnetx.api.load import explain as explain
from resnetx.api.load import load as load
from resnetx.api.predict import predict as predict
from resnetx.api.report import figures as figures
from resnetx.api.report import report as report
from resnetx.api.sweep import plan as plan
from resnetx.api.sweep import sweep as sweep
from resnetx.api.topology import lab as lab
from resnetx.api.topology import topology as topology
from resnetx.api.trace import trace as trace
from resnetx.api.train import train as train
from resnetx.api.train import verify as verify
from resnetx.errors import ConfigError as ConfigError
from resnetx.fleet import check as check
from resnetx.literature.reproduce import reproduce as reproduce
from resnetx.literature.validate import validate as validate
from resnetx.measure.observe import observe as observe
from resnetx.settings.files import config_dir as config_dir
from resnetx.steering import steer as steer

__version__: str
__all__ = [
    "ConfigError",
    "bench",
    "check",
    "compare",
    "config_dir",
    "describe",
    "doctor",
    "explain",
    "figures",
    "images",
    "lab",
    "load",
    "observe",
    "plan",
    "predict",
    "report",
    "reproduce",
    "steer",
    "sweep",
    "topology",
    "trace",
    "train",
    "validate",
    "verify",
]

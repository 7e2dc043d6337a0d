"""What several GPUs are known to do: rates that calibrate what scaling costs on a system.

calibration=results/node1/mystudy    its runs of the same workload on several GPUs, at the points' batches
calibration=rates.yaml               {source: my cluster, images_per_s: {16: 5758, 32: 11332}}, of one workload
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from resnetx import bounds
from resnetx.api.known_rates import nodes_of_runs
from resnetx.errors import ConfigError
from resnetx.interconnect.system import System
from resnetx.loading import YAML_BYTES, File, YamlFile
from resnetx.prediction.scaled_rates import ScaledRates
from resnetx.record import RunSummary
from resnetx.request import Request


@dataclass(frozen=True)
class KnownScaling:
    """Rates of several GPUs: stated ones, which are of one workload, or runs, which may be of several."""

    where: str
    stated: Mapping[int, float] | None = None  # images/s by GPUs
    runs: tuple[RunSummary, ...] = ()
    runs_of_input: bool = False  # whether the same file also knows how fast a loader decodes

    def of(self, one: Request) -> ScaledRates | None:
        """The rates of a workload, which is requested on one GPU; None where there are none."""
        alike: list[RunSummary] = []
        if self.stated is not None:
            rates = dict(self.stated)
        else:
            alike = [run for run in self.runs if _is_of(run.request, one)]
            rates = {
                gpus: median(run.images_per_s or 0.0 for run in alike if run.request.gpus == gpus)
                for gpus in sorted({run.request.gpus for run in alike})
            }
        by_gpus = tuple((gpus, one.on(gpus).batch_size, rate) for gpus, rate in sorted(rates.items()))
        source: Literal["measured", "stated"] = "measured" if self.stated is None else "stated"
        return ScaledRates(by_gpus, source, self.where, frozenset(nodes_of_runs(alike))) if by_gpus else None

    def check(self, requests: Sequence[Request], machine: System) -> None:
        """Refuses what rates cannot be of: another GPU, or more than are described; stated ones are of one curve."""
        if self.stated is not None and len({request.baseline_key for request in requests}) > 1:
            raise ConfigError(
                f"calibration={self.where}: rates of one workload at one batch, and several are asked for; predict "
                "them one by one, or give the folder of a study that has them all"
            )
        part, described = machine.gpu_part(0), machine.gpus[0].part_name
        for name in dict.fromkeys(device.name for run in self.runs for device in run.devices or []):
            if name not in (*part.product_names, described):
                raise ConfigError(
                    f"calibration={self.where}: measured on {name}, and {machine.name} has {described}; "
                    "give runs on the system that is predicted"
                )
        largest = max((*(self.stated or ()), *(run.request.gpus for run in self.runs)), default=0)
        if largest > len(machine.gpus):
            raise ConfigError(
                f"calibration={self.where}: has the rate of {largest} GPUs, and {machine.name} has "
                f"{len(machine.gpus)}; describe as many (nodes=, network=, nics=)"
            )


def _is_of(run: Request, one: Request) -> bool:
    """Whether a run lies on the scaling curve of a point."""
    if run.measure != "step" or run.gpus < 2 or run.batch_size != one.on(run.gpus).batch_size:
        return False
    alike = (run.model, run.image_size, run.precision, run.input.kind, run.strategy, run.graph, run.compile)
    return alike == (one.model, one.image_size, one.precision, one.input.kind, one.strategy, one.graph, one.compile)


# ---- typed in -------------------------------------------------------------------------------------------------------


class _Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    images_per_s: dict[int, float]


def typed_scaling(path: str) -> KnownScaling | None:
    """The rates that a YAML file has; None where it is no such file, or has something else."""
    if Path(path).suffix not in (".yaml", ".yml"):
        return None
    text = YamlFile(File(Path(path), "rates of several GPUs", YAML_BYTES, f"calibration={path}"), whole_keys=True)
    if not isinstance(text.tree, dict) or "images_per_s" not in text.tree:
        return None
    typed: _Typed = text.convert(_Typed)
    rates = typed.images_per_s
    if not rates or not all(gpus > 1 and 0 < rate < inf for gpus, rate in rates.items()):
        raise text.error(["images_per_s"], "expected images/s by 2 GPUs or more, as {16: 5758}")
    for gpus in rates:
        bounds.check({"gpus": gpus})
    return KnownScaling(path, rates)

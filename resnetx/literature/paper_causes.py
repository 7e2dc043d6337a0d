"""Searches what decides the statements of the paper: predicts its grid under all combinations of what it leaves open.

    resnetx compare systems=[dgx1-p100,gx8] study=paper explain=true
    python -m resnetx.literature.paper_causes        writes results/published/tallent2017-causes.yaml

What is left open, and in which ways it may have been, is in `results/published/tallent2017.yaml`. A setting that
is given and that an assumption would change settles that assumption.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import yaml

from resnetx import progress
from resnetx.api import systems
from resnetx.api.calibrations import Known, calibrations
from resnetx.api.predict import curves
from resnetx.api.predict_settings import by_framework, deployments, split, training_setup
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.measured import MeasuredCollective, MeasuredSize
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.systems import system
from resnetx.literature.claims import Assumption, Claims, check_claims, is_the_papers, left_to_the_paper, published
from resnetx.literature.explanations import KEPT, Causes, Combination, Supposed, all_combinations, explain
from resnetx.operations import OPERATIONS
from resnetx.prediction.predict import Curve, predicted_curves
from resnetx.prediction.result import sealed_points
from resnetx.prediction.scenario import Deployment
from resnetx.record.comparisons import CheckedClaim, CollectivePoint, Estimate
from resnetx.reporting.compared_systems import over, side_by_side
from resnetx.settings.verbs import group_of
from resnetx.study import Point

HEAD = """\
# Which combinations of what Tallent et al. 2017 leave open (tallent2017.yaml, assumptions) make its statements hold.
# `python -m resnetx.literature.paper_causes` writes this file; a test holds it equal to the search.
"""


def search(asked: Point) -> Causes:
    """What decides the statements of the paper, with these settings given."""
    stated = published("tallent2017")
    if not is_the_papers(asked):
        systems = ",".join(stated.systems)
        raise ConfigError(
            f"explain=true: only for the comparison of a paper; expected systems=[{systems}] study={stated.study}"
        )
    all_open = {name: _left_open(assumption, asked) for name, assumption in stated.assumptions.items()}
    left = {name: assumption for name, assumption in all_open.items() if assumption is not None}
    searched, memory = all_combinations(left), _Memory()
    with progress.counting("combinations", len(searched)) as advance:
        outcomes = []
        for combination in searched:
            outcomes.append((combination, _checked(asked, _settings(left, combination), memory)))
            advance(1)
    return msgspec.structs.replace(explain(stated, outcomes), supposed=list(_supposed(stated)))


def _left_open(assumption: Assumption, asked: Mapping[str, Any]) -> Assumption | None:
    """An assumption as the command line leaves it: whole, with the one option that it chooses, or with none of them."""
    changed = {group_of(key) for option in assumption.options.values() for key in option.settings}
    if changed.isdisjoint(map(group_of, asked)):
        return assumption
    settings = {key: setting.value for key, setting in left_to_the_paper(asked).items()} | dict(asked)
    alike = {name: option for name, option in assumption.options.items() if option.settings.items() <= settings.items()}
    if not alike:
        return None
    nearest = max(alike, key=lambda name: len(alike[name].settings))
    return msgspec.structs.replace(assumption, options={nearest: alike[nearest]})


def _settings(assumptions: Mapping[str, Assumption], combination: Combination) -> Point:
    chosen_of = (assumptions[name].options[option].settings for name, option in combination.items())
    return {key: value for settings in chosen_of for key, value in settings.items()}


# ---- one combination ------------------------------------------------------------------------------------------------


@dataclass
class _Memory:
    """What combinations share, as it takes time to make."""

    curves: dict[str, list[Curve]] = field(default_factory=dict)
    deployments: dict[str, Deployment] = field(default_factory=dict)
    collectives: dict[str, list[CollectivePoint]] = field(default_factory=dict)


def _checked(asked: Point, settings: Point, memory: _Memory) -> list[CheckedClaim]:
    """The statements under one combination; what neither it nor the user sets is as in the paper."""
    left = {key: setting.value for key, setting in left_to_the_paper({**asked, **settings}).items()}
    predict_settings, workload = split({**asked, **left, **settings})
    key = repr(sorted(workload.items()))
    on = [
        memory.deployments.setdefault(_name(deployment), deployment)
        for deployment in deployments(predict_settings, calibrations(predict_settings.calibration_files))
    ]
    trained: list[Curve] = []
    for of_framework in by_framework(predict_settings):
        name = f"{key} {of_framework.framework}"
        if name not in memory.curves:
            memory.curves[name] = list(curves([], workload, of_framework, None, on[0]))
        setting = training_setup(of_framework, workload)
        trained += [replace(curve, setting=setting) for curve in memory.curves[name]]
    points = sealed_points(predicted_curves([curve.on(deployment, {}) for deployment in on for curve in trained]))
    machines = {deployment.described.name: deployment.described for deployment in on}
    libraries = ",".join(deployment.library for deployment in on)
    if libraries not in memory.collectives:
        memory.collectives[libraries] = list(systems.collectives(points, machines))
    sides = side_by_side(points, list(machines))
    return check_claims(sides, memory.collectives[libraries], list(systems.copies(machines)))


def _name(deployment: Deployment) -> str:
    return f"{deployment.described.name} {deployment.library} {dict(deployment.bandwidth)}"


# ---- the authors' own hypothesis ------------------------------------------------------------------------------------


def _supposed(stated: Claims) -> Iterator[Supposed]:
    """AlexNet on 8 GPUs with NCCL 1 and its input hidden, and the same with the DGX-1's all-reduce at its rate of 4.

    Section 1: "load imbalance enables its NVLink interconnect to perform closer to the 4 GPU bandwidths than 8".
    """
    first, second = stated.systems
    of_paper = {
        key: setting.value for key, setting in left_to_the_paper({"input": "synthetic", "library": "nccl1"}).items()
    }
    of_four: dict[int | None, MeasuredCollective] = {8: _as_four(first)}
    for batch_size in (256, 512):
        given = {"model": "alexnet", "batch_size": batch_size, "gpus": 8, "input": "synthetic", "library": "nccl1"}
        settings, workload = split({**given, **of_paper, "systems": stated.systems})
        known = [*deployments(settings, None), *deployments(settings, Known(of_four))[:1]]
        (curve,) = curves([], workload, settings, None, known[0])
        on_each = predicted_curves([curve.on(deployment, {}) for deployment in known])
        described, other, supposed = sealed_points(on_each)
        ((plain,), (assumed,)) = (side_by_side([one, other], stated.systems) for one in (described, supposed))
        ratios = [over(point, first, second) for point in (plain, assumed)]
        rates = [side.iterations_per_s for side in assumed.sides]
        yield Supposed(batch_size, *(_rounded(estimate) for estimate in (*ratios, *rates)))


def _as_four(name: str) -> MeasuredCollective:
    """All-reduces on 8 GPUs of a system that have the bus bandwidth of its first 4."""
    four, factor = plan(system.load(name), "allreduce", range(4), "nccl1"), OPERATIONS["allreduce"].bus_factor(8)
    sizes = [2**power for power in range(10, 30)]
    points = tuple(MeasuredSize(size, factor * size / four.cost(size).busbw_Bps) for size in sizes)
    return MeasuredCollective("the rate of 4 GPUs, supposed of 8", points, "allreduce", 8)


def _rounded(estimate: Estimate | None) -> list[float]:
    assert estimate is not None, "both systems run AlexNet"
    return [float(f"{value:.3g}") for value in (estimate.value, estimate.low, estimate.high)]


# ---- what is kept ---------------------------------------------------------------------------------------------------


def as_kept(found: Causes) -> str:
    """The file of causes: a line for each statement."""
    tree = msgspec.to_builtins(found)
    rows = "".join(f"  - {_line(each)}" for each in tree["explanations"])
    supposed = "".join(f"  - {_line(each)}" for each in tree["supposed"])
    fit = _line(tree["fit"])
    return f"{HEAD}combinations: {found.combinations}\nfit: {fit}explanations:\n{rows}supposed:\n{supposed}"


def _line(tree: dict[str, Any]) -> str:
    return str(yaml.safe_dump(tree, width=10**6, sort_keys=False, default_flow_style=True))


def papers_settings(stated: Claims) -> Point:
    """The settings that ask for the paper's comparison."""
    return {"systems": stated.systems, "study": stated.study}


if __name__ == "__main__":
    KEPT.write_text(as_kept(search(papers_settings(published("tallent2017")))))
    print(KEPT)

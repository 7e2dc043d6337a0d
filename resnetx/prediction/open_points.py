"""Points that nothing determines: what they lie between, and the measurement that closes them.

    undecided = left_open(point)        # None: the point is determined

Where no description tells what decides a point, a number would be a guess. Three are known:

- GPUs that are no peers share the host's memory in one of two ways (`staged`).
- One process that drives all GPUs of a node, as replicas in one graph of TensorFlow or devices of MXNet, starts
  everything on each GPU in turn: published steps take from nothing to 40 us longer for each gradient tensor and GPU.
- Half precision over several nodes: published steps take a time more that is not that of their bytes
  (`scaling_errors`, eight V100s and one EDR card a node). On GPUs of another generation nobody has shown it.

Each has two ends. A rate that was measured there (`calibration=`) closes a point.
"""

from dataclasses import dataclass, replace

from resnetx.choices import After, Server
from resnetx.prediction.scaling_errors import HALF, has_half, scaling_errors
from resnetx.prediction.scenario import Point
from resnetx.prediction.staged import CLASSES, SHOWN_BY, closing_command, fastest

# For each gradient tensor and GPU of one process, at most: chosen so that the two ends hold the rates of TensorFlow and
# tensorpack in results/published/scaling.yaml (`launch_mode: one-process`), which show 3 to 40 us.
LAUNCH_s = 40e-6
MOST_HALF = 2.0  # times that of a V100, at the slow end of other generations: assumed; the most of a V100 is 1.7 times
RATES = "resnetx predict calibration=rates.yaml"  # with the rate that the user's own program has


@dataclass(frozen=True)
class Undecided:
    """Why a point is open, and its two ends."""

    reason: str  # what is not known
    ends: str  # what the short and the long end of the interval are, and what closes the point; for people
    closing: str  # the command
    fast: Point
    slow: Point

    @property
    def point(self) -> Point:
        """What is open; both ends have its GPUs and its batch."""
        return self.slow


def left_open(point: Point) -> Undecided | None:
    """What leaves a point open; None: nothing does."""
    setting = point.setting
    modelled = setting.communication == "model" and not isinstance(point.workload.strategy, Server)
    if (
        point.gpus == 1
        or not modelled
        or point.deployment.on_cpus
        or point.deployment.lab
        or not point.workload.gradients
    ):
        return None
    return _staged(point) if point.deployment.no_peers else _one_process(point) or _half(point)


def known_counts(point: Point) -> list[int]:
    """Numbers of GPUs of one node whose rates are known."""
    rates = point.workload.scaled.by_gpus if point.workload.scaled else ()
    return [count for count, _, _ in rates if count <= point.deployment.node_gpus]


def _staged(point: Point) -> Undecided | None:
    """GPUs that are no peers, of which neither the user nor a measurement says how they share the host."""
    deployment, gpus, known = point.deployment, point.gpus, known_counts(point)
    shown = gpus in known or len(known) >= len(SHOWN_BY)
    if shown or deployment.measured_on(gpus) is not None or deployment.staged_on(gpus) is not None:
        return None
    boxes = (fastest(deployment.bus_Bps), CLASSES["shared"])
    fast, slow = (replace(point, deployment=replace(deployment, told=box)) for box in boxes)
    closing = closing_command(deployment.node_gpus)
    return Undecided(
        "whether the GPUs share one path through the host is neither told (staged=) nor measured",
        "GPUs that are no peers send through the host: each by a path of its own (the short end of the interval), or "
        "all by one (the long end). No description tells which. Say it (staged=per-gpu or staged=shared), or measure "
        f"it there: `{closing}`, whose folder is calibration=.",
        closing,
        fast,
        slow,
    )


def _one_process(point: Point) -> Undecided | None:
    """One process that drives all GPUs of a node, where no rate of it on as many nodes (one, several) is known."""
    if not point.setting.one_process or _is_shown(point):
        return None
    plain = replace(point.setting, one_process=False)
    launching_s = LAUNCH_s * len(point.workload.gradients) * point.gpus
    if point.deployment.nodes_of(point.gpus) > 1 and point.workload.precision in HALF:
        launching_s += MOST_HALF * _half_s(point)
    slow = replace(point.workload, strategy=After())
    return Undecided(
        "what one process that drives all GPUs of a node takes to start their work is not measured",
        "One process drives all GPUs of a node (framework= or launch_mode=): to start their work takes nothing (the "
        "short end of the interval), or 40 us for each gradient tensor and GPU, with all messages behind the backward "
        f"pass (the long end). Measure its rate on several GPUs, and give it: `{RATES}`, a file with images_per_s by "
        "GPUs.",
        RATES,
        replace(point, setting=plain),
        replace(point, workload=slow, setting=replace(plain, beyond_s=launching_s)),
    )


def _half(point: Point) -> Undecided | None:
    """Half precision on several nodes of GPUs of which nobody has shown what that takes."""
    deployment = point.deployment
    if not half_between(point) or _is_measured_half(point) or _is_shown(point):
        return None
    most_s = MOST_HALF * _half_s(point)
    plain = replace(point.setting, beyond_s=0.0)
    closing = (
        f"resnetx sweep precision={point.workload.precision} gpus={2 * deployment.node_gpus} nodes=2 launcher=slurm"
    )
    return Undecided(
        "what half precision takes on several nodes beyond its messages is measured of V100s alone",
        "Half precision on several nodes: published steps of V100s take a time more that is not that of their bytes, "
        "and of these GPUs none is published. It is nothing (the short end of the interval), or "
        f"{most_s * 1e3:.0f} ms a step (the long end). Measure this workload on two nodes: `{closing}`, whose folder "
        "is calibration=.",
        closing,
        replace(point, setting=plain),
        replace(point, setting=replace(plain, beyond_s=most_s)),
    )


def half_between(point: Point) -> bool:
    """Whether gradients of a step in half precision go between nodes by all-reduce, as they are modelled."""
    deployment, setting = point.deployment, point.setting
    if deployment.on_cpus or deployment.lab or deployment.library == "gloo" or setting.communication != "model":
        return False
    between = deployment.nodes_of(point.gpus) > 1 and not isinstance(point.workload.strategy, Server)
    return between and point.workload.precision in HALF


def beyond_messages_s(point: Point) -> float:
    """What a step takes beyond computing and the messages that are modelled, seconds; known rates say it themselves."""
    beyond_s = point.setting.beyond_s
    if half_between(point) and _is_measured_half(point) and not _is_shown(point):
        beyond_s += _half_s(point)
    return beyond_s


def _half_s(point: Point) -> float:
    """Of a step in half precision on several nodes of V100s."""
    return (point.setting.costs or scaling_errors().costs).between_half_s


def _is_measured_half(point: Point) -> bool:
    return has_half(point.deployment.described)


def _is_shown(point: Point) -> bool:
    """Whether a rate of several GPUs is known, on as many nodes (one, several) as the point's."""
    deployment, rates = point.deployment, point.workload.scaled.by_gpus if point.workload.scaled else ()
    several = deployment.nodes_of(point.gpus) > 1
    return any((deployment.nodes_of(gpus) > 1) == several for gpus, _, _ in rates)

"""Points that nothing determines: what leaves them open, what they lie between, and the measurement that closes them.

    undecided = left_open(point)        # None: the point is determined

Where no description tells what decides a point, a number would be a guess (docs/method/prediction.md, Open points).
Each has two ends. A rate that was measured there (`calibration=`) closes a point.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from resnetx.choices import After, Choice, Server, TorchvisionInput
from resnetx.interconnect.systems.graph import FASTEST_FLOW_Bps
from resnetx.prediction import compute
from resnetx.prediction.host_step import (
    FASTEST_LOADER,
    MOST_OF_STEP,
    SLOW_LOADER,
    SLOWEST_LOADER,
    SPREAD,
    STATED,
    decoding,
)
from resnetx.prediction.roofline import HALF, generation
from resnetx.prediction.scaling import is_unmeasured, scaling_errors
from resnetx.prediction.scenario import SHOWN_BY, STAGED, Point, StagedPaths, closing_command, fastest_paths
from resnetx.request import Request
from resnetx.settings.files import settings
from resnetx.settings.setting_types import value_word, written

# Over several nodes in half precision beside that, at most: steps of MXNet and TensorFlow on one cluster of V100s took
# up to 153 ms (Oneflow-Inc/DLPerf); those of PyTorch on clusters of V100s, H100s and MI250Xs hardly any.
HALF_s = 0.15
# Else of what one GPU computes: so the ends hold 26 of 27 published rates of images, each taken to be of a generation
# that is not; with none 16.
HALF_SHARE = 0.2
# Of a step, for each other GPU of a host that makes samples, at most: what steps of AlexNet that read JPEG files take
# longer on 8 A100 in TF32 (Lambda), the most of all published loaders.
MADE = 0.25
# How many times as long a step takes by one TCP flow a card, from which it is open; less lies within its interval. Of
# 13 published rates over such networks nine are below, by 1.11 or less, and the others from 1.32 on; assumed.
FLOWS_OPEN = 1.2
# Of a step of one node whose rate is known, at most: what its messages take through the host.
MESSAGES = 0.8


@dataclass(frozen=True)
class Undecided:
    """Why a point is open, and its two ends."""

    reason: str  # what is not known
    ends: str  # what the short and the long end of the interval are, and what closes the point; for people
    closing: str  # the command
    fast: Point
    slow: Point
    least: float = 1.0  # how many times as long as the fast end the slow one takes at least, else it is determined

    @property
    def point(self) -> Point:
        """What is open; both ends have its GPUs and its batch."""
        return self.slow

    def also(self, other: "Undecided", opens: "Callable[[Point], Undecided | None]") -> "Undecided":
        """The same where something else is not known, too, of which each end has an end."""
        fast, slow = opens(self.fast), opens(self.slow)
        assert fast is not None and slow is not None, "what opens a point opens its ends"
        reason, ends = f"{self.reason}; {other.reason}", f"{self.ends} {other.ends}"
        least = min(self.least, other.least)
        return replace(self, reason=reason, ends=ends, fast=fast.fast, slow=slow.slow, least=least)


# Settings that need not be said, as `predict` has them.
_USUAL = {
    "scaling": "strong", "input": "synthetic", "precision": "fp32", "optimizer": "sgd", "graph": False,
    "compile": "none", "accumulate": 1, "checkpointing": False, "channels_last": True,
    "strategy": "bucket", "gradients": "fp32",
}  # fmt: skip


def _asked_again(point: Point, **other: str) -> str:
    """The command that predicts a point by itself, with other settings: what tells it apart, and what was typed."""
    workload, setting, deployment = point.workload, point.setting, point.deployment
    request, trace, system = workload.request, workload.trace, deployment.described
    asked, usual, typed = dict[str, Any](), {**_USUAL, "library": system.library}, dict(setting.typed)
    if request is not None and trace is None:
        asked |= _model_words(request)
    weak = workload.scaling == "weak"
    asked |= {"batch_size": point.batch_size // point.gpus if weak else point.batch_size, "scaling": workload.scaling}
    if request is not None and trace is None:
        asked |= {"precision": request.precision, "input": request.input.kind, "optimizer": request.optimizer.kind}
    if request is not None:
        asked |= _how(request)
    elif trace is not None:
        usual["scaling"] = "weak"
    asked |= {"framework": setting.framework} if setting.framework else {"strategy": workload.strategy.kind}
    asked |= {"gradients": setting.gradients, "library": deployment.library}
    if system.nodes > 1:
        asked |= {"nodes": system.nodes, "network": system.network, "nics": system.nics}
    traced = [] if trace is None else [trace.source if request else workload.path]
    name = typed.pop("systems", system.node_name)
    said = {key: value for key, value in asked.items() if value != usual.get(key)}
    left = (word for key, word in typed.items() if key not in {**asked, **other})
    return shlex.join(
        ["resnetx", "predict", *traced, name, *written(said), *left, *written({"gpus": point.gpus, **other})]
    )


def _how(request: Request) -> dict[str, Any]:
    """How a step is taken, whatever its optimizer."""
    return {
        name: getattr(request, name) for name in ("graph", "compile", "accumulate", "checkpointing", "channels_last")
    }


def _dials(setting: str, choice: Choice) -> dict[str, Any]:
    """The settings of a model, or of a strategy, as far as they are not as usual."""
    usual = {line.name: line.default for line in settings() if line.of == choice.kind}
    own = {f"{setting}.{name}": value for name, value in msgspec.structs.asdict(choice).items() if value is not None}
    return {name: value for name, value in own.items() if value_word(value) != usual.get(name, value_word(value))}


def _model_words(request: Request) -> dict[str, Any]:
    """The settings of a model, as far as they are not as usual."""
    model = request.model
    size = {"image_size": request.image_size} if request.image_size != model.image_size else {}
    return {"model": model.kind, **_dials("model", model), **size}


def train_command(request: Request, **words: Any) -> str:
    """The command that measures the model of a request with other settings; its steps are taken as they are there."""
    how = {"optimizer": request.optimizer.kind, **_how(request)} if words.get("measure") != "input" else {}
    said = {name: value for name, value in how.items() if value != _USUAL[name]}
    return shlex.join(["resnetx", "train", *written({**_model_words(request), **words, **said})])


def left_open(point: Point) -> Undecided | None:
    """What leaves a point open; None: nothing does."""
    compiled, scaled = _compiled(point), _scaled_open(point)
    if compiled is None or scaled is None:
        return compiled or scaled
    reason, ends = f"{compiled.reason}; {scaled.reason}", f"{compiled.ends} {scaled.ends}"
    return replace(scaled, reason=reason, ends=ends, fast=_launched_at_once(scaled.fast), least=compiled.least)


def _compiled(point: Point) -> Undecided | None:
    """A compiled step at a batch whose rate is not known: what is left of its host's part nobody has told."""
    request, rates = point.workload.request, point.workload.rates
    stated = point.setting.host_step_s is not None or point.deployment.on_cpus
    if request is None or request.compile == "none" or rates is None or stated:
        return None
    images = point.shares[0][0] // point.parts
    if rates.other is None and images in dict(rates.by_batch):
        return None
    closing = train_command(request, precision=request.precision, compile=request.compile, gpus=1, batch_size=images)
    return Undecided(
        f"what a host takes to launch compiled steps of {images} images is not measured",
        "Of a compiled step at a batch whose rate is not given, the host takes nothing (the fast end) or as much as "
        f"without compile= (the slow end): `{closing}` measures it, whose folder is rate=; host_step= says it.",
        closing,
        _launched_at_once(point),
        point,
    )


def _launched_at_once(point: Point) -> Point:
    """With a host that takes nothing."""
    return replace(point, setting=replace(point.setting, host_step_s=0.0))


def _scaled_open(point: Point) -> Undecided | None:
    """What leaves open how a step on several GPUs goes; None: nothing does."""
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
    undecided = None
    staged = (_staged,) if point.no_peers else ()
    for opens in (*staged, _one_process, _over_tcp, _in_half_precision, _by_loader, _by_host):
        if (other := opens(point)) is not None:
            undecided = other if undecided is None else undecided.also(other, opens)
    return undecided


def shown_by_rates(point: Point) -> bool:
    """Whether the rates of several numbers of GPUs of one node, or of as many, say all of what messages take there."""
    known = _known_counts(point)
    return len(point.ranks_of_nodes) == 1 and (len(known) >= len(SHOWN_BY) or point.gpus in known)


def _known_counts(point: Point) -> list[int]:
    """Numbers of GPUs of one node whose rates are known."""
    rates = point.workload.scaled.by_gpus if point.workload.scaled else ()
    return [count for count, _, _ in rates if count <= point.deployment.node_gpus]


def _staged(point: Point) -> Undecided | None:
    """GPUs that are no peers, of which neither the user nor a measurement says how they share the host."""
    deployment, gpus, several = point.deployment, point.gpus, len(point.ranks_of_nodes) > 1
    shown = _is_shown(point) if several else shown_by_rates(point)
    if shown or deployment.measured_on(gpus) is not None or point.paths is not None:
        return None
    boxes = (fastest_paths(deployment.bus_Bps), _slowest_paths(point))
    fast, slow = (replace(point, deployment=replace(deployment, told=box)) for box in boxes)
    closing = closing_command(deployment.node_gpus, deployment.transport)
    return Undecided(
        "whether the GPUs share one path through the host is neither told (staged=) nor measured",
        "GPUs that are no peers send through the host, each by a path of its own (staged=per-gpu; the fast end is that "
        "of the fastest such box published) or all by one (staged=shared, the slow end): say which, or measure it "
        f"there: `{closing}`, whose folder is calibration=.",
        closing,
        fast,
        slow,
    )


def _slowest_paths(point: Point) -> StagedPaths:
    """One path for all GPUs of a node, as fast at least as its known rates need it."""
    shared, rates = STAGED["shared"], point.workload.scaled.by_gpus if point.workload.scaled else ()
    most_s = {gpus: MESSAGES * images / rate for gpus, images, rate in rates if gpus in _known_counts(point)}
    longer = [shared.allreduce_s(point.sent_bytes, gpus) / time_s for gpus, time_s in most_s.items()]
    return replace(shared, rate_Bps=shared.rate_Bps * max([1.0, *longer]))


def _one_process(point: Point) -> Undecided | None:
    """One process that drives all GPUs of a node, where no rate of it on as many of a node is known."""
    most, known = max(point.ranks_of_nodes), max(_shown_counts(point), default=1)
    if not point.setting.one_process or known >= most:
        return None
    setting, step = point.setting, compute.of_point(point, point.shares[0][0]).step
    spread = SPREAD if setting.host_step_s is None else STATED
    longest_s = min(spread * (step.host_s + step.queue_s), MOST_OF_STEP * (step.host_s + step.compute_s))
    launching_s = setting.beyond_s + (most - known) * longest_s
    if len(point.ranks_of_nodes) > 1 and point.workload.precision in HALF:
        launching_s += HALF_s
    workload, (measuring, closing) = point.workload, _rate_asked(point)
    in_turn = f"that of one after the other, in {launching_s * 1e3:,.0f} ms more, " * (launching_s >= 0.5e-3)
    if workload.request is None:  # of an import no rates are taken
        measuring, closing = "", _asked_again(point, launch_mode="process-per-gpu")
    return Undecided(
        "what one process that drives all GPUs of a node takes to start their work is not measured",
        f"One process drives all GPUs of a node: it starts their work at once (the fast end), or {in_turn}with all "
        f"messages behind the backward pass (the slow end). {f'{measuring}; of' if measuring else 'Of'} a process "
        "for each GPU it is known (launch_mode=process-per-gpu).",
        closing,
        point,
        replace(point, workload=replace(workload, strategy=After()), setting=replace(setting, beyond_s=launching_s)),
    )


def _rate_asked(point: Point) -> tuple[str, str]:
    """Where a rate of as many GPUs is written, and the command that takes it."""
    workload, (_, _, files) = point.workload, dict(point.setting.typed).get("calibration", "").partition("=")
    file = workload.scaled.where if workload.scaled else "rates.yaml"
    counts = f"{point.gpus}: ..." if workload.rates or workload.trace else f"1: ..., {point.gpus}: ..."
    return (
        f"Time your own program, and write images_per_s: {{{counts}}} into {file}, which is calibration=",
        _asked_again(point, calibration=files if workload.scaled else ",".join(filter(None, (files, file)))),
    )


def may_be_one_flow(point: Point) -> bool:
    """Whether TCP faster than a flow of a cloud joins its nodes, and no all-reduce or rate shows what it carries."""
    deployment, system = point.deployment, point.deployment.described
    is_fast = system.port is not None and system.port.bandwidth_Bps.value > FASTEST_FLOW_Bps
    if len(point.ranks_of_nodes) == 1 or system.one_flow == 1 or not is_fast:
        return False
    return not _is_shown(point) and deployment.measured_on(point.gpus) is None


def _over_tcp(point: Point) -> Undecided | None:
    """Several nodes whose messages may have one TCP flow; what hides them well, or sends few, is not left open."""
    if not may_be_one_flow(point):
        return None
    deployment, system = point.deployment, point.deployment.described
    bench = f"resnetx bench collective=allreduce gpus={point.gpus} size=64MiB nodes={system.nodes} launcher=slurm"
    return Undecided(
        f"what TCP flows carry of {system.network} is not measured",
        f"Over TCP ({system.network}) messages get what its flows carry: all of the network (the fast end), or one "
        f"flow a card, which clouds may keep to 5 Gb/s (the slow end). Measure it on as many GPUs, `{bench}`, whose "
        "folder is calibration=; or give a rate of several nodes.",
        bench,
        point,
        replace(point, deployment=deployment.by_one_flow),
        FLOWS_OPEN,
    )


def _in_half_precision(point: Point) -> Undecided | None:
    """Several nodes in half precision, of GPUs of which no such rate is published, and none is known."""
    nodes, setting, workload = len(point.ranks_of_nodes), point.setting, point.workload
    known = workload.precision not in HALF or setting.one_process or _is_shown(point) or not is_unmeasured(point)
    if nodes == 1 or known:
        return None
    step, request = compute.of_point(point, point.shares[0][0]).step, workload.request
    part = point.deployment.system.gpu_part(0)
    but = " (but of transformers)" * (generation(part) in scaling_errors().half_transformers)
    measure, closing = _rate_asked(point)
    if request is not None and setting.framework is None:  # else it is a program of the user's own
        words = {"batch_size": point.batch_size, "precision": workload.precision, "strategy": workload.strategy.kind}
        words |= {**_dials("strategy", workload.strategy), "gpus": point.gpus, "nodes": nodes, "launcher": "slurm"}
        closing = train_command(request, input=request.input.kind, **words)
        measure = f"Measure it, `{closing}`, whose folder is calibration=; or give a rate of several nodes"
    return Undecided(
        "what half precision does over several nodes of such GPUs is not published",
        f"Over several nodes in half precision, of which no rate of GPUs of this generation{but} is published, a step "
        f"takes as long as modelled (the fast end), or {HALF_SHARE:.0%} of what one GPU computes longer (the slow "
        f"end), as on V100s. {measure}.",
        closing,
        point,
        replace(point, setting=replace(setting, beyond_s=setting.beyond_s + HALF_SHARE * step.compute_s)),
    )


def _by_loader(point: Point) -> Undecided | None:
    """GPUs that ask for more images than a slow loader has for them, where neither it nor as many GPUs were measured.

    What the slowest leaves out would open a third of published rates: below the slow one they lie in their intervals.
    """
    request, deployment, ranks = point.workload.request, point.deployment, max(point.ranks_of_nodes)
    if request is None or not isinstance(request.input, TorchvisionInput):
        return None
    rates = point.workload.scaled.by_gpus if point.workload.scaled else ()
    if any(min(gpus, deployment.node_gpus) >= ranks for gpus, _, _ in rates):
        return None
    size, threads, images = request.image_size, point.setting.decoding_threads, point.shares[0][0]
    slow = decoding(request.input, size, deployment.system, point.devices, (*deployment.decoding, SLOW_LOADER), threads)
    if slow is None or slow.cores is None or slow.rate.origin != "published":
        return None
    step, image_bytes = compute.of_point(point, images).step, compute.stored_images(point, request)[0].size_bytes
    asked = images / (step.compute_s + step.host_s) / slow.cores
    shown = max((rate / deployment.nodes_of(gpus) for gpus, _, rate in rates), default=0.0) / ranks / slow.cores
    if asked <= max(slow.rate.rate_Bps / image_bytes, shown):
        return None
    slowest, fastest = SLOWEST_LOADER.of(size), FASTEST_LOADER.of(size)
    # it has handed over as many, and as a rate may be off, more
    least = shown * (1 + (point.workload.scaled.error if point.workload.scaled else 0.0))
    slowest = replace(slowest, rate_Bps=max(slowest.rate_Bps, least * image_bytes))
    short, long = (replace(point, deployment=replace(deployment, decoding=(rate,))) for rate in (fastest, slowest))
    closing = train_command(request, batch_size=images * ranks, input=request.input.kind, measure="input", gpus=ranks)
    return Undecided(
        "how fast its loader is is not measured",
        f"These GPUs ask for {asked:,.0f} images/s of each core; loaders of frameworks were published to prepare "
        f"{fastest.rate_Bps / image_bytes:,.0f} (the fast end) to {slowest.rate_Bps / image_bytes:,.0f} (the slow end) "
        f"of such. Measure yours alone, `{closing}`, whose folder is calibration=; or give a rate of as many GPUs.",
        closing,
        short,
        long,
    )


def _by_host(point: Point) -> Undecided | None:
    """Samples that the host makes, no images, where no rate of several GPUs is known."""
    if point.setting.samples != "by-host" or _is_shown(point):
        return None
    others, step_s = max(point.ranks_of_nodes) - 1, compute.of_point(point, point.shares[0][0]).step.compute_s
    beyond_s = point.setting.beyond_s + others * MADE * step_s
    measuring, closing = _rate_asked(point)
    return Undecided(
        "what samples that a host makes cost its other GPUs is not measured",
        "A host that makes samples (samples=by-host) does so for more GPUs at no cost (the fast end), or takes a "
        f"quarter of a step for each other one, as the slowest published loader of images (the slow end). {measuring}; "
        "with samples=alike it costs nothing.",
        closing,
        point,
        replace(point, setting=replace(point.setting, beyond_s=beyond_s)),
    )


def _is_shown(point: Point) -> bool:
    """Whether a rate of several GPUs is known, on as many nodes (one, several) as the point's."""
    return bool(_shown_counts(point))


def _shown_counts(point: Point) -> list[int]:
    """How many GPUs of a node each of these rates is of."""
    deployment, rates = point.deployment, point.workload.scaled.by_gpus if point.workload.scaled else ()
    several = len(point.ranks_of_nodes) > 1
    return [min(gpus, deployment.node_gpus) for gpus, _, _ in rates if (deployment.nodes_of(gpus) > 1) == several]

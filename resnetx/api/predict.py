"""What a workload would do on systems that you do not have: from traces of one GPU, or from published rates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from resnetx import progress
from resnetx.api.predict_settings import (
    SERVERS,
    PredictSettings,
    by_framework,
    deployments,
    named_workloads,
    split,
    traced_workloads,
    training_setup,
)
from resnetx.api.systems import named_systems, refuse_no_launch, refuse_one_node, refuse_unjoined
from resnetx.choices import Folders, NoExchange, Server
from resnetx.compose import asked as settings_asked
from resnetx.compose import each_of
from resnetx.errors import ConfigError
from resnetx.host import node_name
from resnetx.interconnect.systems.system import System
from resnetx.prediction import result
from resnetx.prediction.host_step import STATED
from resnetx.prediction.iteration import HOST_ERROR
from resnetx.prediction.predict import GRID_POINTS, Curve, points_in, predicted_curves, sending_counts
from resnetx.prediction.scenario import Deployment
from resnetx.record.prediction import UNCHECKED, PredictedPoint, Prediction, PredictionInput, digest
from resnetx.reporting import predicted_answer
from resnetx.reporting.predicted_answer import PredictedCurve, identity, ranks, rate_unit, unit_of_point
from resnetx.reporting.worth import Offer, cheapest
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.settings.setting_types import as_typed, bare_word, seconds_of, written
from resnetx.settings.table import tagged
from resnetx.settings.verbs import group_of
from resnetx.study import Point, load
from resnetx.units import how_many

if TYPE_CHECKING:
    from resnetx.api.calibrations import Known

# Of settings that stand in place of what is described, relative; of others it is not known.
_STATED_ERRORS = {"host_time": HOST_ERROR, "host_step": STATED - 1}


def predict(*traces: keywords.Text, **settings: Unpack[keywords.PredictKeywords]) -> "Prediction | Any":
    """Predicts each point of the workloads on each system; kept on disk where `out` or `results` says.

    Of more than `GRID_POINTS` points no more is kept than a table on disk and its answer (`PredictedGrid`), which is
    the `Any`: programs that ask for fewer need not tell the two apart.

    `traces`: folders that `trace` has made, or files of layer times; without any, compute is estimated from published
    rates.

    >>> import resnetx
    >>> made = resnetx.predict(systems=["dgx1-p100"], model="alexnet", batch_size=256, gpus=[1, 8])
    >>> [point.outcome for point in made.points]
    ['ok', 'ok']
    """
    given = settings_asked("predict", settings)
    paths, folder = list(map(given_path, traces)), kept_in(given)
    words = words_of(paths, given)
    asked = questions(paths, given if paths or "study" not in given else _as_in_the_paper(given))
    if points_in(asked) > GRID_POINTS:
        from resnetx.api.grid import stream

        _note(asked)
        return stream(asked, folder, words)
    systems = {curve.deployment.described.name: curve.deployment.described for curve in asked}
    prediction = _priced(_record(asked, predicted_curves(asked), words), given, systems)
    return store(prediction, folder) if folder else prediction


def _as_in_the_paper(given: Point) -> Point:
    """With the paper's settings, where its systems are asked for its workloads: those that `compare` has."""
    from resnetx.literature.claims import as_in_the_paper

    return {**as_in_the_paper(given), **given}


def _priced(prediction: Prediction, given: Point, systems: Mapping[str, System]) -> Prediction:
    """With the sentence on what costs least, where a price is given. `systems`: by name."""
    if not {"price", "deadline"} & set(map(group_of, given)):
        return prediction
    settings, _ = split(dict(each_of("predict", given)[0][0]))
    deadline_s = None if settings.deadline is None else seconds_of("deadline", settings.deadline)
    if settings.price is None:
        if deadline_s is not None:
            raise ConfigError(f"deadline={settings.deadline}: of what ends in time the cheapest is named; give price=")
        return prediction
    curves = [curve for curve in predicted_answer.predicted_curves(prediction.points) if curve.able]
    names = identity(curves)
    offers = [
        _offer(point, settings.price, _words_of(curve, names), systems[point.system])
        for curve in curves
        for point in curve.able
        if point.interval_s
    ]
    samples = rate_unit(prediction.points).partition("/")[0]
    priced = msgspec.structs.replace(prediction, cheapest=cheapest(offers, settings.job_images, deadline_s, samples))
    return msgspec.structs.replace(priced, digest=digest(priced))


def _words_of(curve: PredictedCurve, names: Sequence[str]) -> str:
    """What tells a curve from the others, behind a number of GPUs: " of gx8, batch 64"."""
    of_system = f" of {curve.system}" * ("system" in names)
    rest = [f"{'batch ' * (name == 'batch')}{getattr(curve, name)}" for name in names if name != "system"]
    return ", ".join([of_system, *rest])


def _offer(point: PredictedPoint, price: float | dict[str, float], words: str, system: System) -> Offer:
    """What a point that has a rate costs for an hour: of several nodes those that its GPUs are on."""
    assert point.images_per_s and point.interval_s, "as all that have a rate"
    node = system.node_name
    if isinstance(price, dict) and not {system.name, node} & price.keys():
        raise ConfigError(f"price: says nothing of {node}; give price={node}:PRICE for an hour of each node")
    if isinstance(price, dict):
        nodes = len({system.node_of(device) for device in point.devices})
        per_hour = price[system.name] if system.name in price else price[node] * nodes
    else:
        per_hour = price * point.gpus
    slowest_per_s = point.batch_size / point.interval_s[1]
    return Offer(ranks(point.gpus, point) + words, point.images_per_s, slowest_per_s, per_hour)


def kept_in(given: Point) -> Path | None:
    """The folder for the record, if it is to be kept."""
    if given.get("out"):
        return Path(str(given["out"]))
    if "results" not in given:
        return None
    from resnetx.api.measuring import new_folder

    return new_folder(Path(str(given["results"])) / node_name() / "predict")


def store(made: Prediction, folder: Path) -> Prediction:
    """Writes the record; and its timelines, if it has any, as figures and for chrome://tracing and Perfetto.

    The prediction as it is stored: many points are in a file of their own, which its digest covers.
    """
    from resnetx.api import pages
    from resnetx.api import stored as predictions
    from resnetx.formats import chrome

    stored = predictions.store(made, folder)
    drawn = [point for point in made.points if point.timeline]
    if drawn:
        named = {f"{index + 1}. {_name(point)}": point.timeline for index, point in enumerate(drawn)}
        (folder / "timeline.json").write_bytes(chrome.encode(named))
        progress.command(f"timeline: {folder / 'timeline.json'} (chrome://tracing, Perfetto)")
    pages.store(pages.of_prediction(made), folder)
    return stored


def _name(point: PredictedPoint) -> str:
    on = f"{how_many(point.gpus, unit_of_point(point))} of {point.system}, {point.library}"
    return f"{point.workload}, batch {point.batch_size}, {point.strategy}, {on}"


def predicted(paths: Sequence[Path], given: Point) -> Prediction:
    """The predictions that settings ask for; the traces are at `paths`."""
    asked = questions(paths, given)
    return _record(asked, predicted_curves(asked), words_of(paths, given))


def words_of(paths: Sequence[Path], given: Point) -> str:
    """What was asked, as it is typed; without where its record goes."""
    words = {key: value for key, value in given.items() if key not in ("out", "results")}
    if words.get("model") == "torchvision" and "model.name" in words:
        words["model"] = words.pop("model.name")
    systems_first = sorted(words.items(), key=lambda word: word[0] != "systems")
    return " ".join([*map(str, paths), *as_typed(dict(systems_first))])


def questions(paths: Sequence[Path], given: Point) -> list[Curve]:
    """Everything that is asked, checked; values of a setting of which nothing can be predicted are left out, and said.

    Where it is so of all, that is an error.
    """
    refuse_unjoined(given, named_systems(given))
    if given.get("batch_size") == "max":
        return _with_largest(paths, given)
    every = each_of("predict", given)
    found: list[Curve] = []
    refused: ConfigError | None = None
    for own, varied in every:
        try:
            found += _asked(paths, own, varied)
        except ConfigError as error:
            if len(every) == 1:
                raise
            refused = refused or error
            systems = named_systems(own)
            for system in systems if len(systems) > 1 else ():
                with suppress(ConfigError):
                    found += _asked(paths, {**own, "systems": [system]}, varied)
    if refused is not None and not found:
        raise refused
    if refused is not None:
        progress.note(f"Left out: {refused}")
    points = points_in(found)
    if ("out" in given or "results" in given) and points <= GRID_POINTS:
        from resnetx.api.stored import refuse_unwritable

        refuse_unwritable(points)
    return found


def _with_largest(paths: Sequence[Path], given: Point) -> list[Curve]:
    """The same where the batch is the largest that fits, on each system by itself."""
    from resnetx.api import largest

    if paths:
        raise ConfigError(f"batch_size=max: {paths[0]} has the batches that it was measured at; leave batch_size out")
    found = []
    for own, said in largest.predicted(given):
        line = PredictionInput("batch_size=max", said.partition(": ")[2], "assumed", "counted", UNCHECKED)
        found += [replace(curve, assumed=(*curve.assumed, line)) for curve in questions([], own)]
    return found


def _record(asked: Sequence[Curve], points: Sequence[result.SourcedPoint], words: str) -> Prediction:
    if not any(sourced.point.outcome == "ok" for sourced in points):
        raise ConfigError(_none_is_predicted([sourced.point for sourced in points]))
    _note(asked)
    assumed = dict.fromkeys(line for curve in asked for line in curve.assumed)
    return result.prediction(points, list(assumed), {"words": words})


def _note(asked: Sequence[Curve]) -> None:
    for said in dict.fromkeys(curve.note for curve in asked if curve.note):
        progress.note(said)


def _asked(paths: Sequence[Path], given: Point, varied: dict[str, str]) -> list[Curve]:
    """What settings ask for of which each of the machine has one value: the curves of each system and library."""
    _refuse_passed_over(given)
    settings, workload = split({**_counted_as(given), **given})
    known, said = None, ""
    if settings.calibration_files or settings.rate is not None or settings.rate_error is not None:
        from resnetx.api.calibrations import known_of

        known = known_of(settings.calibration_files, settings.rate, settings.rate_error)
        if known.rates and (read := known.rates.inputs_for(workload)):
            workload = {**workload, "input": read}
            inputs = ",".join(read)
            said = f"{known.rates.where}: predicted with input={inputs}, as its runs were; input= sets another"
        elif known.rates:
            said = known.rates.slower()
    on = deployments(settings, known)
    if known is not None:
        known.refuse_other_machines(on, settings.devices)
    by_system: dict[str, list[Curve]] = {}  # all have the same, unless rates are of a GPU that not all have
    for deployment in on:
        name = deployment.described.name if known is not None and known.by_machine else ""
        if name not in by_system:
            own = known if known is None else known.on(deployment.described)
            by_system[name] = [
                curve
                for framework_settings in by_framework(settings)
                for curve in curves(paths, workload, framework_settings, own, deployment)
            ]
    asked = [curve for curves_of in by_system.values() for curve in curves_of]
    if known is not None:
        known.refuse_other_cases(asked, on, ",".join(settings.calibration_files))
    _refuse_unsaid_messages(settings, asked)
    _refuse_unread(settings, asked)
    _refuse_computing_in_lab(on, asked, settings)
    _refuse_no_server(settings.overlap.parameters, asked)
    _refuse_no_collectives(settings, on, asked)
    lines = dict.fromkeys(line for curve in asked for line in curve.assumed)  # of imported traces, each thing once
    assumed = (*lines, *_set_by_the_user(given))
    on_each = [
        curve.on(deployment, varied)
        for deployment in on
        for curve in by_system.get(deployment.described.name) or by_system[""]
    ]
    if not {"gpus", "devices", "study"} & given.keys():
        on_each = list(map(_that_fit, on_each))
        said = " ".join([*filter(None, [said]), *dict.fromkeys(filter(None, map(_passed_over, on_each)))])
    placed = ((curve.deployment.described, devices) for curve in on_each for devices, _ in curve.placements)
    refuse_one_node(given, placed)
    if settings.rate is not None:
        from resnetx.api.known_rates import refuse_beyond_peak

        for curve in on_each:
            refuse_beyond_peak(curve.workload, curve.deployment.system)
    typed = _typed(given)
    return [
        replace(
            curve, assumed=assumed, note=said, setting=replace(curve.setting, typed=typed(curve.deployment.described))
        )
        for curve in on_each
    ]


# Settings that a point has by itself, or that change nothing of it.
_OF_POINTS = {
    *("systems", "gpus", "study", "model", "batch_size", "scaling", "image_size"),
    *("out", "results", "price", "deadline", "job_images", "sensitivity", "timeline"),
}


def _typed(given: Point) -> Callable[[System], tuple[tuple[str, str], ...]]:
    """By system, the settings of one value as they were typed, with the name or file of the system."""
    one = (
        (key, value)
        for key, value in given.items()
        if group_of(key) not in _OF_POINTS and (not isinstance(value, list) or key in ("calibration", "devices"))
    )
    words = tuple((key, word) for key, value in one for word in written({key: value}))
    files = {Path(name).stem if name.endswith((".yaml", ".yml")) else name: name for name in named_systems(given)}
    return lambda system: (("systems", files.get(system.node_name, system.node_name)), *words)


def _that_fit(curve: Curve) -> Curve:
    """Without the numbers of GPUs that its system does not have, which nobody asked for."""
    has = len(curve.deployment.described.gpus)
    fit = [placement for placement in curve.placements if max(placement[0]) < has]
    return curve if curve.deployment.on_cpus or not fit else replace(curve, placements=fit)


def _passed_over(curve: Curve) -> str:
    """That the batch does not divide over all GPUs of a node, where that is why they are left out; "" elsewhere."""
    system, batch = curve.deployment.described, curve.placements[0][1]
    gpus, most = len(system.gpus), max(len(devices) for devices, _ in curve.placements)
    parts = 1 if curve.workload.request is None else curve.workload.request.accumulate
    if system.nodes > 1 or curve.deployment.on_cpus or gpus <= most or batch % (gpus * parts) == 0:
        return ""
    divides = "does not divide" + f" in accumulate={parts} parts each" * (parts > 1)
    uneven = f", or gpus={most},{gpus} split=uneven" * (parts == 1 and batch > gpus)
    return (
        f"Left out: {gpus} GPUs, all of {system.name}, over which batch_size={batch} {divides}; give another{uneven}."
    )


def curves(
    paths: Sequence[Path], given: Point, settings: PredictSettings, known: "Known | None", deployment: Deployment
) -> Iterator[Curve]:
    """The curves of the workloads that are given, on a deployment; with traces, those of each trace.

    `settings`: with one framework.
    """
    setting = training_setup(settings, given)
    found = traced_workloads(paths, given, settings, known) if paths else named_workloads(given, settings, known)
    for workload, placements, baseline, assumed in found:
        yield Curve(workload, deployment, setting, placements, baseline, assumed)


def _counted_as(given: Point) -> Point:
    """The convention that the study counts by, if it names one."""
    study = given.get("study")
    own = load(study).settings if isinstance(study, str) else {}
    return {key: value for key, value in own.items() if key == "convention"}


def _none_is_predicted(points: Sequence[PredictedPoint]) -> str:
    """Why no point can run; of points that need too much memory, the one with the fewest images on a GPU."""
    lacking = [point for point in points if point.outcome == "oom"]
    if len(lacking) < len(points):
        return next(point.reason for point in points if point.outcome != "oom")
    point = min(lacking, key=lambda point: point.batch_size / point.gpus)
    gpus = how_many(point.gpus, unit_of_point(point))
    return (
        f"batch_size={point.batch_size}: {point.workload} on {gpus} of {point.system} {point.reason}; take a smaller "
        "batch_size= or more gpus=, or set what a GPU has (memory=) or how it is counted (memory_model=)"
    )


def _refuse_passed_over(given: Point) -> None:
    """What is asked for and would change nothing."""
    if "framework" in given:
        strategies = given.get("strategy")
        own = [key for key in given if key.startswith("overlap.")]
        if set(strategies if isinstance(strategies, list) else [strategies]) != {"server"}:
            own += [key for key in given if group_of(key) == "strategy"]
        if own:
            framework = bare_word(given["framework"])
            but = ", but for strategy=server" * (framework in SERVERS)
            raise ConfigError(
                f"{own[0]}={bare_word(given[own[0]])}: framework={framework} has a strategy and an overlap of its own"
                f"{but}; leave one of them out"
            )
    if of_a_run := next((key for key in given if key in tagged("run")), None):
        raise ConfigError(
            f"{of_a_run}={bare_word(given[of_a_run])}: is of a run, and changes nothing that is predicted; leave it out"
        )


def _refuse_no_server(parameters_overlap: bool, wanted: Sequence[Curve]) -> None:
    """Only a parameter server sends parameters."""
    if parameters_overlap and not any(isinstance(curve.workload.strategy, Server) for curve in wanted):
        raise ConfigError(
            "overlap.parameters=true: only a parameter server sends parameters; use strategy=server, or leave it out"
        )


def _refuse_no_collectives(settings: PredictSettings, on: Sequence[Deployment], wanted: Sequence[Curve]) -> None:
    """What says how a library's collectives run is of no use where none are sent, or nothing at all."""
    nothing = all(isinstance(curve.workload.strategy, NoExchange) for curve in wanted)
    measured = any(deployment.measured for deployment in on)
    library = ",".join(filter(None, settings.library)) or None
    sockets = any("gloo" in (deployment.library, deployment.described.library) for deployment in on)  # a server's, too
    told: dict[str, object] = {
        "staged": settings.staged,
        "library": library if nothing or not sockets else None,
        "transport": settings.transport if nothing and settings.transport != "auto" else None,
        "launch_mode": settings.launch_mode,
        "calibration": ",".join(settings.calibration_files) if measured else None,
        "gradients": settings.gradients if nothing and settings.gradients != "fp32" else None,
        "what_if.latency": settings.what_if.latency if nothing and settings.what_if.latency != 1 else None,
    }
    alone = all(isinstance(curve.workload.strategy, NoExchange | Server) for curve in wanted)
    for name in (name for name, value in told.items() if value is not None and alone):
        strategies = " and ".join(dict.fromkeys(f"strategy={curve.workload.strategy.kind}" for curve in wanted))
        raise ConfigError(f"{name}={told[name]}: is of collectives, and {strategies} has none; leave it out")
    if nothing and (factors := settings.what_if.bandwidth) and not _reads(wanted):
        given = ",".join(f"{kind}:{factor:g}" for kind, factor in factors.items())
        raise ConfigError(
            f"what_if.bandwidth={given}: nothing is sent with strategy=none, nor read "
            f"with {_input(wanted)}; leave it out"
        )
    refuse_no_launch(settings.launch_mode, [deployment.library for deployment in on])


def _set_by_the_user(given: Point) -> Iterator[PredictionInput]:
    """The settings that stand in place of what is described."""
    for key, value in given.items():
        if group_of(key) in tagged("assumed"):
            error = _STATED_ERRORS.get(key, UNCHECKED)
            yield PredictionInput(key, bare_word(value), "assumed", "asked for", error)


# ---- what cannot be predicted ----------------------------------------------------------------------------------------


def _refuse_unsaid_messages(settings: PredictSettings, wanted: Sequence[Curve]) -> None:
    """Messages on an unknown number of GPUs can be those of one number, not of several."""
    if settings.communication != "trace" or len(sending_counts(wanted)) < 2:
        return
    for trace in (curve.workload.trace for curve in wanted):
        if trace is not None and not all(batch.communication_gpus for batch in trace.batches):
            raise ConfigError(
                f"communication=trace: {trace.source} does not state its number of GPUs, and several are requested: "
                f"gpus={sending_counts(wanted)}; request one of them, or state it (`resnetx trace --import ... gpus=2`)"
            )


def _refuse_computing_in_lab(on: Sequence[Deployment], wanted: Sequence[Curve], settings: PredictSettings) -> None:
    """In the lab only waited-out computing is known; and what is waited out has its times already."""
    replayed = [curve.workload.request is not None and curve.workload.request.replay is not None for curve in wanted]
    if on[0].lab is not None and not all(replayed):
        raise ConfigError(
            "lab.system: what computing takes on cores that ranks share is not predicted; add replay=, a GPU or a trace"
        )
    served = [
        curve.workload.request is not None and curve.workload.request.strategy == Server(device="gpu")
        for curve in wanted
    ]
    if on[0].lab is not None and any(served):
        raise ConfigError("strategy.device=gpu: ranks in the lab are CPU processes; use strategy.device=cpu")
    if any(replayed) and (settings.rate is not None or settings.clock is not None):
        raise ConfigError("replay: has the times of a step already; leave rate= and clock= out")
    if any(replayed) and settings.host_time not in (0, "0s"):
        raise ConfigError(f"host_time={settings.host_time}: no device waits where replay= stands for it; leave it out")


def _refuse_unread(settings: PredictSettings, wanted: Sequence[Curve]) -> None:
    """The size of stored images, and whether reading waits, say something only where images are read."""
    told = {
        "image_bytes": settings.image_bytes,
        "overlap.input": None if settings.overlap.input else "false",
        "overlap.host_to_device": None if settings.overlap.host_to_device else "false",
    }
    for name in (name for name, value in told.items() if value is not None):
        if not _reads(wanted, traced=name != "image_bytes"):
            raise ConfigError(
                f"{name}={told[name]}: no images are read with {_input(wanted)}; add input=dali, or leave it out"
            )


def _reads(wanted: Sequence[Curve], traced: bool = True) -> bool:
    """Whether any images are read; `traced`: or a trace may have what reading takes."""
    requests = [curve.workload.request for curve in wanted]
    return any(request and isinstance(request.input, Folders) for request in requests) or (
        traced and any(curve.workload.trace for curve in wanted)
    )


def _input(wanted: Sequence[Curve]) -> str:
    """The setting of what is read."""
    requests = (curve.workload.request for curve in wanted)
    return f"input={next((request.input.kind for request in requests if request), 'synthetic')}"

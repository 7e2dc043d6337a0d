"""Published training rates as figures: of one GPU, of several (scaling.yaml), and the messages of a network.

resnetx's predictions are those of `predict --validate`: what a rate was measured on is left out of all fits to it.
"""

from collections.abc import Callable, Iterator

from resnetx.api.dataset.known import KnownFigure, id_of, nothing
from resnetx.interconnect import collective
from resnetx.interconnect.alpha_beta import alpha_beta
from resnetx.interconnect.system import load
from resnetx.prediction import validation
from resnetx.prediction.published import LayerwiseTime, rates, training
from resnetx.prediction.scaling_check import ScalingCase, cases
from resnetx.prediction.validation import TrainingRow
from resnetx.record.score import FigurePrediction, PublishedFigure
from resnetx.workloads.counts import BYTES_PER_PARAMETER, Layer

IMAGES_PER_S = "images/s"
GRADIENT_BYTES = {"fp32": 4, "fp16": 2}  # of one, as it is sent

Picks = Callable[[TrainingRow], bool]


def _by_validation(name: str, place: int, picks: Picks) -> Callable[[], FigurePrediction | None]:
    """The prediction of one row of the validation, by its place among those that are picked; None: it is open."""

    def own() -> FigurePrediction | None:
        row = [row for row in validation.validate() if picks(row)][place]
        if row.predicted is None:  # open
            return None
        return FigurePrediction(id=name, predicted=row.predicted, low=row.low, high=row.high)

    return own


def parameters_of(layers: list[Layer]) -> int:
    """The parameters of a network, each of which has a gradient."""
    return sum(sum(layer.parameters) for layer in layers)


# ---- one GPU --------------------------------------------------------------------------------------------------------


def one_gpu() -> Iterator[KnownFigure]:
    """Rates of one GPU."""
    for place, rate in enumerate(rates()):
        entry = rate.entry
        where = (entry.gpu, entry.network, entry.image_size, entry.precision, rate.batch_size, entry.data)
        figure = PublishedFigure(
            id=id_of("rate", *where, source=entry.source),
            kind="training, one GPU",
            value=rate.images_per_s,
            unit=IMAGES_PER_S,
            system=entry.gpu,
            gpus=1,
            workload=entry.network,
            image_size=entry.image_size,
            batch_size_per_gpu=rate.batch_size,
            precision=entry.precision,
            clock_MHz=entry.clock_MHz,
            input=entry.data,
            settings=entry.variant,
            source=entry.source,
            seen=entry.seen,
        )
        yield KnownFigure(
            figure, _by_validation(figure.id, place, lambda row: row.group == validation.ONE_GPU), nothing
        )


# ---- several GPUs ---------------------------------------------------------------------------------------------------


def scaling() -> Iterator[KnownFigure]:
    """Rates of several GPUs beside that of one, which predictions are given."""
    for place, case in enumerate(cases()):
        figure = _scaled(case)
        yield KnownFigure(figure, _by_validation(figure.id, place, _from_one_gpu), _behind_one_allreduce(case))


def _from_one_gpu(row: TrainingRow) -> bool:
    return row.group.startswith(validation.FROM_ONE)


def _scaled(case: ScalingCase) -> PublishedFigure:
    of, exchange = case.series, {"allreduce": "all-reduce", "server": "parameter server"}[case.series.exchange]
    nodes = of.on(case.gpus).nodes
    where = (of.system, of.network, of.precision, of.gradients, of.batch_size_per_gpu, case.gpus, of.exchange, of.input)
    return PublishedFigure(
        id=id_of("scaling", *where, f"{of.images_per_s[1]:g}", source=case.source),
        kind=f"training, {case.kind.text}",
        value=case.measured,
        unit=IMAGES_PER_S,
        system=of.system,
        nodes=nodes,
        network=of.cluster.network if of.cluster and nodes > 1 else None,
        nics=of.cluster.nics if of.cluster and nodes > 1 else None,
        gpus=case.gpus,
        library=of.library,
        workload=of.network,
        image_size=of.image_size,
        batch_size_per_gpu=of.batch_size_per_gpu,
        precision=of.precision,
        exchange=exchange,
        input=None if of.input == "unknown" else of.input,
        settings=f"gradients sent in {of.gradients}",
        one_gpu=of.images_per_s[1],
        source=case.source,
        seen=of.seen,
    )


def _behind_one_allreduce(case: ScalingCase) -> Callable[[], float]:
    """The step of one GPU, and then one all-reduce of all gradients."""

    def images_per_s() -> float:
        of = case.series
        planned = collective.plan(of.on(case.gpus), "allreduce", range(case.gpus), of.library)
        sent_bytes = GRADIENT_BYTES[of.gradients] * parameters_of(of.layers)
        step_s = of.batch_size_per_gpu / of.images_per_s[1] + alpha_beta(planned).time_s(sent_bytes)
        return case.gpus * of.batch_size_per_gpu / step_s

    return images_per_s


# ---- messages -------------------------------------------------------------------------------------------------------


def layerwise() -> Iterator[KnownFigure]:
    """The messages of all layers of a network, one after the other."""
    for place, entry in enumerate(training().layerwise):
        system = load(entry.system)
        figure = PublishedFigure(
            id=id_of("messages", entry.system, entry.network, entry.library, source=entry.source),
            kind="messages of a network, several nodes",
            value=entry.communication_s,
            unit="s",
            system=entry.system,
            nodes=system.nodes,
            gpus=len(system.gpus),
            library=entry.library,
            collective="allreduce",
            workload=entry.network,
            exchange="all-reduce",
            settings="one all-reduce for each layer; all of them, one after the other",
            source=entry.source,
            seen=entry.seen,
        )
        own = _by_validation(figure.id, place, lambda row: row.group == validation.LAYERWISE)
        yield KnownFigure(figure, own, _one_by_one(entry))


def _one_by_one(entry: LayerwiseTime) -> Callable[[], float]:
    def seconds() -> float:
        one = alpha_beta(collective.plan(load(entry.system), "allreduce", None, entry.library))
        sent = [parameters_of([layer]) for layer in entry.table(image_size=224) if layer.parameters]
        return sum(one.time_s(BYTES_PER_PARAMETER * parameters) for parameters in sent)

    return seconds

"""Published training rates as figures: one GPU, weak scaling, and the messages of a network (training.yaml)."""

from collections.abc import Callable, Iterator
from functools import cache

from resnetx.api.dataset.known import KnownFigure, id_of, nothing, with_error
from resnetx.interconnect import alpha_beta, collective
from resnetx.interconnect.system import load
from resnetx.prediction import fitting, validation
from resnetx.prediction.fitting import RateToFit
from resnetx.prediction.published import LayerwiseTime, Scaling, training
from resnetx.prediction.roofline import fitted
from resnetx.prediction.validation import TrainingRow
from resnetx.record.score import FigurePrediction, PublishedFigure
from resnetx.workloads.counts import BYTES_PER_PARAMETER

IMAGES_PER_S = "images/s"


def one_gpu() -> Iterator[KnownFigure]:
    """Rates of one GPU, which the roofline was fitted to; it predicts them by the fit that `predict` would take."""
    for row in fitting.rows():
        entry = row.rate.entry
        figure = PublishedFigure(
            id=id_of("rate", entry.gpu, entry.network, entry.precision, row.rate.batch_size, source=entry.source),
            kind="training, one GPU",
            value=row.rate.images_per_s,
            unit=IMAGES_PER_S,
            system=entry.gpu,
            gpus=1,
            workload=entry.network,
            image_size=entry.image_size,
            batch_size_per_gpu=row.rate.batch_size,
            precision=entry.precision,
            clock_MHz=entry.clock_MHz,
            input=entry.data,
            settings=entry.variant,
            source=entry.source,
            seen=entry.seen,
        )
        yield KnownFigure(figure, _by_roofline(row, figure.id), nothing)


def _by_roofline(row: RateToFit, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        fit = fitted(row.rate.entry.part)
        images_per_s = row.rate.batch_size / row.predicted_s(fit.parameters)
        return with_error(name, images_per_s, fit.error)

    return own


# ---- several GPUs ---------------------------------------------------------------------------------------------------


def scaling() -> Iterator[KnownFigure]:
    """Weak scaling beside the rate of one GPU, which the prediction is given."""
    for entry in training().scaling:
        one_gpu = entry.images_per_s[1]
        for gpus, images_per_s in entry.images_per_s.items():
            where = (entry.system, entry.network, entry.batch_size_per_gpu, gpus, entry.exchange, entry.data)
            figure = PublishedFigure(
                id=id_of("scaling", *where, source=entry.source),
                kind="training, one node" if entry.data == "synthetic" else "training, one node, real images",
                value=images_per_s,
                unit=IMAGES_PER_S,
                system=entry.system,
                nodes=1,
                gpus=gpus,
                library=entry.library,
                workload=entry.network,
                batch_size_per_gpu=entry.batch_size_per_gpu,
                exchange=entry.exchange,
                input=entry.data,
                one_gpu=one_gpu,
                source=entry.source,
                seen=entry.seen,
            )
            if gpus > 1:
                yield KnownFigure(figure, _by_validation(figure), _behind_one_allreduce(entry, gpus))


def _by_validation(figure: PublishedFigure) -> Callable[[], FigurePrediction | None]:
    """What `predict --validate` says, where it was given no more than the rate of one GPU."""

    def own() -> FigurePrediction | None:
        what = f"{figure.workload}, batch {figure.batch_size_per_gpu} per GPU"
        return _of_row(figure.id, lambda row: (row.source, row.what, row.gpus) == (figure.source, what, figure.gpus))

    return own


def _of_row(name: str, is_it: Callable[[TrainingRow], bool]) -> FigurePrediction | None:
    rows = [row for row in _validated() if is_it(row) and not row.calibrated and row.predicted is not None]
    assert len(rows) <= 1, f"{name}: {len(rows)} predictions"
    return FigurePrediction(id=name, predicted=rows[0].predicted or 0.0) if rows else None


@cache
def _validated() -> list[TrainingRow]:
    return validation.validate()


def _behind_one_allreduce(entry: Scaling, gpus: int) -> Callable[[], float | None]:
    """The step of one GPU, and then one all-reduce of all gradients."""

    def images_per_s() -> float | None:
        if entry.system is None:
            return None
        gradient_bytes = entry.gradient_bytes or BYTES_PER_PARAMETER * sum(
            sum(layer.parameters) for layer in entry.table(image_size=224)
        )
        planned = collective.plan(load(entry.system, nodes=1), "allreduce", range(gpus), entry.library)
        step_s = entry.batch_size_per_gpu / entry.images_per_s[1] + alpha_beta.time_s(planned, gradient_bytes)
        return gpus * entry.batch_size_per_gpu / step_s

    return images_per_s


# ---- messages ------------------------------------------------------------------------------------------------------


def layerwise() -> Iterator[KnownFigure]:
    """The messages of all layers of a network, one after the other."""
    for entry in training().layerwise:
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
        yield KnownFigure(figure, _layer_by_layer(figure), _one_by_one(entry))


def _layer_by_layer(figure: PublishedFigure) -> Callable[[], FigurePrediction | None]:
    def own() -> FigurePrediction | None:
        return _of_row(figure.id, lambda row: row.group == validation.LAYERWISE and row.system == figure.system)

    return own


def _one_by_one(entry: LayerwiseTime) -> Callable[[], float]:
    def seconds() -> float:
        planned = collective.plan(load(entry.system), "allreduce", None, entry.library)
        sent = [sum(layer.parameters) for layer in entry.table(image_size=224) if layer.parameters]
        return sum(alpha_beta.time_s(planned, BYTES_PER_PARAMETER * parameters) for parameters in sent)

    return seconds

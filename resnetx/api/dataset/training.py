"""Published training rates as figures: one GPU, weak scaling, and the messages of a network (training.yaml)."""

from collections.abc import Callable, Iterator

from resnetx.api.dataset.known import KnownFigure, id_of, nothing, with_error
from resnetx.interconnect import alpha_beta, collective
from resnetx.interconnect.system import load
from resnetx.prediction import fitting, validation
from resnetx.prediction.compute import roofline_error
from resnetx.prediction.fitting import RateToFit
from resnetx.prediction.published import LayerwiseTime, training
from resnetx.prediction.roofline import fitted_without
from resnetx.prediction.scaling_check import ScalingCase, cases
from resnetx.prediction.scaling_errors import scaling_errors
from resnetx.record.score import FigurePrediction, PublishedFigure
from resnetx.workloads.counts import BYTES_PER_PARAMETER

IMAGES_PER_S = "images/s"


def one_gpu() -> Iterator[KnownFigure]:
    """Rates of one GPU, which the roofline was fitted to; it predicts them by a fit without their publisher."""
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
        entry = row.rate.entry
        fit = fitted_without(entry.part, entry.publisher)
        images_per_s = row.rate.batch_size / row.predicted_s(fit.parameters)
        return with_error(name, images_per_s, roofline_error(fit, entry.part, entry.precision))

    return own


# ---- several GPUs ---------------------------------------------------------------------------------------------------


def scaling() -> Iterator[KnownFigure]:
    """Weak scaling beside the rate of one GPU, which the prediction is given; its publisher is left out of the fits."""
    for case in cases():
        of, kind = case.series, case.kind
        cluster = of.cluster if kind.nodes == "several nodes" else None
        exchange = "parameter server" if of.exchange == "server" else "all-reduce"
        where = (of.system, of.network, of.batch_size_per_gpu, of.precision, case.gpus, exchange, of.input)
        one_gpu = of.images_per_s[1]
        figure = PublishedFigure(
            id=id_of("scaling", *where, f"{one_gpu:g}", source=case.source),
            kind=f"training, {kind.nodes}" + ", a loader of JPEG files" * (kind.input == "loader"),
            value=case.measured,
            unit=IMAGES_PER_S,
            system=of.system,
            nodes=case.point.fabric.described.nodes,
            network=cluster.network if cluster else None,
            nics=cluster.nics if cluster else None,
            gpus=case.gpus,
            library=of.library,
            workload=of.network,
            image_size=of.image_size,
            batch_size_per_gpu=of.batch_size_per_gpu,
            precision=of.precision,
            exchange=exchange,
            input=of.input,
            one_gpu=one_gpu,
            source=case.source,
            seen=of.seen,
        )
        yield KnownFigure(figure, _of_case(case, figure.id), _behind_one_allreduce(case))


def _of_case(case: ScalingCase, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        iteration, images = case.iteration(scaling_errors().without[case.publisher]), case.point.batch_size
        shortest_s, longest_s = iteration.interval_s
        return FigurePrediction(
            id=name, predicted=images / iteration.time_s, low=images / longest_s, high=images / shortest_s
        )

    return own


def _behind_one_allreduce(case: ScalingCase) -> Callable[[], float]:
    """The step of one GPU, and then one all-reduce of all gradients."""

    def images_per_s() -> float:
        point, of = case.point, case.series
        planned = collective.plan(point.fabric.described, "allreduce", point.devices, of.library)
        one_gpu_s = of.batch_size_per_gpu / of.images_per_s[1]
        return point.batch_size / (one_gpu_s + alpha_beta.time_s(planned, point.subject.gradient_bytes))

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
        yield KnownFigure(figure, _layer_by_layer(entry, figure.id), _one_by_one(entry))


def _layer_by_layer(entry: LayerwiseTime, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        return FigurePrediction(id=name, predicted=validation.layerwise(entry).predicted)

    return own


def _one_by_one(entry: LayerwiseTime) -> Callable[[], float]:
    def seconds() -> float:
        planned = collective.plan(load(entry.system), "allreduce", None, entry.library)
        sent = [sum(layer.parameters) for layer in entry.table(image_size=224) if layer.parameters]
        return sum(alpha_beta.time_s(planned, BYTES_PER_PARAMETER * parameters) for parameters in sent)

    return seconds

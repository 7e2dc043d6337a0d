"""The dataset of published figures: one row a figure, from every file of `results/published`, in one form.

    python -m resnetx.literature.dataset        writes results/published/figures.csv

A source is a function that yields its figures, each with what resnetx and the textbook's alpha-beta model say of it.
Another file of figures is another function in `SOURCES`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from resnetx.interconnect.collectives import plan
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.collectives.published import (
    Cluster,
    PublishedEntry,
    load_published,
    measured_devices,
    published,
)
from resnetx.interconnect.systems.system import load
from resnetx.literature import training as validation
from resnetx.literature import transformers as published_transformers
from resnetx.literature.claim_checks import Claim
from resnetx.literature.claims import PAPERS, WITHOUT_SETTINGS, Claims
from resnetx.literature.claims import published as published_claims
from resnetx.literature.papers import check_papers
from resnetx.literature.rivals import AlphaBeta, alpha_beta
from resnetx.literature.scaling_check import ScalingCase, cases
from resnetx.literature.training import TrainingRow
from resnetx.literature.training_rates import LayerwiseTime, id_of, rates, system_of
from resnetx.literature.training_rates import training as published_rates
from resnetx.literature.transformers import Series, TransformerCase
from resnetx.operations import OPERATIONS
from resnetx.prediction.messages import error_of
from resnetx.prediction.scaling import group_text
from resnetx.record.comparisons import CheckedClaim
from resnetx.record.literature import FigurePrediction, PublishedFigure
from resnetx.reporting.csv_tables import table_of, write_csv
from resnetx.settings.files import PUBLISHED
from resnetx.table import Table
from resnetx.units import size_text
from resnetx.workloads.counts import BYTES_PER_PARAMETER, Layer

# A published figure, and what two models say of it: the form that all sources of figures have.


@dataclass(frozen=True)
class KnownFigure:
    """A figure, and what two models say of it, asked only where a score is wanted; None: nothing."""

    figure: PublishedFigure
    own: Callable[[], FigurePrediction | None]
    alpha_beta: Callable[[], float | None]  # in the figure's unit


def nothing() -> None:
    """Of what a model has no figure for."""


# Published collectives as figures (collectives.yaml), predicted without calibration.

MIB = 2**20
UNITS = {"busbw_GBps": "busbw GB/s", "algbw_GBps": "algbw GB/s", "time_us": "us"}


@dataclass(frozen=True)
class _Place:
    """Where a figure of an entry belongs."""

    entry: PublishedEntry
    gpus: int
    size_bytes: int

    @property
    def cluster(self) -> Cluster | None:
        return self.entry.cluster

    @property
    def nodes(self) -> int:
        """That the GPUs which took part are in; of one GPU a node, as many as GPUs."""
        if self.cluster is None:
            return 1
        return self.gpus // self.cluster.gpus_each if self.cluster.gpus_each else self.cluster.nodes

    @property
    def unit(self) -> str:
        return UNITS[self.entry.figures[0]]

    @property
    def kind(self) -> str:
        if self.entry.collective != "allreduce":
            return "other collectives"
        return f"all-reduce, {'several nodes' if self.cluster else 'one node'}" + ", below 1 MiB" * (
            self.size_bytes < MIB
        )

    @property
    def plan(self) -> CollectivePlan:
        return _planned(*self._planned_for)

    @property
    def alpha_beta(self) -> AlphaBeta:
        return _alpha_beta(*self._planned_for)

    @property
    def _planned_for(self) -> tuple[str, Cluster | None, str, int, str]:
        entry = self.entry
        return entry.system, entry.cluster, entry.collective, self.gpus, entry.library

    def in_unit(self, time_s: float) -> float:
        """A time as the figure has it."""
        if self.unit == "us":
            return time_s * 1e6
        algbw_GBps = self.size_bytes / time_s / 1e9
        factor = OPERATIONS[self.entry.collective].bus_factor(self.gpus)
        return algbw_GBps * factor if self.unit == "busbw GB/s" else algbw_GBps


def collectives() -> Iterator[KnownFigure]:
    """Collectives alone: no ratios of two, no calls that send nothing, and nothing twice that is calibrated, too."""
    for entry in published().entries:
        if entry.figures[0] != "ratio" and not entry.nothing_sent:
            for _, gpus, size_bytes, value in entry.points():
                place = _Place(entry, gpus, size_bytes)
                figure = _figure(place, value)
                yield KnownFigure(figure, _by_plan(place, figure.id), _by_alpha_beta(place))


def _figure(place: _Place, value: float) -> PublishedFigure:
    entry, cluster = place.entry, place.cluster
    several = f"{cluster.nodes}x{cluster.nics}{cluster.network}" if cluster else None
    size = size_text(place.size_bytes).replace(" ", "")
    unit = place.unit.partition(" ")[0]
    where = (entry.collective, entry.system, several, entry.library, place.gpus, size, unit)
    return PublishedFigure(
        id=id_of(*where, source=entry.source),
        kind=place.kind,
        value=value,
        unit=place.unit,
        system=entry.system,
        nodes=place.nodes,
        network=cluster.network if cluster else None,
        nics=cluster.nics if cluster else None,
        gpus=place.gpus,
        library=entry.library,
        collective=entry.collective,
        size_bytes=place.size_bytes,
        source=entry.source,
        seen=entry.seen,
    )


@cache
def _planned(system: str, cluster: Cluster | None, name: str, gpus: int, library: str) -> CollectivePlan:
    """A plan takes a search of rings, and serves every size."""
    chosen = load_published(system, cluster)
    return plan.plan(chosen, name, measured_devices(chosen, cluster, gpus), library)


@cache
def _alpha_beta(system: str, cluster: Cluster | None, name: str, gpus: int, library: str) -> AlphaBeta:
    return alpha_beta(_planned(system, cluster, name, gpus, library))


def _by_plan(place: _Place, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        time_s, error = place.plan.cost(place.size_bytes).time_s, error_of(place.plan, [place.size_bytes])
        ends = [place.in_unit(time_s * factor) for factor in (1 + error, max(1 - error, 1e-3))]
        return FigurePrediction(id=name, predicted=place.in_unit(time_s), low=min(ends), high=max(ends))

    return own


def _by_alpha_beta(place: _Place) -> Callable[[], float]:
    return lambda: place.in_unit(place.alpha_beta.time_s(place.size_bytes))


# Figures that papers state in words, as figures of the dataset, with what their check says of them.


def statements() -> Iterator[KnownFigure]:
    """Figures stated in words, but for those that a description took from them, or that leave things open."""
    for paper in PAPERS:
        stated = published_claims(paper)
        for claim in stated.claims:
            answered = (stated.cases or claim.of in WITHOUT_SETTINGS) and not claim.unstated  # by one prediction
            if claim.stated is not None and not claim.given and answered:
                figure = _stated_figure(paper, stated, claim)
                yield KnownFigure(figure, _by_check(paper, claim, figure.id), nothing)


def _stated_figure(paper: str, stated: Claims, claim: Claim) -> PublishedFigure:
    label = claim.system.rpartition(" ")[0] if claim.of == "copies" else claim.system
    case = stated.cases.get(label)
    over = f", {claim.system} over {claim.over}" * bool(claim.over)
    assert claim.stated is not None, f"{claim.id}: no figure"
    return PublishedFigure(
        id=f"{paper}/{claim.id}",
        kind="statements of papers",
        value=claim.stated,
        unit=claim.unit or "ratio",
        system=case.system if case else label or None,
        library=case.library if case else None,
        settings=f"{claim.quantity} of {claim.of}{over}: {claim.says}" + f" ({claim.reading})" * bool(claim.reading),
        source=f"{stated.title}, section {claim.section}",
        seen=stated.seen if claim.seen is None else claim.seen,
    )


def _by_check(paper: str, claim: Claim, name: str) -> Callable[[], FigurePrediction | None]:
    def own() -> FigurePrediction | None:
        checked = [each for each in _checked(paper) if each.claim == claim.id]
        if len(checked) != 1 or checked[0].ours is None:
            return None
        return FigurePrediction(id=name, predicted=checked[0].ours, low=checked[0].ours_low, high=checked[0].ours_high)

    return own


@cache
def _checked(paper: str) -> list[CheckedClaim]:
    return check_papers([paper]).claims


# Published training rates as figures: of one GPU, of several (scaling.yaml), and the messages of a network.
#
# resnetx's predictions are those of `predict --validate`: what a rate was measured on is left out of all fits to it.

IMAGES_PER_S, TOKENS_PER_S = "images/s", "tokens/s"
GRADIENT_BYTES = {"fp32": 4, "fp16": 2}  # of one, as it is sent


@cache
def _rows() -> dict[str, TrainingRow]:
    """The validation's row of each published figure that has one."""
    rows: dict[str, TrainingRow] = {}
    for row in validation.validate():
        if row.id:
            rows.setdefault(row.id, row)
    return rows


def _by_validation(name: str) -> Callable[[], FigurePrediction | None]:
    """The prediction that the validation has of a figure; None: it is open."""

    def own() -> FigurePrediction | None:
        row = _rows()[name]
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
    for rate in rates():
        entry = rate.entry
        figure = PublishedFigure(
            id=rate.id,
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
        yield KnownFigure(figure, _by_validation(figure.id), nothing)


# ---- several GPUs ---------------------------------------------------------------------------------------------------


def scaling() -> Iterator[KnownFigure]:
    """Rates of several GPUs beside that of one, which predictions are given."""
    for case in cases():
        figure = _scaled(case)
        yield KnownFigure(figure, _by_validation(figure.id), _behind_one_allreduce(case))


def _scaled(case: ScalingCase) -> PublishedFigure:
    of, exchange = case.series, {"allreduce": "all-reduce", "server": "parameter server"}[case.series.exchange]
    nodes = of.on(case.gpus).nodes
    return PublishedFigure(
        id=case.id,
        kind=f"training, {group_text(*case.kind)}",
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
        planned = plan.plan(of.on(case.gpus), "allreduce", range(case.gpus), of.library)
        sent_bytes = GRADIENT_BYTES[of.gradients] * parameters_of(of.layers)
        step_s = of.batch_size_per_gpu / of.images_per_s[1] + alpha_beta(planned).time_s(sent_bytes)
        return case.gpus * of.batch_size_per_gpu / step_s

    return images_per_s


# ---- transformers ---------------------------------------------------------------------------------------------------


def transformers() -> Iterator[KnownFigure]:
    """Rates of transformers on more than the fewest GPUs of their series, from which predictions are made."""
    for number, of in enumerate(published_transformers.series()):
        for gpus in of.tokens_per_s:
            if gpus > of.fewest:
                figure = _of_transformer(of, gpus)
                yield KnownFigure(figure, _by_fewest(number, gpus, figure.id), nothing)


def _of_transformer(of: Series, gpus: int) -> PublishedFigure:
    system, source = system_of(of.system, gpus, of.cluster), of.source_text
    several = of.cluster if of.cluster and system.nodes > 1 else None
    exchange = "FSDP" if of.strategy == "fsdp" else "all-reduce"
    where = (of.system, gpus, of.x, of.width, of.seq, of.precision, of.micro_batch, of.fewest)
    return PublishedFigure(
        id=id_of("transformers", *where, source=source),
        kind=f"training of transformers, {of.nodes(gpus)}",
        value=of.tokens_per_s[gpus],
        unit=TOKENS_PER_S,
        system=of.system,
        nodes=system.nodes,
        network=several.network if several else None,
        nics=several.nics if several else None,
        gpus=gpus,
        library=of.library,
        workload=f"transformer of {of.x} blocks of {of.width}, sequences of {of.seq}",
        batch_size_per_gpu=of.micro_batch * of.accumulation[gpus],
        precision=of.precision,
        exchange=exchange,
        settings=f"{of.accumulation[gpus]} passes in a step; gradients sent in {of.gradients}; vocabulary of "
        f"{of.vocabulary}; one_gpu: of the rate on {of.fewest} GPUs",
        one_gpu=of.tokens_per_s[of.fewest] / of.fewest,
        source=source,
        seen=of.seen,
    )


def _by_fewest(number: int, gpus: int, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        of = published_transformers.series()[number]
        case = next(each for each in _judged_transformers() if each.of is of and each.gpus == gpus)
        return FigurePrediction(id=name, predicted=case.predicted, low=case.interval[0], high=case.interval[1])

    return own


@cache
def _judged_transformers() -> tuple[TransformerCase, ...]:
    return tuple(published_transformers.judged())


# ---- messages -------------------------------------------------------------------------------------------------------


def layerwise() -> Iterator[KnownFigure]:
    """The messages of all layers of a network, one after the other."""
    for entry in published_rates().layerwise:
        system = load(entry.system)
        figure = PublishedFigure(
            id=entry.id,
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
        yield KnownFigure(figure, _by_validation(figure.id), _one_by_one(entry))


def _one_by_one(entry: LayerwiseTime) -> Callable[[], float]:
    def seconds() -> float:
        one = alpha_beta(plan.plan(load(entry.system), "allreduce", None, entry.library))
        sent = [parameters_of([layer]) for layer in entry.table(image_size=224) if layer.parameters]
        return sum(one.time_s(BYTES_PER_PARAMETER * parameters) for parameters in sent)

    return seconds


# All sources of published figures.

FILE = PUBLISHED / "figures.csv"
SOURCES: tuple[Callable[[], Iterator[KnownFigure]], ...] = (
    one_gpu,
    scaling,
    transformers,
    layerwise,
    collectives,
    statements,
)


@cache
def known_figures() -> tuple[KnownFigure, ...]:
    """All figures, source after source; what stands in several groups of a file, once."""
    figures: dict[str, KnownFigure] = {}
    for source in SOURCES:
        for figure in source():
            same = figures.setdefault(figure.figure.id, figure)
            assert same.figure == figure.figure, f"{figure.figure.id}: two figures of one id"
    return tuple(figures.values())


def dataset() -> Table:
    """The figures as the table that ships."""
    return table_of(figure.figure for figure in known_figures())


if __name__ == "__main__":
    write_csv(FILE, dataset())
    print(FILE)

"""What workloads are: activations, parameters, intensity, messages of gradients; and what has a wanted intensity."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import inf, log, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from resnetx import workloads
from resnetx.api import drawings
from resnetx.choices import ModelChoice, NoExchange
from resnetx.compose import asked, compose, one_point, points_of
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError, convert
from resnetx.record import DescribedWorkload, Workload
from resnetx.request import Request
from resnetx.settings import keywords, setting_types
from resnetx.settings.setting_types import written
from resnetx.settings.table import TABLE, tagged
from resnetx.settings.verbs import VERBS
from resnetx.study import Point
from resnetx.table import ANSWERS, Answer, Column, Record, Records, as_shown, fields, row
from resnetx.units import figure, number, si

if TYPE_CHECKING:
    from resnetx.workloads import Layer


MESSAGES = 4  # whose sizes are said
GPU_COLUMNS = [1, 2, 4, 8]  # that intensity is shared out over where no GPU counts are asked for


class Workloads(Records[DescribedWorkload]):
    """Workloads, each as its request has it."""

    def __init__(self, records: Sequence[DescribedWorkload], requests: Sequence[Request], gpus: Sequence[int]) -> None:
        super().__init__(records)
        self.requests = tuple(requests)
        self.gpus = tuple(gpus)  # that intensities are shared out over

    def answer(self) -> Answer:
        """What a workload is; or which intensities a family covers, and by which of its members."""
        if len(self) == 1:
            return shown_workload(self[0], self.requests[0].strategy.kind)
        ends: dict[str, list[float]] = {}
        for workload in self:
            family = workload.workload.partition("/")[0] + "/x" * ("/" in workload.workload)
            ends.setdefault(family, []).extend(workload.intensity_per_gpu.values())
        every = [value for values in ends.values() for value in values]
        by_family = (f"{name} {number(min(values))} to {number(max(values))}" for name, values in ends.items())
        told = f": {', '.join(by_family)}" if len(ends) > 1 else f" ({', '.join(ends)})"
        table = as_shown(workload_columns(self.gpus), self)
        return Answer(
            [f"From {number(min(every))} to {number(max(every))} activations per parameter on each GPU{told}."], table
        )

    def rows(self) -> list[Record]:
        """A row for each workload."""
        return [row(workload, leave_out=("model.kind", "stated")) for workload in self]

    def layers(self, place: int = 0) -> "list[Layer]":
        """The layers of one of the workloads."""
        request = self.requests[place]
        return workloads.table(request.model, request.image_size)


def shown_workload(workload: DescribedWorkload, strategy: str = "") -> Answer:
    """What one workload is; with a strategy, what each rank sends."""
    several = {gpus: figure(value) for gpus, value in workload.intensity_per_gpu.items() if gpus != "1"}
    split = f"; split over {_listed(several)} GPUs, {_listed(several.values())} on each" if several else ""
    if uneven := [gpus for gpus in several if workload.batch_size % int(gpus)]:
        split += f" in the mean, as {workload.batch_size} do not divide over {_listed(uneven)}"
    return Answer(
        [
            f"{workload.workload}, batch {workload.batch_size}: {figure(workload.intensity)} activations per "
            f"parameter{split}.",
            *([_messages(strategy, workload)] if strategy else []),
        ],
        as_shown(workload_columns(tuple(map(int, workload.intensity_per_gpu))), [workload]),
    )


ANSWERS["DescribedWorkload"] = shown_workload


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _messages(strategy: str, workload: DescribedWorkload) -> str:
    """What each rank sends in a step."""
    sizes_bytes = workload.messages_bytes
    one = {"server": "gradient to the server", "fsdp": "reduce-scatter"}.get(strategy, "all-reduce")
    several = one.replace("gradient", "gradients") if strategy == "server" else f"{one}s"
    what = f"{len(sizes_bytes)} {one if len(sizes_bytes) == 1 else several}"
    shown = [si(size, "B") for size in sizes_bytes[:MESSAGES]] if len(sizes_bytes) > 1 else []
    left = [f"{len(sizes_bytes) - MESSAGES} more"] if len(sizes_bytes) > MESSAGES else []
    more = {
        "fsdp": " Parameters are gathered block by block.",
        "zero1": " Updated parameters come back from each rank.",
    }
    whole = f", {si(sum(sizes_bytes), 'B')}{': ' * bool(shown)}{_listed([*shown, *left])}" if sizes_bytes else ""
    return f"strategy={strategy} sends {what} in a step{whole}.{more.get(strategy, '')}"


# ---- columns --------------------------------------------------------------------------------------------------------


def workload_columns(gpus: Sequence[int]) -> list[Column[Workload]]:
    """What is counted of workloads, and what a paper states of the same."""
    return [
        Column("workload", lambda workload: workload.workload),
        Column(
            ">image",
            lambda workload: f"{workload.tokens} tokens" if workload.tokens else f"{workload.image_size or ''}",
            2,
        ),
        Column(">batch", lambda workload: f"{workload.batch_size}"),
        Column(">act./image", lambda workload: f"{workload.activations_per_image:,}"),
        Column(">parameters", lambda workload: f"{workload.parameters:,}"),
        Column(">act./batch", lambda workload: si(workload.activations_per_batch), 4),
        Column(">act./param.", lambda workload: figure(workload.intensity), help=_OF_INTENSITY),
        *(_on(count) for count in gpus if count > 1),
        Column(">payload", lambda workload: si(workload.payload_bytes, "B"), 5),
        Column(">gradients", lambda workload: si(workload.gradient_bytes, "B"), 1),
        Column(">paper: act./image", lambda workload: _stated(workload, "activations_per_image"), 3),
        Column(">paper: parameters", lambda workload: _stated(workload, "parameters"), 3),
        Column(">paper: act./param.", lambda workload: _stated(workload, "intensity"), 3),
    ]


_OF_INTENSITY = "activations of the global batch per parameter, then of each GPU's share of it on n GPUs."


def _on(count: int) -> Column[Workload]:
    return Column(f">on {count}", lambda workload: figure(workload.intensity_per_gpu[str(count)]))


def _stated(workload: Workload, name: str) -> str:
    value = workload.stated.get(name)
    return "" if value is None else si(value) if value >= 10_000 else f"{value:g}"


def describe(**settings: Unpack[keywords.DescribeKeywords]) -> "Workloads | Proposals":
    """Counts workloads: those of a study (the paper's, where nothing is given), or of any settings.

    With `intensity`, settings of each family that do so much work per parameter on each GPU.

    >>> import resnetx
    >>> (found,) = resnetx.describe(model={"kind": "resnetx", "x": 4}, batch_size=64)
    >>> found.parameters, round(found.intensity)
    (259701, 1472)
    """
    given = asked("describe", settings)
    if given.get("intensity") is not None:
        return propose(given)
    if given.pop("memory", None) is not None:
        raise ConfigError("memory: limits what intensity= proposes; give intensity=, or leave it out")
    if uncounted := next((name for name in given if name in tagged("uncounted")), None):
        raise ConfigError(f"{uncounted}: changes nothing that is counted, only memory and copies; leave it out")
    out = given.pop("out", None)
    if out is not None and not given:
        given = dict(VERBS["describe"].nothing)
    _, points = points_of(given)
    gpus = _counts(given.get("gpus", GPU_COLUMNS))
    found: dict[tuple[str, str], tuple[DescribedWorkload, Request]] = {}
    for point in points:
        tree = compose({**point, "gpus": 1, "devices": None})
        request, convention = request_from(tree), run_settings_from(tree).convention
        if (key := (request.key, convention)) not in found:
            check(request)
            found[key] = workloads.described(request, convention, gpus), request
    made = Workloads([workload for workload, _ in found.values()], [request for _, request in found.values()], gpus)
    if out is not None:
        _store(made, Path(str(out)))
    return made


def _store(workloads: Workloads, folder: Path) -> None:
    """Writes the records, a table of them, and the page with its figures."""
    from resnetx.api import pages
    from resnetx.reporting.charts.records import counted_figures
    from resnetx.reporting.page import PageTable, Part

    drawings.store_rows(folder, "workloads", list(workloads))
    shown = as_shown(workload_columns(workloads.gpus), workloads)
    table = PageTable("counts", "Counted, layer by layer summed up", shown, workloads.table())
    figures = counted_figures(workloads, workloads.gpus)
    pages.store(
        Part("Workloads in intensity space", workloads.answer().sentences, figures=figures, tables=[table]), folder
    )


def _counts(given: object) -> list[int]:
    counts = given if isinstance(given, list) else [given]
    numbers = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    if len(numbers) < len(counts):
        raise ConfigError(f"gpus={given}: expected numbers of GPUs")
    setting_types.check({"gpus": numbers})
    return numbers


# ---- proposals ------------------------------------------------------------------------------------------------------
# `describe intensity=`: the settings of each family that do so much work per parameter on each GPU, and its map.
#
#     resnetx.describe(intensity=100, gpus=8, memory="16GB")
#
# Activations are in proportion to the batch, so that each setting of the other dials has one batch that comes nearest.
# Dials are tried from a family's defaults on, those that change least first; the first whose step fits into the memory
# and is near enough is proposed. Where none is, the nearest that fits is, and what is in the way is said.

NEAR = 0.05  # of the intensity that is asked for, what is near enough
CONVENTION = "conv"  # where none is asked for: the one that all families have in common
_NUMBERS = ("intensity", "gpus", "memory")
_QUESTION = (*_NUMBERS, "convention", "out")  # what is no setting of the user's own job
_DEPTHS = (1, 2, 4, 6, 8, 12, 16, 24, 32)
# Widths and sequences, first few and far between. What attention's heads share out comes in steps of 64.
_WIDTHS = {"resnetx": (8, 16, 2048), "gptx": (64, 64, 16384), "mlpx": (8, 32, 16384)}  # step, least, most
_SEQUENCES = (128, 256, 512, 1024, 2048, 4096)
_FINE = 8  # widths in each doubling, of what comes nearest


class Proposal(DescribedWorkload, frozen=True, kw_only=True):
    """A member of a family, or the user's own job, on so many GPUs."""

    family: str  # "": the user's own job
    settings: str  # what to type
    gpus: int
    on_each: float  # activations per parameter on each GPU
    memory_bytes: int  # that a step needs on each GPU, with a part of the batch on each
    limited_by: str  # what is in the way of coming nearer; "": nothing

    @property
    def flop_per_byte(self) -> float:
        """Of training, for each byte of gradients, on each GPU: the work that its messages can hide behind."""
        return 3 * self.flops_per_image * self.batch_size / self.gpus / self.gradient_bytes


class Proposals(Records[Proposal]):
    """What comes nearest in each family; the user's own job, if any, is last."""

    def __init__(self, records: Sequence[Proposal], intensity: float) -> None:
        super().__init__(records)
        self.intensity = intensity

    def answer(self) -> Answer:
        """Which settings to take, and where none is near enough, why."""
        proposals = [proposal for proposal in self if proposal.family]
        near = [f"{proposal.settings} ({proposal.on_each:,.4g})" for proposal in proposals if not proposal.limited_by]
        first = proposals[0]
        on = "one GPU" if first.gpus == 1 else f"each of {first.gpus} GPUs"
        asked = f"{self.intensity:,.4g} activations per parameter on {on} ({first.convention})"
        told = [f"{asked}: {'; '.join(near) if near else 'no family comes within 5%'}."]
        told += [
            f"{proposal.workload} comes to {proposal.on_each:,.4g}: {proposal.limited_by}."
            for proposal in proposals
            if proposal.limited_by
        ]
        told += [
            f"Your {proposal.workload} of batch {proposal.batch_size:,} is at {proposal.on_each:,.4g}, "
            f"{proposal.on_each / self.intensity:,.3g} times that, and does {proposal.flop_per_byte:,.4g} FLOP for "
            "each byte of gradients."
            for proposal in self
            if not proposal.family
        ]
        return Answer(told, as_shown(COLUMNS, self))


COLUMNS: list[Column[Proposal]] = [
    Column("workload", lambda proposal: proposal.workload),
    Column("settings", lambda proposal: proposal.settings, 8),
    Column(">batch", lambda proposal: f"{proposal.batch_size:,}"),
    Column(">on each GPU", lambda proposal: f"{proposal.on_each:,.4g}", help="activations per parameter on each GPU."),
    Column(
        ">FLOP/B",
        lambda proposal: number(proposal.flop_per_byte),
        6,
        "training's, for each byte of gradients, on each GPU.",
    ),
    Column(">memory", lambda proposal: si(proposal.memory_bytes, "B"), 7, "that a step needs on each GPU."),
    Column(">parameters", lambda proposal: si(proposal.parameters), 3),
    Column("~limit", lambda proposal: proposal.limited_by, 4),
]


def _shown_proposal(proposal: Proposal) -> Answer:
    """The settings, and what they come to."""
    on = f"{proposal.on_each:,.4g} activations per parameter on each of {proposal.gpus} GPUs"
    return Answer(
        [f"{proposal.settings or proposal.workload}: {on} ({proposal.convention})."], as_shown(COLUMNS, [proposal])
    )


ANSWERS["Proposal"] = _shown_proposal


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    intensity: float
    gpus: int = 1
    memory: str | int | None = None


def propose(given: Point) -> Proposals:
    """The proposals of all families; draws the map with `out=`."""
    if "study" in given or any(isinstance(value, list) for value in given.values()):
        raise ConfigError(
            "intensity: looks for settings on one number of GPUs; give one value for each setting, and no study"
        )
    question = convert({name: given[name] for name in _NUMBERS if given.get(name) is not None}, _Question)
    setting_types.check(msgspec.to_builtins(question))
    target, gpus, memory = question.intensity, question.gpus, setting_types.bytes_of("memory", question.memory)
    own = {name: value for name, value in given.items() if name not in _QUESTION}
    shared = {name: value for name, value in own.items() if name in ("precision", "strategy")}
    asked = _Asked(target, gpus, inf if memory is None else memory, str(given.get("convention", CONVENTION)), shared)
    proposals = [asked.proposed(family) for family in _WIDTHS]
    if own.keys() - shared.keys():
        proposals.append(asked.job(own))
    made = Proposals(proposals, target)
    if given.get("out") is not None:
        _store_proposals(made, asked, Path(str(given["out"])))
    return made


class _Asked:
    """What is looked for."""

    def __init__(self, target: float, gpus: int, memory: float, convention: str, shared: Point) -> None:
        self.target, self.gpus, self.memory, self.convention, self.shared = target, gpus, memory, convention, shared
        self.most = int(TABLE["batch_size"].range.most) // gpus  # type: ignore[union-attr]

    def proposed(self, family: str) -> Proposal:
        """The first member near enough that fits; else the nearest, with what is in its way."""
        request = self._request({"model": family})
        usual: ModelChoice = request.model
        best, free, least = (inf, usual, 1), (inf, usual), inf
        for members in (_members(family, usual), None):
            # With finer widths for what comes nearest, however much memory it takes.
            for model in members or _finer(family, free[1]):
                each = self._each(model, request.image_size)
                images = min(self.most, max(1, round(self.target / each)))
                off, least = abs(each * images / self.target - 1), min(least, each)
                free = min(free, (off, model), key=lambda found: found[0])
                if off >= best[0]:
                    continue
                fitting = self._fitting(model, request, images)
                off = abs(each * fitting / self.target - 1) if fitting else inf
                if off < best[0]:
                    best = (off, model, fitting)
                if best[0] <= NEAR:
                    return self._made(family, best[1], best[2], "")
        if best[0] == inf:
            raise ConfigError(f"memory={si(self.memory, 'B')}: no member of {family} fits into it; give more")
        if free[0] <= NEAR:
            why = f"what comes nearer needs more than {si(self.memory, 'B')} on each GPU"
        elif least > self.target:
            why = f"one sample on each GPU is {least:,.3g} in its widest member"
        else:
            why = f"it takes more than {self.most:,} samples on each GPU, or a narrower one than there is"
        return self._made(family, best[1], best[2], why)

    def job(self, own: Point) -> Proposal:
        """The user's own."""
        point = one_point(own, "give one value for each setting")
        request = request_from(compose({**point, "gpus": 1, "devices": None}))
        check(request)
        return self._of(request, "", " ".join(written(point)), "")

    def member(self, family: str, dials: Mapping[str, int], images: int) -> Proposal:
        """Some member of a family, for the map."""
        words = {"model": family, **{f"model.{name}": value for name, value in dials.items()}}
        request = self._request({**words, "batch_size": images * self.gpus})
        return self._of(request, family, " ".join(written(words)), "")

    def _request(self, words: Point) -> Request:
        return request_from(compose({"gpus": 1, "input": "synthetic", **self.shared, **words}))

    def _each(self, model: Any, image_size: int) -> float:
        """Activations per parameter of one sample."""
        return workloads.intensity(model, image_size, self.convention)

    def _fitting(self, model: Any, request: Request, images: int) -> int:
        """The most samples on each GPU that fit, up to so many; 0: not one."""
        table = workloads.table(model, request.image_size)

        def needed(samples: int) -> int:
            return self._needed(table, request, samples)

        if (whole := needed(images)) <= self.memory:
            return images
        if (one := needed(1)) > self.memory:
            return 0
        # What is needed is convex in the batch: what the chord says is enough.
        return 1 + int((self.memory - one) / (whole - one) * (images - 1))

    def _needed(self, table: Sequence[workloads.Layer], request: Request, samples: int) -> int:
        from resnetx.prediction.memory import step_bytes  # with NumPy, which nothing else here needs

        strategy = request.strategy if self.gpus > 1 else NoExchange()  # one rank sends nothing
        return step_bytes(request, table, samples, strategy, gpus=self.gpus)

    def _made(self, family: str, model: ModelChoice, images: int, limit: str) -> Proposal:
        dials = {name: value for name, value in msgspec.structs.asdict(model).items() if name in ("x", "width", "seq")}
        return msgspec.structs.replace(self.member(family, dials, images), limited_by=limit)

    def _of(self, request: Request, family: str, words: str, limit: str) -> Proposal:
        workload = workloads.described(request, self.convention, [self.gpus])
        images, model = -(-request.batch_size // self.gpus), request.model
        batch = "" if "batch_size" in words else f" batch_size={request.batch_size}"
        return Proposal(
            **fields(workload, *workload.__struct_fields__),
            family=family,
            settings=words + batch,
            gpus=self.gpus,
            on_each=workload.intensity / self.gpus,
            memory_bytes=self._needed(workloads.table(model, request.image_size), request, images),
            limited_by=limit,
        )


def _members(family: str, usual: ModelChoice) -> Iterator[ModelChoice]:
    """Members with other dials, those that change least first."""
    default: dict[str, int] = {name: value for name, value in msgspec.structs.asdict(usual).items() if value}
    dials = {"x": _DEPTHS, "width": _widths(family, default["width"], 1)}
    if "seq" in default:
        dials["seq"] = _SEQUENCES
    members = (dict(zip(dials, values, strict=True)) for values in product(*dials.values()))

    def changed(member: dict[str, int]) -> float:
        return sum(abs(log(value / default[name])) for name, value in member.items())

    return (msgspec.structs.replace(usual, **member) for member in sorted(members, key=changed))


def _finer(family: str, nearest: ModelChoice) -> Iterator[ModelChoice]:
    """The same member with other widths."""
    width = msgspec.structs.asdict(nearest)["width"]
    return (msgspec.structs.replace(nearest, width=finer) for finer in _widths(family, width, _FINE))


def _widths(family: str, around: int, steps: int) -> tuple[int, ...]:
    """So many in each doubling, the nearest first."""
    step, least, most = _WIDTHS[family]
    reach = int(log2(most / least)) * steps
    powers = sorted(range(-reach, reach + 1), key=abs)
    widths = dict.fromkeys(max(1, round(around * 2 ** (power / steps) / step)) * step for power in powers)
    return tuple(width for width in widths if least <= width <= most)


def _store_proposals(proposals: Proposals, asked: _Asked, folder: Path) -> None:
    """Writes the records, a table of them, and the page with the map."""
    from resnetx.api import pages
    from resnetx.reporting.charts.records import counted_figures, intensity_map
    from resnetx.reporting.page import PageTable, Part

    members = [
        asked.member(family, {"width": width}, images)
        for family, widths in _MAPPED.items()
        for width in widths
        for images in _MAPPED_BATCHES
    ]
    drawings.store_rows(folder, "workloads", list(proposals))
    answer = proposals.answer()
    figures = [intensity_map(members, proposals, proposals.intensity), *counted_figures(proposals, [asked.gpus])]
    tables = [PageTable("proposals", "What comes nearest", answer.table or proposals.table(), proposals.table())]
    title = f"Workloads of {proposals.intensity:,.4g} activations per parameter on each GPU"
    pages.store(Part(title, answer.sentences, figures=figures, tables=tables), folder)


_MAPPED = {"resnetx": (16, 64, 256), "gptx": (128, 768, 4096), "mlpx": (256, 1024, 4096)}
_MAPPED_BATCHES = (1, 4, 16, 64, 256, 1024)

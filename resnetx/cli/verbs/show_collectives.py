"""Screens of collectives: what they cost, which GPUs to choose for them, and how far off such times are."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from resnetx.api.drawings import distinct, gpu_ids, rings_of
from resnetx.api.topology_answers import (
    COSTS,
    LAUNCH_TOLD,
    Ranking,
    busbw_interval,
    collective_cost,
    explained,
    how_sure,
    place_of,
    stated_error,
)
from resnetx.cli import show
from resnetx.interconnect.collectives.collective_errors import error_of, table
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.record.topologies import CollectiveCost
from resnetx.table import Column
from resnetx.units import GBps, in_GBps, number, size_text

if TYPE_CHECKING:
    from resnetx.interconnect.collectives.collective_errors import ErrorTable, KindErrors
    from resnetx.interconnect.collectives.subsets import GpuSubset
    from resnetx.literature.collectives import CollectiveRow, CollectiveSummary


def costs(plan: CollectivePlan, sizes: Sequence[int]) -> None:
    """What a collective costs by size, why, and over which rings."""
    rows = [collective_cost(plan, size) for size in sizes]
    show.listing([column for column in COSTS if column.heading not in _PLACES], rows, _what(plan), _untold(rows[:-1]))
    if show.everything():
        _explanation(plan, sizes[-1])
        return
    for sentence in explained(plan, sizes[-1]) if rows[-1].open else plan.why(sizes[-1]):
        show.say(sentence)
    _sure(plan, sizes)
    show.more(MORE)


def _untold(costs: Sequence[CollectiveCost]) -> str:
    return f"?: open until {LAUNCH_TOLD} is told." * any(cost.open == LAUNCH_TOLD for cost in costs)


Priced = tuple[CollectivePlan, CollectiveCost]
_OTHERS = ", counted on other kinds of machines"
MORE = "rings, algorithms, what else it would take: --all"


def _sure(plan: CollectivePlan, sizes: Sequence[int]) -> None:
    """Of the largest size."""
    error, by_launch = stated_error(plan, sizes[-1]), error_of(plan, sizes[-1]).launch_open
    alike = len({error_of(plan, size_bytes).q90 for size_bytes in sizes}) == 1
    off = f"{'such times' if alike else f'times of {size_text(sizes[-1])}'} are off by "
    told = f"with {LAUNCH_TOLD} told, " * by_launch
    text = error.text.removeprefix("Error ").replace("Off by ", off, 1)
    mean, whose = (f"{off}{error.mean:.1%}, " * error.mean_counted, "") if error.known else ("", _OTHERS)
    brief = f"sure: {told}{mean}90% within {error.q90:.1%}{whose}.{error.flow_text}"
    said = f"sure: {told}{text}"
    show.say(said, indent=2, brief=brief if error.points else "sure: not known.")


def _explanation(plan: CollectivePlan, size_bytes: int) -> None:
    for sentence in (*explained(plan, size_bytes), how_sure(plan, size_bytes)):
        show.say(sentence)
    for name, ring, rate_Bps in distinct(rings_of(plan, plan.cost(size_bytes))):
        show.say(f"  {name}: {' '.join(map(str, ring.order))}, {in_GBps(rate_Bps)}", indent=2)


def _what(plan: CollectivePlan) -> str:
    return f"{plan.collective} on {plan.system.name}, {gpu_ids(plan.devices)}, library={plan.library}"


def side_by_side(plans: Sequence[CollectivePlan], sizes: Sequence[int]) -> None:
    """Several collectives, systems, numbers of GPUs or generations of the library: who is ahead, then a table.

    In it the fastest is first; of many rows, of several collectives or numbers of GPUs, it has the largest size alone.
    """
    rows: list[Priced] = []
    verdicts = []
    asked = {(plan.collective, plan.devices) for plan in plans}
    many = len(asked) > 1 and len(plans) * len(sizes) > show.ROWS and not show.everything()
    shown = sizes[-1:] if many else sizes
    if len(shown) < len(sizes):
        show.leave_out(f"{len(sizes) - 1} other size{'s' * (len(sizes) > 2)}")
    for size_bytes in shown:
        rows += [
            (plan, collective_cost(plan, size_bytes)) for alike in _alike(plans) for plan in _ranked(alike, size_bytes)
        ]
        for name, gpus in dict.fromkeys((plan.collective, len(plan.devices)) for plan in plans):
            same = [plan for plan in plans if (plan.collective, len(plan.devices)) == (name, gpus)]
            ranks = [_ranked(alike, size_bytes) for alike in _alike(same)]
            ranks = [rank for rank in ranks if len({plan.system.name for plan in rank}) > 1]
            if len({rank[0].system.name for rank in ranks}) > 1:
                verdicts.append(_verdict(ranks, size_bytes))
    for verdict in verdicts:
        show.say(verdict)
    if verdicts:
        show.say()
    first = plans[0]
    title = f"{first.collective}, {gpu_ids(first.devices)}, side by side" if len(asked) == 1 else ""
    crossed = [] if show.everything() else _crossed([cost for _, cost in rows])
    untold = _untold([cost for _, cost in rows])
    if crossed:
        note = f"GB/s: bus bandwidth. Intervals: --all. {untold}".strip()
        show.listing(crossed, sorted({_key(cost) for _, cost in rows}), note=note, keep=lambda key: key[0] == sizes[-1])
    else:
        columns: list[Column[Priced]] = [column.of(lambda row: row[1]) for column in COSTS]
        columns.insert(_AT_NETWORK, Column("network", lambda row: row[0].system.network or ""))
        named = _named(rows, sizes[-1])
        show.listing(columns, rows, title, untold, keep=lambda row: row in named)
    for plan in plans if len(plans) <= EXPLAINED or show.everything() else []:
        if show.everything():
            show.say()
            show.say(_what(plan), style="bold")
            _explanation(plan, sizes[-1])
        else:
            show.say(f"{_told_apart(plan, plans)}: {explained(plan, sizes[-1])[0]}")
            _sure(plan, sizes)
    if not show.everything():
        show.more(MORE)


EXPLAINED = 4  # plans, of each of which a line says why
_AT_NETWORK = 1 + [column.heading for column in COSTS].index("system")


def _named(rows: Sequence[Priced], size_bytes: int) -> list[Priced]:
    """The rows that the answer names: of each collective the fastest and the slowest at that size."""
    named = []
    for name in {cost.collective for _, cost in rows}:
        own = [row for row in rows if (row[1].collective, row[1].size_bytes) == (name, size_bytes)]
        own.sort(key=lambda row: row[0].cost(size_bytes).time_s)
        named += [own[0], own[-1]]
    return named


def _told_apart(plan: CollectivePlan, plans: Sequence[CollectivePlan]) -> str:
    """A plan by what differs among several: "8 GPUs of dgx1-v100 with nccl2"."""
    collectives = f"{plan.collective} on " * (len({other.collective for other in plans}) > 1)
    return collectives + place_of(plan, plans, counted=False)


def _ranked(plans: Sequence[CollectivePlan], size_bytes: int) -> list[CollectivePlan]:
    return sorted(plans, key=lambda plan: plan.cost(size_bytes).time_s)


def _alike(plans: Sequence[CollectivePlan]) -> list[list[CollectivePlan]]:
    """The plans by collective, number of GPUs, library and transport: what a system can be ahead in."""
    found: dict[object, list[CollectivePlan]] = defaultdict(list)
    for plan in plans:
        found[plan.collective, len(plan.devices), plan.library, plan.transport].append(plan)
    return list(found.values())


def _verdict(ranks: Sequence[Sequence[CollectivePlan]], size_bytes: int) -> str:
    """Why one system is ahead with one generation of the library, and another one with another."""
    said = []
    for rank in ranks:
        first, last = rank[0], rank[-1]
        ahead, behind = (place_of(plan, rank, counted=False) for plan in (first, last))
        slow = last.cost(size_bytes)
        ratio = slow.time_s / first.cost(size_bytes).time_s
        said.append(
            f"with {first.library}, {ahead} is {ratio:.2f} times as fast as {behind} (which "
            f"{slow.limiting_link} limits)"
        )
    return f"At {size_text(size_bytes)} the library's generation decides who is ahead: {'; '.join(said)}."


def both_ends(choices: "Sequence[GpuSubset]") -> "Sequence[GpuSubset]":
    """The best choice and the worst one, where that is another."""
    return choices[:: max(len(choices) - 1, 1)]


RANKINGS: "list[Column[tuple[Ranking, GpuSubset]]]" = [
    Column("system", lambda row: row[0].machine.name),
    Column("collective", lambda row: row[0].collective),
    Column("library", lambda row: row[0].library),
    Column("choice", lambda row: "best" if row[1] is row[0].choices[0] else f"worst of {len(row[0].choices)}"),
    Column("GPUs", lambda row: " ".join(map(str, row[1].devices))),
    Column(">busbw GB/s", lambda row: GBps(row[1].busbw_Bps)),
    Column("~limited by", lambda row: row[1].plan.cost(row[0].size_bytes).limiting_link, 3),
]


def show_choices(subsets: "Sequence[GpuSubset]", size_bytes: int) -> None:
    """The best and the worst choices of GPUs, and the line that takes the best."""
    likes = {choice.like.devices: choice.like for choice in subsets}
    without = {devices for devices, plan in likes.items() if plan.lanes is not None and _through_cpu(plan)}
    ringless = sum(choice.like.devices in without for choice in subsets)
    columns: list[Column[GpuSubset]] = [
        Column("GPUs", lambda choice: " ".join(map(str, choice.devices))),
        Column(">busbw GB/s", lambda choice: GBps(choice.busbw_Bps)),
        Column("interval", lambda choice: " to ".join(map(GBps, busbw_interval(choice.like, size_bytes) or ()))),
        Column("~limited by", lambda choice: choice.plan.cost(size_bytes).limiting_link),
    ]
    note = f"{ringless} of these choices have no NVLink ring." if ringless else ""
    show.listing(columns, subsets, note=note, by="the best and the worst", constant=True)
    if command := subsets[0].command:
        show.line(f"export {command}")


def _through_cpu(plan: CollectivePlan) -> bool:
    return any(plan.system.component(name).kind == "cpu" for ring in plan.rings for name in ring.walk)


Key = tuple[int, int]  # a size in bytes, and a number of GPUs


def _key(cost: CollectiveCost) -> Key:
    return cost.size_bytes, len(cost.devices)


def _crossed(costs: Sequence[CollectiveCost]) -> list[Column[Key]]:
    """A row for each size and number of GPUs, with what each system or collective does there.

    [] of too few or many, and where they differ in anything else, as which GPUs or the network.
    """
    names = [(cost.collective, cost.system, cost.library, cost.transport) for cost in costs]
    varied = [place for place in range(4) if len({name[place] for name in names}) > 1]
    if varied[:2] == [1, 2] and len({(name[1], name[2]) for name in names}) == len({name[1] for name in names}):
        varied.remove(2)  # a library that goes by the system alone
    series: dict[str, dict[Key, CollectiveCost]] = defaultdict(dict)
    for cost, name in zip(costs, names, strict=True):
        series[" ".join(name[place] for place in varied)][_key(cost)] = cost
    keys = {_key(cost) for cost in costs}
    if sum(map(len, series.values())) < len(costs):
        return []
    if not 1 < len(series) <= EXPLAINED or len(keys) < 2 or any(len(points) < len(keys) for points in series.values()):
        return []
    sizes, counts = ({key[place] for key in keys} for place in (0, 1))
    columns: list[Column[Key]] = [Column(">size", lambda key: size_text(key[0]))] * (len(sizes) > 1)
    columns += [Column(">GPUs", lambda key: f"{key[1]}")] * (len(counts) > 1)
    unit, factor = ("ms", 1e3) if min(cost.time_s or 0.0 for cost in costs) >= LONG_s else ("us", 1e6)
    for label, points in series.items():
        columns += _of_series(f"{label} {unit}", points, factor)
    return columns


LONG_s = 5e-4  # from which on all times of a table are told in ms


def _of_series(heading: str, costs: Mapping[Key, CollectiveCost], factor: float) -> Iterator[Column[Key]]:
    yield Column(f">{heading}", lambda key: "?" if (time_s := costs[key].time_s) is None else number(time_s * factor))
    yield Column(">GB/s", lambda key: "?" if (rate_Bps := costs[key].busbw_Bps) is None else GBps(rate_Bps))


_PLACES = ("collective", "library", "transport", "system", ">GPUs")  # columns that the title of one plan has


# ---- the model's truth ----------------------------------------------------------------------------------------------


def validation(rows: "Sequence[CollectiveRow]", summaries: "Sequence[CollectiveSummary]") -> None:
    """How far off the model is of each group of published measurements, and of each kind that is left out.

    Then the measurements of groups of which too few are within what is stated; with --all those of every group.
    """
    if show.everything():
        note = "Without the rows that are explained. calibrated: from measured points of other sizes."
        title = "How far off the model is of published measurements"
        show.listing(_SUMMARIES, summaries, title, note, every=True)
        show.say()
    _left_out(table())
    show.figures_of_groups(summaries, _VALIDATION, rows, "measurements beside what the model says")


def _left_out(errors: "ErrorTable") -> None:
    """The mean error of each kind of machine, with all fitted and with itself left out, beside what is simpler."""
    title = "Mean |ln(predicted / measured)| of kinds of machine"
    kinds = sorted(errors.kinds, key=lambda kind: -kind.points)
    shown = kinds if show.everything() else kinds[: show.fitting_rows(min(show.ROWS, len(kinds)))]
    more = f"The other {len(kinds) - len(shown)} have {sum(kind.points for kind in kinds[len(shown) :])} figures."
    show.listing(_KINDS_LEFT_OUT, shown, title, more * (len(shown) < len(kinds)), every=True)
    everything = errors.bands[0]
    model, *rivals = (
        f"{judged.half_width:.0%} wide with {judged.within_by_kind:.0%} of each kind inside ({name})"
        for name, judged in everything.ways
    )
    show.say(f"Intervals for 90%, from the other kinds alone: {'; '.join([model, *rivals])}.")


def _unit(row: "CollectiveRow") -> str:
    quantity, _, unit = row.unit.partition("_")
    return " ".join(filter(None, (quantity, {"GBps": "GB/s"}.get(unit, unit))))


_SUMMARIES: "list[Column[CollectiveSummary]]" = [
    Column("verdict", lambda group: "holds" if group.holds else "MISSED"),
    Column(">rows", lambda group: f"{group.rows}", 2),
    Column(
        ">not known", lambda group: f"{group.unseen}", 1, "figures that were not known while the model was written."
    ),
    Column(">mean", lambda group: _percent(group.mean_error)),
    Column(">stated", lambda group: _percent(group.stated_error), help="the mean error that such plans are given."),
    Column(">worst", lambda group: _percent(group.worst_error)),
    Column(
        ">inside",
        lambda group: "" if group.within is None else f"{group.within:.0%}",
        help="how many are within what is stated for 90%.",
    ),
    Column("~group", lambda group: group.about),
]
_KINDS_LEFT_OUT: "list[Column[KindErrors]]" = [
    Column("~kind of machine", lambda kind: kind.name),
    Column(">figures", lambda kind: f"{kind.points}", 1),
    Column(">fitted", lambda kind: _percent(kind.fitted), 2),
    Column(">left out", lambda kind: _percent(kind.left_out), help="of the fit."),
    Column(">alpha-beta", lambda kind: _percent(kind.alpha_beta), help="latency and bandwidth, fitted to the others."),
    Column(">power law", lambda kind: _percent(kind.power_law)),
]
_VALIDATION: "list[Column[CollectiveRow]]" = [
    Column("system", lambda row: row.system),
    Column("library", lambda row: row.library, 3),
    Column("collective", lambda row: row.collective),
    Column(">GPUs", lambda row: f"{row.gpus}"),
    Column(">size", lambda row: size_text(row.size_bytes)),
    Column(">measured", lambda row: _figure(row.measured)),
    Column(">model", lambda row: _figure(row.predicted)),
    Column("unit", _unit),
    Column(">off by", lambda row: f"{100 * row.error:+.1f}%"),
    Column("known", lambda row: ", ".join(["known" if row.seen else "not known", *["calibrated"] * row.calibrated]), 1),
    Column("~explained", lambda row: row.explained or "", 2),
]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"

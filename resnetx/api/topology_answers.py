"""The answers to questions about described systems, and the records of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from itertools import combinations
from math import exp, log, sqrt
from typing import Any, NamedTuple, TypeVar

from resnetx import progress, table
from resnetx.api import drawings
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import plan
from resnetx.interconnect.collectives.collective_errors import MeasuredError, error_of
from resnetx.interconnect.collectives.measured import Calibration, SizeCurve
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.collectives.published import with_published
from resnetx.interconnect.collectives.subsets import MANY, GpuSubset
from resnetx.interconnect.pairs import classes, costs
from resnetx.interconnect.pairs.classes import DescribedPair
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import by_node
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import System
from resnetx.prediction.scenario import STAGED, STAGED_RATES, Deployment, StagedPaths, fastest_paths
from resnetx.record.topologies import CollectiveCost, GpuChoice, KnownSystem, PairAtSize, PairCosts, Route, SystemLinks
from resnetx.table import ANSWERS, ONLY_WITH_ALL, Column, as_shown
from resnetx.units import GBps, number, size_text, to_interval

T = TypeVar("T")

ALL_PAIRS_GPUS = 128  # of more GPUs, only the pairs with GPU 0 are looked at
TOLD_COLLECTIVES = 2  # of more, one sentence says what they have in common
ALLREDUCED_BYTES = 2**26  # of what is said of a system first


@dataclass(frozen=True)
class Listed:
    """The systems that come with resnetx, with a sentence each."""

    about: Mapping[str, str]

    def answer(self) -> list[str]:
        """How many there are."""
        return [f"{len(self.about)} systems come with resnetx; a YAML file of your own works as well."]

    def records(self) -> Iterator[KnownSystem]:
        """One for each system."""
        yield from (KnownSystem(system=name, about=about) for name, about in self.about.items())


@dataclass(frozen=True)
class Described:
    """Systems: who is linked to whom."""

    systems: Sequence[tuple[System, Transport]]

    def answer(self) -> list[str]:
        """What copies and an all-reduce reach on it; of several, on the best and on the worst."""
        if len(self.systems) == 1:
            return [described(*self.systems[0])]
        known = [each for each in (reach_of(*system) for system in self.systems) if each.busbw_Bps]
        if not known:
            return [f"{len(self.systems)} systems are described; what an all-reduce reaches on them is not known."]
        told = [_Rate(each.busbw_Bps, [f"on {each.system}", _over(each.transport)]) for each in known]
        said = _compared(f"an all-reduce of {size_text(ALLREDUCED_BYTES)} over all GPUs reaches", BUS, told)
        return [said if len(known) == len(self.systems) else f"{said[:-1]}; of the others it is not known."]

    def records(self) -> Iterator[SystemLinks]:
        """One for each system."""
        yield from (links_of(*each) for each in self.systems)


@dataclass(frozen=True)
class Paired:
    """What copies of some sizes cost between every ordered pair of GPUs of systems."""

    systems: Sequence[tuple[System, Transport]]
    sizes: Sequence[int]

    def answer(self) -> list[str]:
        """What copies get at the largest size, between the best and the worst pair of the best system and the worst."""
        size_bytes = max(self.sizes)
        told = []
        for machine, transport in self.systems:
            ways = classes.described_pairs(machine, transport)
            rates_Bps = [_pair_at_size(machine, way, size_bytes).bandwidth_Bps for way in ways]
            fast, slow = GBps(max(rates_Bps)), GBps(min(rates_Bps))
            names = [f"on {machine.name}", _over(transport)]
            told.append(_Rate(max(rates_Bps), names, f"at worst {slow}" * (slow != fast)))
        what = f"copies of {size_text(size_bytes)} between two {self.systems[0][0].unit}s reach"
        return [_compared(what, "GB/s", told)]

    def records(self) -> Iterator[PairCosts]:
        """One for each system and size."""
        for machine, transport in self.systems:
            ways = classes.described_pairs(machine, transport)
            for size_bytes in self.sizes:
                yield PairCosts(
                    system=machine.name,
                    transport=transport,
                    size_bytes=size_bytes,
                    pairs=[_pair_at_size(machine, way, size_bytes) for way in ways],
                    error_source=costs.SOURCE,
                )


@dataclass(frozen=True)
class Routed:
    """Every path that an application could choose between two GPUs, by system."""

    routes: Sequence[tuple[System, Sequence[paths.Path]]]

    def answer(self) -> list[str]:
        """The fastest way on each system."""
        found = [_fastest(machine, machine_paths) for machine, machine_paths in self.routes if machine_paths]
        return [f"{'; '.join(found)}."] * bool(found)

    def records(self) -> Iterator[Route]:
        """One for each path."""
        for machine, machine_paths in self.routes:
            for path in machine_paths:
                yield Route(
                    **table.fields(path, "source", "target", "kind", "bandwidth_Bps", "duplex_Bps", "latency_s"),
                    system=machine.name,
                    names=list(path.names),
                    limiting_link=path.limit,
                )


@dataclass(frozen=True)
class Costed:
    """What a collective costs, on every system asked for and with every generation of the library."""

    plans: Sequence[CollectivePlan]
    sizes: Sequence[int]

    def answer(self) -> list[str]:
        """What each collective takes, with what nine of ten times are within; of several systems, over the fastest."""
        names = dict.fromkeys(plan.collective for plan in self.plans)
        of_each = [[plan for plan in self.plans if plan.collective == name] for name in names]
        if len(of_each) > TOLD_COLLECTIVES:
            return [self._of_many(of_each)]
        first, *others = map(self._of, of_each)
        return [f"Predicted: {first}", *(f"{other[0].upper()}{other[1:]}" for other in others)]

    def _of_many(self, of_each: Sequence[Sequence[CollectivePlan]]) -> str:
        """Of many collectives: the fastest and the slowest; of several places, how much longer they take on one."""
        size_bytes = self.sizes[-1]
        what = f"{len(of_each)} collectives of {size_text(size_bytes)}"

        def taken_s(plan: CollectivePlan) -> float:
            return plan.cost(size_bytes).time_s

        ranked = [sorted(plans, key=taken_s) for plans in of_each]
        if len(ranked) == len(self.plans):
            costs = [
                collective_cost(plan, size_bytes) for (plan,) in sorted(ranked, key=lambda plans: taken_s(plans[0]))
            ]
            fast, slow = (f"{cost.collective} takes {_collective_time(cost)}" for cost in (costs[0], costs[-1]))
            return f"Predicted: of {what} over {place_of(self.plans[0], self.plans[:1])} {fast}, {slow}."
        ratios = [(plans[-1].cost(size_bytes).time_s / plans[0].cost(size_bytes).time_s, plans[0]) for plans in ranked]
        low, high = (
            f"{ratio:.2f} ({plan.collective})"
            for ratio, plan in sorted(ratios, key=lambda each: each[0])[:: len(ratios) - 1]
        )
        fastest, slowest = ({place_of(plans[end], plans) for plans in ranked} for end in (0, -1))
        best = fastest.pop() if len(fastest) == 1 else "what is fastest for each"
        worst = slowest.pop() if len(slowest) == 1 else "what is slowest"
        return f"Predicted: {what} take {low} to {high} times as long over {worst} as over {best}."

    def _of(self, plans: Sequence[CollectivePlan]) -> str:
        size_bytes = self.sizes[-1]
        ranked = sorted(plans, key=lambda plan: plan.cost(size_bytes).time_s)
        best, worst = ranked[0], ranked[-1]
        cost, slow = collective_cost(best, size_bytes), collective_cost(worst, size_bytes)
        what = f"{best.collective} of {size_text(size_bytes)} over {place_of(best, plans)}"
        sentence = f"{what} takes {_collective_time(cost)}"
        if len(plans) == 1:
            return f"{sentence}{_bus(cost)}, limited by {cost.limiting_link}."
        sentence = f"{sentence}; over {place_of(worst, plans)} {_collective_time(slow)}"
        if cost.time_s is None or slow.time_s is None:
            return f"{sentence}."
        return f"{sentence}, {number(slow.time_s / cost.time_s)} times as long."

    def records(self) -> Iterator[CollectiveCost]:
        """One for each plan and size."""
        yield from (collective_cost(plan, size_bytes) for plan in self.plans for size_bytes in self.sizes)


@dataclass(frozen=True)
class Ranked:
    """The choices of some of the free GPUs of a system for each collective and library."""

    rankings: Sequence["Ranking"]

    def answer(self) -> list[str]:
        """The best choice, beside the worst; of several rankings the best of each."""
        first, *others = self.rankings
        if not others:
            best, worst = first.choices[0], first.choices[-1]
            what = f"{first.collective} of {size_text(first.size_bytes)} with {first.library}"
            rest = f"; the worst of {len(first.choices)} choices {GBps(worst.busbw_Bps)}" if best is not worst else ""
            reach = f"{_gpus(best)} reach {GBps(best.busbw_Bps)} GB/s bus bandwidth ({what})"
            return [f"Predicted: on {first.machine.name} {reach}{rest}."]
        told = []
        for each in self.rankings:
            names = [f"on {each.machine.name}", f"for {each.collective}", f"with {each.library}"]
            told.append(_Rate(each.choices[0].busbw_Bps, names, _gpus(each.choices[0])))
        what = f"the best {len(first.choices[0].devices)} GPUs, at {size_text(first.size_bytes)}, reach"
        return [_compared(what, BUS, told)]

    def records(self) -> Iterator[GpuChoice]:
        """One for each choice."""
        for ranking in self.rankings:
            many = len(ranking.choices) > MANY
            with progress.counting("choices of GPUs", len(ranking.choices)) if many else nullcontext() as advance:
                for choice in ranking.choices:
                    yield GpuChoice(
                        system=ranking.machine.name,
                        collective=ranking.collective,
                        library=choice.plan.library,
                        size_bytes=ranking.size_bytes,
                        devices=list(choice.devices),
                        busbw_Bps=choice.busbw_Bps,
                        interval_Bps=busbw_interval(choice.like, ranking.size_bytes),
                        limiting_link=choice.plan.cost(ranking.size_bytes).limiting_link,
                        command=choice.command,
                    )
                    if advance:
                        advance(1)


@dataclass(frozen=True)
class Ranking:
    """The choices of some of the free GPUs of one system, the best first."""

    machine: System
    library: str
    collective: str
    size_bytes: int
    choices: Sequence[GpuSubset]


def _gpus(choice: GpuSubset) -> str:
    return f"GPUs {' '.join(map(str, choice.devices))}"


BUS = "GB/s bus bandwidth"


class _Rate(NamedTuple):
    """What is reached where."""

    rate_Bps: float
    names: Sequence[str]  # "on gx8", "with nccl2": of all rates the same places
    more: str = ""

    def text(self, unit: str, differing: Sequence[int]) -> str:
        where = " ".join(self.names[place] for place in differing)
        more = f"({self.more})" * bool(self.more)
        return " ".join(filter(None, [GBps(self.rate_Bps), unit, where, more]))


def _over(transport: Transport) -> str:
    return f"with transport={transport}" if transport != "auto" else "as described"


def _compared(what: str, unit: str, told: Sequence[_Rate]) -> str:
    """The best and the worst rate: "Predicted with nccl2: ... 66.0 GB/s on dgx1-p100, 8.99 on gx8"."""
    differing = [
        place for place, names in enumerate(zip(*(each.names for each in told), strict=True)) if len(set(names)) > 1
    ]
    common = [name for place, name in enumerate(told[0].names) if place not in differing and name != "as described"]
    best, *_, worst = sorted(told, key=lambda each: -each.rate_Bps) * (1 + (len(told) == 1))
    text = f"{' '.join(['Predicted', *common])}: {what} {best.text(unit, differing)}"
    if len(told) > 1:
        text += f", {worst.text('', differing)}" + f"; the slowest of {len(told)}" * (len(told) > 2)
    return f"{text}."


def joined(found: "Sequence[Answer]") -> "Answer":
    """Answers of one kind, as to each of several transports, as one."""
    first = found[0]
    if isinstance(first, Listed):
        return first
    name = fields(first)[0].name  # of the systems, routes, plans or rankings that it is about
    whole: dict[str, Any] = {name: [each for answer in found for each in getattr(answer, name)]}
    return replace(first, **whole)


Answer = Listed | Described | Paired | Routed | Costed | Ranked


class Reach(NamedTuple):
    """What copies and an all-reduce reach on a system; 0: not known."""

    system: str
    transport: Transport
    gpus: int
    fast_Bps: float = 0.0  # of a large copy, between the best pair of GPUs
    slow_Bps: float = 0.0
    busbw_Bps: float = 0.0  # of an all-reduce of ALLREDUCED_BYTES over all
    limit: str = ""


def reach_of(system: System, transport: Transport) -> Reach:
    """What copies and an all-reduce reach on a system of some GPUs that are alike."""
    count = len(system.gpus)
    reach = Reach(system.name, transport, count)
    if not 2 <= count <= ALL_PAIRS_GPUS or len({gpu.part_name for gpu in system.gpus}) > 1:
        return reach
    way: Transport = "auto" if transport == "peer" else transport
    rates_Bps = [paths.copy_path(system, a, b, way).bandwidth_Bps for a, b in combinations(range(count), 2)]
    reach = reach._replace(fast_Bps=max(rates_Bps), slow_Bps=min(rates_Bps))
    try:
        planned = plan.plan(system, "allreduce", range(count), transport=transport)
    except ConfigError:  # a rate that its file does not know
        return reach
    if is_undecided(planned):
        return reach
    cost = (with_published(planned) if transport == "auto" else planned).cost(ALLREDUCED_BYTES)  # as collective= has it
    return reach._replace(busbw_Bps=cost.busbw_Bps, limit=cost.limiting_link)


def described(system: System, transport: Transport) -> str:
    """What copies and an all-reduce reach on a system, in a sentence."""
    reach = reach_of(system, transport)
    first = f"{system.name}: {system.about}."
    if not reach.fast_Bps:
        return first
    slow, fast = GBps(reach.slow_Bps), GBps(reach.fast_Bps)
    copies = f"Copies between two {system.unit}s reach {fast} GB/s" + f", at worst {slow}" * (slow != fast)
    if not reach.busbw_Bps:
        return f"{first} {copies}."
    bus = f"{GBps(reach.busbw_Bps)} GB/s bus bandwidth, limited by {reach.limit}"
    return f"{first} {copies}; an all-reduce of {size_text(ALLREDUCED_BYTES)} over all {reach.gpus} reaches {bus}."


def place_of(plan: CollectivePlan, plans: Sequence[CollectivePlan], counted: bool = True) -> str:
    """Where a collective runs, by what differs among plans: "GPUs 0 2 5 7 of dgx1-p100 with nccl2".

    `counted`: with the number of GPUs even where all have as many of one system.
    """
    of_system = [other for other in plans if other.system.name == plan.system.name]
    as_many = {other.devices for other in of_system if len(other.devices) == len(plan.devices)}
    gpus = f"{len(plan.devices)} {plan.system.unit}s of "
    if len(as_many) > 1:
        gpus = f"{drawings.gpu_ids(plan.devices)} of "
    elif not counted and len({len(other.devices) for other in plans}) == 1:
        gpus = ""
    network = f" over {plan.system.network}" if len({other.system.network for other in of_system}) > 1 else ""
    library = f" with {plan.library}" if len({other.library for other in plans}) > 1 else ""
    transport = f", transport={plan.transport}" if len({other.transport for other in plans}) > 1 else ""
    return f"{gpus}{plan.system.name}{network}{library}{transport}"


def collective_answer(cost: CollectiveCost) -> str:
    """What a collective takes on some GPUs of a system, and what limits it."""
    what = f"{cost.collective} of {size_text(cost.size_bytes)} over {len(cost.devices)} GPUs of {cost.system}"
    return f"Predicted: {what} takes {_collective_time(cost)}{_bus(cost)}, limited by {cost.limiting_link}."


def _bus(cost: CollectiveCost) -> str:
    return "" if cost.busbw_Bps is None else f", {GBps(cost.busbw_Bps)} GB/s bus bandwidth"


def _collective_time(cost: CollectiveCost) -> str:
    unit, factor = ("us", 1e6) if _ends_s(cost)[0] < 1e-3 else ("ms", 1e3)
    value, low, high = _time_ends(cost, factor)
    if cost.open:
        return f"{low} to {high} {unit} (open)"
    return f"{value} {unit} ({f'{low} to {high}' if cost.interval_s else 'how far off is not known'})"


def _ends_s(cost: CollectiveCost) -> tuple[float, float, float]:
    """Its time, and its two ends; of an open one, the time is their middle."""
    if cost.interval_s is None:
        return (cost.time_s or 0.0,) * 3
    low_s, high_s = cost.interval_s
    return cost.time_s or sqrt(low_s * high_s), low_s, high_s


def _time_ends(cost: CollectiveCost, factor: float) -> tuple[str, str, str]:
    time_s, low_s, high_s = _ends_s(cost)
    value, low, high = to_interval(time_s * factor, low_s * factor, high_s * factor)
    return "?" if cost.open else value, low, high


def _rows(sentence: str, columns: Sequence[Column[T]], rows: Iterable[T]) -> table.Answer:
    """A sentence, and each row in all columns."""
    headings = [column.heading for column in columns]
    right = [place for place, heading in enumerate(headings) if heading.startswith(">")]
    cells: list[list[table.Cell]] = [[column.cell(row) for column in columns] for row in rows]
    return table.Answer([sentence], table.Table([name.lstrip(">") for name in headings], cells, numbers=right))


PairClass = tuple[SystemLinks, int, int, int]  # pairs that are alike: how many, and the GPUs of the first


def _alike(links: SystemLinks) -> list[PairClass]:
    """The pairs of GPUs by what copies between them get, the fastest first."""
    found: dict[object, PairClass] = {}
    for a, b in combinations(range(len(links.gpus)), 2):
        key = links.kind[a][b], links.bandwidth_Bps[a][b], links.duplex_Bps[a][b], links.latency_s[a][b]
        _, count, *first = found.get(key, (links, 0, a, b))
        found[key] = (links, count + 1, first[0], first[1])
    return sorted(found.values(), key=lambda alike: -(links.bandwidth_Bps[alike[2]][alike[3]] or 0.0))


def _links_answer(links: SystemLinks) -> table.Answer:
    """What copies between its GPUs reach, and its classes of pairs."""
    rows = _alike(links)
    ends = [GBps(rate) for _, _, a, b in rows[:: max(len(rows) - 1, 1)] if (rate := links.bandwidth_Bps[a][b])]
    reach = f" Copies between two GPUs reach {', at worst '.join(dict.fromkeys(ends))} GB/s." if ends else ""
    return _rows(f"{links.system}: {links.about}.{reach}", LINKS, rows)


def _known_GBps(rate_Bps: float | None) -> str:
    return "" if rate_Bps is None else GBps(rate_Bps)


LINKS: list[Column[PairClass]] = [
    Column("system", lambda row: row[0].system),
    Column(">pairs", lambda row: f"{row[1]}"),
    Column("kind", lambda row: row[0].kind[row[2]][row[3]]),
    Column(">GB/s one way", lambda row: _rate(row[0].bandwidth_Bps[row[2]][row[3]])),
    Column(">both ways", lambda row: _rate(row[0].duplex_Bps[row[2]][row[3]])),
    Column(">latency us", lambda row: number(row[0].latency_s[row[2]][row[3]] * 1e6)),
]
CHOICES: list[Column[GpuChoice]] = [
    Column("GPUs", lambda choice: " ".join(map(str, choice.devices))),
    Column(">busbw GB/s", lambda choice: GBps(choice.busbw_Bps)),
    Column("interval", lambda choice: " to ".join(map(GBps, choice.interval_Bps or ()))),
    Column("limited by", lambda choice: choice.limiting_link),
]
ROUTES: list[Column[Route]] = [
    Column("system", lambda route: route.system),
    Column(">GPUs", lambda route: f"{route.source} to {route.target}"),
    Column("kind", lambda route: route.kind),
    Column(">GB/s one way", lambda route: GBps(route.bandwidth_Bps)),
    Column(">both ways", lambda route: GBps(route.duplex_Bps)),
    Column(">latency us", lambda route: number(route.latency_s * 1e6)),
    Column("limited by", lambda route: route.limiting_link),
]
COPIES: list[Column[PairCosts]] = [
    Column("system", lambda costs: costs.system),
    Column("transport", lambda costs: costs.transport),
    Column(">size", lambda costs: size_text(costs.size_bytes)),
    Column(">pairs", lambda costs: f"{len(costs.pairs)}"),
    Column(">GB/s at best", lambda costs: GBps(max(pair.bandwidth_Bps for pair in costs.pairs))),
    Column(">at worst", lambda costs: GBps(min(pair.bandwidth_Bps for pair in costs.pairs))),
    Column("worst pairs", lambda costs: min(costs.pairs, key=lambda pair: pair.bandwidth_Bps).pair_class, 2),
]
REACHES: list[Column[Reach]] = [
    Column("system", lambda reach: reach.system),
    Column("transport", lambda reach: reach.transport),
    Column(">GPUs", lambda reach: f"{reach.gpus}"),
    Column(">copies GB/s", lambda reach: _rate(reach.fast_Bps or None) or "?"),
    Column(">at worst", lambda reach: _rate(reach.slow_Bps or None) or "?"),
    Column(">all-reduce GB/s", lambda reach: _rate(reach.busbw_Bps or None) or "?", help="bus bandwidth."),
    Column("limited by", lambda reach: reach.limit, 2),
]


def _choice_answer(choice: GpuChoice) -> table.Answer:
    what = f"{choice.collective} of {size_text(choice.size_bytes)} with {choice.library}"
    gpus = f"GPUs {' '.join(map(str, choice.devices))} reach {GBps(choice.busbw_Bps)} GB/s bus bandwidth"
    return _rows(f"Predicted: on {choice.system} {gpus} ({what}).", CHOICES, [choice])


def _route_answer(route: Route) -> table.Answer:
    ends = f"GPU {route.source} copies to GPU {route.target} at {GBps(route.bandwidth_Bps)} GB/s"
    return _rows(f"{route.system}: {ends}, limited by {route.limiting_link}.", ROUTES, [route])


def _pairs_answer(costs: PairCosts) -> table.Answer:
    best = GBps(max(pair.bandwidth_Bps for pair in costs.pairs))
    what = f"copies of {size_text(costs.size_bytes)} between two GPUs of {costs.system}"
    return _rows(f"Predicted: {what} reach {best} GB/s.", COPIES, [costs])


ANSWERS["SystemLinks"] = _links_answer
ANSWERS["GpuChoice"] = _choice_answer
ANSWERS["Route"] = _route_answer
ANSWERS["PairCosts"] = _pairs_answer
ANSWERS["CollectiveCost"] = lambda cost: table.Answer([collective_answer(cost)], as_shown(COSTS, [cost]))


def _which(devices: Sequence[int]) -> str:
    """Their ids, unless they are the first ones."""
    return "" if list(devices) == list(range(len(devices))) else "+".join(map(str, devices))


def _rate(rate_Bps: float | None) -> str:
    return "?" if rate_Bps is None else GBps(rate_Bps)


COSTS: list[Column[CollectiveCost]] = [
    Column(">size", lambda cost: size_text(cost.size_bytes)),
    Column("collective", lambda cost: cost.collective),
    Column("library", lambda cost: cost.library),
    Column("transport", lambda cost: cost.transport),
    Column("system", lambda cost: cost.system),
    Column(">GPUs", lambda cost: f"{len(cost.devices)}", 5),
    Column("which", lambda cost: _which(cost.devices), help="GPU ids; else the first ones."),
    Column(">time us", lambda cost: _time_ends(cost, 1e6)[0]),
    Column(">interval", lambda cost: " to ".join(_time_ends(cost, 1e6)[1:]) if cost.interval_s else ""),
    Column(
        ">off by",
        lambda cost: "?" if cost.error is None else f"{cost.error:.1%}",
        ONLY_WITH_ALL,
        "mean error of such times.",
    ),
    Column(">90% within", lambda cost: "?" if cost.error_q90 is None else f"{cost.error_q90:.1%}", ONLY_WITH_ALL),
    Column(">algbw GB/s", lambda cost: _known_GBps(cost.algbw_Bps), 2),
    Column(">busbw GB/s", lambda cost: _known_GBps(cost.busbw_Bps)),
    Column("algorithm", lambda cost: cost.algorithm, 1),
    Column("limited by", lambda cost: cost.limiting_link, 3),
]


def _fastest(machine: System, found: Sequence[paths.Path]) -> str:
    best = max(found, key=lambda path: path.bandwidth_Bps)
    ends = f"GPU {best.source} copies to GPU {best.target} at"
    more = f", {len(found) - 1} other way{'s' * (len(found) != 2)}" * (len(found) > 1)
    return f"{machine.name}: {ends} {GBps(best.bandwidth_Bps)} GB/s, limited by {best.limit}{more}"


def links_of(machine: System, transport: Transport) -> SystemLinks:
    """A system as its record has it."""
    pairs = paths.pair_matrix(machine, transport)
    return SystemLinks(
        system=machine.name,
        about=machine.about,
        library=machine.library,
        gpus=[component.part_name for component in machine.gpus],
        connectivity=paths.connectivity(machine),
        peers=paths.peers(machine),
        transport=transport,
        kind=[list(row) for row in pairs.kind],
        bandwidth_Bps=pairs.bandwidth_Bps,
        duplex_Bps=pairs.duplex_Bps,
        latency_s=pairs.latency_s,
    )


def _pair_at_size(machine: System, way: DescribedPair, size_bytes: int) -> PairAtSize:
    path, cost = way.path, costs.pair_cost(way.path, size_bytes)
    error = costs.error_of(machine.name, path.kind, "one-way", size_bytes)
    return PairAtSize(
        **table.fields(path, "source", "target", "latency_s"),
        **table.fields(cost, "time_s", "bandwidth_Bps", "bidirectional_Bps"),
        transport=path.kind,
        limiting_link=path.limit,
        pair_class=way.name,
        error=error.mean,
        error_q90=error.q90,
    )


def collective_cost(plan: CollectivePlan, size_bytes: int) -> CollectiveCost:
    """What a plan costs at a size."""
    cost, error = plan.cost(size_bytes), error_of(plan, size_bytes)
    rings, is_open = drawings.rings_of(plan, cost), _is_open(plan, error)
    return CollectiveCost(
        **table.fields(plan, "collective", "library", "transport", "launch_mode"),
        **table.fields(cost, "algorithm", "limiting_link"),
        system=plan.system.name,
        devices=list(plan.devices),
        size_bytes=size_bytes,
        time_s=None if is_open else cost.time_s,
        algbw_Bps=None if is_open else cost.algbw_Bps,
        busbw_Bps=None if is_open else cost.busbw_Bps,
        rings=[list(ring.order) for ring in rings],
        ring_Bps=[ring.bandwidth_Bps for ring in rings],
        calibration=None if plan.calibration is None else plan.calibration.source,
        explanation=[*explained(plan, size_bytes), how_sure(plan, size_bytes)],
        error=error.mean if error.known and error.mean_counted and not is_open else None,
        error_q90=error.q90 if error.known and not is_open else None,
        error_source=error.source,
        interval_s=_interval_s(plan, size_bytes, error),
        open=_closing(plan, size_bytes) if is_open else "",
    )


def _is_open(plan: CollectivePlan, error: MeasuredError) -> bool:
    """Whether a time has two ends and no point: its error is too wide, or how its GPUs share the host is not known."""
    return error.open or is_undecided(plan)


def is_undecided(plan: CollectivePlan) -> bool:
    """Whether GPUs are no peers, and nothing was told or measured of their paths through the host."""
    return plan.no_peers and plan.calibration is None


def _interval_s(plan: CollectivePlan, size_bytes: int, error: MeasuredError) -> list[float] | None:
    """What 90 % lie within; None: not known. Of an undecided all-reduce from a path for each GPU to one for all."""
    ends = [plan, plan]
    if is_undecided(plan) and plan.collective == "allreduce" and size_bytes >= TOLD_BYTES[0]:
        bus_Bps = Deployment(plan.system, plan.library, plan.transport).bus_Bps
        ends = [told(plan, law, "") for law in (fastest_paths(bus_Bps), STAGED["shared"])]
    elif not (error.points or is_undecided(plan)):
        return None
    (low_s, fast), (high_s, slow) = ((end.cost(size_bytes).time_s, error_of(end, size_bytes)) for end in ends)
    return [low_s * exp(-fast.fastest), high_s * exp(slow.slowest)]


def busbw_interval(plan: CollectivePlan, size_bytes: int) -> list[float] | None:
    """What 90 % of bus bandwidths lie within, in B/s; None: not known."""
    interval_s = _interval_s(plan, size_bytes, error_of(plan, size_bytes))
    return interval_s and [plan.bus_factor * size_bytes / time_s for time_s in reversed(interval_s)]


TOLD_BYTES = [2.0**power for power in range(20, 33)]  # at which the law of a box is held against the plan; less is open


def told(plan: CollectivePlan, law: StagedPaths, how: str) -> CollectivePlan:
    """An all-reduce through the host as a law of paths has it, instead of what is described."""
    gpus, in_node = len(plan.devices), max(map(len, by_node(plan.system, plan.devices)))
    network_Bps = Deployment(plan.system, plan.library, plan.transport).network_Bps(plan.devices)
    ratios = {
        size: log(law.allreduce_s(size, gpus, in_node, network_Bps) / plan.cost(size).time_s) for size in TOLD_BYTES
    }
    calibration = Calibration(
        f"rates of one box{how}, results/published/staged.yaml",
        STAGED_RATES,
        SizeCurve(tuple(ratios), tuple(ratios.values())),
        law.error,
        law.error,
        from_bytes=min(TOLD_BYTES),
        faster=law.faster,
        mean_counted=False,
    )
    limited = tuple(replace(algorithm, limit=law.link) for algorithm in plan.algorithms)
    return replace(plan, algorithms=limited, calibration=calibration)


def explained(plan: CollectivePlan, size_bytes: int) -> list[str]:
    """Why a size costs what it costs; of an open one, what decides."""
    if not _is_open(plan, error_of(plan, size_bytes)):
        return plan.explain(size_bytes)
    closing = _closing(plan, size_bytes)
    return [*plan.why(size_bytes), *[f"Open: `{closing}` decides."] * (closing != LAUNCH_TOLD)]  # why says that one


LAUNCH_TOLD = "launch_mode="


def stated_error(plan: CollectivePlan, size_bytes: int) -> MeasuredError:
    """The error of a size; of two ends by who starts the GPUs that of either, which is known once it is told."""
    error = error_of(plan, size_bytes)
    return error_of(plan.launched_by("one-process"), size_bytes) if error.launch_open else error


def how_sure(plan: CollectivePlan, size_bytes: int) -> str:
    """The same in words."""
    told = f"With {LAUNCH_TOLD} told: " * error_of(plan, size_bytes).launch_open
    return told + stated_error(plan, size_bytes).text


def _closing(plan: CollectivePlan, size_bytes: int) -> str:
    """What determines an open size: the setting, where that is enough, or a bench."""
    by_setting = error_of(plan, size_bytes).launch_open and not _is_open(plan, stated_error(plan, size_bytes))
    return LAUNCH_TOLD if by_setting else closing_command(plan, size_bytes)


def closing_command(plan: CollectivePlan, size_bytes: int) -> str:
    """The bench that tells what an open size takes: between two others, so that its own error is known."""
    forced = f" transport={plan.transport}" * (plan.transport != "auto")
    nodes = f" nodes={plan.system.nodes} launcher=slurm" * (plan.system.nodes > 1)
    sizes = ",".join(size_text(size).replace(" ", "") for size in (size_bytes // 4, size_bytes, 4 * size_bytes) if size)
    return f"resnetx bench collective={plan.collective} gpus={len(plan.devices)} size={sizes}{forced}{nodes}"

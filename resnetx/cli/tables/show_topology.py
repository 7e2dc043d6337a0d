"""The screen of systems: matrices, ways, costs and choices, as tables."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from math import exp
from typing import TYPE_CHECKING

from resnetx.api.topology_drawings import distinct, gpu_ids, rings_of
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.interconnect import collective, paths
from resnetx.interconnect.collective import CollectivePlan, Cost
from resnetx.interconnect.errors import error_of, table
from resnetx.interconnect.parts import PhotonicSpec, SourcedValue
from resnetx.interconnect.paths import Path, Transport
from resnetx.interconnect.system import Component, System
from resnetx.units import si, size_text, to_interval

if TYPE_CHECKING:
    from resnetx.interconnect.errors import ErrorTable
    from resnetx.interconnect.subsets import GpuSubset
    from resnetx.interconnect.validation import CollectiveRow, CollectiveSummary
    from resnetx.record.topology import PairAtSize, PairCosts

MATRIX_GPUS = 16  # the widest matrix that is printed
ALL_PAIRS_GPUS = 128  # of more GPUs, only the pairs with GPU 0 are looked at
WAY_COLUMNS = ["kind", ">GB/s one way", ">both ways", ">latency us", "by way of", "limited by"]
ALLREDUCED_BYTES = 2**26  # of what is said of a system first
BEST, WORST = 6, 3  # choices that are shown of each


def systems(about_by_name: Mapping[str, str]) -> None:
    """The systems that come with resnetx."""
    title = "Systems that come with resnetx; a YAML file of your own works as well"
    show.table(title, ["systems=", "~what it is"], [[name, about] for name, about in about_by_name.items()])


# ---- one system -----------------------------------------------------------------------------------------------------


def described(system: System, transport: Transport) -> str:
    """What copies and an all-reduce reach on a system, in a sentence."""
    count = len(system.gpus)
    first = f"{system.name}: {system.about}."
    if not 2 <= count <= ALL_PAIRS_GPUS or len({gpu.part_name for gpu in system.gpus}) > 1:
        return first
    way: Transport = "auto" if transport == "peer" else transport
    rates = sorted(paths.copy_path(system, a, b, way).bandwidth_Bps for a, b in combinations(range(count), 2))
    slow, fast = (f"{rate / 1e9:.3g}" for rate in (rates[0], rates[-1]))
    copies_ = f"Copies between two {system.unit}s reach {fast} GB/s" + f", at worst {slow}" * (slow != fast)
    try:
        cost = collective.plan(system, "allreduce", range(count), transport=transport).cost(ALLREDUCED_BYTES)
    except ConfigError:  # a rate that its file does not know
        return f"{first} {copies_}."
    bus = f"{cost.busbw_Bps / 1e9:.3g} GB/s bus bandwidth, limited by {cost.limiting_link}"
    return f"{first} {copies_}; an all-reduce of {size_text(ALLREDUCED_BYTES)} over all {count} reaches {bus}."


def parts(system: System, title: str = "Parts") -> None:
    """What a system is built of, and what its links are said to give."""
    counted = Counter[str]()
    for component, count in system.counted_components():
        counted[component.part.about] += count
    show.table(title, [">count", "~part"], [[str(n), about] for about, n in counted.items()])
    show.say()
    counts = Counter[tuple[str, int, str]]()
    for link, count in system.counted_links():
        for lanes in (link.lanes_from(link.a), link.lanes_from(link.b)) if link.uneven else (link.lanes,):
            counts[link.part_name, lanes, ", one way" if link.uneven else ""] += count
    wires = {link.part_name: link.wire for link, _ in system.counted_links()}
    rows = [
        [
            str(count),
            wires[name].about + way,
            str(lanes),
            f"{lanes * wires[name].bandwidth_Bps.value / 1e9:.4g}",
            f"{lanes * wires[name].copy_Bps.value / 1e9:.4g}",
            _origin(wires[name].copy_Bps),
        ]
        for (name, lanes, way), count in counts.items()
        if lanes
    ]
    columns = [">links", "kind", ">lanes", ">GB/s each way", ">of a large copy", "which is"]
    note = "Every figure's source is in the system's file and in configs/system/parts."
    show.table("Links", columns, rows, note, ["lanes", "which is"])
    for component, _ in system.counted_components():
        if isinstance(component.part, PhotonicSpec):
            show.say(_circuits(system, component, component.part))


def _circuits(system: System, switch: Component, part: PhotonicSpec) -> str:
    """What goes through a photonic switch, in a sentence."""
    through = (link for link, _ in system.counted_links() if link.through == switch.name)
    taken = sum(link.lanes_from(end) for link in through for end in (link.a, link.b))
    return (
        f"{switch.name}: {part.ports.value:g} ports, {taken} taken by lanes between GPUs, counted one way; other "
        f"circuits after {part.reconfiguration_s.value * 1e6:,g} us ({part.reconfiguration_s.provenance})."
    )


def _origin(figure: SourcedValue) -> str:
    """Where a figure is from; one that was measured, by whom: hardly ever on the machine that is looked at."""
    by = figure.source.partition(":")[0]
    return f"measured: {by[:_SHORT]}" if figure.provenance == "measured" else figure.provenance


_SHORT = 30  # characters of a source, in a table


def matrix(system: System) -> None:
    """Who is linked to whom; nothing for a system too wide for a terminal."""
    if len(system.gpus) > MATRIX_GPUS:
        return
    rows = [[f"{system.unit}{gpu}", *cells] for gpu, cells in enumerate(paths.connectivity(system))]
    note = (
        "NV#: number of NVLinks (AMD: XGMI#); PIX: one PCIe switch; PXB: several; PHB: through a CPU; NODE: between "
        "host bridges of one; SYS: from CPU to CPU; NET: over the network."
    )
    if system.uneven:
        note += " Lanes are those from the GPU of the row to that of the column."
    show.say()
    title = "GPU topology" if system.unit == "GPU" else "How ranks on CPU cores are joined"
    show.table(f"{title}, as nvidia-smi topo -m names it", ["", *(row[0] for row in rows)], rows, note)


def copies(system: System, transport: Transport) -> None:
    """What copies get; pairs of GPUs that are alike share a row."""
    count = len(system.gpus)
    all_pairs = count <= ALL_PAIRS_GPUS
    both = permutations(range(count), 2) if system.uneven else combinations(range(count), 2)
    pairs = both if all_pairs else ((0, other) for other in range(1, count))
    alike: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for a, b in pairs:
        path = paths.copy_path(system, a, b, "auto" if transport == "peer" else transport)
        cells = _way_cells(path)
        alike[(*cells[:4], *(system.component(name).kind for name in path.names))].append(path)
    ways = sorted(alike.values(), key=lambda ways: (-ways[0].bandwidth_Bps, ways[0].latency_s))
    show.say()
    show.table(
        f"Copies between {'' if all_pairs else 'GPU 0 and the other '}GPUs, transport={transport}",
        [">pairs", *WAY_COLUMNS],
        [[str(len(same)), *_way_cells(same[0])] for same in ways],
        "Large copies, alone or with one in the opposite direction; latency of a small one; the path of one such pair.",
        ["by way of", "both ways", "latency us"],
    )


def routes(system: System, alternatives: Sequence[Path]) -> None:
    """The ways between two GPUs that an application can choose from."""
    title = f"{system.name}: paths from GPU {alternatives[0].source} to GPU {alternatives[0].target}"
    show.table(title, WAY_COLUMNS, map(_way_cells, alternatives), least=["limited by", "latency us", "both ways"])


def _way_cells(way: Path) -> list[str]:
    return [
        {"host": "through the host", "relay": "relayed by the application"}.get(way.kind, way.kind),
        f"{way.bandwidth_Bps / 1e9:.1f}",
        f"{way.duplex_Bps / 1e9:.1f}",
        f"{way.latency_s * 1e6:.1f}",
        " ".join(way.names),
        way.limit,
    ]


def pairs(name: str, transport: Transport, costs: "Sequence[PairCosts]") -> None:
    """What copies of some sizes cost; pairs of GPUs that are alike share a row."""
    rows = []
    for cost in costs:
        alike: dict[tuple[str, ...], list[PairAtSize]] = defaultdict(list)
        for pair in cost.pairs:
            alike[tuple(_pair_cells(pair))].append(pair)
        for cells, same in sorted(alike.items(), key=lambda each: each[1][0].time_s):
            rows.append([size_text(cost.size_bytes), cells[0], str(len(same)), *cells[1:], same[0].limiting_link])
    columns = [
        ">size", "pairs that are", ">pairs", "over", ">time us", ">GB/s", ">both ways", ">off by", "limited by",
    ]  # fmt: skip
    note = "off by: what 90 % of published copies were within. Both ways: with as large a copy back, summed."
    title = f"{name}: copies from GPU to GPU, predicted, transport={transport}"
    show.table(title, columns, rows, note, ["limited by", "over", "pairs"])


def _pair_cells(pair: "PairAtSize") -> list[str]:
    return [
        pair.pair_class,
        {"host": "the host"}.get(pair.transport, pair.transport),
        f"{pair.time_s * 1e6:,.1f}",
        f"{pair.bandwidth_Bps / 1e9:.2f}",
        f"{pair.bidirectional_Bps / 1e9:.2f}",
        _percent(pair.error_q90),
    ]


# ---- collectives ----------------------------------------------------------------------------------------------------


def answer(plans: Sequence[CollectivePlan], size_bytes: int) -> str:
    """What a collective takes, with what nine of ten times are within; of several systems, over the fastest."""
    ranked = sorted(plans, key=lambda plan: plan.cost(size_bytes).time_s)
    best, worst = ranked[0], ranked[-1]
    cost = best.cost(size_bytes)
    what = f"{best.collective} of {size_text(size_bytes)} over {_place(best, plans)}"
    sentence = f"Predicted: {what} takes {_time(best, size_bytes)}"
    if len(plans) == 1:
        bus = f"{cost.busbw_Bps / 1e9:.3g} GB/s bus bandwidth"
        return f"{sentence}, {bus}, limited by {cost.limiting_link}."
    longer = worst.cost(size_bytes).time_s / cost.time_s
    others = f"; over {_place(worst, plans)} {_time(worst, size_bytes)}, {longer:.3g} times as long"
    return f"{sentence}{others}."


def _place(plan: CollectivePlan, plans: Sequence[CollectivePlan]) -> str:
    library = f" with {plan.library}" if len({each.library for each in plans}) > 1 else ""
    return f"{len(plan.devices)} {plan.system.unit}s of {plan.system.name}{library}"


def _time(plan: CollectivePlan, size_bytes: int) -> str:
    time_s, error = plan.cost(size_bytes).time_s, error_of(plan, size_bytes)
    unit, factor = ("us", 1e6) if time_s < 1e-3 else ("ms", 1e3)
    if not error.points:
        return f"{time_s * factor:.3g} {unit} (how far off is not known)"
    value, low, high = to_interval(*(time_s * factor * exp(sign * error.q90) for sign in (0, -1, 1)))
    return f"{value} {unit} ({low} to {high})"


def costs(plan: CollectivePlan, sizes: Sequence[int]) -> None:
    """What a collective costs by size, why, and over which rings."""
    show.say(answer([plan], sizes[-1]))
    show.say()
    columns = [">size", ">time us", ">off by", ">90 % within", ">algbw GB/s", ">busbw GB/s", "algorithm", "limited by"]
    rows = []
    for size in sizes:
        time_us, *others = _cost_cells(plan.cost(size))
        error = error_of(plan, size)
        off = [_percent(error.mean) if error.known else "?", _percent(error.q90) if error.points else "?"]
        rows.append([size_text(size), time_us, *off, *others])
    show.table(_what(plan), columns, rows, least=["algorithm", "algbw GB/s", "limited by"])
    _explanation(plan, sizes[-1])


def explanation(plan: CollectivePlan, size_bytes: int) -> None:
    """Why a collective costs what it does, under a title."""
    show.say()
    show.say(_what(plan), style="bold")
    _explanation(plan, size_bytes)


def _explanation(plan: CollectivePlan, size_bytes: int) -> None:
    for sentence in (*plan.explain(size_bytes), error_of(plan, size_bytes).text):
        show.say(sentence)
    for name, ring, rate_Bps in distinct(rings_of(plan, plan.cost(size_bytes))):
        show.say(f"  {name}: {' '.join(map(str, ring.order))}, {si(rate_Bps, 'B/s')}", indent=2)


def _what(plan: CollectivePlan) -> str:
    return f"{plan.collective} on {plan.system.name}, {gpu_ids(plan.devices)}, library={plan.library}"


def side_by_side(plans: Sequence[CollectivePlan], sizes: Sequence[int]) -> None:
    """Several collectives, systems, numbers of GPUs or generations of the library: of each collective what it takes.

    Then a table, in it the fastest first; of many rows the largest size alone.
    """
    for name in dict.fromkeys(plan.collective for plan in plans):
        show.say(answer([plan for plan in plans if plan.collective == name], sizes[-1]))
    show.say()
    rows, verdicts = [], []
    sizes = sizes if show.everything() or len(plans) * len(sizes) <= MOST_ROWS else sizes[-1:]
    for size_bytes in sizes:
        for alike in _alike(plans):
            ranked = sorted(alike, key=lambda plan: plan.cost(size_bytes).time_s)
            for plan in ranked:
                cells = _cost_cells(plan.cost(size_bytes))
                named = [getattr(plan, field) for field in _FIELDS]
                place = [size_text(size_bytes), *map(str, named), plan.system.name, str(len(plan.devices))]
                rows.append([*place, *cells[:3], cells[-1]])
        for name, gpus in dict.fromkeys((plan.collective, len(plan.devices)) for plan in plans):
            same = [plan for plan in plans if (plan.collective, len(plan.devices)) == (name, gpus)]
            ranks = [sorted(each, key=lambda plan: plan.cost(size_bytes).time_s) for each in _alike(same)]
            if len({rank[0].system.name for rank in ranks if len(rank) > 1}) > 1:
                verdicts.append(_verdict(ranks, size_bytes))
    for verdict in verdicts:
        show.say(verdict)
    if verdicts:
        show.say()
    columns = [">size", *_FIELDS, "system", ">GPUs", ">time us", ">algbw GB/s", ">busbw GB/s", "limited by"]
    single = [place for place, column in enumerate(columns[:6]) if len({row[place] for row in rows}) == 1]
    kept = [place for place in range(len(columns)) if place not in single or columns[place] in (">size", "system")]
    titles = [rows[0][place] for place in single if columns[place] in ("collective", "library", "transport")]
    show.table(
        ", ".join([*titles, "side by side"]),
        [columns[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        least=["limited by", "algbw GB/s"],
    )
    for plan in plans if len(plans) <= EXPLAINED or show.everything() else []:
        explanation(plan, sizes[-1])


_FIELDS = ("collective", "library", "transport")
MOST_ROWS, EXPLAINED = 30, 4


def _alike(plans: Sequence[CollectivePlan]) -> list[list[CollectivePlan]]:
    """The plans by collective, number of GPUs, library and transport: what a system can be ahead in."""
    found: dict[object, list[CollectivePlan]] = defaultdict(list)
    for plan in plans:
        found[plan.collective, len(plan.devices), plan.library, plan.transport].append(plan)
    return list(found.values())


def _verdict(ranks: Sequence[Sequence[CollectivePlan]], size_bytes: int) -> str:
    """Why one system is ahead with one generation of the library, and another one with another."""
    said = []
    for first, *_, last in (rank for rank in ranks if len(rank) > 1):
        slow = last.cost(size_bytes)
        ratio = slow.time_s / first.cost(size_bytes).time_s
        said.append(
            f"with {first.library}, {first.system.name} is {ratio:.2f} times as fast as {last.system.name} (which "
            f"{slow.limiting_link} limits)"
        )
    return f"At {size_text(size_bytes)} the library's generation decides who is ahead: {'; '.join(said)}."


def choices(system: System, subsets: "Sequence[GpuSubset]", collective: str, size_bytes: int) -> None:
    """The best and the worst choices of GPUs, and the line that takes the best."""
    shown = subsets
    if some := len(show.first(subsets, BEST + WORST)) < len(subsets):
        shown = [*subsets[:BEST], *subsets[-WORST:]]
    rows = [
        [
            " ".join(map(str, choice.devices)),
            f"{choice.busbw_Bps / 1e9:.1f}",
            choice.plan.cost(size_bytes).limiting_link,
        ]
        for choice in shown
    ]
    if some:
        rows.insert(BEST, ["...", "", ""])
    likes = {choice.like.devices: choice.like for choice in subsets}
    without = {devices for devices, plan in likes.items() if plan.lanes is not None and _through_cpu(plan)}
    ringless = sum(choice.like.devices in without for choice in subsets)
    notes = [f"{ringless} of these choices have no NVLink ring."] if ringless else []
    title = f"{system.name}: {len(subsets)} choices of {len(subsets[0].devices)} GPUs, by bus bandwidth of {collective}"
    show.table(f"{title}, {size_text(size_bytes)}", ["GPUs", ">busbw GB/s", "limited by"], rows, notes)
    show.line(f"export {subsets[0].command}")


def _through_cpu(plan: CollectivePlan) -> bool:
    return any(plan.system.component(name).kind == "cpu" for ring in plan.rings for name in ring.walk)


def _cost_cells(cost: Cost) -> list[str]:
    return [
        f"{cost.time_s * 1e6:,.1f}",
        f"{cost.algbw_Bps / 1e9:.2f}",
        f"{cost.busbw_Bps / 1e9:.2f}",
        cost.algorithm,
        cost.limiting_link,
    ]


# ---- the model's truth ----------------------------------------------------------------------------------------------


def validation(rows: "Sequence[CollectiveRow]", summaries: "Sequence[CollectiveSummary]") -> None:
    """How far off the model is of each group of published measurements, and of each kind that is left out.

    Then the measurements of groups of which too few are within what is stated; with --all those of every group.
    """
    verdicts = [
        [
            "holds" if summary.holds else "MISSED",
            str(summary.rows),
            str(summary.unseen),
            *map(_percent, (summary.mean_error, summary.stated_error, summary.worst_error)),
            "" if summary.within is None else f"{summary.within:.0%}",
            summary.about,
        ]
        for summary in summaries
    ]
    columns = ["verdict", ">rows", ">unseen", ">mean", ">stated", ">worst", ">within", "~group"]
    note = (
        "Without the rows that are explained. unseen: figures that were not known while the model was written. "
        "stated: the mean error that such plans are given. within: how many are within what is stated for 90 %. "
        "calibrated: from measured points of other sizes; all else is from rates of links and the library's source."
    )
    show.table("How far off the model is of published measurements", columns, verdicts, note, ["unseen", "rows"])
    show.say()
    _left_out(table())
    shown = [summary for summary in summaries if show.everything() or not summary.holds]
    if len(shown) < len(summaries):
        show.say(f"--all lists all {len(rows)} measurements beside what the model says, each with its source.")
    columns = [
        "system", "library", "collective", ">GPUs", ">size", ">measured", ">model", "unit", ">off by", "seen",
        "~explained",
    ]  # fmt: skip
    for summary in shown:
        own = [row for row in rows if row.group == summary.group]
        show.say()
        show.table(summary.about, columns, list(map(_validation_cells, own)), least=["seen", "explained", "library"])
        show.say(f"From: {'; '.join(dict.fromkeys(row.source for row in own))}")


def _left_out(errors: "ErrorTable") -> None:
    """The mean error of each kind of machine, with all fitted and with itself left out, beside what is simpler."""
    columns = ["~kind of machine", ">figures", ">fitted", ">left out", ">alpha-beta", ">power law"]
    rows = [
        [
            each.name,
            str(each.points),
            *map(_percent, (each.fitted, each.left_out, each.alpha_beta, each.power_law)),
        ]
        for each in errors.kinds
    ]
    title = "Mean |ln(predicted / measured)| of each kind of machine, with it and without it in the fit"
    show.table(title, columns, rows, least=["figures"])
    everything = errors.bands[0]
    for name, judged in everything.ways:
        show.say(
            f"{name}: {judged.within} of {everything.points} figures of rings and trees, {judged.within_by_kind:.0%} "
            f"of each kind, within what the other kinds give for 90 %: {judged.half_width:.0%} in the mean."
        )


def _validation_cells(row: "CollectiveRow") -> list[str]:
    quantity, _, unit = row.unit.partition("_")
    return [
        row.system,
        row.library,
        row.collective,
        str(row.gpus),
        size_text(row.size_bytes),
        _figure(row.measured),
        _figure(row.predicted),
        " ".join(filter(None, (quantity, {"GBps": "GB/s"}.get(unit, unit)))),
        f"{100 * row.error:+.1f} %",
        ", ".join(["seen" if row.seen else "unseen", *(["calibrated"] if row.calibrated else [])]),
        row.explained or "",
    ]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"

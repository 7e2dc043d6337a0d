"""A machine that exists on paper: like a described one, with other numbers of GPUs, switches and CPUs.

    planned(system.load("pcie-gen5"), Plan(gpus=16, switches=4))

GPUs hang evenly below switches, these evenly below CPUs. Whatever the plan does not say is as in the machine that it is
like, and is assumed: the survey's source says so, and each of its guesses is among what is unknown.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from resnetx.errors import ConfigError
from resnetx.interconnect.survey.survey import Pair, PCIE_GBps, SeenCpu, SeenNode, Survey, entries
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import Link, System
from resnetx.interconnect.systems.system_file import MAX_COMPONENTS

_MEETING = {"PIX": "switch", "PXB": "switch", "PHB": "cpu", "NODE": "cpu", "SYS": "sockets"}


@dataclass(frozen=True)
class PaperMachine:
    """What is asked for; None: as the machine that it is like."""

    gpus: int | None = None
    switches: int | None = None
    sockets: int | None = None
    uplink: str | None = None  # gen5x16
    cards: int | None = None  # network cards on each CPU
    generation: int | None = None  # of PCIe
    gpu: str | None = None  # described parts
    cpu: str | None = None


@dataclass(frozen=True)
class _Like:
    """What the new machine takes from the other."""

    system: System
    gpus: int
    switches: int  # that GPUs hang below
    sockets: int  # that GPUs hang below
    bus: Link  # of the first GPU towards its CPU
    uplink: Link | None  # of the first such switch
    cards: int
    cards_on_switches: bool


def planned(like: System, plan: PaperMachine) -> Survey:
    """The survey of a machine on paper."""
    base = _like(like)
    gpus = plan.gpus or base.gpus
    sockets = plan.sockets or _sockets(base, gpus)
    switches = _switches(base, plan, gpus)
    _check_even(gpus, switches, sockets)
    guesses: list[str] = []
    nodes = [*_gpus(base, plan, gpus, switches, sockets), *_switch_nodes(base, plan, switches, sockets)]
    nodes += _cards(base, plan, switches, sockets)
    if len(nodes) > MAX_COMPONENTS:
        raise ConfigError(f"gpus={gpus}: a machine of {len(nodes):,} components; expected at most {MAX_COMPONENTS:,}")
    direct, switched = _nvlinks(base, plan, gpus, guesses)
    survey = Survey(
        source=f"assumed: on paper, like {like.name}",
        cpus=tuple(SeenCpu(f"cpu{number}", str(number)) for number in range(sockets)),
        nodes=tuple(nodes),
        direct=direct,
        switched=switched,
        host_links=_host_links(base, plan, gpus),
        unknown=(*_guesses(base, plan, gpus, switches, sockets), *guesses),
    )
    return replace(survey, peers={} if plan.cpu else _peers(like, survey))


# ---- what it is like


def _like(like: System) -> _Like:
    if like.nodes > 1:
        raise ConfigError(f"like={like.name}: several nodes; expected a system of one")
    if like.uneven or any(link.through for link in like.links):
        raise ConfigError(
            f"like={like.name}: its GPUs are joined as a photonic switch was set for some traffic; expected a system "
            "whose links are wires, with as many lanes both ways"
        )
    up = {gpu.name: _upward(like, gpu.name) for gpu in like.gpus}
    first = next(iter(up.values()))
    switches = {name for name, _ in up.values() if like.component(name).kind == "switch"}
    cpus = {paths.path_to_host(like, number)[-1] for number in range(len(like.gpus))}
    cards = [component.name for component in like.components if component.kind == "nic"]
    on_switches = any(near in switches for card in cards for _, near in like.neighbours[card])
    uplink = _upward(like, next(iter(sorted(switches))))[1] if switches else None
    return _Like(like, len(like.gpus), len(switches), len(cpus), first[1], uplink, len(cards), on_switches)


def _upward(like: System, name: str) -> tuple[str, Link]:
    """(what is next on the way to a CPU, the link to it)."""
    near = like.neighbours[name]
    by_kind = {kind: (other, link) for link, other in reversed(near) if (kind := like.component(other).kind)
               and not (kind == "switch" and link.wire.family == "nvlink") and kind in ("cpu", "switch")}  # fmt: skip
    from_switch = like.component(name).kind == "switch"
    order = ("cpu", "switch") if from_switch else ("switch", "cpu")
    found = next((by_kind[kind] for kind in order if kind in by_kind), None)
    if found is None:
        raise ConfigError(f"like={like.name}: {name} has no link towards a CPU; expected a machine with CPUs")
    return found


def _switches(base: _Like, plan: PaperMachine, gpus: int) -> int:
    """As many as asked for, or such that as many GPUs share one as in the other machine."""
    if plan.switches is not None:
        return plan.switches
    if not base.switches:
        return 0
    each = max(1, base.gpus // base.switches)
    return max(1, gpus // each)


def _sockets(base: _Like, gpus: int) -> int:
    """As many as the other machine, or such that as many GPUs share one as there."""
    return base.sockets if gpus % base.sockets == 0 else max(1, gpus * base.sockets // base.gpus)


def _check_even(gpus: int, switches: int, sockets: int) -> None:
    below, what = (switches, "switches") if switches else (sockets, "sockets")
    if gpus % below:
        raise ConfigError(f"{what}={below}: {gpus} GPUs cannot be shared out evenly over them")
    if switches % sockets and switches:
        raise ConfigError(f"sockets={sockets}: {switches} switches cannot be shared out evenly over them")


# ---- the new machine


def _gpus(base: _Like, plan: PaperMachine, gpus: int, switches: int, sockets: int) -> Iterator[SeenNode]:
    generation, lanes = _bus(base, plan)
    for gpu in range(gpus):
        above = f"pcie{gpu * switches // gpus}" if switches else f"cpu{gpu * sockets // gpus}"
        yield SeenNode("gpu", f"gpu{gpu}", above, generation=generation, lanes=lanes)


def _bus(base: _Like, plan: PaperMachine) -> tuple[int | None, int | None]:
    """(generation, lanes) of a GPU's link: of the plan, of its GPU, or of the other machine; None: no PCIe."""
    bus = entries("gpus")[plan.gpu].get("bus", "") if plan.gpu else base.bus.part_name
    if plan.generation:
        return plan.generation, 16
    if not re.fullmatch(r"pcie\d", bus):
        return None, None
    return int(bus[4:]), 16 if plan.gpu else base.bus.lanes


def _switch_nodes(base: _Like, plan: PaperMachine, switches: int, sockets: int) -> Iterator[SeenNode]:
    generation, lanes = _uplink(base, plan)
    for switch in range(switches):
        cpu = f"cpu{switch * sockets // switches}"
        yield SeenNode("switch", f"pcie{switch}", cpu, generation=generation, lanes=lanes)


def _uplink(base: _Like, plan: PaperMachine) -> tuple[int | None, int]:
    if plan.uplink is not None:
        said = re.fullmatch(r"gen([1-9])x([1-9]\d?)", plan.uplink)
        if said is None or int(said[1]) not in PCIE_GBps or int(said[2]) > 32:
            raise ConfigError(f"uplink={plan.uplink}: expected a generation and lanes, as gen5x16")
        return int(said[1]), int(said[2])
    generation = _bus(base, plan)[0]
    if plan.generation is None and base.uplink is not None and re.fullmatch(r"pcie\d", base.uplink.part_name):
        generation = int(base.uplink.part_name[4:])
    return generation, base.uplink.lanes if base.uplink else 16


def _cards(base: _Like, plan: PaperMachine, switches: int, sockets: int) -> Iterator[SeenNode]:
    """Network cards: as many on each CPU as asked for, else on switches or CPUs as in the other machine."""
    on_switches = plan.cards is None and base.cards_on_switches and switches > 0
    places, before = (switches, base.switches) if on_switches else (sockets, base.sockets)
    each = plan.cards if plan.cards is not None else -(-base.cards // max(1, before)) if base.cards else 0
    generation, lanes = _bus(base, plan)
    for number in range(places * each):
        above = f"{'pcie' if on_switches else 'cpu'}{number // each}"
        yield SeenNode("nic", f"nic{number}", above, generation=generation, lanes=lanes)


def _nvlinks(base: _Like, plan: PaperMachine, gpus: int, guesses: list[str]) -> tuple[dict[Pair, int], dict[int, int]]:
    """(links between GPUs, links into switches): a fabric grows with the GPUs, wires from one to another do not."""
    like = base.system
    if plan.gpu and not entries("gpus")[plan.gpu].get("peer_link"):
        if any(paths.nvlink_flow(like, 0, other).steps for other in range(1, base.gpus)):
            guesses.append(f"NVLinks: {plan.gpu} has none, so there are none")
        return {}, {}
    into = [link.lanes for link, near in like.neighbours["gpu0"]
            if link.wire.family == "nvlink" and like.component(near).kind == "switch"]  # fmt: skip
    if into:
        lanes = entries("gpus")[plan.gpu]["peer_links"] if plan.gpu else sum(into)
        return {}, dict.fromkeys(range(gpus), lanes)
    pairs = {(a, b): paths.nvlink_lanes(like, a, b) for a, b in combinations(range(base.gpus), 2)}
    direct = {pair: lanes for pair, lanes in pairs.items() if lanes}
    if direct and gpus != base.gpus:
        raise ConfigError(
            f"gpus={gpus}: {like.name} links its {base.gpus} GPUs directly to each other, which fixes their number; "
            "choose a like= with switches, or a gpu= without NVLink"
        )
    return direct, {}


def _host_links(base: _Like, plan: PaperMachine, gpus: int) -> dict[int, int]:
    """NVLinks of GPUs to their CPUs, as POWER CPUs have them."""
    own = entries("gpus").get(base.system.gpus[0].part_name, {}).get("peer_link")
    return dict.fromkeys(range(gpus), base.bus.lanes) if base.bus.part_name == own and not plan.gpu else {}


def _peers(like: System, survey: Survey) -> dict[Pair, bool]:
    """Who are peers, by where they meet: as where GPUs of the other machine meet alike."""
    alike: dict[str, bool] = {}
    for gpu in range(1, len(like.gpus)):
        if meeting := _MEETING.get(paths.nearness(like, 0, gpu)):
            alike[meeting] = alike.get(meeting, False) or paths.are_peers(like, 0, gpu)
    found: dict[Pair, bool] = {}
    above = {node.name: node.above for node in survey.nodes}
    for a, b in combinations(range(len(survey.gpus)), 2):
        one, other = above[f"gpu{a}"], above[f"gpu{b}"]
        same_cpu = above.get(one, one) == above.get(other, other)
        where = "switch" if one == other and one in above else "cpu" if same_cpu else "sockets"
        if where in alike:
            found[a, b] = alike[where]
    return found


def _guesses(base: _Like, plan: PaperMachine, gpus: int, switches: int, sockets: int) -> Iterator[str]:
    """What the plan does not say, in words."""
    name = base.system.name
    if plan.gpu is None:
        yield f"the GPU: as {name} (assumed); gpu=NAME names another"
    if plan.cpu is None:
        yield f"the CPU, and who are peers through it: as {name} (assumed); cpu=NAME names another"
    if plan.sockets is None:
        yield f"the number of CPUs: {sockets}, as {name} has with GPUs (assumed); sockets=N sets it"
    if plan.switches is None:
        yield f"the number of PCIe switches: {switches}, with GPUs as {name} has them (assumed); switches=N sets it"
    if switches:
        yield f"which GPUs share a switch: {gpus // switches} each, in the order of their ids, in one layer (assumed)"
    if switches and plan.uplink is None:
        generation, lanes = _uplink(base, plan)
        yield f"the links of switches to CPUs: PCIe {generation} x{lanes}, as {name} (assumed); uplink=genNxM sets them"
    if plan.cards is None:
        yield f"network cards: as many on each as {name} has (assumed); nic=NAME:N sets N on each CPU"

"""The iterations of a profile: which layer each work belongs to, and how long it took.

To an iteration belongs what the host began in its window, with the kernels that this launched, whenever they ran. A
node of the backward pass names the operation that it undoes by a sequence number; the gradients of parameters are
accumulated right behind the node that made them.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from resnetx.formats.chrome import Event
from resnetx.formats.kineto_work import ONE_PROCESS, Call, Work, Works, is_copy_from_host
from resnetx.record.unknown import Unknown

UNATTRIBUTED = "unattributed"
UPDATE = "Optimizer.step"
LEAST_ALIKE = 4  # operations by which a network is known
NO_SHAPES = Unknown("the profile has no shape of its gradients (record_shapes=True)")

Window = tuple[float, float]  # begin and end, microseconds


@dataclass(slots=True)
class ProfiledLayer:
    """Seconds of one layer in one iteration."""

    name: str
    forward_s: float = 0.0
    backward_s: float = 0.0
    communication_s: float = 0.0
    gradient_bytes: int | Unknown = 0


@dataclass
class ProfiledIteration:
    """Seconds of one iteration."""

    layers: list[ProfiledLayer]  # in the order in which their forward passes began
    begin: float  # microseconds; on a GPU, of the first thing that ran there
    end: float
    rest: ProfiledLayer = field(default_factory=lambda: ProfiledLayer(UNATTRIBUTED))
    update_s: float = 0.0
    input_s: float = 0.0  # of the loader, where the step does its work
    input_wait_s: float = 0.0
    host_to_device_s: float = 0.0
    accumulated: int = 1  # passes whose gradients are added up before the update: of a micro-batch each
    evaluated: bool = False  # the network ran without a backward pass, too

    @property
    def compute_s(self) -> float:
        """Forward, backward and update."""
        layers_s = sum(layer.forward_s + layer.backward_s for layer in (*self.layers, self.rest))
        return layers_s + self.update_s


def iterations_in(works: Works, windows: Sequence[Window]) -> list[ProfiledIteration]:
    """One iteration for each window; windows are sorted."""
    return [_iteration(contents, works.on_device) for contents in _contents(works, windows)]


# ---- what belongs to an iteration -----------------------------------------------------------------------------------


@dataclass
class _Contents:
    """What began, or was launched, between two times (microseconds)."""

    begin: float
    end: float
    works: list[Work] = field(default_factory=list)
    stray: list[Event] = field(default_factory=list)  # that ran on the device for no work


def _contents(works: Works, windows: Sequence[Window]) -> list[_Contents]:
    """The work that began in each window, and the stray device events that were launched in it."""
    contents = [_Contents(begin, end) for begin, end in windows]
    begins = [content.begin for content in contents]

    def at(time: float) -> _Contents | None:
        index = bisect_right(begins, time) - 1
        return contents[index] if index >= 0 and time <= contents[index].end else None

    for work in works.works:
        if (own := at(work.event.ts)) is not None:
            own.works.append(work)
    for launched, event in works.stray:
        if (own := at(launched)) is not None:
            own.stray.append(event)
    return contents


def _iteration(contents: _Contents, on_device: bool) -> ProfiledIteration:
    """What one iteration spent in each layer, backward work with the layer whose forward pass it undoes."""
    undone = undone_by(contents.works)
    layers, layer_of = _layers([work for work in contents.works if work.part == "operation"], set(undone.values()))
    iteration = ProfiledIteration(layers, *_span(contents, on_device))
    passes = _accumulating(contents.works, set(undone.values()))
    again = {work for earlier in passes[:-1] for work in earlier}  # gradients that the last pass has, too
    iteration.accumulated = max(1, len(passes))
    iteration.evaluated = _evaluated(contents.works, set(undone.values()))
    for work in contents.works:
        owner = layer_of.get(undone.get(work, work), iteration.rest)
        cost = _device_cost(work.device) if on_device else _host_cost(work)
        _add(iteration, work, owner, cost, accumulates=work.accumulates and work not in again)
    stray = _device_cost(contents.stray)
    iteration.rest.forward_s += stray.compute_s
    iteration.rest.communication_s += stray.communication_s
    iteration.host_to_device_s += stray.to_device_s
    return iteration


def _span(contents: _Contents, on_device: bool) -> Window:
    """A GPU runs behind its host: there, an iteration lasts from its first to its last work on the device."""
    device = [event for work in contents.works for event in work.device] + contents.stray
    if not (on_device and device):
        return contents.begin, contents.end
    return min(event.ts for event in device), max(event.end for event in device)


def _accumulating(works: Sequence[Work], undone: set[Work]) -> list[list[Work]]:
    """What accumulates gradients in each of several passes through the same network; empty where they are not the same.

    A pass begins with an operation that is undone, behind nodes of the backward pass. An update between passes takes
    the gradients of those before it: they are of several optimizers, or steps.
    """
    passes: list[list[Work]] = []
    forward = updated = False
    for work in works:
        updated |= bool(passes) and work.part == "update" and work.event.name.startswith(UPDATE)
        if work in undone and work.part == "operation":
            forward = True
        elif work.part == "node":
            if forward and updated:
                return []
            if forward or not passes:
                passes.append([])
                forward = False
            passes[-1] += [work] * work.accumulates
    sizes = {tuple(work.gradient_bytes for work in each) for each in passes}
    return passes if len(passes) > 1 and len(sizes) == 1 and () not in sizes else []


def _evaluated(works: Sequence[Work], undone: set[Work]) -> bool:
    """Whether the network ran once more without a backward pass: a call of it, or half of its operations in turn."""
    operations = [work for work in works if work.part == "operation" and not work.copies_from_host]
    calls = {work.call.outermost for work in operations if work.call is not None}
    trained = {work.call.outermost for work in operations if work.call is not None and work in undone}
    if trained:
        return any(call.name in {own.name for own in trained} for call in calls - trained)
    places = [index for index, work in enumerate(operations) if work in undone]
    if not places:
        return False
    own = [operations[place].event.name for place in places if "dropout" not in operations[place].event.name]
    half = own[: max(LEAST_ALIKE, len(own) // 2)]
    outside = [operations[: places[0]], operations[places[-1] + 1 :]]
    return len(half) >= LEAST_ALIKE and any(_within(half, [work.event.name for work in part]) for part in outside)


def _within(some: Sequence[str], names: Sequence[str]) -> bool:
    """Whether these stand in the names one after the other, with or without others between them."""
    left = iter(names)
    return all(name in left for name in some)


def _add(iteration: ProfiledIteration, work: Work, owner: ProfiledLayer, cost: "_Cost", *, accumulates: bool) -> None:
    """Adds the cost of a work where it belongs; `owner`: its layer, or the rest of the iteration.

    What the forward pass copies from the host is input, whichever layer copies it.
    """
    computing_s = cost.compute_s + cost.to_device_s
    iteration.rest.communication_s += cost.communication_s
    if work.part == "exchange":
        return
    if work.part == "update":
        iteration.update_s += computing_s
    elif work.part == "node":
        owner.backward_s += computing_s
        if accumulates:
            owner.gradient_bytes = _sum_bytes(owner.gradient_bytes, work.gradient_bytes)
    else:
        iteration.host_to_device_s += cost.to_device_s
        if work.part == "input":
            _add_wait(iteration, work.event)
        else:
            owner.forward_s += cost.compute_s


def _sum_bytes(known: int | Unknown, more: int | None) -> int | Unknown:
    """What a layer accumulates, of which one size that is not known leaves nothing known."""
    return NO_SHAPES if more is None or isinstance(known, Unknown) else known + more


def _add_wait(iteration: ProfiledIteration, waiting: Event) -> None:
    """The host's wait for input, also where the device had nothing to do meanwhile."""
    waited_s = waiting.dur / 1e6
    iteration.input_wait_s += waited_s
    iteration.input_s += waited_s if waiting.name.startswith(ONE_PROCESS) else 0.0


# ---- which layer a work belongs to -----------------------------------------------------------------------------------


def undone_by(works: Sequence[Work]) -> dict[Work, Work]:
    """Node of the backward pass -> the operation that it undoes, or accumulates gradients for."""
    creators = _creators(works)
    return {work: creator for work in works if (creator := _undone_by(work, creators)) is not None}


def _creators(works: Iterable[Work]) -> dict[int, Work]:
    """Sequence number -> the operation that has it.

    An operation notes the number that is to be given next. If it makes no node of the backward pass, it stays unused,
    and the operation behind it notes the same: the last one has it.
    """
    noted = [(when, number, work) for work in works if work.part == "operation" for when, number in work.sequences]
    return {number: work for _, number, work in sorted(noted, key=lambda note: note[0])}


def _undone_by(work: Work, creators: dict[int, Work]) -> Work | None:
    """The operation that a node of the backward pass undoes, or accumulates gradients for."""
    node = work.cause if work.accumulates else work
    if node is None or node.part != "node" or not node.sequences:
        return None
    return creators.get(node.sequences[0][1])


def _layers(operations: Sequence[Work], undone: set[Work]) -> tuple[list[ProfiledLayer], dict[Work, ProfiledLayer]]:
    """The layers of a forward pass, and which of the operations belong to which.

    Part of the forward pass is what is within a module, or between the first and the last operation that the backward
    pass undoes: other operations prepare the batch, or look at the results. So does what copies from the host.
    """
    begins = [work.event.ts for work in operations if work in undone]
    first, last = (begins[0], begins[-1]) if begins else (float("-inf"), float("inf"))
    layer_of: dict[Work, ProfiledLayer] = {}
    of_call: dict[Call, ProfiledLayer] = {}
    layers: list[ProfiledLayer] = []
    uses: Counter[str] = Counter()
    for work in operations:
        leaf = work.call if work.call is not None and work.call.leaf else None
        if work.copies_from_host:
            continue
        if leaf in of_call:
            layer_of[work] = of_call[leaf]
        elif work.call is not None or first <= work.event.ts <= last:
            layer_of[work] = ProfiledLayer(_name(work, uses))
            layers.append(layer_of[work])
            if leaf is not None:
                of_call[leaf] = layer_of[work]
    return layers, layer_of


def _name(work: Work, uses: Counter[str]) -> str:
    """The module that it is; or that it is in, and the operation; repeats get @1, as in a layer table."""
    operation = work.event.name.rpartition("::")[2]
    name = operation
    if work.call is not None:
        name = work.call.name if work.call.leaf else f"{work.call.name}.{operation}"
    uses[name] += 1
    return name if uses[name] == 1 else f"{name}@{uses[name] - 1}"


# ---- what it costs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cost:
    """Seconds."""

    compute_s: float = 0.0
    communication_s: float = 0.0
    to_device_s: float = 0.0  # copies from the host


def _host_cost(work: Work) -> _Cost:
    if work.part == "communication":
        return _Cost(communication_s=work.event.dur / 1e6)
    return _Cost(max(0.0, work.event.dur - work.exchanged) / 1e6)


def _device_cost(events: Iterable[Event]) -> _Cost:
    seconds = {"compute_s": 0.0, "communication_s": 0.0, "to_device_s": 0.0}
    for event in events:
        part = "communication_s" if event.name.lower().startswith("nccl") else "compute_s"
        seconds["to_device_s" if is_copy_from_host(event) else part] += event.dur / 1e6
    return _Cost(**seconds)

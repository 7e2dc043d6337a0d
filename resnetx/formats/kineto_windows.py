"""When the iterations of a profile began and ended, on the host.

`ProfilerStep#n` says so, which torch writes with a schedule only. Without it, an iteration of training is what
the optimizer ends: a pass forward and backward up to `Optimizer.step#...`, or where no optimizer of torch steps, up to
the next `Optimizer.zero_grad`, or the next pass. Of a profile without a backward pass, an iteration is a call of the
outermost modules, or what repeats in the sequence of operations. What lies before the first iteration is set-up.

Marks are read beside the updates: those of micro-batches whose gradients one update takes are one iteration, and those
without a backward pass among training steps are evaluation.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from resnetx.errors import FileError
from resnetx.formats.chrome import Event
from resnetx.formats.kineto_iterations import UPDATE, Window, Work, Works, undone_by
from resnetx.units import how_many

MAX_STEPS = 10_000
STEP = re.compile(r"ProfilerStep#\d+")
CLEARING = "Optimizer.zero_grad"
HOW_TO_MARK = (
    "profile with schedule=torch.profiler.schedule(wait=1, warmup=2, active=10, repeat=1), and call prof.step() at the "
    "end of each step (docs/traces.md shows it)"
)

# Operations that a network has in every pass, by a part of their names: set-up has none of them.
OF_NETWORKS = re.compile(
    r"conv|linear|mm\b|matmul|attention|lstm|gru|einsum|embedding|norm|softmax|pool|dropout|relu|gelu|silu"
)
# Operations that make tensors, fill them, move them or look at them; none is a layer's computing.
PLUMBING = re.compile(
    r"aten::(_?to(_copy)?|copy_|empty\w*|zeros\w*|ones\w*|zero_|fill_|full\w*|rand\w*|uniform_|normal_|arange|detach_?"
    r"|_has_compatible_shallow_copy_type|item|_local_scalar_dense|is_pinned|pin_memory|_pin_memory|lift_fresh|set_"
    r"|resize_|resolve_conj|resolve_neg|is_nonzero|clone|contiguous)|detach_?"
)
_ALL: Window = (float("-inf"), float("inf"))
_BASE, _MODULUS = 1_000_003, 2**61 - 1  # of the sums by which parts of a sequence are compared
# Of all operations, and at least: a part that stands twice. There may be several passes, which differ somewhere.
REPEATED, LEAST_REPEATED = 0.25, 4


@dataclass(frozen=True)
class ProfiledIterations:
    """The windows of iterations, and how they were found."""

    windows: list[Window]  # sorted
    taken: str  # what was taken for an iteration, in words; "": they are marked
    trains: bool = True  # the profile has a backward pass
    remarks: tuple[str, ...] = ()  # sentences on marks that are no iterations, or several updates in one


def find_iterations(found: Works, events: Iterable[Event], path: Path) -> ProfiledIterations:
    """The iterations of a profile; refused where it neither marks nor shows them. The path is for error messages."""
    trains = any(work.part == "node" for work in found.works)
    marks = (event for event in events if STEP.fullmatch(event.name) and not event.kind.startswith("gpu"))
    if marked := sorted((event.ts, event.end) for event in marks):
        _refuse_many(len(marked), path)
        return _of_marks(found, marked) if trains else ProfiledIterations(marked, "", trains)
    found_iterations = _of_training(found, path) if trains else _of_inference(found, path)
    _refuse_many(len(found_iterations.windows), path)
    return found_iterations


def _refuse_many(count: int, path: Path) -> None:
    if count > MAX_STEPS:
        raise FileError(f"{path}: has {count:,} iterations; expected at most {MAX_STEPS:,}: profile fewer")


# ---- training -------------------------------------------------------------------------------------------------------


@dataclass
class _Pass:
    """A pass forward and backward through the network, or several that the optimizer takes together; microseconds."""

    begin: float  # of the first operation that is undone
    turn: float  # of the first node of the backward pass
    end: float  # of the last one


def _of_marks(found: Works, marks: list[Window]) -> ProfiledIterations:
    """The marked iterations of training, each with all marks up to its update."""
    ended = sorted([*(update.ts for update in _updates(found)), *_Starts(found.works).clearings])
    nodes = [work.event.ts for work in found.works if work.part == "node"]
    joined: list[Window] = []
    most = marked = 1  # backward passes that updates part within a mark; marks up to an update
    idle, so_far, last = 0, 1, float("-inf")
    for mark in marks:
        own = nodes[bisect_left(nodes, mark[0]) : bisect_right(nodes, mark[1])]
        if not own:
            idle += 1
            continue
        if joined and ended and bisect_left(ended, last) == bisect_right(ended, own[0]):
            joined[-1] = (joined[-1][0], mark[1])
            so_far += 1
        else:
            joined.append(mark)
            so_far = 1
        marked, last = max(marked, so_far), own[-1]
        most = max(most, len({bisect_left(ended, node) for node in own}))
    if not joined:  # no backward pass is in any
        return ProfiledIterations(marks, "")
    remarks = []
    if marked > 1:
        remarks.append(f"{marked} step marks up to an update, one for each micro-batch, were taken for one iteration")
    if idle:
        remarks.append(f"{how_many(idle, 'step mark')} without a backward pass (evaluation) left out")
    if most > 1:
        remarks.append(
            f"a step mark has {most} backward passes with updates between them (of several optimizers or steps)"
        )
    return ProfiledIterations(joined, "", remarks=tuple(remarks))


def _updates(found: Works) -> list[Event]:
    return [work.event for work in found.works if work.event.name.startswith(UPDATE)]


def _of_training(found: Works, path: Path) -> ProfiledIterations:
    """Iterations by what ends them: an update, else the clearing of gradients, else the backward pass itself."""
    passes = _passes(found)
    if not passes:
        return ProfiledIterations([_ALL], "nothing in it begins a step, so all of it is one iteration")
    updates = _updates(found)
    starts = _Starts(found.works)
    if windows := _updated(passes, updates, starts):
        ends = {end for _, end in windows}
        if len(last := sorted({update.name for update in updates if update.end in ends})) > 1:
            raise FileError(_unclear(path, f"two optimizers update in turn ({', '.join(last)})"))
        steps, iterations = how_many(len(updates), "optimizer step"), how_many(len(windows), "iteration")
        return ProfiledIterations(windows, f"its {steps} ended {iterations}")
    together = _apart(passes, starts.clearings) if starts.clearings else passes
    begins = [starts.of(own, before) for before, own in zip([None, *together], together, strict=False)]
    what = "clearing of gradients" if starts.clearings else "backward pass"
    windows = [*pairwise(begins), (begins[-1], float("inf"))]
    return ProfiledIterations(windows, f"each {what} was taken for that of an iteration, of which it has {len(begins)}")


def _passes(found: Works) -> list[_Pass]:
    """The passes of a profile in turn: operations that are undone, then nodes that undo them."""
    undone = set(undone_by(found.works).values())
    undone = undone or {work for work in found.works if _computes(work, found.on_device)}  # without sequence numbers
    passes: list[_Pass] = []
    begin: float | None = None
    for work in found.works:
        event = work.event
        if work in undone:
            begin = event.ts if begin is None else begin
        elif work.part == "node" and begin is not None:
            passes.append(_Pass(begin, event.ts, event.end))
            begin = None
        elif work.part == "node" and passes:
            passes[-1].end = max(passes[-1].end, event.end)
    return passes


def _updated(passes: Sequence[_Pass], updates: Sequence[Event], starts: "_Starts") -> list[Window]:
    """From the end of one update to that of the next; a pass that no update follows is cut off, and left out."""
    times = [update.ts for update in updates]
    together = _apart(passes, times)
    windows: list[Window] = []
    for own, after in zip(together, [*together[1:], None], strict=True):
        last = bisect_right(times, float("inf") if after is None else after.turn) - 1
        if last >= 0 and times[last] >= own.end:
            windows.append((windows[-1][1] if windows else starts.of(own, None), updates[last].end))
    return windows


def _apart(passes: Sequence[_Pass], times: Sequence[float]) -> list[_Pass]:
    """The passes, with those put together whose backward passes have none of these times (sorted) between them."""
    together: list[_Pass] = []
    for own in passes:
        if together and bisect_left(times, together[-1].end) == bisect_right(times, own.turn):
            together[-1] = _Pass(together[-1].begin, together[-1].turn, own.end)
        else:
            together.append(own)
    return together


class _Starts:
    """What an iteration may begin with, before its forward pass: waiting for its input, clearing gradients."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._waits = [work.event.ts for work in works if work.part == "input"]
        self.clearings = [work.event.ts for work in works if work.event.name.startswith(CLEARING)]

    def of(self, own: _Pass, before: _Pass | None) -> float:
        """When an iteration began; `before`: the passes of the iteration before it."""
        begin, earliest = own.begin, float("-inf") if before is None else before.end
        for times in (self._waits, self.clearings):
            index = bisect_left(times, own.begin) - 1  # of the last one before the forward pass
            if index >= 0 and times[index] >= earliest:
                begin = min(begin, times[index])
        return begin


# ---- inference ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Item:
    """A call of the whole network, or an operation; microseconds."""

    name: str
    begin: float
    end: float


def _of_inference(found: Works, path: Path) -> ProfiledIterations:
    """Iterations of a profile that has no backward pass."""
    computing = [work for work in found.works if _computes(work, found.on_device)]
    calls = dict.fromkeys(work.call.outermost for work in computing if work.call is not None)
    if calls:
        items = [_Item(call.name, call.event.ts, call.event.end) for call in calls]
        names = [item.name for item in items]
        begin, length = _repetition(names)
        if begin or (not length and len(set(names)) < len(names)):
            raise FileError(_unclear(path, f"its {len(calls)} calls of networks are not the same each time"))
        return _repeated(items, 0, length or len(items), "call of its network")
    items = [_Item(work.event.name, work.event.ts, work.event.end) for work in computing]
    names = [item.name for item in items]
    begin, length = _repetition(names)
    if length and not any(OF_NETWORKS.search(name) for name in names[:begin]):
        return _repeated(items, begin, length, "run", f" of the same {how_many(length, 'operation')}")
    if _repeats_much(names):
        raise FileError(_unclear(path, "operations repeat, but not the same each time"))
    whole = (items[0].begin, items[-1].end) if items else _ALL
    return ProfiledIterations([whole], "nothing in it repeats, so all of it is one iteration", trains=False)


def _computes(work: Work, on_device: bool) -> bool:
    """Whether an operation computes: it is no plumbing, and on a GPU it launched a kernel."""
    if work.part != "operation" or PLUMBING.fullmatch(work.event.name):
        return False
    return not on_device or any(event.kind == "kernel" for event in work.device)


def _repeated(items: Sequence[_Item], begin: int, length: int, what: str, of: str = "") -> ProfiledIterations:
    """An iteration for each so many items."""
    groups = [items[index : index + length] for index in range(begin, len(items), length)]
    taken = f"each {what}{of} was taken for an iteration, of which it has {len(groups)}"
    return ProfiledIterations([(group[0].begin, group[-1].end) for group in groups], taken, trains=False)


def _unclear(path: Path, why: str) -> str:
    return f"{path}: has no step marks (ProfilerStep#n), and {why}: no iteration can be told from it; {HOW_TO_MARK}"


def _repetition(names: Sequence[str]) -> tuple[int, int]:
    """Where what repeats up to the end begins, and the length of one repetition; (0, 0) where nothing does.

    Of all that repeat, what covers the most; of these the shortest.
    """
    covered, repeated = 0, 0
    for length, alike in enumerate(_alike_with_begin(names[::-1])):
        whole = (length + alike) // length * length if length else 0
        if whole >= 2 * length and whole > covered:
            covered, repeated = whole, length
    return (len(names) - covered, repeated) if repeated else (0, 0)


def _alike_with_begin(names: Sequence[str]) -> list[int]:
    """How many names from each place on are those that the sequence begins with (the Z-function of strings)."""
    alike = [0] * len(names)
    begin = end = 0  # of what is known to be alike, the part that reaches furthest
    for index in range(1, len(names)):
        count = min(alike[index - begin], end - index) if index < end else 0
        while index + count < len(names) and names[count] == names[index + count]:
            count += 1
        alike[index] = count
        if index + count > end:
            begin, end = index, index + count
    return alike


def _repeats_much(names: Sequence[str]) -> bool:
    """Whether a large part of a sequence stands in it twice."""
    length = max(LEAST_REPEATED, int(REPEATED * len(names)))
    number = {name: index for index, name in enumerate(dict.fromkeys(names), start=1)}
    power = pow(_BASE, length, _MODULUS)
    before = [0]
    for name in names:
        before.append((before[-1] * _BASE + number[name]) % _MODULUS)
    seen: dict[int, int] = {}
    for place in range(len(names) - length + 1):
        sum_of_part = (before[place + length] - before[place] * power) % _MODULUS
        if place - seen.setdefault(sum_of_part, place) >= length:
            return True
    return False

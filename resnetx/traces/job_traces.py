"""A data-parallel job from the profiles of all of its ranks: what each does itself, waits for, and sends.

Steps of ranks are one by their number (`ProfilerStep#n`), and the n-th collective of an operation and a size is one.
Collectives end on all ranks together, which aligns them without common clocks. The last rank to arrive has the
shortest, its **transfer**; what others have it longer is **waiting**. A step that lacks one on a rank is left out, and
said.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean, median

import msgspec

from resnetx.errors import ConfigError, FileError, shortened, visible
from resnetx.formats import kineto
from resnetx.formats.chrome import is_json
from resnetx.formats.kineto_ranks import Collective, RankProfile, RankStep, joined, length_s, own_s
from resnetx.formats.kineto_windows import HOW_TO_MARK
from resnetx.loading import is_file, is_folder
from resnetx.record import sealing
from resnetx.record.sealing import SCHEMA, Unknown, Warning, known, seal
from resnetx.record.traces import (
    Observation,
    Trace,
    TracedCommunication,
    TracedMessage,
    old_files,
    rank_folder,
    trace_folder,
)
from resnetx.traces.trace_files import NAME, SILENT, read, slug, unpacked
from resnetx.units import in_ms, si

MOST_FILES = 4096
DIGITS = 9  # of recorded seconds behind the decimal point
MOST_APART = 0.2  # of the time of all steps, by which ranks of one run may differ, as one is seen to end later
SAID = 3  # missing collectives that are told one by one
_RANK = re.compile(r"rank[-_]?(\d{1,6})")
_Key = tuple[str, int, int]  # operation and size of a collective, and which one of these it is in its step


def profiles_of(paths: Sequence[Path]) -> list[Path]:
    """The files that are meant: files as they are, what a pattern matches, the profiles in a folder."""
    found: list[Path] = []
    for path in paths:
        if is_folder(path):
            own = sorted(file for file in path.iterdir() if file.name.endswith((".json", ".json.gz")))
            if not own:
                raise ConfigError(f"{path}: has no .json or .json.gz file; expected the profiles of a job's ranks")
        elif not is_file(path) and any(letter in path.name for letter in "*?["):
            there = path.parent.iterdir() if is_folder(path.parent) else ()
            own = sorted(file for file in there if fnmatchcase(file.name, path.name))
            if not own:
                raise ConfigError(f"{path}: no file is called so; expected the profiles of a job's ranks")
        else:
            own = [path]
        found += own
    if len(found) > MOST_FILES:
        raise ConfigError(f"{found[0]}: one of more than {MOST_FILES:,} files; expected one for each rank of a job")
    return found


def import_job(
    paths: Sequence[Path],
    *,
    batch_size: int,
    device: str | None,
    results: Path,
    workload: str | None = None,
    parts: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Keeps what the profiles of a job's ranks say; returns the folder, for `explain` and `predict`.

    `rank<n>/record.json` has the steps of each rank as `observe` writes them, `trace/trace.json` the layers of the rank
    that is in the middle, without communication, and the messages of all. Settings as of `files.import_`.
    """
    ranks = _ranks(paths)
    steps, missing = _matched(ranks)
    totals = {
        rank.number: median(sum(own_s(step).values()) for step in own) for rank, own in zip(ranks, steps, strict=True)
    }
    middle = sorted(ranks, key=lambda rank: totals[rank.number])[(len(ranks) - 1) // 2]
    workload = workload or visible(Path(paths[0]).absolute().parent.name) or "job"
    trace = read(middle.files[0], batch_size=batch_size, device=device, workload=workload, parts=parts, alone=False)
    trace = msgspec.structs.replace(
        trace,
        source=f"{trace.source}, the middle one of {len(ranks)} ranks",
        communication=_communication(steps, len(ranks) * batch_size, ranks[0].profile.strategy),
        warnings=[*trace.warnings, *missing],
    )
    folder = results / "imported" / "job" / f"{slug(workload)}_{slug(trace.device or 'cpu')}_{len(ranks)}-ranks"
    for rank, observation in zip(ranks, _observations(ranks, steps, trace, batch_size), strict=True):
        for old in old_files(folder, rank.number, len(ranks)):
            old.unlink(missing_ok=True)
        sealing.write(rank_folder(folder, rank.number).record, observation)
    sealing.write(trace_folder(folder) / NAME, trace)
    return folder


# ---- ranks ----------------------------------------------------------------------------------------------------------


@dataclass
class _Rank:
    """What the profiles of one rank say; several are of several cycles of a schedule."""

    number: int
    profile: RankProfile  # of the first file
    files: list[Path] = field(default_factory=list)
    steps: dict[int, RankStep] = field(default_factory=dict)
    measured_at: str = ""
    taken: str = ""  # what was taken for an iteration; "": they are marked
    accumulated: int = 1
    gradient_bytes: int | None = None


def _ranks(paths: Sequence[Path]) -> list[_Rank]:
    """All ranks of the job, by their numbers."""
    ranks: dict[int, _Rank] = {}
    for path in paths:
        data = unpacked(path)
        if not is_json(data):
            raise FileError(
                f"{path}: no profile of PyTorch, and one of several files; expected one of each rank of a job"
            )
        profile = kineto.parse(data, path)
        del data
        own = profile.rank
        if own is None:
            raise FileError(
                f"{path}: a profile of one process that trains alone, and one of several files; import it by itself"
            )
        number = own.rank if own.rank is not None else _by_name(path)
        rank = ranks.setdefault(number, _Rank(number, own, measured_at=profile.measured_at or ""))
        first = ranks[next(iter(ranks))]
        if (own.ranks, own.strategy) != (first.profile.ranks, first.profile.strategy):
            raise ConfigError(
                f"{path}: of {own.strategy} on {own.ranks} ranks, and {first.files[0]} is of {first.profile.strategy} "
                f"on {first.profile.ranks}; expected the ranks of one job"
            )
        if again := [step.number for step in own.steps if step.number in rank.steps]:
            raise ConfigError(
                f"{path}: has step {again[0]} of rank {number}, and so does {rank.files[-1]}; expected one profile of "
                "each rank (or several of one, of other steps)"
            )
        rank.files.append(path)
        rank.steps |= {step.number: step for step in own.steps}
        rank.taken = profile.taken
        rank.accumulated = profile.accumulated
        sizes: list[object] = [layer.gradient_bytes for layer in profile.times.layers]
        if all(isinstance(size, int) for size in sizes):
            rank.gradient_bytes = sum(size for size in sizes if isinstance(size, int))
    _refuse_incomplete(ranks)
    return [ranks[number] for number in sorted(ranks)]


def _by_name(path: Path) -> int:
    if match := _RANK.search(path.name):
        return int(match[1])
    raise ConfigError(f"{path}: does not say of which rank it is; expected rank<n> in its name")


def _refuse_incomplete(ranks: Mapping[int, _Rank]) -> None:
    any_rank = next(iter(ranks.values()))
    count = any_rank.profile.ranks or max(ranks) + 1
    if missing := [number for number in range(min(count, MOST_FILES)) if number not in ranks]:
        absent = shortened(", ".join(map(str, missing)))
        raise ConfigError(
            f"{any_rank.files[0]}: of a job of {count} ranks, and rank{'s' * (len(missing) > 1)} {absent} "
            f"{'are' if len(missing) > 1 else 'is'} not there; expected the profiles of all, without which nobody "
            "knows who came last (one alone can be imported for its layers)"
        )
    if unlike := [number for number in ranks if number >= count]:
        raise ConfigError(f"{ranks[unlike[0]].files[0]}: of rank {unlike[0]} of {count}; expected ranks from 0")
    if silent := next((rank for rank in ranks.values() if not rank.steps), None):
        raise FileError(
            f"{silent.files[0]}: has no two iterations with collectives; expected training steps of DDP or FSDP, "
            f"profiled on all ranks; {HOW_TO_MARK}"
        )
    counts = {len(rank.steps) for rank in ranks.values()}
    if any_rank.taken and len(counts) > 1:
        raise FileError(
            f"{any_rank.files[0]}: has no step marks (ProfilerStep#n), and the ranks have {min(counts)} to "
            f"{max(counts)} iterations, so that it is not known which are one step; {HOW_TO_MARK}"
        )


# ---- one step of all ranks ------------------------------------------------------------------------------------------


def _matched(ranks: Sequence[_Rank]) -> tuple[list[list[RankStep]], list[Warning]]:
    """The steps that all ranks have, of each rank, with their collectives in one order; and what is missing."""
    numbers = sorted(set.intersection(*(set(rank.steps) for rank in ranks)))
    if not numbers:
        spans = [f"rank {rank.number}: {min(rank.steps)} to {max(rank.steps)}" for rank in ranks[:3]]
        raise FileError(
            f"{ranks[0].files[0]}: the ranks have no step in common ({'; '.join(spans)}); expected profiles of the "
            "same steps"
        )
    matched: list[list[RankStep]] = [[] for _ in ranks]
    said: list[str] = []
    left_out = set()
    for number in numbers:
        steps = [rank.steps[number] for rank in ranks]
        keyed = [_keyed(step.collectives) for step in steps]
        if lacking := list(_lacking(ranks, keyed, number)):
            said += lacking
            left_out.add(number)
        elif number - 1 not in left_out:  # whose end a rank may have seen elsewhere
            _refuse_other_steps(ranks, keyed, number)
            for step, by_key, kept in zip(steps, keyed, matched, strict=True):
                kept.append(RankStep(number, step.begin, step.end, [by_key[key] for key in keyed[0]], step.phases))
    _refuse_other_times(ranks, matched)
    more = f"; and {len(said) - SAID} more" if len(said) > SAID else ""
    sentence = f"{'; '.join(said[:SAID])}{more}"
    if not matched[0]:
        raise FileError(f"{ranks[0].files[0]}: no step has the same collectives on all ranks ({sentence})")
    if not said:
        return matched, []
    left = f"{sentence}: {len(numbers) - len(matched[0])} of {len(numbers)} steps are left out"
    return matched, [Warning(code="collective-missing", message=left, remedy="look at what that rank does there")]


def _refuse_other_times(ranks: Sequence[_Rank], matched: Sequence[Sequence[RankStep]]) -> None:
    """Refuses ranks whose steps do not take equally long together, as collectives make them: of different runs."""
    spans = [sum(step.end - step.begin for step in steps) for steps in matched]
    short, long = min(spans), max(spans)
    if short < (1 - MOST_APART) * long:
        places = spans.index(short), spans.index(long)
        times = [f"{in_ms(span / len(matched[0]) / 1e6)} ms" for span in (short, long)]
        raise FileError(
            f"{ranks[places[0]].files[0]}: its steps take {times[0]}, and those of {ranks[places[1]].files[0]} "
            f"{times[1]}, but collectives end on all ranks together; expected the ranks of one run"
        )


def _keyed(collectives: Sequence[Collective]) -> dict[_Key, Collective]:
    """By operation, size, and which one of these it is: gloo's threads may begin two of them in another order."""
    seen: Counter[tuple[str, int]] = Counter()
    keyed = {}
    for collective in collectives:
        keyed[collective.operation, collective.size_bytes, seen[collective.operation, collective.size_bytes]] = (
            collective
        )
        seen[collective.operation, collective.size_bytes] += 1
    return keyed


def _lacking(ranks: Sequence[_Rank], keyed: Sequence[dict[_Key, Collective]], number: int) -> Iterator[str]:
    """What a rank lacks that others have in a step: one for each rank."""
    keys = dict.fromkeys(key for collectives in keyed for key in collectives)
    for rank, own in zip(ranks, keyed, strict=True):
        if absent := [key for key in keys if key not in own]:
            operation, size_bytes, _ = absent[0]
            size = f" of {si(size_bytes, 'B')}" if size_bytes else ""
            article = "an" if operation[0] in "aeiou" else "a"
            yield f"rank {rank.number} lacks {article} {operation}{size} in step {number}"


def _refuse_other_steps(ranks: Sequence[_Rank], keyed: Sequence[dict[_Key, Collective]], number: int) -> None:
    """Refuses steps of one number whose collectives have other numbers in their group."""
    for key in keyed[0]:
        if len(counted := {collectives[key].number for collectives in keyed} - {None}) > 1:
            raise FileError(
                f"{ranks[0].files[0]}: in step {number} its collectives have other numbers (Seq) than those of other "
                f"ranks ({' and '.join(map(str, sorted(filter(None, counted))[:2]))}); expected the same steps"
            )


def _shortest(steps: Sequence[RankStep], index: int) -> tuple[float, float]:
    """Microseconds of a collective on the rank that arrives last: since it arrived, and since it runs."""
    collectives = [step.collectives[index] for step in steps]
    return min(collective.end - collective.arrived for collective in collectives), min(
        collective.end - collective.begin for collective in collectives
    )


# ---- records --------------------------------------------------------------------------------------------------------


def _observations(
    ranks: Sequence[_Rank], steps: Sequence[Sequence[RankStep]], trace: Trace, batch_size: int
) -> Iterator[Observation]:
    together = list(zip(*steps, strict=True))
    transfers = [[_shortest(step, index)[0] for index in range(len(step[0].collectives))] for step in together]
    for rank, own in zip(ranks, steps, strict=True):
        phases = [own_s(step) for step in own]
        exposed = [_exposed(step, shortest) for step, shortest in zip(own, transfers, strict=True)]

        def rounded(values: Sequence[float]) -> list[float]:
            return [max(0.0, round(value, DIGITS)) for value in values]

        gradients = rank.gradient_bytes
        yield seal(
            Observation(
                kind="observation", schema=SCHEMA, workload=trace.workload, strategy=rank.profile.strategy,
                rank=rank.number, ranks=len(ranks), node=visible(rank.profile.host), device=trace.device or "",
                sm_clock_Hz=known(SILENT), clock=trace.batches[0].times.clock, software="", started_at=rank.measured_at,
                batch_size=batch_size, micro_batches=rank.accumulated,
                parameters=known(SILENT), gradient_bytes=known(SILENT if gradients is None else gradients), hooks=0,
                update_s=rounded([phase["update"] for phase in phases]),
                input_s=rounded([phase["input"] for phase in phases]),
                waiting_s=[0.0 for _ in own],
                forward_s=rounded([phase["forward"] for phase in phases]),
                backward_s=rounded([phase["backward"] for phase in phases]),
                exposed_s=rounded([sum(interval) for interval in exposed]),
                step_s=rounded([(step.end - step.begin) / 1e6 for step in own]),
                for_last_s=rounded([waiting for waiting, _ in exposed]),
                buckets=known(Unknown("a profile does not say")), unknown={},
            )
        )  # fmt: skip


def _exposed(step: RankStep, shortest: Sequence[float]) -> tuple[float, float]:
    """Seconds in which a rank is blocked: until the last rank has arrived, and while something is transferred."""
    blocked = [step.blocked(collective) for collective in step.collectives]
    transferred = joined(
        (max(begin, end - least), end) for (begin, end), least in zip(blocked, shortest, strict=True) if begin < end
    )
    moving_s = length_s(transferred)
    return max(0.0, length_s(joined(blocked)) - moving_s), moving_s


def _communication(steps: Sequence[Sequence[RankStep]], batch_size: int, strategy: str) -> list[TracedCommunication]:
    """The messages of a step, of the steps that have those of most; [] where their sizes are not said."""
    together = list(zip(*steps, strict=True))
    kinds = [
        tuple((collective.operation, collective.size_bytes) for collective in step[0].collectives) for step in together
    ]
    ((usual, _),) = Counter(kinds).most_common(1)
    if not all(size_bytes for _, size_bytes in usual):
        return []
    alike = [step for step, kind in zip(together, kinds, strict=True) if kind == usual]
    messages = []
    for index, (operation, size_bytes) in enumerate(usual):
        transfers = [_shortest(step, index)[1] / 1e6 for step in alike]
        whole = [
            fmean(own.collectives[index].end - own.collectives[index].begin for own in step) / 1e6 for step in alike
        ]
        messages.append(
            TracedMessage(
                size_bytes=size_bytes,
                waiting_s=[round(all_s - least_s, DIGITS) for all_s, least_s in zip(whole, transfers, strict=True)],
                transfer_s=[round(least_s, DIGITS) for least_s in transfers],
                operation=operation,
            )
        )
    return [
        TracedCommunication(
            gpus=len(steps),
            batch_size=batch_size,
            strategy="bucket" if strategy == "ddp" else strategy,
            messages=messages,
        )
    ]

"""What was measured on machines, as what the statements of a paper are checked on.

    resnetx reproduce tallent2017 results/node-a/machine results/node-b/machine
    resnetx reproduce tallent2017 gx8:results/node-b/machine

A machine is a folder of studies and benches, as `sweep study=machine` makes it, and stands for a system of the paper:
the first one given for the first one named there, unless its name is set before a colon. What ran in the lab
(`resnetx lab`) is of the system whose links were built, and its rates are multiplied by the scale of these links.

The interval of a rate is that of repeats, from six on; what fewer runs say of training decides no statement. That of a
collective or a copy is what nine of ten timings lie within.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from resnetx.api.stored import MeasuredStudy, measured_study, stored
from resnetx.choices import Lab
from resnetx.errors import ConfigError, unknown_name
from resnetx.literature.claim_items import COPIES, Item, exact, of_collectives, of_copies
from resnetx.literature.claims import check_paper, published
from resnetx.loading import is_file, is_folder
from resnetx.record import BenchRecord, StudyFolder, read
from resnetx.record.bench_record import families
from resnetx.record.comparisons import CheckedClaim, CollectivePoint, CopyPoint, Estimate
from resnetx.record.literature import MeasuredMachine
from resnetx.reporting.charts.systems import MeasuredRate
from resnetx.reporting.study_points import StudyPoint
from resnetx.request import settings_label, varying_settings
from resnetx.settings.files import given_path
from resnetx.statistics import MIN_RUNS, Summary
from resnetx.units import how_many

MEASURED = "measured"  # the variant of all of it, in place of a library
LAB_BYTES = 2**20  # smaller messages in the lab take what namespaces take, which is no latency of the system's
MIDDLE = (0.05, 0.95)  # of the timings of a collective or a copy: between these are nine of ten


@dataclass(frozen=True)
class Rate:
    """A case of training on a machine that stands for a system."""

    system: str
    variant: str
    point: StudyPoint
    iterations_per_s: Estimate | None  # null: no run went well
    speedup: Estimate | None
    runs: int


@dataclass(frozen=True)
class Measured:
    """All that was measured."""

    machines: list[MeasuredMachine]
    rates: list[Rate]
    collectives: list[CollectivePoint]
    copies: list[CopyPoint]

    @property
    def drawn(self) -> list[MeasuredRate]:
        """The rates, as figures have them: of several ways to exchange gradients, the paper's."""
        strategies = {rate.point.request.strategy.kind for rate in self.rates}
        wanted = {"after"} & strategies or strategies
        return [
            MeasuredRate(
                system=rate.system,
                workload=rate.point.workload,
                batch_size=rate.point.request.batch_size,
                gpus=rate.point.gpus,
                iterations_per_s=rate.iterations_per_s,
                runs=rate.runs,
            )
            for rate in self.rates
            if rate.iterations_per_s and rate.point.request.strategy.kind in wanted
        ]


def is_machine(word: str) -> bool:
    """Whether it is a folder, or a system's name with one: what is left is the name of a paper."""
    return any(
        is_folder(given_path(path)) or is_file(given_path(path)) for path in (word, word.partition(":")[2]) if path
    )


def measured(paper: str, words: Sequence[str]) -> Measured:
    """What was measured on the machines that are given for the systems of a paper."""
    stated = published(paper)
    systems = stated.systems or list(stated.cases)
    found = Measured([], [], [], [])
    for system, path in _placed(paper, words, systems):
        records = [entry for entry in stored(path) if entry.kind in ("study", "bench")]
        if not records:
            raise ConfigError(
                f"{path}: contains no study and no bench; expected what `resnetx sweep study=machine` writes"
            )
        studies = [measured_study(StudyFolder(record.path)) for record in records if record.kind == "study"]
        benches = [read(record.file, BenchRecord) for record in records if record.kind == "bench"]
        found.rates.extend(_rates(studies, system, systems))
        found.collectives.extend(_collectives(benches, system, systems))
        found.copies.extend(_copies(benches, system, systems))
        there = [_system(point.request.lab, system, systems) for study in studies for point in study.points]
        there += [_system(bench.request.lab if bench.request else None, system, systems) for bench in benches]
        labs = [point.request.lab for study in studies for point in study.points]
        labs += [bench.request.lab for bench in benches if bench.request]
        for name in dict.fromkeys(there):
            scale = next((lab.scale for lab in labs if lab and lab.system == name), None)
            found.machines.append(MeasuredMachine(system=name, path=str(path), lab_scale=scale))
    return found


def _placed(paper: str, words: Sequence[str], systems: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Each folder with the system that it stands for."""
    left = list(systems)
    for word in words:
        name, colon, path = word.partition(":")
        if colon and not is_folder(given_path(word)):
            if name not in systems:
                raise unknown_name(f"system of {paper}", name, systems, "before a colon")
            yield name, given_path(path)
            left = [each for each in left if each != name]
        elif not left:
            raise ConfigError(f"{word}: one machine more than {paper} has systems ({', '.join(systems)}); leave it out")
        else:
            yield left.pop(0), given_path(word)


def _system(lab: Lab | None, system: str, systems: Sequence[str]) -> str:
    return lab.system if lab and lab.system in systems else system


# ---- as items -------------------------------------------------------------------------------------------------------


def _rates(studies: Iterable[MeasuredStudy], system: str, systems: Sequence[str]) -> Iterator[Rate]:
    points = [point for study in studies for point in study.points]
    varying = [key for key in varying_settings([(point.request, "") for point in points]) if not key.startswith("lab")]
    for point in points:
        request, scale = point.request, point.request.lab.scale if point.request.lab else 1.0
        if request.measure != "step" or point.result.outcome == "missing":
            continue
        variant = ", ".join(filter(None, [MEASURED, settings_label(request, varying)]))
        yield Rate(
            _system(request.lab, system, systems), variant, point, _estimate(point.result.iterations_per_s, scale),
            _estimate(point.result.speedup, 1.0), len(point.good_runs),
        )  # fmt: skip


def _estimate(summary: Summary | None, factor: float) -> Estimate | None:
    if summary is None:
        return None
    return Estimate(value=summary.median * factor, low=summary.low * factor, high=summary.high * factor)


def _collectives(benches: Iterable[BenchRecord], system: str, systems: Sequence[str]) -> Iterator[CollectivePoint]:
    """Each collective at each size, of all repeats."""
    times: dict[tuple[str, str, int, int], list[float]] = {}
    for bench in benches:
        lab = bench.request.lab if bench.request else None
        for point in bench.points:
            if lab is None or point.size_bytes >= LAB_BYTES:
                key = _system(lab, system, systems), point.collective, bench.world_size or 0, point.size_bytes
                times.setdefault(key, []).extend(time_s / (lab.scale if lab else 1.0) for time_s in point.times_s)
    for (name, collective, gpus, size_bytes), times_s in times.items():
        time_s, error = _median_and_error(times_s)
        yield CollectivePoint(
            system=name, library=MEASURED, collective=collective, gpus=gpus, size_bytes=size_bytes, time_s=time_s,
            algbw_Bps=size_bytes / time_s, error=error,
        )  # fmt: skip


def _copies(benches: Iterable[BenchRecord], system: str, systems: Sequence[str]) -> Iterator[CopyPoint]:
    """Each copy one way between two GPUs, or from the host to one, at each size, of all repeats."""
    times: dict[tuple[str, int | None, int, int, int | None], list[float]] = {}
    for bench in benches:
        lab = bench.request.lab if bench.request else None
        for family, cells in families(bench.cells).items():
            for cell in cells:
                source = None if family.copy == "from-host" else cell.source
                if family.direction != "one-way" or isinstance(source, str) or isinstance(cell.target, str):
                    continue
                if lab is None or cell.size_bytes >= LAB_BYTES:
                    key = _system(lab, system, systems), source, cell.target, cell.size_bytes, cell.through
                    times.setdefault(key, []).extend(time_s / (lab.scale if lab else 1.0) for time_s in cell.time_s)
    for (name, source, target, size_bytes, through), times_s in times.items():
        time_s, error = _median_and_error(times_s)
        yield CopyPoint(
            system=name, source=source, target=target, size_bytes=size_bytes, time_s=time_s, peers=False,
            through=through, error=error,
        )  # fmt: skip


def _median_and_error(times_s: Sequence[float]) -> tuple[float, float]:
    """The median, and how far nine of ten timings are from it at most."""
    low, time_s, high = np.quantile(times_s, [MIDDLE[0], 0.5, MIDDLE[1]]).tolist()
    return time_s, max(time_s / low, high / time_s) - 1


def _items(found: Measured) -> Iterator[Item]:
    """All of it, as statements read it."""
    cases: dict[tuple[str, str, int, int], list[Rate]] = {}
    for rate in found.rates:
        request = rate.point.request
        cases.setdefault((rate.variant, rate.point.workload, request.batch_size, request.gpus), []).append(rate)
    for (variant, workload, batch_size, gpus), rates in cases.items():
        values = {
            "iterations_per_s": {each.system: each.iterations_per_s for each in rates if each.iterations_per_s},
            "speedup": {each.system: each.speedup for each in rates if each.speedup},
            # Where computing is waited out, memory is not filled.
            "missing": {
                each.system: exact(each.point.result.outcome == "oom")
                for each in rates
                if not each.point.request.replay and each.point.result.outcome in ("ok", "oom")
            },
        }
        words = f"{workload}, batch {batch_size}, {how_many(gpus, 'GPU')}"
        yield Item("points", variant, words, values, workload=workload, batch_size=batch_size, gpus=gpus)
    yield from of_collectives(found.collectives)
    for copied in of_copies(found.copies):
        yield replace(copied, values={name: value for name, value in copied.values.items() if name != "peers"})


def checked_on(paper: str, found: Measured) -> list[CheckedClaim]:
    """The statements that what was measured says something of."""
    items = list(_items(found))
    lacking = [rate for rate in found.rates if rate.iterations_per_s and rate.runs < MIN_RUNS]
    few = list(_items(replace(found, rates=lacking, collectives=[], copies=[])))
    claims, cases = {claim.id: claim for claim in published(paper).claims}, {item.words for item in items}
    lab = any(machine.lab_scale for machine in found.machines)
    told = []
    for each in check_paper(paper, items):
        if each.outcome == "not predicted":
            continue
        # What was an input of the description is measured, but in the lab, whose links are built by the description.
        each = msgspec.structs.replace(
            each, cause="", outcome="hit" if each.outcome == "given" and not lab else each.outcome
        )
        its = [item for item in few if (item.of, item.variant) == (claims[each.claim].of, each.variant)]
        if any(
            claims[each.claim].where.holds(item) and each.where in (item.words, *{each.where} - cases) for item in its
        ):
            each = msgspec.structs.replace(each, outcome="open", note=f"from fewer than {MIN_RUNS} runs")
        told.append(msgspec.structs.replace(each, variant=each.variant.replace(COPIES, MEASURED)))
    return told

"""What papers state beside what is predicted of the same: every statement of their files, by one command.

    resnetx compare papers=all
    resnetx compare papers=[li2019,shi2018] --all
    resnetx reproduce tallent2017 figure=12 out=FOLDER      # with its figures, drawn of what is predicted

The statements are data, `results/published/PAPER.yaml`. A paper that compared two systems over a study is predicted as
`compare systems=[...] study=...` does it; of the others, only what their statements ask for: collectives and copies of
their cases, and their workloads there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from resnetx import __version__, progress
from resnetx.api import systems
from resnetx.api.predict import predicted
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.system import System
from resnetx.literature.claim_checks import Selection
from resnetx.literature.claim_items import COPIES, TRAFFIC, Traffic, of_points, of_traffic
from resnetx.literature.claims import PAPERS, Case, Claims, check_paper, left_to_the_paper, of_messages, published
from resnetx.literature.explanations import with_causes, with_statements
from resnetx.literature.steered_page import steer_owned, tensorflow_variables_bytes
from resnetx.operations import OPERATIONS
from resnetx.record import SCHEMA
from resnetx.record.comparisons import CheckedClaim, CollectivePoint, CopyPoint, SystemComparison, SystemPoint
from resnetx.record.literature import CheckedPapers, UncheckedStatement
from resnetx.record.prediction import PredictedPoint
from resnetx.reporting.compared_systems import compare_systems, side_by_side
from resnetx.workloads import table
from resnetx.workloads.counts import variables_bytes

ALL = "all"
# Of points: cases may differ in these, and stand side by side all the same.
OF_CASES = {"library": "", "strategy": "", "precision": "", "framework": "", "request": None}
SIZES_BYTES = [2**power for power in range(2, 31)]  # of messages: 4 bytes to 1 GiB, as far as the papers went


def check_papers(names: Sequence[str]) -> CheckedPapers:
    """Every statement of the papers, checked on what today's model says."""
    papers = list(PAPERS) if ALL in names else list(dict.fromkeys(names))
    for name in papers:
        if name not in PAPERS:
            raise unknown_name("paper", name, PAPERS, "papers")
    checked: list[CheckedClaim] = []
    with progress.counting("papers", len(papers)) as advance:
        for name in papers:
            checked += predicted_beside(name).claims
            advance(1)
    return record_of(papers, checked)


def record_of(papers: Sequence[str], checked: list[CheckedClaim]) -> CheckedPapers:
    """The record of the papers, of which these are the statements that were checked."""
    left_out = [
        UncheckedStatement(paper=name, section=each.section, says=each.says, why=each.why)
        for name in papers
        for each in published(name).left_out
    ]
    return CheckedPapers(
        kind="checked papers",
        schema=SCHEMA,
        resnetx=__version__,
        papers=list(papers),
        titles=[published(name).title for name in papers],
        claims=checked,
        left_out=left_out,
    )


@dataclass(frozen=True)
class Beside:
    """What is predicted of the same as a paper states: its statements, and what its figures are drawn of."""

    claims: list[CheckedClaim]
    points: list[PredictedPoint]
    comparison: SystemComparison | None  # of a paper that compared its systems over a study
    collectives: list[CollectivePoint]
    copies: list[CopyPoint]  # that its statements ask for; of a comparison they are there


def predicted_beside(name: str) -> Beside:
    """All that is predicted of a paper."""
    return _of_comparison(name) if published(name).study else _of_cases(name)


def _of_comparison(name: str) -> Beside:
    """Of a paper that compared its systems over a study, with its own settings."""
    stated = published(name)
    given = {"systems": stated.systems, "study": stated.study}
    prediction = predicted([], {**given, **{key: setting.value for key, setting in left_to_the_paper(given).items()}})
    machines = {each: system.load(each) for each in stated.systems}
    collectives = list(systems.collectives(prediction.points, machines))
    comparison = with_statements(compare_systems(prediction, collectives, list(systems.copies(machines))))
    return Beside(comparison.claims, prediction.points, comparison, [], [])


def _of_cases(name: str) -> Beside:
    """Of a paper that has cases, on what its statements ask for."""
    stated = published(name)
    machines = {label: _machine(case) for label, case in stated.cases.items()}
    points = {label: list(_predicted(stated, case)) for label, case in stated.cases.items() if case.points}
    one_case = next(iter(points.values()), [])  # what is trained is the same in all of them
    workloads = side_by_side(one_case, [point.system for point in one_case[:1]])
    collectives, copies = list(_collectives(stated, machines)), list(_copies(stated, machines))
    items = [
        *of_points(_side_by_side(points), list(points)),
        *of_messages(workloads, collectives, copies),
        *of_traffic(_traffic(stated, machines)),
    ]
    claims = with_causes(check_paper(name, items), [])
    return Beside(claims, [point for of_case in points.values() for point in of_case], None, collectives, copies)


def _machine(case: Case) -> System:
    return system.load(case.system, case.nodes, case.network, case.nics)


def _selections(stated: Claims) -> Iterator[Selection]:
    """What the statements read, and what they are held against."""
    for claim in stated.claims:
        yield claim
        if claim.against:
            yield claim.against


# ---- training -------------------------------------------------------------------------------------------------------


def _predicted(stated: Claims, case: Case) -> Iterator[PredictedPoint]:
    """The paper's workloads on a case. What cannot be predicted at all is no item of any statement."""
    of_paper = {key: setting.value for key, setting in stated.settings.items()}
    on = {"systems": [case.system], "library": case.library}
    for workload in stated.workloads:
        with suppress(ConfigError):
            yield from predicted([], {**of_paper, **on, **workload, **case.settings}).points


def _side_by_side(points: Mapping[str, Sequence[PredictedPoint]]) -> list[SystemPoint]:
    """The points of the cases, which may differ in what they run with, under the names of the cases."""
    return side_by_side(
        [
            msgspec.structs.replace(point, system=label, **OF_CASES)
            for label, of_case in points.items()
            for point in of_case
        ],
        list(points),
    )


# ---- messages -------------------------------------------------------------------------------------------------------


def _collectives(stated: Claims, machines: Mapping[str, System]) -> Iterator[CollectivePoint]:
    """Every collective that a statement asks for, on as many GPUs as it asks for."""
    wanted = [
        (label, selection.of, gpus)
        for selection in _selections(stated)
        if selection.of in OPERATIONS
        for label in selection.places
        for gpus in selection.where.gpus
    ]
    for label, name, gpus in dict.fromkeys(wanted):
        case, machine = stated.cases[label], machines[label]
        devices = (case.devices or range(len(machine.gpus)))[:gpus]
        plan = collective.plan(machine, name, devices, case.library or machine.library, case.transport)
        yield from systems.curve(plan, SIZES_BYTES, label, "")


def _copies(stated: Claims, machines: Mapping[str, System]) -> Iterator[CopyPoint]:
    """Every copy that a statement asks for: "p100-nvlink 0-5", "p100-nvlink 0-4-5" by way of GPU 4."""
    wanted = [place for selection in _selections(stated) if selection.of == COPIES for place in selection.places]
    for place in dict.fromkeys(wanted):
        label, _, pair = place.partition(" ")
        if pair == "host-0":
            yield from systems.copied_from_host(machines[label], SIZES_BYTES, label)
        else:
            way = [int(gpu) for gpu in pair.split("-")]
            path = _path(machines[label], way, stated.cases[label])
            yield from systems.copied(path, SIZES_BYTES, label, way[1] if len(way) > 2 else None)


def _traffic(stated: Claims, machines: Mapping[str, System]) -> Iterator[Traffic]:
    """What the paper's workloads send in a step, where a statement asks for it: "v100 replicated", "v100 server"."""
    places = dict.fromkeys(
        place for selection in _selections(stated) if selection.of == TRAFFIC for place in selection.places
    )
    for label, sizes_bytes in _variables(stated) if places else ():
        for place in places:
            case, _, pattern = place.partition(" ")
            variables = steer_owned(machines[case], sizes_bytes, pattern)
            figures = {
                "peer": variables.peer_bytes,
                "rtl_saved": variables.rtl_saved,
                "receivers_added": variables.receivers_added,
                "rtl_evaluations": variables.rtl_evaluations,
            }
            yield Traffic(label, place, figures)


def _variables(stated: Claims) -> Iterator[tuple[str, list[int]]]:
    """The workloads of a paper, each with the sizes of its variables."""
    for workload in stated.workloads:
        request = request_from(compose({**workload, "gpus": 1}))
        yield request.model.label, variables_bytes(table(request.model, request.image_size))
    for name in stated.networks:
        yield name, tensorflow_variables_bytes(name)


def _path(machine: System, way: Sequence[int], case: Case) -> paths.Path:
    if len(way) == 2:
        return paths.copy_path(machine, way[0], way[1], case.transport)
    through = [machine.gpus[gpu].name for gpu in way[1:-1]]
    relays = [path for path in paths.routes(machine, way[0], way[-1]) if set(through) <= set(path.names)]
    assert len(relays) == 1, f"{machine.name}: {len(relays)} relays along {way}"
    return relays[0]

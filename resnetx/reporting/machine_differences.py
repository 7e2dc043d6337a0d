"""What differs between the machines, the software and the environment of two studies, by the records of their runs.

Nothing is chosen here: whatever `record.Environment` has is compared, under the names that it has in a record. (The
table of a page, `platform`, shows what papers state of a machine.)
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from resnetx.record import Environment, RunSummary
from resnetx.record.comparisons import Difference, Letter
from resnetx.record.machine import how_many
from resnetx.table import Column
from resnetx.units import si

Facts = dict[str, str]  # path in a record -> value in words

_UNITS = {"_bytes": "B", "_Hz": "Hz", "_W": "W"}
# Different on every machine; and the whole matrix of a topology, for which its fingerprint stands.
_OWN = {"gpus.index", "gpus.uuid", "gpus.pci_bus_id", "topology"}


def differences(a: Sequence[RunSummary], b: Sequence[RunSummary]) -> list[Difference]:
    """Every fact in which the runs of A and B differ, or those of one study among themselves, in a record's order.

    Runs on another number of GPUs may differ by right (one rank has no transport): give the same points of both.
    """
    facts_a, facts_b = _facts(a), _facts(b)
    if not facts_a or not facts_b:
        return []
    return _differing(facts_a, facts_b) + _typical(a, b)


def environment_differences(
    a: Sequence[tuple[int, Environment]], b: Sequence[tuple[int, Environment]]
) -> list[Difference]:
    """Every fact in which these environments differ, each with its number of GPUs; none where one side has none."""
    facts_a, facts_b = ([(gpus, _of_environment(environment)) for gpus, environment in each] for each in (a, b))
    return _differing(facts_a, facts_b) if facts_a and facts_b else []


def _differing(facts_a: list[tuple[int, Facts]], facts_b: list[tuple[int, Facts]]) -> list[Difference]:
    names = dict.fromkeys(name for _, facts in (*facts_a, *facts_b) for name in facts)
    compared = [_difference(name, facts_a, facts_b) for name in names]
    return [fact for fact in compared if set(fact.a) != set(fact.b) or fact.varies_in]


def _facts(runs: Sequence[RunSummary]) -> list[tuple[int, Facts]]:
    """Of each run that has an environment: its number of GPUs, and all facts."""
    environments = {id(run.environment): run.environment for run in runs if run.environment}  # many runs share one
    known = {key: _of_environment(environment) for key, environment in environments.items()}
    return [(run.request.gpus, known[id(run.environment)] | _of_run(run)) for run in runs if run.environment]


def _difference(name: str, facts_a: list[tuple[int, Facts]], facts_b: list[tuple[int, Facts]]) -> Difference:
    values_a, varies_a = _values(name, facts_a)
    values_b, varies_b = _values(name, facts_b)
    varies: list[tuple[Letter, bool]] = [("A", varies_a), ("B", varies_b)]
    return Difference(name=name, a=values_a, b=values_b, varies_in=[study for study, does in varies if does])


def _values(name: str, facts: list[tuple[int, Facts]]) -> tuple[list[str], bool]:
    """The values of a fact, each once; and whether it has several on one number of GPUs."""
    absent = "not set" if name.startswith("variables.") else "unknown"
    by_gpus: dict[int, dict[str, None]] = defaultdict(dict)
    for gpus, each in facts:
        by_gpus[gpus][each.get(name, absent)] = None
    distinct = list(dict.fromkeys(value for values in by_gpus.values() for value in values))
    return distinct, any(len(values) > 1 for values in by_gpus.values())


# ---- the facts of one run -------------------------------------------------------------------------------------------


def _of_environment(environment: Environment) -> Facts:
    plain = msgspec.to_builtins(environment)
    if plain["gpu_processes"] is not None:
        plain["gpu_processes"] = [f"one on GPU {process['gpu']}" for process in plain["gpu_processes"]]
    return {name: value for key in plain for name, value in _flat(key, plain[key]) if name not in _OWN}


def _of_run(run: RunSummary) -> Facts:
    run_facts: Facts = {}
    if run.transport:
        used = "none, on one GPU" if run.request.gpus == 1 else ", ".join(run.transport.used or ["unknown"])
        run_facts |= {"transport.requested": run.transport.requested, "transport.used": used}
    if images := run.input_state:
        kept = {"images": images.images, "classes": images.classes, "size_bytes": images.size_bytes}
        run_facts |= _flat("input_state", {**kept, "decoder": images.decoder})
    return run_facts


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """A value of a record and all that is in it, in words."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for key in value[0]:
            yield f"{name}.{key}", _counted(_words(key, entry[key]) for entry in value)
    elif isinstance(value, list):
        yield name, ", ".join(value) or "none"
    elif value is not None:
        yield name, _words(name, value)


def _words(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    unit = next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), None)
    return si(value, unit) if unit and not isinstance(value, str) else str(value)


def _counted(values: Iterable[str]) -> str:
    """The values of all GPUs: "16 on 7 GPUs, 8 on 1 GPU"."""
    return ", ".join(f"{value} on {how_many(count, 'GPU')}" for value, count in Counter(values).items())


# ---- what varies all the time ---------------------------------------------------------------------------------------


def _typical(a: Sequence[RunSummary], b: Sequence[RunSummary]) -> list[Difference]:
    """Readings that no two runs have in common: the medians over the runs of each study, where they differ in words."""
    readings: dict[str, tuple[Callable[[RunSummary], float | None], Callable[[float], str]]] = {
        "sm_clock_Hz (median)": (lambda run: run.sm_clock_Hz, lambda clock_Hz: si(clock_Hz, "Hz")),
        "host_load.foreign (median)": (lambda run: run.host_load.foreign if run.host_load else None, _coarse),
        "input_state.page_cache_share (median)": (
            lambda run: run.input_state.page_cache_share if run.input_state else None,
            _coarse,
        ),
    }
    differing = []
    for name, (read, tell) in readings.items():
        values = [[value for run in runs if (value := read(run)) is not None] for runs in (a, b)]
        said_a, said_b = (tell(statistics.median(value)) if value else "unknown" for value in values)
        if said_a != said_b:
            differing.append(Difference(name=name, a=[said_a], b=[said_b], varies_in=[]))
    return differing


def _coarse(share: float) -> str:
    """A share to 5 %: finer differences between runs are chance."""
    return f"{5 * round(20 * max(-1e9, min(share, 1e9)))}%"


def _difference_text(difference: Difference) -> str:
    varies = f" (varies within {' and '.join(difference.varies_in)})" if difference.varies_in else ""
    return f"A: {' | '.join(difference.a)}; B: {' | '.join(difference.b)}{varies}"


DIFFERENCES: list[Column[Difference]] = [
    Column("in the records", lambda difference: difference.name),
    Column("~values", _difference_text),
]

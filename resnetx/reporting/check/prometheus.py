"""A check as metrics for the textfile collector of Prometheus' node exporter.

Every metric is a gauge: it says what the last check found, not what has been since. What was not measured is left out
(a missing series), as there is no number for it.

Reference: prometheus.io, "Exposition formats", text-based format 0.0.4.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from resnetx.record import if_known
from resnetx.record.check import Check, CheckedRun, Measure
from resnetx.reporting.check.outliers import against

PREFIX = "resnetx_check"
_OF_MEASURES: dict[Measure, tuple[str, str]] = {
    "all-reduce": ("allreduce", "one all-reduce among the ranks of a node"),
    "training": ("iteration", "one training step on a node"),
    "pair": ("pair_allreduce", "one all-reduce among the ranks of two nodes"),
}

Labels = Mapping[str, str]


@dataclass(frozen=True)
class _Metric:
    name: str
    about: str
    samples: list[tuple[Labels, float]]


def metrics_text(check: Check) -> str:
    """All metrics of a check, as the collector reads them."""
    return "".join(line + "\n" for metric in _metrics(check) for line in _lines(metric))


def _lines(metric: _Metric) -> Iterator[str]:
    if metric.samples:
        name = f"{PREFIX}_{metric.name}"
        yield f"# HELP {name} {_escaped(metric.about)}"
        yield f"# TYPE {name} gauge"
        yield from (f"{name}{_labels(labels)} {value!r}" for labels, value in metric.samples)


def _labels(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str, quotes: bool = False) -> str:
    plain = text.replace("\\", r"\\").replace("\n", r"\n")
    return plain.replace('"', r"\"") if quotes else plain


def _metrics(check: Check) -> Iterator[_Metric]:
    named = set(check.outlying_nodes)
    ended = datetime.fromisoformat(check.started_at).timestamp() + check.duration_s
    single: dict[str, tuple[str, float]] = {
        "outliers": ("Nodes, switches and pairs of nodes that stand out in the last check.", len(check.outliers)),
        "nodes": ("Nodes that the last check was of.", len(check.nodes)),
        "pairs_tried": ("Pairs of nodes that were tried.", check.pairs_tried),
        "pairs_left_out": ("Pairs of nodes that were not tried.", check.pairs - check.pairs_tried),
        "timestamp_seconds": ("End of the last check, in seconds since the epoch.", ended),
        "duration_seconds": ("How long the last check took.", check.duration_s),
    }
    for name, (about, value) in single.items():
        yield _Metric(name, about, [({}, float(value))])
    yield _Metric(
        "node_outlier", "1 if a node stands out, else 0.", [({"node": n}, float(n in named)) for n in check.nodes]
    )
    for measure, (name, what) in _OF_MEASURES.items():
        yield from _of_measure(name, what, [run for run in check.runs if run.measure == measure])
    causes = {
        ((each.what, each.name), cause.kind): {"what": each.what, "name": each.name, "cause": cause.kind}
        for each in check.outliers
        for cause in each.causes
    }
    yield _Metric(
        "outlier_cause", "1 for each likely cause of what stands out.", [(each, 1.0) for each in causes.values()]
    )


def _of_measure(name: str, what: str, runs: Iterable[CheckedRun]) -> Iterator[_Metric]:
    labelled = [(_of_nodes(run), run) for run in runs]
    values: dict[str, tuple[str, list[tuple[Labels, float | None]]]] = {
        "seconds": (f"Time of {what}.", [(labels, if_known(run.time_s)) for labels, run in labelled]),
        "expected_seconds": (
            f"Time of {what} as the description of the system allows it.",
            [(labels, if_known(run.expected_s)) for labels, run in labelled],
        ),
        "limit_seconds": (
            f"Most that the fleet's median allows for the time of {what}.",
            [(labels, if_known(run.limit_s)) for labels, run in labelled],
        ),
        "slow": (
            f"1 if the run for the time of {what} failed or stands out, else 0.",
            [(labels, float(bool(against(run)))) for labels, run in labelled],
        ),
    }
    for unit, (about, samples) in values.items():
        yield _Metric(f"{name}_{unit}", about, [(labels, value) for labels, value in samples if value is not None])


def _of_nodes(run: CheckedRun) -> Labels:
    return dict(zip(("node", "peer"), run.nodes, strict=False))

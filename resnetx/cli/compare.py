"""`compare`: two studies side by side; systems, and predictions beside measurements, have modules of their own."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from resnetx.cli import compare_accuracy, compare_systems, show
from resnetx.cli.compose import out_and_baseline
from resnetx.cli.one_study import only_study
from resnetx.errors import ConfigError
from resnetx.record.comparison import ComparedPoint, Comparison, Difference, Mean, Side, comparison_file
from resnetx.report.compare import compare
from resnetx.report.conclusion import ENDS, conclusion
from resnetx.statistics import Summary
from resnetx.units import si


def compare_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Compares study B, the second path, with study A, the first; or what a prediction says, with whatever is given."""
    if compare_systems.is_asked(paths, overrides):
        return compare_systems.compare_systems_(options, paths, overrides)
    if len(paths) == 2 and compare_systems.is_prediction(paths[0]):
        return compare_accuracy.compare_accuracy_(options, paths, overrides)
    if len(paths) != 2:
        raise ConfigError(
            f"compare: {len(paths)} paths given; expected two study folders: A, then B, which is over A (or "
            "systems=[dgx1-p100,gx8], or a prediction, or that and the study that checks it)"
        )
    out, baseline = out_and_baseline(overrides)
    a, b = (only_study(path) for path in paths)
    found = compare(a, b, baseline)
    if options.json:
        show.json_lines([found])
    else:
        _show(found)
    if out:
        show.store(out, comparison_file(out), found)
    return 0


# ---- what a person sees ---------------------------------------------------------------------------------------------


def _show(found: Comparison) -> None:
    for letter, study in (("A", found.a), ("B", found.b)):
        show.out.print(f"{letter}: study {study.name} on {study.node} ({study.folder})", soft_wrap=True)
    for sentence in conclusion(found):
        show.out.print(sentence, soft_wrap=True)
    show.out.print()
    _show_points(found.points)
    if found.means:
        show.out.print()
        _show_means(found.means)
    if found.only_in_one:
        show.out.print()
        unmatched = [[each.study, each.point, each.outcome] for each in found.only_in_one]
        show.table("In one study only", ["in", "point", "outcome"], unmatched)
    show.out.print()
    _show_machines(found.machines)


def _show_points(points: Sequence[ComparedPoint]) -> None:
    variants = ["variant"] if any(point.variant for point in points) else []
    columns = [
        "workload", ">batch", *variants, ">GPUs", ">B / A", ">from", ">to", "difference", ">p", ">speed-up B / A",
        ">from", ">to", ">images/s A", ">B", ">runs A", ">B", "limited by: A", "B",
    ]  # fmt: skip
    baselines = ", ".join(dict.fromkeys(each.baseline for each in points if each.speedup_ratio))
    kinds = {point.ratio.kind for point in points if point.ratio}
    ends = " or ".join(words for kind, words in ENDS.items() if kind in kinds)
    note = (
        f"B / A: of the medians of images/s, with its {ends or 'range'}. p: adjusted for the number of points. "
        + f"speed-up B / A: ratio of the speed-ups over {baselines}." * bool(baselines)
    )
    rows = (_point_row(point, bool(variants)) for point in points)
    show.table("B over A, point by point", columns, rows, note)


def _point_row(point: ComparedPoint, with_variant: bool) -> list[str]:
    return [
        point.workload,
        point.batch.removeprefix("batch "),
        *([point.variant] if with_variant else []),
        f"{point.request.gpus}",
        *_ratio_cells(point.ratio),
        point.verdict,
        "" if point.adjusted_p is None else f"{point.adjusted_p:.2g}",
        *_ratio_cells(point.speedup_ratio),
        _rate(point.a),
        _rate(point.b),
        _runs(point.a),
        _runs(point.b),
        point.a.limited_by,
        point.b.limited_by,
    ]


def _ratio_cells(ratio: Summary | None) -> list[str]:
    if ratio is None:
        return ["", "", ""]
    ends = [f"{ratio.low:.3f}", f"{ratio.high:.3f}"] if ratio.n > 1 else ["", ""]
    return [f"{ratio.median:.3f}", *ends]


def _rate(side: Side) -> str:
    return si(side.images_per_s.median) if side.images_per_s else side.outcome


def _runs(side: Side) -> str:
    return f"{side.images_per_s.n}" if side.images_per_s else "0"


def _show_means(means: Sequence[Mean]) -> None:
    columns = [">GPUs", ">points", ">B / A", ">from", ">to", ">speed-up B / A", ">from", ">to", ">of points"]
    rows = [
        [
            f"{each.gpus}",
            f"{each.points}",
            *_ratio_cells(each.ratio),
            *_ratio_cells(each.speedup_ratio),
            f"{each.speedup_points}" if each.speedup_ratio else "",
        ]
        for each in means
    ]
    show.table("Geometric means over the points", columns, rows)


def _show_machines(machines: Sequence[Difference]) -> None:
    if not machines:
        show.out.print("Machines, software and surroundings: the records of both studies say the same.", soft_wrap=True)
        return
    rows = [[each.name, " | ".join(each.a), " | ".join(each.b), _flag(each)] for each in machines]
    note = "By the runs of the points above. What no record knows is unknown."
    show.table("What else differs: machines, software and surroundings", ["in the records", "A", "B", ""], rows, note)


def _flag(difference: Difference) -> str:
    return f"varies within {' and '.join(difference.varies_in)}" if difference.varies_in else ""

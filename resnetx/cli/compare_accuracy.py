"""`compare PREDICTION STUDY`: how far off a prediction was, by the study that checks it."""

from argparse import Namespace
from pathlib import Path

from resnetx.cli import show, show_predict
from resnetx.cli.compare_systems import read_prediction
from resnetx.cli.compose import out_and_baseline
from resnetx.cli.one_study import only_study
from resnetx.errors import ConfigError
from resnetx.record.accuracy import Accuracy, CheckedPoint, accuracy_file
from resnetx.report.accuracy import check


def compare_accuracy_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Puts the prediction at the first path beside the study at the second one."""
    out, baseline = out_and_baseline(overrides)
    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: goes with two studies; iterations are compared here, not speed-ups")
    prediction, study = paths
    made = read_prediction(prediction)
    found = check(made, only_study(study))
    if options.json:
        show.json_lines([found])
    else:
        _show(found)
        show.out.print()
        show_predict.sources(made)
    if out:
        show.store(out, accuracy_file(out), found)
        _write_figure(out, found)
    return 0


def _write_figure(folder: Path, found: Accuracy) -> None:
    from resnetx.report import figure_files
    from resnetx.report.accuracy_charts import accuracy_figure

    if any(point.error is not None for point in found.points):
        figure = accuracy_figure(found)
        figure_files.write_figure(figure, figure_files.drawn(figure), folder)
        show.err.print(f"figure: {folder / figure.name}.svg", soft_wrap=True)


# ---- what a person sees ---------------------------------------------------------------------------------------------


def _show(found: Accuracy) -> None:
    show.out.print(
        f"Predicted at {found.made_at} (digest {found.prediction[:8]}), measured by study {found.study} on "
        f"{found.node} ({found.folder})",
        soft_wrap=True,
    )
    for warning in found.warnings:
        show.out.print(f"warning: {warning}", soft_wrap=True)
    _show_totals(found)
    _show_points(found)
    _show_advantages(found)
    _show_rest(found)


def _show_totals(found: Accuracy) -> None:
    columns = [
        "system", "library", ">points", ">mean |error|", ">worst", "at", ">bias", ">within", ">covered", ">overlap",
        ">signs right",
    ]  # fmt: skip
    rows = [
        [
            each.system,
            each.library,
            f"{each.points}",
            f"{each.mean_absolute_error:.1%}",
            f"{each.worst_error:+.1%}",
            each.worst_point,
            f"{each.bias:+.1%}",
            *(f"{count} of {each.points}" for count in (each.within, each.covered, each.overlapping)),
            f"{each.advantages_right} of {each.advantages}" if each.advantages else "none decided",
        ]
        for each in found.totals
    ]
    note = (
        "error: predicted / measured - 1 of the time of an iteration. within: no more than 10 %, or twice the measured "
        "interval.\ncovered: the measured median is in the predicted interval. signs: which strategy is faster, where "
        "the measurement decides it. On several GPUs: on one, a trace predicts itself."
    )
    show.out.print()
    show.table("How far off", columns, rows, note)


def _show_points(found: Accuracy) -> None:
    variant = any(point.variant for point in found.points)
    columns = [
        "workload", ">batch", *["variant"] * variant, ">GPUs", "system", "library", ">predicted ms", ">from", ">to",
        ">measured ms", ">from", ">to", ">runs", ">error", ">allowed", "", "covered", "made before",
    ]  # fmt: skip
    show.out.print()
    show.table("Point by point", columns, [_row(point, variant) for point in found.points])


def _row(point: CheckedPoint, variant: bool) -> list[str]:
    measured, interval_s = point.measured_s, point.predicted_interval_s
    ends = [] if measured is None else [measured.median, measured.low, measured.high]
    return [
        point.workload,
        f"{point.batch_size}",
        *[point.variant] * variant,
        f"{point.gpus}",
        point.system,
        point.library,
        point.predicted_outcome if point.predicted_s is None else _ms(point.predicted_s),
        *map(_ms, interval_s or []),
        *[""] * (0 if interval_s else 2),
        *(map(_ms, ends) if ends else [point.measured_outcome, "", ""]),
        f"{measured.n}" if measured else "0",
        "" if point.error is None else f"{point.error:+.1%}",
        "" if point.allowed is None else f"{point.allowed:.1%}",
        "" if point.within is None else "within" if point.within else "off",
        _yes(point.covered),
        _yes(point.made_before),
    ]


def _show_advantages(found: Accuracy) -> None:
    if not found.advantages:
        return
    columns = ["workload", ">batch", ">GPUs", "strategy", "over", ">predicted", ">measured", ">from", ">to", "sign"]
    rows = [
        [
            each.workload,
            f"{each.batch_size}",
            f"{each.gpus}",
            each.strategy,
            each.over,
            f"{each.predicted:.3f}",
            *(f"{value:.3f}" for value in (each.measured.median, each.measured.low, each.measured.high)),
            "not decided" if each.right is None else "right" if each.right else "wrong",
        ]
        for each in found.advantages
    ]
    show.out.print()
    show.table("One strategy over another: ratio of rates", columns, rows)


def _show_rest(found: Accuracy) -> None:
    for what, points in (("Not measured", found.not_measured), ("Not predicted", found.not_predicted)):
        if points:
            more = f", and {len(points) - 5} more" if len(points) > 5 else ""
            show.out.print(f"{what}: {'; '.join(points[:5])}{more}.", soft_wrap=True)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def _yes(fact: bool | None) -> str:
    return "" if fact is None else "yes" if fact else "no"

"""The screen of a score: how far off each predictor is, kind by kind, beside the baselines."""

from resnetx.cli import show
from resnetx.record.score import KindScore, Score


def score(found: Score) -> None:
    """The table, kind after kind."""
    columns = [
        "kind",
        "predictor",
        ">n",
        ">of",
        ">mean",
        ">worst",
        ">bias",
        ">in interval",
        ">unseen",
        ">mean of unseen",
    ]
    rows = [
        _row(each, place == 0 or found.scores[place - 1].kind != each.kind) for place, each in enumerate(found.scores)
    ]
    note = (
        "n, of: predicted, of all figures. mean, worst: |predicted / published - 1|. bias: its mean with the sign, "
        "+ is too fast. in interval: figures that lie in theirs, of those that have one. unseen: figures that were "
        "not known while resnetx's model was written. linear: one GPU's rate times GPUs. alpha-beta: one ring over the "
        "described links, latency and bytes over the slowest rate. Baselines: on all figures that any file predicts."
    )
    least = ["worst", "unseen", "mean of unseen"]
    show.table("How far off predictions of published figures are", columns, rows, note, least)


def _row(each: KindScore, first: bool) -> list[str]:
    covered = "" if each.covered is None else f"{each.covered:.0%} of {each.intervals}"
    return [
        each.kind if first else "",
        each.predictor,
        f"{each.predicted}",
        f"{each.figures}",
        f"{each.mean_error:.1%}",
        f"{each.worst_error:.0%}",
        f"{each.bias:+.1%}",
        covered,
        f"{each.unseen}",
        "" if each.unseen_error is None else f"{each.unseen_error:.1%}",
    ]

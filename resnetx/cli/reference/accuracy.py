"""`docs/accuracy.md`: how far off predictions were of every published rate, and which figures were fitted to what."""

from collections.abc import Iterator

from resnetx.cli.reference.markdown import GENERATED, table
from resnetx.prediction import roofline, validation
from resnetx.prediction.messages import CONTENTION
from resnetx.prediction.published_scaling import series
from resnetx.prediction.scaling_errors import KindError, scaling_errors
from resnetx.prediction.validation import TrainingRow, TrainingSummary

HEAD = f"""# Accuracy of predictions

{GENERATED}

Every published training rate that resnetx ships, beside what it predicts. Whoever published a rate is left out of
all fits that its prediction uses: the roofline, and what scaling costs. So each error is one on a source that the model
has not seen. The figures themselves were known while the model was written. `resnetx predict --validate --all` prints
each.

- **mean**, **worst**: error of the predicted rate.
- **linear**: mean error of "GPUs x the rate of one", the simplest prediction there is, on the same rates.
- **held**: share of the rates within the predicted 90 % interval.
"""

FITTED = """## What was fitted to what

- Rooflines (`resnetx/prediction/roofline.py`): three figures for each generation of GPUs, to published rates of one
  GPU (`results/published/training.yaml`). A generation's own fit is drawn to the fit to all, so that what its few rates
  do not determine stays that of all. `python -m resnetx.prediction.fitting` fits again.
- What scaling costs beyond messages (`resnetx/prediction/scaling_errors.py`): two figures, to the rates of several
  GPUs of one node (`results/published/scaling.yaml`). `python -m resnetx.prediction.scaling_fit` fits again.
- What computing loses to messages beside it is assumed, not fitted; the interval reaches from nothing to all.
- Collectives: [interconnect.md](interconnect.md).
"""


def page() -> str:
    """The page; takes some seconds."""
    rows = validation.validate()
    lines = [
        HEAD,
        *_groups(validation.summaries(rows)),
        "",
        "## By publisher",
        "",
        f"Rates of several GPUs, predicted from the rate of one ({len(series())} series).",
        "",
        *_by_publisher(rows),
        "",
        "## The intervals",
        "",
        *_intervals(),
        "",
        FITTED,
        *_figures(),
    ]
    return "\n".join(lines) + "\n"


def _groups(summaries: list[TrainingSummary]) -> list[str]:
    cells = (
        [
            summary.about,
            f"{summary.rows}",
            _percent(summary.mean_error),
            _percent(summary.linear_error),
            _percent(summary.worst_error),
            _percent(summary.held),
        ]
        for summary in summaries
    )
    return table(["published figures", "rows", "mean", "linear", "worst", "held"], cells)


def _by_publisher(rows: list[TrainingRow]) -> list[str]:
    scaled = [row for row in rows if row.linear is not None and row.group != validation.CALIBRATED]
    names = dict.fromkeys(row.publisher for row in scaled)
    return table(
        ["publisher", "rates", "mean", "bias", "linear", "held"],
        (_publisher(name, [row for row in scaled if row.publisher == name]) for name in names),
    )


def _publisher(name: str, rows: list[TrainingRow]) -> list[str]:
    count = len(rows)
    linear = sum(abs(row.linear / row.measured - 1) for row in rows if row.linear is not None)
    return [
        name,
        f"{count}",
        _percent(sum(abs(row.error) for row in rows) / count),
        f"{sum(row.error for row in rows) / count:+.1%}",
        _percent(linear / count),
        _percent(sum(bool(row.held) for row in rows) / count),
    ]


def _intervals() -> Iterator[str]:
    errors = scaling_errors()
    yield (
        "Nine of ten measurements should lie within the interval of a prediction. It has the errors of all parts, as "
        "the root of the sum of their squares. What scaling adds, by kind of case, are the 5th and 95th percentile of "
        f"the errors above, {errors.widened:.2f} times as wide: then nine of ten rates lie within intervals that are "
        "made without their publisher, counted over the kinds that four publishers have measured. A kind of fewer than "
        "eight rates has the interval of all with as many nodes."
    )
    yield ""
    yield from table(
        ["kind", "rates", "publishers", "slower by at most", "faster by at most", "held without its publisher"],
        map(_interval, errors.kinds),
    )


def _interval(error: KindError) -> list[str]:
    return [
        error.text,
        f"{error.points}",
        f"{error.publishers}",
        _percent(error.slower),
        _percent(error.faster),
        "one publisher" if error.held is None else _percent(error.held),
    ]


def _figures() -> list[str]:
    costs = scaling_errors().costs
    contention = ", ".join(f"{library} {share:.0%}" for library, share in CONTENTION.items())
    fit, rows = roofline.fitted(), scaling_errors().points
    return table(
        ["figure", "value", "from"],
        [
            ["variation of a rank's steps", f"{costs.variation:.2%}", f"fitted to {rows} rates"],
            ["longer steps where decoding keeps all cores busy", f"{costs.host_load:.0%}", "fitted to the same"],
            ["computing lost while messages are on their way", contention, "assumed"],
            ["share of the peak, all GPUs", f"{fit.matmul_efficiency:.0%}", f"fitted to {fit.rows} rates of one GPU"],
            ["speed-up of square kernels, all GPUs", f"{fit.square_speedup:.2f}", "fitted to the same"],
            ["fixed time of a pass over a layer, all GPUs", f"{fit.pass_s * 1e6:.0f} us", "fitted to the same"],
        ],
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"

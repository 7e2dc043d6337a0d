"""How far off the models are of what was published: every figure beside its prediction, and groups of figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar, overload

from resnetx.errors import unknown_name
from resnetx.record.literature import ValidationGroup, ValidationRecord
from resnetx.table import Answer, Records

if TYPE_CHECKING:
    from resnetx.literature.collectives import CollectiveRow, CollectiveSummary
    from resnetx.literature.training import TrainingRow, TrainingSummary


# Of training rates: how wide intervals are, how they score, and the same of the rivals.
BESIDE = (*("half_width", "score", "linear_error", "linear_score", "five_constants_error", "five_constants_score"),)
INTERVAL_LEVEL = 0.9  # of intervals, and of the errors of collectives


class JudgedFigure(Protocol):
    """A published figure beside its prediction."""

    @property
    def group(self) -> str: ...
    @property
    def error(self) -> float | None: ...
    @property
    def seen(self) -> bool: ...
    @property
    def held(self) -> bool | None: ...


class GroupSummary(Protocol):
    """How far off the figures of a group are."""

    @property
    def group(self) -> str: ...
    @property
    def mean_error(self) -> float | None: ...
    @property
    def worst_error(self) -> float | None: ...

    @property
    def holds(self) -> bool: ...


Verb = Literal["predict", "topology"]
R = TypeVar("R", bound=JudgedFigure)
S = TypeVar("S", bound=GroupSummary)


class Validation(Records[R], Generic[R, S]):
    """Every published figure with its prediction, and how far off each group of them is."""

    def __init__(self, verb: Verb, figures: Sequence[R], groups: Sequence[S], off: str) -> None:
        """`off`: how far off the figures are, as a sentence without its end."""
        super().__init__(figures)
        self.verb, self._off = verb, off
        self.groups = Records(groups)

    def answer(self) -> Answer:
        """How many of them lie in what is stated for them, group by group."""
        return Answer([self.conclusion], self.groups.table())

    @property
    def holds(self) -> bool:
        """Whether no group is missed by more than it may."""
        return all(group.holds for group in self.groups)

    @property
    def conclusion(self) -> str:
        """How far off they are, and how many lie in what is stated for them."""
        record = self.record
        held = sum(group.points * group.coverage for group in record.groups if group.coverage is not None)
        judged = sum(group.points for group in record.groups if group.coverage is not None)
        missed = sum(not group.holds for group in self.groups)
        misses = f"; {missed} of {len(self.groups)} groups are off by more than is stated" if missed else ""
        return f"{self._off}; {held / judged:.0%} of {judged:,} published figures lie where 90% should{misses}."

    @property
    def record(self) -> ValidationRecord:
        """All of it, as `--json` prints it."""
        return ValidationRecord(verb=self.verb, groups=list(map(self._group, self.groups)), figures=list(self))

    def _group(self, group: S) -> ValidationGroup:
        """Figures that are explained by something else than the model count in neither."""
        own = [figure for figure in self if figure.group == group.group and not getattr(figure, "explained", None)]
        held = [figure.held for figure in own if figure.held is not None]
        errors = [figure.error for figure in own if figure.error is not None]
        rivals = {name: getattr(group, name, None) for name in BESIDE}
        return ValidationGroup(
            group=group.group,
            points=len(own),
            unseen=sum(not figure.seen for figure in own),
            mean_error=group.mean_error,
            worst_error=group.worst_error,
            bias=sum(errors) / len(errors) if errors else None,
            coverage=sum(held) / len(held) if held else None,
            interval_level=INTERVAL_LEVEL,
            open=len(own) - len(errors),
            **rivals,
        )


@overload
def validate(verb: Literal["predict"]) -> "Validation[TrainingRow, TrainingSummary]": ...
@overload
def validate(verb: Literal["topology"]) -> "Validation[CollectiveRow, CollectiveSummary]": ...
def validate(verb: str) -> "Validation[TrainingRow, TrainingSummary] | Validation[CollectiveRow, CollectiveSummary]":
    """What `--validate` of a verb shows: of `predict` published training, of `topology` published collectives.

    Takes some seconds.
    """
    if verb == "predict":
        from resnetx.literature import training

        rates = training.validate()
        return Validation("predict", rates, training.summaries(rates), training.off(rates))
    if verb == "topology":
        from resnetx.literature import collectives

        times = collectives.validate()
        return Validation("topology", times, collectives.summaries(times), collectives.off())
    raise unknown_name("verb with published figures", verb, ("predict", "topology"), "validate")

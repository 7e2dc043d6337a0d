"""Figures that papers state in words, as figures of the dataset, with what their check says of them."""

from collections.abc import Callable, Iterator
from functools import cache

from resnetx.api.dataset.known import KnownFigure, nothing
from resnetx.api.papers import check_papers
from resnetx.record.score import FigurePrediction, PublishedFigure
from resnetx.record.system_comparison import CheckedClaim
from resnetx.reporting.systems.claim import Claim
from resnetx.reporting.systems.claims import PAPERS, WITHOUT_SETTINGS, Claims, published


def statements() -> Iterator[KnownFigure]:
    """Figures stated in words, but for those that a description took from them, or that leave things open."""
    for paper in PAPERS:
        stated = published(paper)
        for claim in stated.claims:
            answered = (stated.cases or claim.of in WITHOUT_SETTINGS) and not claim.unstated  # by one prediction
            if claim.stated is not None and not claim.given and answered:
                figure = _figure(paper, stated, claim)
                yield KnownFigure(figure, _by_check(paper, claim, figure.id), nothing)


def _figure(paper: str, stated: Claims, claim: Claim) -> PublishedFigure:
    label = claim.system.rpartition(" ")[0] if claim.of == "copies" else claim.system
    case = stated.cases.get(label)
    over = f", {claim.system} over {claim.over}" * bool(claim.over)
    assert claim.stated is not None, f"{claim.id}: no figure"
    return PublishedFigure(
        id=f"{paper}/{claim.id}",
        kind="statements of papers",
        value=claim.stated,
        unit=claim.unit or "ratio",
        system=case.system if case else label or None,
        library=case.library if case else None,
        settings=f"{claim.quantity} of {claim.of}{over}: {claim.says}" + f" ({claim.reading})" * bool(claim.reading),
        source=f"{stated.title}, section {claim.section}",
        seen=stated.seen if claim.seen is None else claim.seen,
    )


def _by_check(paper: str, claim: Claim, name: str) -> Callable[[], FigurePrediction | None]:
    def own() -> FigurePrediction | None:
        checked = [each for each in _checked(paper) if each.claim == claim.id]
        if len(checked) != 1 or checked[0].ours is None:
            return None
        return FigurePrediction(id=name, predicted=checked[0].ours, low=checked[0].ours_low, high=checked[0].ours_high)

    return own


@cache
def _checked(paper: str) -> list[CheckedClaim]:
    return check_papers([paper]).claims

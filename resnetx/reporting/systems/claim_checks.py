"""The kinds of checks that published statements need, each a function of a statement and the items that it speaks of.

Predictions have intervals, and a check knows them: where the errors of predictions could turn an outcome either way, it
is open. `results/published/tallent2017.yaml` explains the kinds.
"""

from collections.abc import Callable, Iterator, Mapping

from resnetx.record.system_comparison import CheckedClaim
from resnetx.reporting.systems.claim import Check
from resnetx.reporting.systems.claim_case import ClaimCase
from resnetx.reporting.systems.claim_shares import ahead, apart, bends, falls, is_so
from resnetx.reporting.systems.claim_values import bound, value

CHECKS: Mapping[Check, Callable[[ClaimCase], Iterator[CheckedClaim]]] = {
    "value": value,
    "bound": bound,
    "ahead": ahead,
    "apart": apart,
    "is": is_so,
    "falls": falls,
    "bends": bends,
}

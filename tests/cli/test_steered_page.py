"""`docs/steered.md` is what its generator says today: the table of savings, and some of the searched iterations."""

import pytest

from resnetx.literature import steered_page
from tests.documentation import ROOT

PAGE = (ROOT / "docs" / "steered.md").read_text()
pytestmark = pytest.mark.slow


def test_the_savings_are_those_of_the_page():
    lines = list(steered_page.savings())
    assert len(lines) == 2 + 9 + 1 + len(steered_page.MODELS)
    assert "\n".join(lines) in PAGE, "accept the change with: python -m resnetx.literature.steered_page"


@pytest.mark.parametrize(
    ("system", "name", "strategy", "reach"),
    [("dgx1-v100", "AlexNet", "after", "built"), ("summit", "AlexNet", "server on GPU 0", "any")],
)
def test_searched_iterations_are_those_of_the_page(system, name, strategy, reach):
    counts = range(2, steered_page.SEARCHED[system] + 1)
    cells = [steered_page.change(system, name, strategy, reach, gpus) for gpus in counts]
    table = PAGE.partition(f"### {system}\n")[2]
    assert f"| {name} | {strategy} | {reach} | {' | '.join(cells)} |" in table, (
        "accept the change with: python -m resnetx.literature.steered_page"
    )

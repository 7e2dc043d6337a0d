"""Many points and many choices: what takes a while shows how far it is, and asks for what does not change once."""

from contextlib import contextmanager

import pytest

import resnetx
from resnetx import host, progress

pytestmark = pytest.mark.slow


class Counted(progress.Logged):
    """Keeps what is counted."""

    def __init__(self):
        self.counted = {}

    @contextmanager
    def counting(self, what, total, where=""):
        self.counted[what] = [total, 0]

        def advance(done, line=""):
            self.counted[what][1] += done

        yield advance


@pytest.mark.parametrize(("most", "shown"), [(300, {"checking points": [600, 600]}), (20, {})])
def test_the_plan_of_many_points_shows_progress(most, shown, monkeypatch, tmp_path):
    read = []
    monkeypatch.setattr(host, "_control_groups", lambda controller: read.append(controller) or [])
    with progress.reporting_to(counted := Counted()):
        made = resnetx.plan(
            **{"model.x": list(range(1, most + 1)), "batch_size": [8, 16]}, input="synthetic", results=str(tmp_path)
        )
    assert made.points == 2 * most
    assert counted.counted == shown
    assert read.count("cpu") == 1


def test_the_records_of_many_choices_show_progress():
    with progress.reporting_to(counted := Counted()):
        found = resnetx.topology("dgx2", pick=3)
    assert len(found) == 560
    assert counted.counted == {"choices of GPUs": [560, 560]}
    assert {choice.limiting_link.startswith("gpu") for choice in found} == {True}

"""Which tests `pytest` selects by what is named."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.scheduling import ALL, FAST, pytest_configure

HERE = Path(__file__)


@pytest.mark.parametrize(
    ("args", "more", "selected"),
    [
        ([HERE.parent], {}, FAST),
        ([HERE.parent], {"all": True}, ALL),
        ([HERE], {}, ALL),
        ([f"{HERE}::test_one"], {}, ALL),
        ([HERE.parent], {"markexpr": "long"}, "long"),
    ],
)
def test_folders_are_tested_fast_and_what_is_named_whole(args, more, selected, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    config = SimpleNamespace(args=args, option=SimpleNamespace(**{"markexpr": "", "all": False, **more}))
    pytest_configure(config)
    assert config.option.markexpr == selected

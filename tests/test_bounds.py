"""Every number that can be asked for has bounds, with a reason, wherever it is asked."""

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from resnetx.errors import ConfigError
from resnetx.settings import setting_types
from resnetx.settings.files import CONFIGS
from resnetx.settings.table import GROUPS


def numbers(tree: dict[str, Any], before: str = "") -> set[str]:
    """The names of the settings of a configuration file that have numbers as their defaults."""
    found: set[str] = set()
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= numbers(value, f"{before}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.add(f"{before}{name}")
    return found


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


def test_every_setting_with_a_number_has_bounds() -> None:
    found = numbers({key: value for key, value in read(CONFIGS / "config.yaml").items() if key != "hydra"})
    for group in GROUPS:
        for path in (CONFIGS / group).glob("*.yaml"):
            found |= numbers(read(path), f"{group}.")
    assert {"model.x", "seed", "images.per_class", "optimizer.momentum", "what_if.latency", "input.prefetch"} <= found
    assert found <= setting_types.BOUNDS.keys()


@pytest.mark.parametrize("name", setting_types.BOUNDS)
def test_what_lies_on_a_bound_is_taken_and_what_lies_outside_is_refused(name: str) -> None:
    found = setting_types.BOUNDS[name]
    setting_types.check({name: found.least + (1e-9 if found.above else 0)})
    with pytest.raises(ConfigError, match=r"expected (at least|more than) "):
        setting_types.check({name: found.least - (0 if found.above else 1)})
    if found.most < math.inf:
        setting_types.check({name: found.most})
        assert found.why
        with pytest.raises(ConfigError, match=r"expected at most \S+ \(.+\)$"):
            setting_types.check({name: found.most + 1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["optimizer.learning_rate", "strategy.bucket_cap_mb", "a.setting.without.bounds"])
def test_what_is_not_finite_is_refused_for_every_setting(name: str, number: float) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}={number}: expected a finite number$"):
        setting_types.check({name: number})


def test_groups_and_lists_are_looked_into() -> None:
    with pytest.raises(ConfigError, match=r"^what_if\.bandwidth\.nvlink1=0: expected more than 0$"):
        setting_types.check({"what_if": {"bandwidth": {"nvlink1": 0}, "latency": 1}})
    with pytest.raises(ConfigError, match=r"^devices=-1: expected at least 0$"):
        setting_types.check({"devices": [3, -1]})
    setting_types.check({"gpus": None, "devices": None, "size": "64MiB", "sensitivity": True, "env": {"GPUS": "-1"}})


def test_a_number_is_quoted_as_it_was_given_unless_it_fills_the_screen() -> None:
    for given, quoted in ((2**64, str(2**64)), (10**400, "a number of more than 40 digits")):
        with pytest.raises(ConfigError, match=rf"^seed={quoted}: expected at most 4294967295 "):
            setting_types.check({"seed": given})
    with pytest.raises(ConfigError, match=r"^timeout=1e\+300: expected at most 2592000 \(30 days, in seconds\)$"):
        setting_types.check({"timeout": 1e300})

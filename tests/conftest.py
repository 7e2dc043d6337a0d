"""What tests share: composed requests, run files, and records of runs that never ran."""

import time
from typing import Any

import msgspec
import pytest

from resnetx.cli.compose import compose
from resnetx.config import Request, request_from, run_settings_from
from resnetx.measure.environment import environment
from resnetx.record import SCHEMA, Environment, RunFile, RunRecord, cut_short, seal


@pytest.fixture
def request_of():
    """Makes a request from settings, as the command line would."""

    def make(settings: dict[str, Any] | None = None, **more: Any) -> Request:
        return request_from(compose({"input": "synthetic", **(settings or {}), **more}))

    return make


@pytest.fixture
def task_of(request_of):
    """Makes a run file from settings."""

    def make(settings: dict[str, Any] | None = None, **more: Any) -> RunFile:
        run = run_settings_from(compose(settings or {}))
        return RunFile(
            schema=SCHEMA,
            request=request_of(settings, **more),
            study=None,
            repeat=1,
            timeout_s=run.timeout,
            convention=run.convention,
            tracker=run.tracker,
        )

    return make


@pytest.fixture
def record_of(task_of):
    """Makes the record of a run that measured nothing; the test fills in what it needs."""

    def make(settings: dict[str, Any] | None = None, **more: Any) -> RunRecord:
        return cut_short(task_of(settings, **more), time.time(), "failed", "made by a test")

    return make


@pytest.fixture
def record_environment():
    """Makes an environment as this machine's, with fields changed."""

    def make(**changed: Any) -> Environment:
        plain = {"environment": {**environment(None), **changed}, "unknown": {}}
        return seal(plain, _Holder).environment

    return make


class _Holder(msgspec.Struct):
    environment: Environment
    unknown: dict[str, str]

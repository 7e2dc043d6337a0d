"""The machine at hand as a system: `resnetx topology --this out=mine.yaml`, or systems=this of any verb."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from resnetx.api.found_system import Found, FoundSettings, found, plain_settings
from resnetx.compose import asked
from resnetx.host import node_name


@cache
def this_text() -> str:
    """The file of this machine, with whatever it does not say assumed: a process asks for it several times."""
    return this_system({}).text


def this_system(settings: Mapping[str, object]) -> Found:
    """This machine; settings name what it does not say, and where its file goes."""
    from resnetx.measure.machine.this_machine import survey_here

    given = asked("topology", settings)
    wanted = plain_settings(given, "--this", FoundSettings)
    survey, devices = survey_here(wanted.gpus)
    answer = found(survey, wanted, given, node_name(), f"--this on {node_name()}")
    return replace(answer, devices=tuple(devices))

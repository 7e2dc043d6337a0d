"""A machine that exists on paper: `resnetx topology new like=pcie-gen5 gpus=8 switches=4 out=offer.yaml`."""

from collections.abc import Mapping

from resnetx.api.found_system import Found, found_from, plain_settings
from resnetx.compose import asked
from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.planned import Plan, planned
from resnetx.interconnect.survey_parts import PartSettings, entries, named
from resnetx.interconnect.system import System
from resnetx.settings import keywords
from resnetx.settings.files import given_path

NEW = "new"  # the word behind the verb


def new_system(settings: Mapping[str, object]) -> Found:
    """The system of a machine on paper; every guess is marked as assumed."""
    given = asked("topology", settings)
    wanted = plain_settings(given, NEW, keywords.TopologyNewFields)
    if wanted.like is None:
        raise ConfigError("like=null: expected the system that the new one resembles, as like=pcie-gen5")
    like = system.load(str(given_path(wanted.like)) if wanted.like.endswith((".yaml", ".yml")) else wanted.like)
    nic, cards = _cards(wanted.nic)
    parts = PartSettings(
        gpu=named("gpus", "gpu", wanted.gpu) if wanted.gpu else _part(like, "gpu", "gpus"),
        cpu=named("cpus", "cpu", wanted.cpu) if wanted.cpu else _part(like, "cpu", "cpus"),
        nic=nic or _part(like, "nic", "nics"),
        pcie=wanted.pcie,
    )
    plan = Plan(
        gpus=wanted.gpus,
        switches=wanted.switches,
        sockets=wanted.sockets,
        uplink=wanted.uplink,
        cards=cards,
        generation=wanted.pcie,
        gpu=parts.gpu if wanted.gpu else None,
        cpu=parts.cpu if wanted.cpu else None,
    )
    words = " ".join(f"{key}={value}" for key, value in given.items() if key not in ("out", "results"))
    library = wanted.library or like.library
    return found_from(planned(like, plan), parts, library, wanted.out, ("results" in given and wanted.results) or None,
                      f"{like.name}-like", f"new {words}")  # fmt: skip


def _cards(nic: str | None) -> tuple[str | None, int | None]:
    """(part, how many on each CPU) of "connectx-7-ndr:2"."""
    if nic is None:
        return None, None
    name, _, count = nic.partition(":")
    if count and not (count.isdecimal() and 1 <= int(count) <= 64):
        raise ConfigError(f"nic={nic}: expected a card, and how many are on each CPU, as connectx-7-ndr:2")
    return named("nics", "nic", name), int(count) if count else None


def _part(like: System, kind: str, table: str) -> str | None:
    """The part of a kind that the other machine has; None where it has none."""
    name = next((component.part_name for component in like.components if component.kind == kind), None)
    if name is not None and name not in entries(table):
        raise ConfigError(f"like={like.name}: its {kind} {name} is described in its own file alone; set {kind}=")
    return name

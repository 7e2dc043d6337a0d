"""The lab: the networks of namespaces that stand for systems, which `train`, `sweep` and `bench` run in."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from resnetx.compose import asked, struct_of
from resnetx.config import LAB, lab_from
from resnetx.errors import ConfigError
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import MOST_RANKS, LabNetwork, lab_network
from resnetx.settings import keywords
from resnetx.settings.table import TABLE
from resnetx.study import Point
from resnetx.table import ANSWERS, Answer, Records, Table, row

INSIDE = tuple(TABLE["lab"].readers)  # the verbs that run in the lab, or predict what would come of it


def lab(**settings: Unpack[keywords.LabKeywords]) -> Records[LabNetwork]:
    """The networks that the lab would build: namespaces, links with their rates, and the ways between ranks.

    To run in one, give `train`, `sweep` or `bench` the group `lab`, e.g. `lab={"system": "gx8", "scale": 100}`.

    >>> import resnetx
    >>> (network,) = resnetx.lab(systems=["gx8"], scale=100, gpus=2)
    >>> network.ranks, round(network.links[0].rate_Bps / 1e6)
    (['gpu0', 'gpu1'], 131)
    """
    return Records(networks(asked("lab", settings)))


def networks(given: Point) -> list[LabNetwork]:
    """The network of each system and number of GPUs; stored where `out=` says."""
    fields = _settings(given)
    made = list(_networks(fields))
    if fields.out is not None:
        _store(made, Path(fields.out))
    return made


def _store(made: Sequence[LabNetwork], folder: Path) -> None:
    """The links of each network, as JSON lines, as a table, and as a page."""
    from resnetx.api import drawings, pages
    from resnetx.reporting.page import PageTable, Part

    drawings.store_rows(folder, "lab", made)
    tables = [PageTable("links", "Links, as they are shaped", _links(made))]
    names = ", ".join(dict.fromkeys(f"{network.system} / {network.scale:g}" for network in made))
    pages.store(Part(f"The lab: {names}", [_said(made)], tables=tables), folder)


def _links(made: Sequence[LabNetwork]) -> Table:
    links = [
        {"system": network.system, "ranks": len(network.ranks), **row(link)}
        for network in made
        for link in network.links
    ]
    return Table(list(links[0]), [list(cells.values()) for cells in links])


def _said(made: Sequence[LabNetwork]) -> str:
    names = ", ".join(dict.fromkeys(f"{network.system} / {network.scale:g}" for network in made))
    return f"The lab builds {names} of {sum(len(network.spaces) for network in made)} namespaces."


ANSWERS["Records[LabNetwork]"] = lambda made: Answer([_said(made)], _links(made))


def _settings(given: Point) -> keywords.LabFields:
    fields = struct_of(given, keywords.LabFields)
    if not fields.systems:
        raise ConfigError("systems=[]: expected the systems that the lab builds, e.g. systems=gx8 scale=100")
    return fields


def _networks(wanted: keywords.LabFields) -> Iterator[LabNetwork]:
    for name in wanted.systems:
        lab = lab_from({"system": name, "scale": wanted.scale, "transport": wanted.transport})
        assert lab is not None, "a system is named"
        machine = system.load(lab.system)
        for gpus in wanted.gpus:
            own = len(wanted.devices) if wanted.devices else min(MOST_RANKS, len(machine.gpus))
            yield lab_network(machine, wanted.devices, gpus or own, lab.scale, lab.transport)


def settings_inside(given: Mapping[str, object]) -> dict[str, object]:
    """The settings of this verb as those of a verb that runs in the lab."""
    unknown = [key for key in given if key not in ("systems", "scale", "transport")]
    if unknown:
        raise ConfigError(f"{unknown[0]}: belongs behind --, to the verb that runs in the lab")
    fields = _settings({"scale": LAB.scale, **given})
    names = fields.systems
    return {
        "lab.system": names[0] if len(names) == 1 else names,
        "lab.scale": fields.scale,
        "lab.transport": fields.transport,
    }

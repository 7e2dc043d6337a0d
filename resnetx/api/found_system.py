"""A system that is not described yet: of files of other programs, of the machine at hand, or on paper.

found = from_files([Path("topo.txt"), Path("nccl.xml")], {"gpu": "p100", "out": "mine.yaml"})
found.system, found.findings, found.unknown
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from resnetx import progress
from resnetx.api import drawings
from resnetx.api.topology_answers import links_of
from resnetx.compose import asked, struct_of
from resnetx.errors import ConfigError
from resnetx.host import node_name
from resnetx.interconnect.collectives.plan import LIBRARIES
from resnetx.interconnect.survey.gpus import nvlinks_of
from resnetx.interconnect.survey.survey import PaperMachine, PartSettings, Survey, entries, joined, named, planned
from resnetx.interconnect.survey.survey_sources import read_survey
from resnetx.interconnect.survey.system_text import WrittenSystem, written_system
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.system import System
from resnetx.loading import name_fault
from resnetx.record.topologies import DeviceLink, FoundSystem
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.study import Point

YAML = (".yaml", ".yml")

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class Found:
    """A system, what its sources say beside and what they do not, and where its file is."""

    system: System
    findings: Sequence[str]
    unknown: Sequence[str]
    text: str
    file: Path | None
    devices: Sequence[DeviceLink] = ()  # of the machine at hand

    def answer(self) -> list[str]:
        """What it is, and how much of it is not known."""
        unknown = f"{len(self.unknown)} thing{'s' * (len(self.unknown) != 1)} could not be learned: see below."
        return [f"{self.system.name}: {self.system.about}.", *[unknown] * bool(self.unknown)]

    def records(self) -> Iterator[FoundSystem]:
        """The one record of it."""
        file = None if self.file is None else str(self.file)
        links, devices = links_of(self.system, "auto"), list(self.devices)
        findings, unknown = list(self.findings), list(self.unknown)
        yield FoundSystem(links=links, findings=findings, unknown=unknown, file=file, text=self.text, devices=devices)


def from_files(files: Sequence[Path], settings: Mapping[str, object]) -> Found:
    """The machine that files of other programs describe, all of one machine."""
    if not files:
        raise ConfigError(
            "--import: expected files of one machine, as the text of nvidia-smi topo -m or the XML that NCCL writes"
        )
    given = asked("topology", settings)
    wanted = plain_settings(given, "--import", keywords.TopologyImportFields)
    nvlinks = nvlinks_of(wanted.gpu)
    survey = joined([read_survey(file, wanted.gpus, nvlinks) for file in files])
    made_from = f"--import {' '.join(file.name for file in files)}"
    return found(survey, _parts(wanted), wanted.library, wanted, given, files[0].stem, made_from)


def _parts(wanted: keywords.TopologyImportFields) -> PartSettings:
    """The parts that a user says a machine has; of GPUs also a file of their own."""
    gpu = str(given_path(wanted.gpu)) if wanted.gpu is not None and wanted.gpu.endswith(YAML) else wanted.gpu
    return PartSettings(gpu, wanted.cpu, wanted.nic, wanted.pcie)


def plain_settings(given: Point, question: str, kind: type[T]) -> T:
    """The settings of a question as its struct; others would have no effect, and are refused."""
    for key in given:
        if key not in kind.__struct_fields__:
            known = ", ".join(kind.__struct_fields__)
            raise ConfigError(f"{key}={given[key]}: has no effect with {question}, which reads {known}")
    return struct_of(given, kind)


def found(
    survey: Survey,
    parts: PartSettings,
    library: str | None,
    wanted: keywords.TopologyImportFields | keywords.TopologyNewFields,
    given: Point,
    stem: str,
    made_from: str,
) -> Found:
    """A survey as a system, written where `out` or `results` says."""
    if library is not None and library not in LIBRARIES:
        raise ConfigError(f"library={library}: not one of the known values ({', '.join(LIBRARIES)})")
    file = file_of(wanted.out, wanted.results if "results" in given else None, stem)
    written = written_system(survey, parts, library, made_from)
    machine = loaded(written.text, file.stem if file else stem, survey.source)
    written = _with_unknown(written, _differences(survey, machine))
    if file:
        store(file, written.text, machine, "results" if wanted.out is None else "out")
    return Found(machine, written.findings, written.unknown, written.text, file)


def _with_unknown(written: WrittenSystem, more: Sequence[str]) -> WrittenSystem:
    """The same with more that is not known, at the end of the comments at its top."""
    if not more:
        return written
    head, _, rest = written.text.partition("\nabout:")
    text = "\n".join([head, *(f"# not known: {each}" for each in more)]) + f"\nabout:{rest}"
    return WrittenSystem(text, written.findings, (*written.unknown, *more))


def _differences(survey: Survey, machine: System) -> list[str]:
    """Where a matrix says other words than the system gives, which then is as another source has it."""
    rows = paths.connectivity(machine)
    other = [(a, b, word) for (a, b), word in survey.words.items() if a < b and rows[a][b] != word]
    return [
        f"why nvidia-smi calls GPU{a} to GPU{b} {word}: by the rest they are {rows[a][b]}" for a, b, word in other[:4]
    ] + [f"why {len(other) - 4} more pairs differ so"] * (len(other) > 4)


def loaded(text: str, stem: str, source: str) -> System:
    """The system of a text; what is wrong with it is the fault of its source."""
    name = stem if not name_fault(stem) else "machine"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            return system.load(str(path))
        except ConfigError as error:
            said = str(error).partition(": ")[2] or str(error)
            raise ConfigError(f"{source}: no system can be made of it: {said}") from None


def file_of(out: str | None, results: str | None, stem: str) -> Path | None:
    """Where the file goes: `out` itself, or into the folder that it names; None: nowhere."""
    if out is None:
        return None if results is None else Path(results) / "topology" / f"{stem}.yaml"
    path = Path(out)
    if path.suffix not in YAML:
        return path / f"{stem}.yaml"
    if fault := name_fault(path.stem):
        raise ConfigError(f"out={out}: a system has the name of its file: {fault}")
    return path


def store(file: Path, text: str, machine: System, key: str) -> None:
    """Writes the file of a system, and its drawing beside it; never over a file, which somebody may have edited.

    `key`: the setting that says where.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise ConfigError(f"{key}={file}: there is such a file; remove it, or choose another {key}=") from None
    except OSError as error:
        raise ConfigError(f"{key}={file}: cannot be written ({error.strerror}); give another folder") from None
    progress.command(f"system: {file}")
    drawings.store([drawings.of_system(machine)], file.parent)


# A machine that exists on paper: `resnetx topology new like=pcie-gen5 gpus=8 switches=4 out=offer.yaml`.

NEW = "new"  # the word behind the verb


def new_system(settings: Mapping[str, object]) -> Found:
    """The system of a machine on paper; every guess is marked as assumed."""
    given = asked("topology", settings)
    fields = plain_settings(given, NEW, keywords.TopologyNewFields)
    if fields.like is None:
        raise ConfigError("like: not given; expected the system that the new one resembles, as like=pcie-gen5")
    like = system.load(str(given_path(fields.like)) if fields.like.endswith((".yaml", ".yml")) else fields.like)
    nic, cards = _cards(fields.nic)
    parts = PartSettings(
        gpu=named("gpus", "gpu", fields.gpu) if fields.gpu else _part(like, "gpu", "gpus"),
        cpu=named("cpus", "cpu", fields.cpu) if fields.cpu else _part(like, "cpu", "cpus"),
        nic=nic or _part(like, "nic", "nics"),
        pcie=fields.pcie,
    )
    plan = PaperMachine(
        gpus=fields.gpus,
        switches=fields.switches,
        sockets=fields.sockets,
        uplink=fields.uplink,
        cards=cards,
        generation=fields.pcie,
        gpu=parts.gpu if fields.gpu else None,
        cpu=parts.cpu if fields.cpu else None,
    )
    words = " ".join(f"{key}={value}" for key, value in given.items() if key not in ("out", "results"))
    library = fields.library or like.library
    return found(planned(like, plan), parts, library, fields, given, f"{like.name}-like", f"new {words}")


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


# The machine at hand as a system: `resnetx topology --this out=mine.yaml`, or systems=this of any verb.


@cache
def this_text() -> str:
    """The file of this machine, with whatever it does not say assumed: a process asks for it several times."""
    return this_system({}).text


def this_system(settings: Mapping[str, object]) -> Found:
    """This machine; settings name what it does not say, and where its file goes."""
    from resnetx.measure.machine.pci_devices import survey_here

    given = asked("topology", settings)
    wanted = plain_settings(given, "--this", keywords.TopologyImportFields)
    survey, devices = survey_here(wanted.gpus)
    answer = found(survey, _parts(wanted), wanted.library, wanted, given, node_name(), f"--this on {node_name()}")
    return replace(answer, devices=tuple(devices))

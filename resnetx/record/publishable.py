"""Records that can be published: without the names of hosts, users, networks, paths and serial numbers.

What was measured, with which hardware and software, stays. A name is replaced by the same other one throughout
("node1"), so that what was on one node still is; what has no other name is null, with the reason.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeVar

import msgspec

from resnetx.errors import prepared
from resnetx.record.bench_record import BenchRecord, BenchRequest
from resnetx.record.machine import Environment, OtherNode
from resnetx.record.run import RunRecord
from resnetx.record.tasks import StudyRecord
from resnetx.request import Request
from resnetx.variables import CODE_AND_FILES, names_network

Published = TypeVar("Published", RunRecord, BenchRecord, StudyRecord)
Part = TypeVar("Part", bound=msgspec.Struct)
Asked = TypeVar("Asked", Request, BenchRequest)

REASON = "left out of what is published"
LEFT_OUT = f"({REASON})"
_REST = r"[^\s\"'<>|,;()]"  # of a path or an address, up to what ends it in a sentence
# What is left out of texts, in this order, and what stands in its place.
_LEFT_OUT = [
    (re.compile(pattern), other)
    for pattern, other in (
        (r"([\"'])(?:file:|~|\.{0,2}[/\\]|[A-Za-z]:[/\\])[^\"'\n]*\1", r"\1(path)\1"),  # in quotes: with blanks
        (rf"[A-Za-z0-9+.-]{{1,30}}://{_REST}*", "(address)"),
        (r"(?<![\w.+%-])[\w.+%-]+@[A-Za-z0-9](?:[\w.-]*\w)?", "(address)"),  # of mail, or of ssh
        (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)", "(address)"),
        (r"(?<![\w:-])[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5,19}(?![\w:-])", "(address)"),  # of Ethernet, InfiniBand
        (rf"(?<![\w.-])[\w.-]+:[/\\]{_REST}+", "(path)"),  # of a server, or a drive of Windows
        (rf"\\\\[\w.$-]+(?:\\{_REST}*)?", "(path)"),
        (rf"(?<![\w.])(?:~[\w.-]*|\.{{1,2}})[/\\]{_REST}*", "(path)"),
        (rf"(?<![\w-])(-[A-Za-z])/{_REST}+", r"\1(path)"),  # an option of a compiler
        (rf"(?<![\w./)~])/[\w.@+~-]+/{_REST}*", "(path)"),
        (r"(?<![\w./)~])/[A-Za-z_][\w.@+~-]+", "(path)"),  # of one part: "images/s" and "ResNet/1 and /8" are none
        (
            r"(?<![\w.-])[A-Za-z][\w-]*\.(?:[\w-]+\.)+(?:[a-z]{2}|com|edu|gov|internal|lan|local|net|org)(?!\w|[.-]\w)",
            "(host)",
        ),
        (r"\b(?:GPU|MIG)-[0-9a-fA-F][0-9a-fA-F/-]{3,}", "(GPU)"),
    )
]
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,8}(?:[0-9a-fA-F]{1,4}|\(address\))?(?:%\w+)?(?![\w:])")
# Warnings that quote what other programs say or are called.
_QUOTING = {"shutdown", "shared-gpus"}
# One of a list, as NCCL and UCX read it: "^=mlx5_0:1,mlx5_1".
_INTERFACE = re.compile(r"(?:^|,)[\^=]*([A-Za-z][\w.-]+)")
_NOBODYS = {"", "root", "localhost", "lo"}  # names that every machine has
# Fields of words of ours, one of which may be what a host is called.
_OURS = {"kind", "outcome", "backend", "distributed", "convention", "code", "requested", "used", "collective", "copy",
         "direction", "endpoint", "verdict", "clock"}  # fmt: skip


@dataclass
class Names:
    """The names that are replaced, each with its other one: those in records, and of whoever publishes them."""

    others: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, name: str) -> str:
        """The other name of a node, an interface, a user, a path."""
        if name in _NOBODYS:
            return name
        if name not in self.others:
            short = name.partition(".")[0] if kind == "node" else name  # a host's, without its domain
            number = 1 + len({other for other in self.others.values() if other.rstrip("0123456789") == kind})
            self.others[name] = self.others.get(short, f"{kind}{number}")
            self.others.setdefault(short, self.others[name])
        return self.others[name]

    def gather(self, tree: Any) -> None:
        """Finds the machines of a record, and their interfaces to networks."""
        for kind, name in _named(tree):
            self.add(kind, name)

    def without(self, text: str) -> str:
        """A text with all names replaced, and paths, addresses, other hosts and serial numbers left out."""
        for pattern, other in _LEFT_OUT:
            text = pattern.sub(other, text)
        text = _IPV6.sub(_without_ipv6, text)
        if not self.others:
            return text
        known = "|".join(map(re.escape, sorted(self.others, key=len, reverse=True)))
        return re.sub(rf"(?<![A-Za-z0-9])(?:{known})(?![A-Za-z0-9])", lambda match: self.others[match[0]], text)


def _without_ipv6(match: re.Match[str]) -> str:
    """Times and addresses on a PCI bus have colons, too."""
    try:
        ip_address(match[0].replace("(address)", "0.0.0.0"))
    except ValueError:
        return match[0]
    return "(address)"


def published(record: Published, names: Names) -> Published:
    """The record as it can be published; `names`: those of all records that are published with it."""
    names.gather(msgspec.to_builtins(record))
    if isinstance(record, StudyRecord):
        stops = [msgspec.structs.replace(stop, job=LEFT_OUT, run=LEFT_OUT) for stop in record.stops]
        points = [_request(point, names) for point in record.points]
        benches = [_asked(bench, names) for bench in record.benches]
        return _renamed(msgspec.structs.replace(record, points=points, benches=benches, stops=stops), names)
    reasons: dict[str, str] = {}
    changed = msgspec.structs.replace(
        record,
        reason=LEFT_OUT * bool(record.reason),
        stderr_end=LEFT_OUT * bool(record.stderr_end),
        failures=[
            msgspec.structs.replace(failure, message=LEFT_OUT, traceback=LEFT_OUT) for failure in record.failures
        ],
        warnings=[
            msgspec.structs.replace(warning, message=LEFT_OUT) if warning.code in _QUOTING else warning
            for warning in record.warnings
        ],
        environment=_environment(record.environment, "environment", reasons),
        other_nodes=record.other_nodes and [_other(*node, reasons) for node in enumerate(record.other_nodes)],
        devices=record.devices and [
            _nulled(device, ("uuid",), f"devices.{index}", reasons) for index, device in enumerate(record.devices)
        ],
    )  # fmt: skip
    changed = _nulled(changed, ("job",), "", reasons)
    changed = msgspec.structs.replace(changed, unknown=changed.unknown | reasons)
    if isinstance(changed, BenchRecord):
        source = "measured" if changed.source == "measured" else "imported"
        asked = changed.request and _asked(changed.request, names)
        return _renamed(msgspec.structs.replace(changed, request=asked, source=source), names)
    request = _request(changed.request, names)  # whose keys are digests of what was asked, paths included
    return _renamed(
        msgspec.structs.replace(changed, request=request, request_key=request.key, baseline_key=request.baseline_key),
        names,
    )


def _other(index: int, node: OtherNode, reasons: dict[str, str]) -> OtherNode:
    environment = _environment(node.environment, f"other_nodes.{index}.environment", reasons)
    return msgspec.structs.replace(node, environment=environment)


def _environment(environment: Environment | None, path: str, reasons: dict[str, str]) -> Environment | None:
    if environment is None:
        return None
    storage = environment.storage and msgspec.structs.replace(environment.storage, path=LEFT_OUT, device=LEFT_OUT)
    gpus = environment.gpus and [msgspec.structs.replace(gpu, uuid=LEFT_OUT) for gpu in environment.gpus]
    changed = msgspec.structs.replace(environment, storage=storage, gpus=gpus)
    return _nulled(changed, ("host", "switch", "gpu_processes"), path, reasons)


def _nulled(part: Part, fields: tuple[str, ...], path: str, reasons: dict[str, str]) -> Part:
    """The part without some fields, each null with the reason; what was null stays so for the reason that it had."""
    known = [name for name in fields if getattr(part, name) is not None]
    reasons |= {f"{path}.{name}".lstrip("."): REASON for name in known}
    return msgspec.structs.replace(part, **dict.fromkeys(known))


def _request(request: Request, names: Names) -> Request:
    """What was asked for, with other names for paths, by which points still differ."""
    folders = {name: getattr(request.input, name, None) for name in ("root", "stage")}
    of_input = {name: _path(path, names) for name, path in folders.items() if path}
    model = request.model
    if model.code:
        model = msgspec.structs.replace(model, file=_path(model.code, names))
    return msgspec.structs.replace(
        _asked(request, names),
        model=model,
        input=msgspec.structs.replace(request.input, **of_input),
        replay=_path(request.replay, names),
    )


def _asked(request: Asked, names: Names) -> Asked:
    """What runs and benches are both asked for."""
    changed: Asked = msgspec.structs.replace(
        request,
        env={
            name: (_path(value, names) if name in CODE_AND_FILES else None) or names.without(value)
            for name, value in request.env.items()
        },
        interface=request.interface and names.add("interface", request.interface),
        lab=request.lab and msgspec.structs.replace(request.lab, system=_path(request.lab.system, names)),
    )
    return changed


def _path(path: str | None, names: Names) -> str | None:
    """Another name for a path of the user's own; names of systems and GPUs, and the default, stay."""
    own = path and path != "data/images" and re.search(r"^~|[/\\]", path)
    return names.add("path", path) if path and own else path


def _renamed(record: Published, names: Names) -> Published:
    """The record with all names in its texts replaced."""
    renamed: Published = msgspec.convert(_texts(msgspec.to_builtins(record), names), prepared(type(record)))
    return renamed


def _texts(tree: Any, names: Names) -> Any:
    if isinstance(tree, Mapping):
        return {
            key: value if key in _OURS or (key in ("request", "points") and "schema" in tree) else _texts(value, names)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [_texts(item, names) for item in tree]
    return names.without(tree) if isinstance(tree, str) else tree


def _named(tree: Any) -> Iterator[tuple[str, str]]:
    """(kind, name) of what a record names."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            if key in ("node", "host") and isinstance(value, str):
                yield "node", value
            elif key == "nodes" and isinstance(value, list):
                yield from (("node", name) for name in value)
            elif key == "network" and isinstance(value, list):
                yield from (("interface", word.split()[0]) for word in value if word.strip())
            elif key == "interface" and isinstance(value, str):
                yield "interface", value
            elif isinstance(value, str) and names_network(key):
                yield from (("interface", name) for name in _INTERFACE.findall(value) if name != "all")
            elif key == "nics" and isinstance(value, list):
                yield from (("interface", each["name"]) for each in value if each["name"])
            else:
                yield from _named(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from _named(item)

"""The YAML of systems and parts: keys carry units, and a mistake is refused in the units of the file, with its line."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from resnetx.errors import FileError, sentence, shortened
from resnetx.interconnect.graph import Library
from resnetx.interconnect.parts import UNITS, Family, Provenance, SourcedValue, in_base_units
from resnetx.loading import YAML_BYTES, File, YamlFile, name_fault
from resnetx.loading.yaml_file import steps

MAX_COMPONENTS = 2**12  # of a file; found by arithmetic, as gpu0..999999999 would fill the memory
SMALLEST, LARGEST = 1e-15, 1e21  # figures in base units: from below a nanosecond to above an exaFLOP/s


class LinedYaml(YamlFile):
    """The tree of such a file, and on which line each of its values stands."""

    def __init__(self, path: Path) -> None:
        super().__init__(File(path, "a description of a system", YAML_BYTES))
        if not isinstance(self.tree, dict):
            raise self.file.error("expected a mapping of settings")

    def mistake(self, error: msgspec.ValidationError, kind: Any, where: Sequence[str | int], value: Any) -> FileError:
        """What msgspec refuses, with the values that are known and with keys as they are spelt in the file."""
        path = [*where, *steps(error)]
        said = sentence(str(error), value, kind, ".".join(map(str, where)))
        said = said.replace("a list in brackets", "a list in brackets (a figure is [value, provenance, source])")
        said = re.sub(r"`array` of length (\d)", r"a list of \1", said)
        if said.endswith("not one of the known values") and (known := _known(path)):
            said = f"{said} ({', '.join(known)})"
        elif "unknown field" in said:
            said = f"{said}; known: {', '.join(kind.__struct_fields__)}"
        return self.error(in_file_units(path, self.tree), _keys_in_file_units(said))


def _known(steps: Sequence[str | int]) -> tuple[str, ...]:
    """The words that may stand at the end of a path."""
    return get_args({"family": Family, "library": Library, 1: Provenance}.get(steps[-1]))


def in_file_units(steps: Sequence[str | int], tree: Any) -> list[str | int]:
    """A path whose keys are spelt as in the file: `latency_s` is looked for as `latency_us`."""
    spelt: list[str | int] = []
    for step in steps:
        if isinstance(tree, dict) and step not in tree:
            step = next((key for key in tree if in_base_units({key: [0]}).keys() == {step}), step)
        spelt.append(step)
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            tree = None
    return spelt


def _keys_in_file_units(said: str) -> str:
    """A sentence about keys in base units, with the first unit that a file may use for each."""
    for suffix, (base, _) in UNITS.items():
        said = re.sub(rf"(?<=\w){base}\b", suffix, said)
    return said


def expand(text: LinedYaml, where: Sequence[str | int], name: str) -> list[str]:
    """The names in a range: "gpu0..3" is gpu0 gpu1 gpu2 gpu3; any other name is itself."""
    check_name(text, where, name)
    found = re.fullmatch(r"(.*?)([0-9]+)\.\.([0-9]+)", name)
    if not found:
        return [name]
    first, last = int(found[2]), int(found[3])
    if last < first or last - first >= MAX_COMPONENTS:
        raise text.error(where, f"{name}: expected a range from low to high of at most {MAX_COMPONENTS}")
    return [f"{found[1]}{number}" for number in range(first, last + 1)]


def check_figure(
    text: LinedYaml, where: Sequence[str | int], name: str, figure: SourcedValue, zero_allowed: bool = False
) -> None:
    """Refuses a figure that no machine has."""
    if figure.stated is None or (zero_allowed and figure.stated == 0):
        return
    if not figure.stated > 0:
        raise text.error(where, f"{name}: expected more than 0")
    if not SMALLEST <= figure.stated <= LARGEST:
        raise text.error(where, f"{name}: no figure of a machine; expected {SMALLEST:g} to {LARGEST:g} in base units")


def check_name(text: LinedYaml, where: Sequence[str | int], name: str) -> None:
    if fault := name_fault(name):
        raise text.error(where, f"{shortened(name)}: {fault}")

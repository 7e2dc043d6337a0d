"""A YAML file that knows its lines, so that a mistake in it is refused with the line."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from resnetx.errors import ConfigError, sentence
from resnetx.interconnect.graph import Library
from resnetx.interconnect.parts import UNITS, Family, Provenance, in_base_units

MAX_BYTES = 2**20
MAX_VALUES = 100_000  # with aliases written out: a few lines of them can stand for more than a memory holds


class LinedYaml:
    """The tree of a file, and on which line each of its values stands."""

    def __init__(self, path: Path) -> None:
        import yaml

        self.path = path
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ConfigError(f"{path}: larger than {MAX_BYTES >> 20} MiB, so not a description of a system")
            text = path.read_text()
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)  # C is ten times as fast, where it is there
            self.root = loader.get_single_node()
            self._check_keys()
            self.tree: Any = loader.construct_document(self.root) if self.root else None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(self.tree, dict):
            raise ConfigError(f"{path}: expected settings by their names")

    def _check_keys(self) -> None:
        """Refuses what the parser takes silently: a key given twice, and endless aliases."""
        import yaml

        ahead, seen = [self.root], 0
        while ahead:
            node = ahead.pop()
            seen += 1
            if seen > MAX_VALUES:
                raise ConfigError(f"{self.path}: more than {MAX_VALUES} values, so not a description of a system")
            if isinstance(node, yaml.SequenceNode):
                ahead += node.value
            elif isinstance(node, yaml.MappingNode):
                keys: set[str] = set()
                for key, value in node.value:
                    line = key.start_mark.line + 1
                    if not str(key.tag).endswith(":str"):  # YAML takes on, off, yes, no and numbers for other things
                        raise ConfigError(f"{self.path}, line {line}: expected a word as the key, in quotes if need be")
                    if key.value in keys:
                        raise ConfigError(f"{self.path}, line {line}: {key.value} is given twice")
                    keys.add(key.value)
                    ahead.append(value)

    def refuse(self, where: Sequence[str | int], what: str) -> ConfigError:
        """The error that says `what` of the value at `where`, with its line."""
        return ConfigError(f"{self.path}, line {self.line(where)}: {what}")

    def line(self, where: Sequence[str | int]) -> int:
        """The line of a value; of the nearest one that holds it, where it is missing."""
        import yaml

        node, line = self.root, 1
        for step in where:
            if isinstance(node, yaml.MappingNode):
                found = {key.value: (key, value) for key, value in node.value}.get(str(step))
                if found is None:
                    break
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line + 1
            else:
                break
        return line

    def convert(self, where: Sequence[str | int], kind: Any, tree: Any) -> Any:
        """`tree`, which stands at `where`, as `kind`; refuses it with the line."""
        try:
            return msgspec.convert(tree, kind)
        except msgspec.ValidationError as error:
            inner = re.findall(r"[^.\[\]$`]+", str(error).partition(" - at `$")[2])
            steps = [*where, *(int(step) if step.isdigit() else step for step in inner)]
            said = sentence(str(error), tree, kind, ".".join(map(str, where)))
            said = said.replace("a list in brackets", "a list in brackets (a figure is [value, provenance, source])")
            said = re.sub(r"`array` of length (\d)", r"a list of \1", said)
            if said.endswith("not one of the known values") and (known := _known(steps)):
                said = f"{said} ({', '.join(known)})"
            elif "unknown field" in said:
                said = f"{said}; known: {', '.join(kind.__struct_fields__)}"
            raise self.refuse(in_file_units(steps, self.tree), _keys_in_file_units(said)) from None


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

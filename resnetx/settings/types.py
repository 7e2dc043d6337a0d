"""The types of settings in words, from the annotations of `keywords`: what a value may be, for help.

`words("predict", "batch_size")` is "integer or list", of which each value is a point; of "clock" "text or number".
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import ForwardRef

from resnetx.settings import keywords

_WORDS = {"int": "integer", "float": "number", "str": "text", "Text": "text"}
ONE_POINT = ("train", "verify", "doctor")  # verbs that take no lists of values


def words(verb: str, name: str) -> str:
    """The types of a verb's setting; without true and false, and names that its meaning lists."""
    annotation = _annotation(getattr(keywords, f"{verb.title()}Keywords"), name)
    if annotation.startswith("Mapping["):
        return "map of names to values"
    if "Sequence[int]" in annotation:
        return "list of integers"
    single = re.sub(r"(Literal|Mapping)\[[^]]*\]", "", annotation)
    kinds = list(dict.fromkeys(_WORDS[word] for word in re.findall(r"\w+", single) if word in _WORDS))
    kinds += ["map"] * ("Mapping[" in annotation)
    several = "Axis[" in annotation or "Sequence[" in annotation
    return " or ".join(kinds + ["list"] * (several and verb not in ONE_POINT))


def keys_of_map(name: str) -> str | None:
    """The type of the keys of a setting that some verb takes a map for: "int" of `rate`, of which `32:195` is one."""
    found = (re.search(r"Mapping\[(\w+)", annotation) for annotation in _annotations(name))
    return next((each[1] for each in found if each), None)


def takes_one_text(name: str, verb: str | None) -> bool:
    """Whether a setting may be a text, and is never a list: of a verb, or of all that have it."""
    annotations = [re.sub(r"Mapping\[[^]]*\]", "", annotation) for annotation in _annotations(name, verb)]
    several = any(re.search(r"(Axis|Sequence)\[", annotation) for annotation in annotations)
    return not several and any(re.search(r"\b(str|Text)\b", annotation) for annotation in annotations)


def takes_counts(name: str) -> bool:
    """Whether a setting is a whole number, or a list of them, and never text: `gpus`, of which `1..8` is a range."""
    return any(_counts(annotation) for annotation in _annotations(name))


def takes_sets(name: str) -> bool:
    """Whether a value of a setting is a list of numbers, so that several values are lists: `devices`."""
    return any("Axis[Sequence[int]]" in annotation for annotation in _annotations(name))


def _counts(annotation: str) -> bool:
    named = set(re.findall(r"\w+", re.sub(r"(Literal|Mapping)\[[^]]*\]", "", annotation)))
    return "int" in named and not named & {"str", "Text"}


def _annotations(name: str, verb: str | None = None) -> Iterator[str]:
    """How a verb, or each of those that have a setting, annotates it."""
    of_verb = f"{verb.title()}Keywords" if verb else None
    for kind_name, kind in vars(keywords).items():
        if kind_name == of_verb or (of_verb is None and kind_name.endswith("Keywords")):
            with suppress(KeyError, StopIteration):
                yield _annotation(kind, name)


def _annotation(kind: type, name: str) -> str:
    """The annotation of a setting as text; of one in a group, in whichever dictionary has the group's settings."""
    first, _, below = name.partition(".")
    annotation = _text(kind.__annotations__[first])
    if not below:
        return annotation
    return next(_text(each.__annotations__[below]) for each in _groups(annotation) if below in each.__annotations__)


def _groups(annotation: str) -> Iterator[type]:
    """The dictionaries of settings that an annotation names."""
    named = (getattr(keywords, word, None) for word in re.findall(r"\w+", annotation))
    yield from (each for each in named if isinstance(each, type) and issubclass(each, dict))


def _text(annotation: ForwardRef | str) -> str:
    return annotation if isinstance(annotation, str) else annotation.__forward_arg__

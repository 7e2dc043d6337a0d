"""The types of settings in words, from the annotations of `keywords`: what a value may be, for help.

`words("predict", "batch_size")` is "integer or list", of which each value is a point; of "clock" "text or number".
"""

import re
from collections.abc import Iterator
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

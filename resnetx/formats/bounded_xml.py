"""XML as a tree of elements, within bounds: of entities, depth, elements and attributes.

A document that declares an entity is refused, so that a few lines of it cannot become gigabytes; nothing outside the
document is ever read. hwloc names a DTD, which stays unread, too.

Reference: Python, XML vulnerabilities.
"""

from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from resnetx.errors import FileError
from resnetx.loading import File

XML_BYTES = 2**22
MAX_DEPTH = 64  # NCCL's own limit is below: a PCIe tree of as many bridges is none
MAX_ELEMENTS = 2**15
MAX_ATTRIBUTES = 64  # of one element


@dataclass
class Element:
    """One element, with the line that it begins on."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list["Element"] = field(default_factory=list)

    def get(self, name: str, otherwise: str = "") -> str:
        return self.attributes.get(name, otherwise)


def looks_like_xml(text: str) -> bool:
    """Whether a text begins as XML does; copies have blank lines and the fences of Markdown above it."""
    return _inside(text).startswith("<")


def parse(file: File, text: str) -> Element:
    """The outermost element of a document."""
    return _Builder(file).tree(text)


def _inside(text: str) -> str:
    """The document of a text, without the fences of Markdown around it; lines keep their numbers."""
    lines = ["" if line.strip().startswith("```") else line for line in text.split("\n")]
    return "\n".join(lines).lstrip()


class _Builder:
    """Builds the tree of one document while expat reads it."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.open: list[Element] = []
        self.top: Element | None = None
        self.count = 0
        self.parser = parser = expat.ParserCreate()
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._refuse_entity
        parser.UnparsedEntityDeclHandler = self._refuse_entity
        parser.ExternalEntityRefHandler = self._refuse_entity

    def tree(self, text: str) -> Element:
        above = len(text) - len(text.lstrip("\n\r \t"))
        first = text.count("\n", 0, above)
        try:
            self.parser.Parse(_inside(text).encode(), True)
        except expat.ExpatError as error:
            raise self.file.error(
                f"truncated or not XML ({expat.ErrorString(error.code)})", first + error.lineno
            ) from None
        except UnicodeEncodeError:
            raise self.file.error("not XML: it has characters that are none") from None
        assert self.top is not None, "expat accepts no document without an element"
        return self.top

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self.count += 1
        if len(self.open) >= MAX_DEPTH:
            raise self._error(f"elements nested more than {MAX_DEPTH} deep")
        if self.count > MAX_ELEMENTS:
            raise self._error(f"more than {MAX_ELEMENTS:,} elements")
        if len(attributes) > MAX_ATTRIBUTES:
            raise self._error(f"an element with more than {MAX_ATTRIBUTES} attributes")
        element = Element(tag, attributes, line)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.top = element
        self.open.append(element)

    def _end(self, _: str) -> None:
        self.open.pop()

    def _refuse_entity(self, *_: object) -> NoReturn:
        raise self._error("it declares entities, which are not read; a topology has none")

    def _error(self, sentence: str) -> FileError:
        return self.file.error(sentence, self.parser.CurrentLineNumber)

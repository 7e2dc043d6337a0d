"""What all pages share: how their templates are filled in, and how drawings become part of them.

Records may come from anywhere, so every word of theirs is escaped; a page is complete in itself, and runs no script.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from resnetx.visible import visible


@cache
def template(file: Path, filters: tuple[Callable[..., Any], ...] = ()) -> Template:
    """The template of a page; its folder is searched for what it includes. Filters go by their functions' names."""
    environment = Environment(
        loader=FileSystemLoader(file.parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({each.__name__: each for each in filters})
    return environment.get_template(file.name)


def _shown(value: Any) -> Any:
    """What the page says: no word of a record may hide behind controls. Drawings are as they are."""
    return value if isinstance(value, Markup) else visible(str(value))


_TAG = re.compile(r"<[^>]*>")  # what a drawing's texts have of these brackets is escaped
_SAYING = re.compile(r'<path aria-label="([^"]*)"([^>]*)/>')
_UNUSED = re.compile(r' (?:(?:aria-[a-z]+|role|class|pointer-events)="[^"]*"|opacity="1"|stroke-dasharray="1,0")')
_UNSEEN = re.compile(r'<path class="(?:back|fore)ground"(?: aria-hidden="true")? d="[^"]*"(?: display="none")?/>')
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_SIZE = re.compile(r'^<svg [^>]*?width="[^"]*" height="[^"]*"')


def inline(svg: str) -> Markup:
    """A drawing as part of a page: as wide as its place, what a mark says as its tooltip, and mute to screen readers,
    which have the table beside it. Its texts are escaped already.

    It is half as long as the file: coordinates end at hundredths of a point, and what nobody sees is left out.
    """
    said = _SAYING.sub(r"<path\2><title>\1</title></path>", _UNSEEN.sub("", svg))
    short = _TAG.sub(lambda tag: _UNUSED.sub("", _DECIMALS.sub(r"\1", tag[0])), said)
    return Markup(_SIZE.sub('<svg aria-hidden="true"', short))

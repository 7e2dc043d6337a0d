"""The console for all output that is not JSON: it shows control characters instead of executing them.

Names and texts in records, studies and traces come from anywhere. A terminal would obey the escapes in them (clear the
screen, set its title, show a line as another one), so these are shown written out: `\\x1b`.
"""

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console as _RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from resnetx.visible import visible


class Console(_RichConsole):
    """rich's console without markup; a closed pipe is not an error (`cli` then exits silently)."""

    def __init__(self, **more: Any) -> None:
        # COLUMNS=0 is no limit (`prose`); rich would print nothing in so many.
        environment = {name: value for name, value in os.environ.items() if (name, value) != ("COLUMNS", "0")}
        super().__init__(highlight=False, markup=False, _environ=environment, **more)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render_str(self, text: str, **more: Any) -> Text:
        """A string or cell, escaped before its width is measured."""
        return super().render_str(visible(text), **more)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever else is shown, as the description of a progress bar; rich's own controls stay what they are."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

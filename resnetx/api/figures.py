"""The figures of what the library returns, as charts that show themselves in a notebook."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

"""Writes the generated pages of `docs/`."""

from pathlib import Path

from resnetx.cli.reference import accuracy, records, settings
from resnetx.config import CONFIGS

DOCS = CONFIGS.parent / "docs"
PAGES = {"settings.md": settings.page, "records.md": records.page, "accuracy.md": accuracy.page}


def write(folder: Path) -> None:
    """Writes every generated page into a folder."""
    for name, page in PAGES.items():
        (folder / name).write_text(page())


if __name__ == "__main__":
    write(DOCS)

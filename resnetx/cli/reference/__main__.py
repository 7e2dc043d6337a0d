"""Writes what is generated: pages of `docs/`, the files of settings in `configs/`, and types of keywords."""

from pathlib import Path

from resnetx.cli.reference import records, settings
from resnetx.cli.reference import settings as written
from resnetx.literature import accuracy_page
from resnetx.settings import files
from resnetx.settings.files import CONFIGS

DOCS = CONFIGS.parent / "docs"
PAGES = {"settings.md": settings.page, "records.md": records.page, "accuracy.md": accuracy_page.page}


def write(folder: Path) -> None:
    """Writes every generated page into a folder."""
    for name, page in PAGES.items():
        (folder / name).write_text(page())


def sources() -> dict[Path, str]:
    """The files that are written out from the table of settings, each with its text."""
    found = {CONFIGS / name: text for name, text in written.configs().items()}
    package = Path(files.__file__).parents[1]
    return found | {
        package / "settings" / "keywords.pyi": written.keywords(),
        package / "__init__.pyi": written.public(),
    }


if __name__ == "__main__":
    for path, text in sources().items():
        path.write_text(text)
    write(DOCS)

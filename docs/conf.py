"""The site of these pages: `sphinx-build -W -b html docs site`; the headings and links of index.md are its contents."""

import re
from pathlib import Path

from sphinx.application import Sphinx

from resnetx import __version__

DOCS = Path(__file__).parent

project = "resnetx"
copyright = "the authors of resnetx, under Apache-2.0"
release = __version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"resnetx {release}"
html_copy_source = False
html_static_path = html_css_files = ["site.css"]
myst_heading_anchors = 4  # a link to a heading is the one that GitHub makes


def contents(index: str) -> str:
    """The trees of the pages that each section of the index links to."""
    trees = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", section))
        if pages:
            trees.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"]))
    return "\n\n".join(trees)


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Files beside docs/ are offered for download; folders have their name only, as a site has none."""

    def linked(link: re.Match[str]) -> str:
        text, target = link[1], link[2].partition("#")[0]
        path = (DOCS / name).parent.joinpath(target).resolve()
        if path.is_relative_to(DOCS):
            return link[0]
        return f"[{text}](path:{target})" if path.is_file() else text

    source[0] = re.sub(r"\[([^\]]*)\]\((\.\./[^)\s]+)\)", linked, source[0])
    if name == "index":
        source[0] += "\n\n" + contents(source[0])


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)

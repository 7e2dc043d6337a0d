"""How often a setting is declared: its row in the table, and fields of its name that are written by hand.

    python -m tests.bench.declarations [PACKAGE]

Fields of what verbs read are apart from those of run files, requests and the model of prediction, which are formats of
their own. Settings in groups are counted with their group.
"""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import resnetx.settings
from resnetx.settings.table import TABLE

NAMES = {name for name in TABLE if "." not in name}
KEPT = ("RunSettings", "Request", "Launch", "TrainingSetup")


def fields(package: Path) -> Iterator[tuple[str, str]]:
    """Class and name of each field that has the name of a setting, of all classes."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for each in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id in NAMES:
                    yield node.name, each.target.id


def main() -> None:
    """Prints both counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="?", type=Path, default=Path(resnetx.settings.__file__).parents[1])
    found = list(fields(parser.parse_args().package))
    kept = [field for field in found if field[0] in KEPT]
    read = [field for field in found if field[0].endswith(("Settings", "Keywords")) and field not in kept]
    for what, several in {
        "what verbs read": read,
        "run files, requests and predictions as well": [*read, *kept],
    }.items():
        per = 1 + len(several) / len(NAMES)
        print(f"{len(NAMES)} rows and {len(several)} fields of {what}: {per:.2f} declarations per setting")


if __name__ == "__main__":
    main()

"""What the house costs its reader: modules, lines, names that are used twice, and the walk through one prediction.

    python -m tests.bench.house [ROOT]

ROOT: the folder of a checkout; this one if left out. Modules and lines are counted without `literature`. The walk is
that of `predict` of one point, in a process of its own under `sys.setprofile`: functions of the package, without the
bodies of modules and classes, comprehensions, lambdas and generator expressions, and the classes of the package whose
objects these take or return (of a collection, its first item); `--classes` lists them. Words of documentation are those
of `wc -w docs/*.md docs/*/*.md` without the pages that a program writes: code, tables and outputs count.
"""

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"settings.md", "records.md", "accuracy.md", "steered.md"}
PREDICTED = ["predict", "systems=dgx1-v100", "model.x=4", "batch_size=64", "gpus=8"]

WALK = """
import sys, types
from resnetx.cli import main
package, ran, depths, lives, classes = sys.argv[1], set(), [], [], set()
def carried(value):
    if isinstance(value, (list, tuple)) and value and type(value).__module__ == "builtins":
        value = value[0]
    elif type(value) is dict and value:
        value = next(iter(value.values()))
    if type(value).__module__.startswith("resnetx"):
        classes.add(f"{type(value).__module__}.{type(value).__qualname__}")
def seen(frame, event, value):
    code = frame.f_code
    own = code.co_filename.startswith(package) and code.co_flags & 1 and not code.co_name.startswith("<")
    if event == "call":
        lives.append(own)
        if own:
            ran.add((code.co_filename, code.co_qualname))
            depths.append(sum(lives))
            for given in list(frame.f_locals.values()):
                carried(given)
    elif event == "return" and lives:
        if lives.pop():
            carried(value)
sys.setprofile(seen)
try:
    main(sys.argv[2:])
finally:
    sys.setprofile(None)
    loaded = sum(name.startswith("resnetx") for name in sys.modules)
    print(*sorted(classes), file=sys.stderr)
    print(len(ran), len({file for file, _ in ran}), sum(depths) / len(depths), max(depths), loaded, file=sys.stderr)
"""


def modules(package: Path) -> dict[Path, ast.Module]:
    """Each file with its syntax tree."""
    return {path: ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}


def functions(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """The names of functions of modules."""
    for tree in trees.values():
        yield from (node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def used(trees: dict[Path, ast.Module]) -> Counter[str]:
    """How often each name is read, as a variable or behind a dot."""
    found: Counter[str] = Counter()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found[node.id] += 1
            elif isinstance(node, ast.Attribute):
                found[node.attr] += 1
    return found


def main() -> None:
    """Prints what is counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--classes", action="store_true", help="list the classes of the walk")
    options = parser.parse_args()
    root = options.root.resolve()
    package = root / "resnetx"
    trees = modules(package)
    own = {path: tree for path, tree in trees.items() if "literature" not in path.relative_to(package).parts}
    print(f"{len(own)} modules, {sum(len(path.read_text().splitlines()) for path in own):,} lines")
    below = [path for path in own if len(path.read_text().splitlines()) < 40 and path.name[0] != "_"]
    print(f"{len(below)} modules below 40 lines, entry points and packages apart")
    names = Counter(path.name for path in own if not path.name.startswith("__"))
    print(f"{sum(count > 1 for count in names.values())} file names that several modules have")
    classes = Counter(node.name for tree in own.values() for node in tree.body if isinstance(node, ast.ClassDef))
    public = {name: count for name, count in classes.items() if not name.startswith("_")}
    print(f"{sum(count > 1 for count in public.values())} public class names that are used twice")
    calls, every = used(trees), list(functions(own))
    once = sum(calls[name] == 1 for name in every)
    print(f"{once / len(every):.0%} of {len(every):,} functions of modules have one caller")
    pages = [path for path in (root / "docs").rglob("*.md") if path.name not in GENERATED]
    words = sum(len(path.read_text().split()) for path in pages)
    print(f"{words:,} words in {len(pages)} pages of documentation, generated ones apart")
    done = subprocess.run(
        [sys.executable, "-c", WALK, str(package), *PREDICTED], capture_output=True, text=True, check=True, cwd=root
    )
    *_, classes_of_walk, figures = done.stderr.strip().splitlines()
    ran, files, mean, deepest, loaded = figures.split()
    print(f"`resnetx {' '.join(PREDICTED)}`:")
    print(
        f"  {ran} functions in {files} files, {float(mean):.1f} calls deep ({deepest} at most), {loaded} modules loaded"
    )
    print(
        f"  {len(classes_of_walk.split())} classes whose objects these take or return, by themselves or in collections"
    )
    if options.classes:
        print(*(f"    {name}" for name in classes_of_walk.split()), sep="\n")


if __name__ == "__main__":
    main()

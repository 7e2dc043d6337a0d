"""A user's own model: `model=python model.file=ours.py model.function=build`.

The function returns an object with `module`, `batch(n)` and `loss(outputs, batch)`, or a module of torch whose file
may define the latter two. A batch holds tensors, however it nests them:

    batch                       the module is called as
    a tensor                    module(batch)
    a tuple or list             module(batch[0]), or module(*batch[0]) of another tuple: the rest is for the loss
    a dictionary                module(**batch), of which it gets the names that its `forward` takes

Without a loss it is that of the outputs (`outputs.loss`, or the outputs, where these are one number), else the cross
entropy with `batch[1]`. A module alone is fed with images of `image_size` pixels.

**Trust.** Only a file that settings name is run (`name`), never one that a study, a record or a trace names. A process
of its own counts its layers and trains it for one small step; the table is saved in `__pycache__` beside the file, and
holds as long as the file and what it imports from outside of Python's folders. With it, nothing needs torch.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from resnetx import packages, progress
from resnetx.choices import PythonSettings
from resnetx.errors import ConfigError, FileError, shortened
from resnetx.loading import File, is_file, read_json
from resnetx.record import whole
from resnetx.workloads.counts import DATA, Layer

COUNTING_S = 600  # at most: a file that trains when it is imported would never end
MOST = 2**62  # of any number in a table
TABLE_BYTES = 2**27  # of a saved table: half a million layers

_named: set[str] = set()  # files that settings name


def name(file: str) -> None:
    """Lets a file be run, as its user has named it in settings."""
    _named.add(str(Path(file).absolute()))


def check_named(model: PythonSettings) -> None:
    """Refuses to run a file that nobody has named."""
    if str(Path(model.file).absolute()) not in _named:
        raise ConfigError(
            f"{model.file}: a record or a file of settings names this code, and only what you name yourself is run: "
            f"give model=python model.file={model.file}"
        )


# ---- the saved table ------------------------------------------------------------------------------------------------


class Saved(msgspec.Struct, frozen=True):
    """What is known of a model without running its file."""

    layers: list[Layer]
    unseen: list[str]  # each a sentence
    files: dict[str, str]  # that were run -> their SHA-256


def counted(model: PythonSettings, image_size: int) -> Saved:
    """The layers of a model: saved, or counted now."""
    file = Path(model.file)
    sha256 = model.sha256 or digest(file)
    size = f"-{image_size}" * bool(image_size)
    path = file.parent / "__pycache__" / f"{file.stem}.{model.function}{size}-{sha256[:12]}.layers.json"
    if saved := _saved(path, Path(model.file)):
        return saved
    check_named(model)
    if missing := packages.obstacle("torch"):
        raise ConfigError(missing)
    with progress.waiting(f"counting the layers of {model.label}", model.file):
        return _counted_apart(model, image_size, path)


def _saved(path: Path, file: Path) -> Saved | None:
    """A table whose files are those that were run; the table's name tells the first one, without which none need be."""
    if not is_file(path):
        return None
    try:
        saved = read_json(File(path, "a table of layers", TABLE_BYTES), Saved)
    except FileError:
        return None
    if not _is_sound(saved.layers):
        return None
    others = {file.parent / each: sha256 for each, sha256 in saved.files.items() if each != file.name}
    known = () if is_file(file) else ("",)  # a table that was carried elsewhere, as a trace is
    return saved if all(digest(each) in (sha256, *known) for each, sha256 in others.items()) else None


def _is_sound(layers: Sequence[Layer]) -> bool:
    """Whether it is a table that counting makes, whoever wrote it: the folder may be another's."""
    if not layers or layers[0].name != DATA or layers[0].inputs:
        return False
    known: set[str] = set()
    for layer in layers:
        numbers = (*layer.output_shape, *layer.parameters, layer.multiply_adds)
        if (
            layer.name in known
            or not known.issuperset(layer.inputs)
            or not all(0 <= number < MOST for number in numbers)
        ):
            return False
        known.add(layer.name)
    shapes = (layer.elements for layer in layers)
    return any(layer.parameters for layer in layers) and all(shape < MOST for shape in shapes)


def digest(path: Path) -> str:
    """SHA-256 of a file; "" where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


class Counted(msgspec.Struct, frozen=True):
    """What the process that counts has to say."""

    error: str = ""
    saved: Saved | None = None


def _counted_apart(model: PythonSettings, image_size: int, path: Path) -> Saved:
    """Counts in a process that ends with it, and saves the table where that is possible."""
    with tempfile.TemporaryDirectory(prefix="resnetx-") as folder:
        answer = Path(folder) / "counted.json"
        words = [msgspec.json.encode(model).decode(), str(image_size), str(answer)]
        try:
            ended = subprocess.run(
                [sys.executable, "-P", "-m", "resnetx.workloads.user_program", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=COUNTING_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"{model.file}: still runs after {COUNTING_S} s, in which a model is built and trained for one step of "
                'a few samples; put a training loop behind if __name__ == "__main__":'
            ) from None
        if not is_file(answer):
            said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise ConfigError(f"{model.file}: ended its process with status {ended.returncode} ({shortened(said)})")
        found = read_json(File(answer, "a table of layers", TABLE_BYTES), Counted)
        if found.saved is None:
            raise ConfigError(found.error)
        with suppress(OSError):  # a folder that cannot be written: it is counted anew each time
            path.parent.mkdir(exist_ok=True)
            with whole(path) as unfinished:
                unfinished.write_bytes(msgspec.json.encode(found.saved))
    return found.saved

"""What a user's own file does when it is run: `user_file` says what it is to define.

`made` runs it in the ranks of a run; `python -m resnetx.workloads.user_program` in the process that counts its layers,
which also trains it for one small step, so that what is wrong with it shows before anything is started.
"""

import importlib.util
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_map

from resnetx import packages
from resnetx.choices import PythonSettings
from resnetx.errors import ConfigError, prepared, shortened
from resnetx.workloads import layers
from resnetx.workloads.layers import tensors
from resnetx.workloads.user_file import Counted, Saved, digest

_PACKAGE = Path(__file__).resolve().parents[1]


@contextmanager
def blamed(model: PythonSettings, doing: str) -> Iterator[None]:
    """What the user's code raises becomes one sentence with file and line, unless memory or another rank is lost."""
    try:
        yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        # Whether it is no mistake in the file: no memory is left, or another rank is lost.
        text = str(error)
        known = isinstance(error, MemoryError | torch.OutOfMemoryError | torch.distributed.DistError)
        if known or any(each in text for each in ("DefaultCPUAllocator", "out of memory", "gloo/", "NCCL")):
            raise
        raise ConfigError(f"{_place(model, error)}: {doing} ends with {_told(error)}") from error


def _told(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"exit({error.code}): what it does there belongs behind if __name__ == '__main__':"
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {shortened(first)}" if first else type(error).__name__


def _place(model: PythonSettings, error: BaseException) -> str:
    """The last line of the user's that it came by, in the file or in what that imports."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(Path(frame.filename))]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else model.file


def _is_users(path: Path) -> bool:
    """Whether a file is neither Python's, nor installed, nor ours."""
    installed = [Path(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib", "purelib", "platlib")]
    return path.is_absolute() and not any(path.is_relative_to(folder) for folder in (*installed, _PACKAGE))


class Program(NamedTuple):
    """A user's model, as its file has made it."""

    module: nn.Module
    batch: Callable[[int], Any]
    loss: Callable[[Any, Any], Any] | None
    accepts: frozenset[str] | None  # names that `forward` takes; None: any


_programs: dict[PythonSettings, Program] = {}  # the latest of each: batches and losses are those of the module


def program(model: PythonSettings) -> Program:
    """The program of the module that was built last."""
    return _programs[model]


def made(model: PythonSettings, image_size: int) -> Program:
    """Runs the file, and its function."""
    if model.sha256 and digest(Path(model.file)) != model.sha256:
        raise ConfigError(f"{model.file}: changed since this run was asked for, and its records would be wrong; repeat")
    source = _imported(model)
    function = getattr(source, model.function, None)
    if not callable(function) or getattr(function, "__module__", None) != source.__name__:
        has = [
            key
            for key, value in vars(source).items()
            if inspect.isfunction(value) and value.__module__ == source.__name__
        ]
        raise ConfigError(
            f"model.function={model.function}: {model.file} defines no such function; it has {', '.join(has) or 'none'}"
        )
    with blamed(model, f"{model.function}()"):
        built = function()
    found = _parts(model, built, source, image_size)
    _programs[model] = found
    return found


def _imported(model: PythonSettings) -> Any:
    """The file as a module, which imports what lies beside it, as if Python had started it."""
    path = Path(model.file)
    known = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_resnetx_{path.stem}"
    spec = importlib.util.spec_from_file_location(known, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"model.file={model.file}: expected a Python file, whose name ends with .py")
    source = importlib.util.module_from_spec(spec)
    sys.modules[known] = source
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    with blamed(model, "importing it"):
        spec.loader.exec_module(source)
    return source


def _parts(model: PythonSettings, built: Any, source: Any, image_size: int) -> Program:
    whole = isinstance(built, nn.Module)
    module = built if whole else getattr(built, "module", None)
    if not isinstance(module, nn.Module):
        raise ConfigError(
            f"{model.file}: {model.function}() returns {type(built).__name__}; expected a module of torch, or an "
            "object with module, batch(n) and loss(outputs, batch)"
        )
    owners = (built, source) if whole else (built,)

    def found(name: str) -> Callable[..., Any] | None:
        return next((own for owner in owners if callable(own := getattr(owner, name, None))), None)

    batch, loss = found("batch"), found("loss")
    if batch is not None and image_size:
        raise ConfigError(f"image_size={image_size}: {model.file} makes its own batches; leave it out")
    if batch is None and not image_size:
        raise ConfigError(
            f"{model.file}: {model.function}() returns no batch(n); define one, or set image_size=224 to feed its "
            "module with images"
        )
    accepts = list(inspect.signature(module.forward).parameters.values())
    every = any(parameter.kind == parameter.VAR_KEYWORD for parameter in accepts)
    names = None if every else frozenset(parameter.name for parameter in accepts)
    if batch is None:
        batch, loss = partial(_images, image_size), loss or _loss_of_images
    return Program(module, batch, loss, names)


def _images(image_size: int, count: int) -> Any:
    """Random images, and the number of each."""
    return torch.randn(count, 3, image_size, image_size), torch.arange(count)


def _loss_of_images(outputs: Any, batch: Any) -> Any:
    """That of a classifier; the number of an image, over as many as there are, is its class."""
    return functional.cross_entropy(outputs, batch[1] % outputs.shape[-1])


# ---- a batch --------------------------------------------------------------------------------------------------------


def batch_of(model: PythonSettings, found: Program, count: int) -> Any:
    """A batch of so many samples, as the user's function makes it, on the host."""
    with blamed(model, f"batch({count})"):
        batch = found.batch(count)
    batch = dict(batch) if isinstance(batch, Mapping) else batch
    if not tensors(batch):
        raise ConfigError(
            f"{model.file}: batch({count}) returns {type(batch).__name__} without a tensor; expected tensors, in "
            "tuples, lists or dictionaries"
        )
    return batch


def moved(batch: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The batch with other tensors in it."""
    return tree_map(lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, batch)


def called(model: PythonSettings, found: Program, module: Callable[..., Any], batch: Any) -> Any:
    """What a module, or what stands for it, makes of a batch."""
    with blamed(model, "its forward pass"):
        if isinstance(batch, Mapping):
            known = {key: value for key, value in batch.items() if found.accepts is None or key in found.accepts}
            return module(**known)
        if isinstance(batch, tuple | list):
            first = batch[0]
            return module(*first) if isinstance(first, tuple | list) else module(first)
        return module(batch)


def loss_of(model: PythonSettings, found: Program, outputs: Any, batch: Any) -> Any:
    """The loss of a batch, one number."""
    own = outputs if isinstance(outputs, torch.Tensor) and not outputs.dim() else getattr(outputs, "loss", None)
    with blamed(model, "its loss"):
        if found.loss is not None:
            loss = found.loss(outputs, batch)
        elif own is not None:
            loss = own
        elif isinstance(batch, tuple | list) and len(batch) > 1 and isinstance(outputs, torch.Tensor):
            loss = functional.cross_entropy(outputs, batch[1])
        else:
            loss = None
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise ConfigError(
            f"{model.file}: its loss is {_kind(loss)}; expected one number with a gradient: define loss(outputs, batch)"
        )
    return loss


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"a tensor of shape {tuple(shape)}"


class BatchPart(NamedTuple):
    """Which dimension of a tensor counts samples, and how often: tokens of all sequences may be in one."""

    dimension: int
    times: int


def parts_of(model: PythonSettings, found: Program) -> list[BatchPart | None]:
    """Of each tensor of a batch, how it is divided over ranks; None: all ranks have the whole."""
    few, more = (tensors(batch_of(model, found, count)) for count in layers.FEW)
    if len(few) != len(more):
        raise ConfigError(
            f"{model.file}: batch({layers.FEW[0]}) and batch({layers.FEW[1]}) have unlike numbers of tensors"
        )
    parts: list[BatchPart | None] = []
    for a, b in zip(few, more, strict=True):
        grown = [
            BatchPart(index, of_a // layers.FEW[0])
            for index, (of_a, of_b) in enumerate(zip(a.shape, b.shape, strict=False))
            if of_a != of_b and of_a * layers.FEW[1] == of_b * layers.FEW[0]
        ]
        parts.append(grown[0] if grown else None)
    if not any(parts):
        raise ConfigError(
            f"{model.file}: batch({layers.FEW[0]}) and batch({layers.FEW[1]}) have the same shapes; expected as "
            "many samples as asked for"
        )
    return parts


def cut(batch: Any, parts: Sequence[BatchPart | None], first: int, count: int) -> Any:
    """The batch of so many of its samples, from the first of them on."""
    left = iter(parts)

    def share(tensor: torch.Tensor) -> torch.Tensor:
        if (part := next(left)) is None:
            return tensor
        return tensor.narrow(part.dimension, first * part.times, count * part.times)

    return moved(batch, share)


# ---- counting, in a process of its own ------------------------------------------------------------------------------


def _count(model: PythonSettings, image_size: int) -> Saved:
    """Runs the file, trains it for a step, and counts its layers."""
    before = set(sys.modules)
    torch.manual_seed(0)
    found = made(model, image_size)
    module = found.module.train()
    parts_of(model, found)
    batches = [batch_of(model, found, count) for count in layers.FEW]
    outputs = called(model, found, module, batches[0])
    loss = loss_of(model, found, outputs, batches[0])
    with blamed(model, "its backward pass"):
        loss.backward()
    trained = [key for key, parameter in module.named_parameters() if parameter.grad is not None]
    unused = [key for key, parameter in module.named_parameters() if parameter.requires_grad and parameter.grad is None]
    if not trained or unused:
        raise ConfigError(
            f"{model.file}: "
            + (f"parameters {shortened(', '.join(unused))} have" if unused else "no parameter has")
            + " no gradient after a step, for which data-parallel training would wait; expected one of each that is "
            "trained: use it, or set its requires_grad to False"
        )
    module.zero_grad(set_to_none=True)
    runs = [layers.run_of(module, partial(called, model, found, module, batch), batch) for batch in batches]
    table = layers.table(module, runs, trained)
    others = sorted({str(parameter.dtype) for parameter in module.parameters() if parameter.dtype != torch.float32})
    if others:
        table.unseen.append(f"it has parameters in {', '.join(others)}, but all are counted with 4 B, as in fp32")
    paths = {Path(file) for key in set(sys.modules) - before if (file := getattr(sys.modules[key], "__file__", None))}
    folder = Path(model.file).parent
    files = {os.path.relpath(path, folder): digest(path) for path in sorted(paths) if _is_users(path)}
    return Saved(table.layers, table.unseen, {**files, Path(model.file).name: digest(Path(model.file))})


def _main() -> None:
    """`python -m resnetx.workloads.user_program MODEL IMAGE_SIZE ANSWER`, whose answer is a file."""
    words, image_size, answer = sys.argv[1:]
    model: PythonSettings = msgspec.json.decode(words, type=prepared(PythonSettings))
    try:
        told = Counted(saved=_count(model, int(image_size)))
    except ConfigError as error:
        told = Counted(error=str(error))
    except ModuleNotFoundError as error:
        told = Counted(error=packages.missing(error) or f"{model.file}: {error}")
    Path(answer).write_bytes(msgspec.json.encode(told))
    sys.stdout.flush()
    os._exit(0)  # whatever the file has started


if __name__ == "__main__":
    _main()

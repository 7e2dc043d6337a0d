"""Traces from files: our own, and those that other programs wrote. What a file is, its content says.

read("prof.json.gz", batch_size=32, device="v100-sxm2-16gb")    # a PyTorch profile (`kineto`)
read("alexnet.tsv", batch_size=1024, device="k80")              # six columns (`six_columns`)
read_trace("results/imported/alexnet_k80_b1024/trace.json")
"""

import gzip
import re
import zlib
from pathlib import Path

import msgspec

from resnetx.config import ConfigError
from resnetx.record import files, kineto, six_columns
from resnetx.record.run import SCHEMA
from resnetx.record.trace import Trace
from resnetx.record.unknown import Unknown, seal

MAX_BYTES = 2**30  # unpacked; a profile of some hundred iterations with Python's stack has about as many
NAME = "trace.json"
SILENT = "imported: the file does not say"


def read(path: Path, *, batch_size: int, device: str, workload: str | None = None) -> Trace:
    """The trace in a file of another program: six columns, or a profile of PyTorch (.json or .json.gz).

    Neither says on how many images per GPU, or on which GPU, it was taken: `device` is the name of a GPU part, which
    is the caller's to check. `workload` is the file's own name unless given.
    """
    data = _content(path)
    notes: dict[str, str] = {}
    source, measured_at = str(path), None
    if _is_json(data):
        profile = kineto.parse(data, path)
        times, measured_at = profile.times, profile.measured_at
        if profile.left_out:
            source += f" (without {profile.left_out} iterations that executed other layers than most did)"
        if not profile.has_gradient_sizes:
            notes["batches.0.times.layers"] = (
                "the gradient_bytes of all layers are 0: the profile has no shapes (record_shapes=True)"
            )
    else:
        times = six_columns.parse(_text(data, path), path)
    tree = {
        "kind": "trace",
        "schema": SCHEMA,
        "how": "imported",
        "source": source,
        "workload": workload or path.name.partition(".")[0],
        "request": None,
        "device": device,
        "cpu": Unknown(SILENT),
        "cpus": Unknown(SILENT),
        "sm_clock_Hz": Unknown(SILENT),
        "software": Unknown(SILENT),
        "measured_at": measured_at or Unknown(SILENT),
        "batches": [{"batch_size": batch_size, "times": times, "peak_memory_bytes": Unknown(SILENT)}],
        "communication": [],
        "unknown": notes,
    }
    trace: Trace = seal(tree, Trace)
    return trace


def read_trace(path: Path, *, batch_size: int | None = None, device: str | None = None) -> Trace:
    """The trace in any file that holds one, or in the `trace.json` of a folder.

    The files of other programs need `batch_size` and `device`, see `read`.
    """
    path = path / NAME if path.is_dir() else path
    if _is_ours(path):
        trace: Trace = files.read(path, Trace)
        return trace
    if batch_size is None or device is None:
        missing = " and ".join(
            word for word, given in (("batch_size=", batch_size), ("device=", device)) if given is None
        )
        raise ConfigError(
            f"{path}: a trace of another program, which does not say on how many images per GPU and on which GPU it "
            f"was taken; give {missing}"
        )
    return read(path, batch_size=batch_size, device=device)


def import_(path: Path, *, batch_size: int, device: str, results: Path, workload: str | None = None) -> Path:
    """Keeps the trace of another program's file in the results; returns where. The same import replaces it."""
    trace = read(path, batch_size=batch_size, device=device, workload=workload)
    words = re.sub(r"[^a-z0-9.]+", "-", f"{trace.workload} {device}".lower()).strip("-.")
    target = results / "imported" / f"{words}_b{batch_size}" / NAME
    files.write(target, trace)
    return target


# ---- content --------------------------------------------------------------------------------------------------------


class _Kind(msgspec.Struct):
    kind: str = ""


def _is_ours(path: Path) -> bool:
    """Whether it is a small JSON object that calls itself a trace."""
    if not path.is_file() or path.stat().st_size > files.MAX_BYTES:
        return False
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kind).kind == "trace"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError):
        return False


def _is_json(data: bytes) -> bool:
    return data.lstrip()[:1] in (b"{", b"[")


def _content(path: Path) -> bytes:
    """What is in the file, unpacked."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            data: bytes = file.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{path}: truncated or not gzip ({error})") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES >> 30} GiB; profile fewer iterations")
    return data


def _text(data: bytes, path: Path) -> str:
    if len(data) > files.MAX_BYTES:
        raise ConfigError(
            f"{path}: text of more than {files.MAX_BYTES >> 20} MiB; expected a trace of fewer iterations"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: neither text nor JSON; expected the six columns of a trace, or a profile") from None

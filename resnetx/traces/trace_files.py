"""Traces from files: our own, and those that other programs wrote. What a file is, its content says.

read("prof.json.gz", batch_size=32, device="v100-sxm2-16gb")    # a PyTorch profile (`kineto`)
read("alexnet.tsv", batch_size=1024, device="k80-562mhz")              # six columns (`six_columns`)
read_trace("results/imported/trace/alexnet_k80-562mhz/b1024/trace.json")
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import msgspec

from resnetx.errors import ConfigError, FileError, shortened, some, visible
from resnetx.formats import chrome, kineto, logs, six_columns
from resnetx.formats.chrome import MAX_BYTES, is_json
from resnetx.formats.kineto import Profile
from resnetx.formats.kineto_ranks import RankProfile, blocked_s
from resnetx.formats.kineto_windows import HOW_TO_MARK
from resnetx.loading import File, decode, is_file, is_folder
from resnetx.record import sealing
from resnetx.record import sealing as limits
from resnetx.record.sealing import SCHEMA, Unknown, Warning, known, seal
from resnetx.record.traces import LayerTimes, Trace, TracedBatch, TracedCommunication
from resnetx.traces import UNSIZED, refuse_unsound
from resnetx.units import CPU, in_ms

NAME = sealing.FILES["trace"]
_LOG_BYTES = 2**22  # of what may be of another program
_JSON = re.compile(rb"\s*(?:\{(?!')|\[\s*(?:[{\]]|\Z))")  # but not "{'loss'", "[rank0]", "[P2P ... Test]"
DRAWN = 3  # iterations of each batch in a timeline
SILENT = Unknown("imported: the file does not say")


def read(
    path: Path,
    *,
    batch_size: int,
    device: str | None,
    workload: str | None = None,
    gpus: int = 0,
    parts: Mapping[str, Sequence[str]] | None = None,
    alone: bool = True,
) -> Trace:
    """The trace in a file of another program: six columns, or a profile of PyTorch (.json or .json.gz).

    Neither says on how many images per GPU it was taken. `device`: the name of a GPU part, which is the caller's to
    check, or "CPU"; None: the one that the file names, among `parts`, which has the names that drivers give to each
    described GPU. `workload` is the file's own name unless set. `gpus`: that its communication is between; 0: the
    caller does not know. `alone`: no other rank of its job is read.
    """
    data = unpacked(path)
    source = visible(str(path))  # a path may hold what is no text
    if is_json(data):
        profile = kineto.parse(data, path)
        contents = _of_profile(profile, device, parts or {}, path, source)
        if profile.rank is not None:
            contents = _of_rank(contents, profile.rank, alone)
    else:
        times = six_columns.parse(_text(data, path), path)
        contents = _Contents(times, source, stated(device, parts or {}, path), warnings=_unsized(times))
    trace = Trace(
        kind="trace",
        schema=SCHEMA,
        how="imported",
        source=contents.source,
        workload=workload or visible(path.name.partition(".")[0]),
        request=known(Unknown("imported: no run of resnetx measured it")),
        device=contents.device,
        cpu=known(SILENT),
        cpus=known(SILENT),
        sm_clock_Hz=known(SILENT),
        software=known(SILENT),
        measured_at=known(contents.measured_at),
        batches=[_batch(contents.times, batch_size, gpus, path)],
        communication=[],
        unknown={},
        warnings=list(contents.warnings),
    )
    return refuse_unsound(seal(trace))


def unpacked(path: Path) -> bytearray:
    """The content of a file that may be a trace or a profile; refused where it is of another program."""
    file = File(path, "a trace or a profile, of fewer iterations", MAX_BYTES)
    data = file.unpacked()
    what = replace(file, what="a profile of PyTorch, or six columns of times")
    what.refuse_binary(data)
    if not (json := _JSON.match(data)):
        what.refuse_blanks(data)
    program = logs.of_json(data, "trace") if json else ""
    text = "" if json else data[:_LOG_BYTES].decode(errors="replace")
    if other := f"is of {program}" if program else logs.refused(text):
        raise FileError(f"{path}: {other}; expected a profile of PyTorch, or six columns of times")
    return data


def _batch(times: LayerTimes, batch_size: int, gpus: int, path: Path) -> TracedBatch:
    if gpus and not any(layer.communication_s for layer in times.layers):
        raise ConfigError(
            f"gpus={gpus}: {path} has no times of communication, which would be between them; leave gpus out"
        )
    return TracedBatch(batch_size=batch_size, times=times, peak_memory_bytes=known(SILENT), communication_gpus=gpus)


@dataclass(frozen=True)
class _Contents:
    """What a file of another program says."""

    times: LayerTimes
    source: str
    device: str
    measured_at: str | Unknown = SILENT
    warnings: Sequence[Warning] = ()


def _of_profile(
    profile: kineto.Profile, device: str | None, parts: Mapping[str, Sequence[str]], path: Path, source: str
) -> _Contents:
    if profile.left_out:
        source += f" (without {profile.left_out} iterations that executed other layers than most did)"
    device = device_of(profile, device, parts, path)
    warnings = list(_of_iterations(profile))
    if profile.gpu and not is_called(profile.gpu, parts.get(device, [profile.gpu])):
        named = f"the profile is of the GPU {shortened(visible(profile.gpu))}, taken for {device} as device= states"
        warnings.append(Warning(code="device-stated", message=named, remedy="check that the two are one model"))
    if profile.accumulated > 1:
        passes = f"each of its iterations adds up the gradients of {profile.accumulated} passes, and sends them once"
        remedy = "give the images of all passes together as batch_size="
        warnings.append(Warning(code="accumulated", message=passes, remedy=remedy))
    warnings += _unsized(profile.times) if profile.trains else []
    return _Contents(profile.times, source, device, profile.measured_at or SILENT, warnings)


def _of_rank(contents: _Contents, rank: RankProfile, alone: bool) -> _Contents:
    """What is said of a rank of a job, whose layers are taken without communication."""
    times, warnings = contents.times, [_stating(warning, rank) for warning in contents.warnings]
    if rank.strategy == "fsdp" and rank.ranks > 1 and times.update_s:
        more_s = (rank.ranks - 1) * median(times.update_s)
        times = msgspec.structs.replace(
            times,
            update_s=[seconds * rank.ranks for seconds in times.update_s],
            step_s=[seconds + more_s for seconds in times.step_s] if isinstance(times.step_s, list) else times.step_s,
        )
        message = (
            f"each of {rank.ranks} ranks of FSDP updates its part: the update was taken to be as many times as long"
        )
        warnings.append(Warning(code="sharded-update", message=message, remedy="profile DDP if the update matters"))
    if alone:
        of = f" of {rank.ranks}" if rank.ranks else ""
        message = f"a profile of one rank{of} ({rank.strategy.upper()}), whose layers are taken without communication"
        if rank.steps:
            step_s = median((step.end - step.begin) / 1e6 for step in rank.steps)
            message += (
                f"; {in_ms(median(map(blocked_s, rank.steps)))} ms of its step of {in_ms(step_s)} ms are exposed "
                "communication: how much of it is waiting, and for which rank, the profiles of all ranks say"
            )
        warnings.append(Warning(code="one-rank", message=message, remedy="import the profiles of all ranks together"))
    return replace(contents, times=times, warnings=warnings)


def _stating(warning: Warning, rank: RankProfile) -> Warning:
    """The warning that gradients have no size, with what the all-reduces of DDP add up to."""
    sent = (
        [collective for collective in rank.steps[-1].collectives if collective.operation == "all-reduce"]
        if rank.steps
        else []
    )
    if (
        warning.code != UNSIZED
        or rank.strategy != "ddp"
        or not all(collective.size_bytes for collective in sent)
        or not sent
    ):
        return warning
    sent_bytes = sum(collective.size_bytes for collective in sent)
    remedy = f"state parameters= when you predict: its all-reduces send {sent_bytes:,} B, {sent_bytes // 4:,} of fp32"
    return msgspec.structs.replace(warning, remedy=remedy)


def _of_iterations(profile: kineto.Profile) -> Iterator[Warning]:
    """What was taken for an iteration where the profile does not say; every figure depends on it."""
    for remark in profile.remarks:
        yield Warning(
            code="step-marks", message=remark, remedy="profile training steps alone, each with one prof.step()"
        )
    if profile.taken:
        message = f"the profile has no step marks (ProfilerStep#n): {profile.taken}"
        yield Warning(code="no-step-marks", message=message, remedy=HOW_TO_MARK)
    if not profile.trains:
        message = "the profile has no backward pass: it is of inference, from which no training is predicted"
        yield Warning(code="no-backward-pass", message=message, remedy="profile training steps to predict from it")


def _unsized(times: LayerTimes) -> list[Warning]:
    """That gradients have no size, which decides on all that is predicted of several GPUs."""
    sizes: list[object] = [layer.gradient_bytes for layer in times.layers]  # not sealed yet
    unknown = next((size for size in sizes if isinstance(size, Unknown)), None)
    if unknown is None and any(sizes):
        return []
    why = unknown or "the size of each is 0"
    message = f"the gradients have no known size ({why}), and what GPUs send each other follows from it"
    remedy = "profile with record_shapes=True, or state parameters= when you predict"
    return [Warning(code=UNSIZED, message=message, remedy=remedy)]


def export(trace: Trace, folder: Path) -> list[Path]:
    """Writes each batch in six columns, and a timeline of the first iterations for viewers of Chrome traces.

    Where layers were sent one by one over several ranks, the batch is written once more with what that took.
    """
    if any(layer.gradient_bytes is None for batch in trace.batches for layer in batch.times.layers):
        raise FileError(f"{trace.source}: its gradients have no known size, which six columns cannot say")
    sheets = {f"b{batch.batch_size}.tsv": batch.times for batch in trace.batches}
    for sent in trace.communication:
        alone = {batch.batch_size: batch.times for batch in trace.batches}.get(sent.batch_size // sent.gpus)
        if sent.strategy == "layerwise" and alone is not None:
            sheets[f"b{sent.batch_size // sent.gpus}_g{sent.gpus}.tsv"] = _with_messages(alone, sent, trace.source)
    written = []
    for name, times in sheets.items():
        written.append(folder / name)
        written[-1].write_text(six_columns.write_six_columns(times), encoding="utf-8")
    timelines = {
        f"{trace.workload}, batch {batch.batch_size}": list(chrome.measured_tasks(batch.times, DRAWN))
        for batch in trace.batches
    }
    written.append(folder / "timeline.json")
    written[-1].write_bytes(chrome.encode(timelines))
    return written


def _with_messages(times: LayerTimes, sent: TracedCommunication, source: str) -> LayerTimes:
    """The same with the transfer of each layer's message; waiting for other ranks is left out."""
    having = [index for index, layer in enumerate(times.layers) if layer.gradient_bytes][::-1]  # as they are sent
    if [times.layers[place].gradient_bytes for place in having] != [message.size_bytes for message in sent.messages]:
        raise FileError(f"{source}: the messages of its runs on {sent.gpus} ranks are not those of its layers")
    layers = list(times.layers)
    for place, message in zip(having, sent.messages, strict=True):
        layers[place] = msgspec.structs.replace(layers[place], communication_s=message.transfer_s)
    return msgspec.structs.replace(times, layers=layers)


def read_trace(path: Path, *, batch_size: int | None = None, device: str | None = None) -> Trace:
    """The trace in any file that holds one, or what `import_` has kept below a folder.

    The files of other programs need `batch_size` and `device`, see `read`.
    """
    if is_folder(path):
        return _together(path)
    if _is_ours(path):
        return sealing.read(path, Trace)
    stated = {"batch_size": batch_size, "device": device}
    if path.suffix == ".py":
        raise ConfigError(f"{path}: a program, and no trace; a model that it builds is model=python model.file={path}")
    if batch_size is None or device is None:
        unpacked(path)
        missing = " and ".join(f"{key}=" for key, value in stated.items() if value is None)
        raise ConfigError(
            f"{path}: no trace of resnetx, and what other programs write does not say on how many images per GPU, and "
            f"mostly not on which GPU, it was taken; import it with {missing} (resnetx trace --import)"
        )
    return read(path, batch_size=batch_size, device=device)


def import_(
    path: Path,
    *,
    batch_size: int,
    device: str | None,
    results: Path,
    workload: str | None = None,
    gpus: int = 0,
    parts: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Keeps the trace of another program's file in the results; returns where. `device`, `parts`: see `read`.

    All batches of one workload on one device are below one folder, which `read_trace` reads as one trace.
    """
    trace = read(path, batch_size=batch_size, device=device, workload=workload, gpus=gpus, parts=parts)
    target = (
        results / "imported" / "trace" / f"{slug(trace.workload)}_{slug(trace.device or CPU)}" / f"b{batch_size}" / NAME
    )
    if is_folder(target.parent.parent):
        paths = [neighbour for neighbour in sorted(target.parent.parent.glob(f"*/{NAME}")) if neighbour != target]
        merged([*(sealing.read(other, Trace) for other in paths), trace])  # refuses what does not belong together
    sealing.write(target, trace)
    return target


def merged(traces: Sequence[Trace]) -> Trace:
    """One trace of several that have different batches of one workload on one device."""
    first = traces[0]
    for other in traces[1:]:
        if (other.workload, other.device) != (first.workload, first.device) or _names(other) != _names(first):
            raise ConfigError(
                f"{other.source}: {other.workload} on {other.device} has other layers than {first.workload} on "
                f"{first.device} in {first.source}; expected two batches of one workload: give it another workload="
            )
    batches = sorted(
        ((batch, _reasons(trace, index)) for trace in traces for index, batch in enumerate(trace.batches)),
        key=lambda each: each[0].batch_size,
    )
    unknown = {key: why for key, why in first.unknown.items() if not key.startswith("batches.")}
    for index, (_, reasons) in enumerate(batches):
        unknown |= {f"batches.{index}.{key}": why for key, why in reasons.items()}
    source = ", ".join(dict.fromkeys(trace.source for trace in traces))
    warnings = [warning for index, trace in enumerate(traces) for warning in trace.warnings
                if not any(warning in earlier.warnings for earlier in traces[:index])]  # fmt: skip
    return msgspec.structs.replace(
        first, batches=[batch for batch, _ in batches], source=source, unknown=unknown, warnings=warnings
    )


def _together(folder: Path) -> Trace:
    paths = [folder / NAME] if is_file(folder / NAME) else sorted(folder.glob(f"*/{NAME}"))
    if not paths:
        raise ConfigError(f"{folder}: holds neither traced runs nor imported traces; `resnetx trace` makes both")
    return merged([sealing.read(path, Trace) for path in paths])


def _names(trace: Trace) -> list[str]:
    return [layer.name for layer in trace.batches[0].times.layers]


def _reasons(trace: Trace, index: int) -> dict[str, str]:
    """Why fields of a batch are null, by their paths in it."""
    prefix = f"batches.{index}."
    return {key.removeprefix(prefix): why for key, why in trace.unknown.items() if key.startswith(prefix)}


def slug(text: str) -> str:
    """A word as part of the name of a folder, which it cannot lead out of."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:60].strip("-") or "trace"


# ---- content --------------------------------------------------------------------------------------------------------


def _is_ours(path: Path) -> bool:
    """Whether it is a small JSON object that calls itself a trace; refused where there is no such file."""
    file = File(path, "a trace", limits.MAX_BYTES)
    if not is_file(path):
        file.content()
    try:
        return decode(file, file.content(), sealing.RecordKind).kind == "trace"
    except FileError:  # what it is instead, its reader says
        return False


def _text(data: bytearray, path: Path) -> str:
    file = File(path, "a trace or a profile", limits.MAX_BYTES)
    if len(data) > file.limit_bytes:
        raise file.error(f"text of more than {file.limit_bytes >> 20} MiB; expected a trace of fewer iterations")
    return file.decoded(data)


# Which device a file of another program is of: what it says itself, and what `device=` states.
#
# A profile names its GPU as its driver does (`deviceProperties`). The caller gives those names of the described GPUs,
# by part: {"h100-sxm5-80gb": ["NVIDIA H100 80GB HBM3"]}.

MAKER = "NVIDIA "
FORM = re.compile(r"sxm|pcie|nvl\b")
MODEL = re.compile(r"[a-z]+\d{2,}|\d{4}(?!\d)")  # how a word begins that says which model it is: "a100", "4090"


def stated(device: str | None, parts: Iterable[str], path: Path) -> str:
    """The device of a file that says nothing of it."""
    if device is None:
        raise ConfigError(
            f"{path}: does not say on which GPU it was taken; expected device=, one of "
            f"{some(sorted(parts), 'resnetx list gpus')}"
        )
    return device


def device_of(profile: Profile, device: str | None, parts: Mapping[str, Sequence[str]], path: Path) -> str:
    """The device of a profile; refused where `device` is another one than its kernels ran on.

    The host's operations only launch the kernels of a GPU, so that their times say nothing of it.
    """
    if not profile.on_device:
        if profile.maker == "mtia":
            raise ConfigError(f"{path}: was taken on MTIA, whose kernels are not read; expected GPUs, or CPUs")
        if device != CPU or profile.launched:
            given = "" if device is None else f", and device={device} is one"
            given = ", which its operations launched" if device == CPU else given
            where = (
                "" if profile.launched else ", or name the CPU as the device if the steps ran there (device=cpu-rank)"
            )
            raise ConfigError(f"{path}: has no kernels of a GPU{given}; profile with ProfilerActivity.CUDA too{where}")
        return CPU
    if device == CPU:
        raise ConfigError(f"{path}: a profile of a GPU's kernels; expected device= to name that GPU, not a CPU")
    if not profile.gpu:
        part = stated(device, parts, path)
        maker = "AMD" if any(name.startswith("AMD ") for name in parts.get(part, ())) else "NVIDIA"
        if profile.maker not in ("", maker) and parts.get(part):
            other = {"xpu": "Intel's (xpu_runtime)"}.get(profile.maker, f"of {profile.maker}")
            raise ConfigError(f"device={part}: the kernels of {path} were launched on GPUs {other}, not on {maker}'s")
        return part
    called = shortened(visible(profile.gpu))
    own = [part for part, names in parts.items() if is_called(profile.gpu, names)]
    if own:
        if device not in (None, *own):
            raise ConfigError(
                f"device={device}: {path} is of another GPU, {called} ({' or '.join(own)}); leave device out"
            )
        return device or own[0]
    like = [part for part, names in parts.items() if _alike(profile.gpu, (part, *names))]
    if device is None or (device not in like and _models(profile.gpu)):
        which = (
            "so nothing is predicted from it"
            if _models(profile.gpu)
            else "it says no model: state the GPU with device="
        )
        which = f"if it is {' or '.join(like)}, say so with device=" if like else which
        given = "" if device is None else f"device={device}: "
        raise ConfigError(f"{given}{path} is of the GPU {called}, a name that no described GPU has; {which}")
    return device


def is_called(name: str, names: Sequence[str]) -> bool:
    """Whether a driver's name is one of these; older drivers leave out the maker's: A100-SXM4-40GB."""
    return name.removeprefix(MAKER) in {other.removeprefix(MAKER) for other in names}


def may_be(name: str, names: Sequence[str]) -> bool:
    """Whether a driver's name may be of a GPU with these: of one model, and no other form; or it says no model."""
    if name == CPU:
        return CPU in names
    own, form = _models(name), _forms(name)
    return not own or any(
        own & _models(other) and (not form or form & _forms(other) or (not _forms(other) and form != {"nvl"}))
        for other in names
    )


def _forms(name: str) -> set[str]:
    """The form of a GPU that its name says: an H100 with HBM3 is on SXM5 if the name has no other; no NVL omits it."""
    return set(FORM.findall(name.lower())) or ({"sxm"} if "HBM3" in name else set())


def _alike(name: str, others: Sequence[str]) -> bool:
    """Whether a GPU's name has the word of a model that others have."""
    return any(_models(name) & _models(other) for other in others)


def _models(name: str) -> set[str]:
    """The words of a name that say which model it is, as far as forms of one model have them in common."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return {match[0] for word in words if (match := MODEL.match(word))}

"""What is written: records, their files and their schema, and how they are read and written safely.

A record is complete on its own: with `record.json` alone another person knows what ran, where, how it ended, and has
the raw times. A field that cannot be known is null, and `unknown` says why, under the field's path. Raw samples are
stored; medians and speed-ups are derived when reading.

    python -m resnetx.record run > resnetx/schemas/run.schema.json     # regenerates the schema of one kind
"""

from resnetx.record.base import SCHEMA, timestamp
from resnetx.record.bench import (
    NOT_DESCRIBED,
    QUEUES,
    BenchFile,
    BenchPoint,
    BenchRecord,
    BenchRequest,
    SkippedArray,
    array_bytes,
)
from resnetx.record.copies import CopyCell, Pair
from resnetx.record.equality import Deviation, Equality
from resnetx.record.files import NewerRecordError, RecordError, RunFolder, read, write
from resnetx.record.limits import MAX_BYTES
from resnetx.record.machine import Device, Environment, Gpu, GpuProcess, Job, MemoryHealth, OtherNode, Storage
from resnetx.record.outcome import Failure, Outcome, Warning
from resnetx.record.phases import Copies, GradientBucket, Phases
from resnetx.record.readings import DeviceMemory, GpuSamples, HostLoad, LinkCounters, LockedClock
from resnetx.record.replay import ReplayedLayer, ReplayedStep
from resnetx.record.run import InputState, RunFile, RunRecord, Staging, StartUp, Workload
from resnetx.record.run_summary import RunSummary, RunSummaryReader
from resnetx.record.study import StudyFolder, StudyRecord
from resnetx.record.tasks import Ended, File, TaskFile, TaskRecord, cut_short, json_schema, read_task
from resnetx.record.trace import LayerTimes, TracedLayer
from resnetx.record.transport import NicUse, Transport
from resnetx.record.unknown import Unknown, if_known, known, nulls, seal

__all__ = [
    "MAX_BYTES",
    "NOT_DESCRIBED",
    "QUEUES",
    "SCHEMA",
    "BenchFile",
    "BenchPoint",
    "BenchRecord",
    "BenchRequest",
    "Copies",
    "CopyCell",
    "Deviation",
    "Device",
    "DeviceMemory",
    "Ended",
    "Environment",
    "Equality",
    "Failure",
    "File",
    "Gpu",
    "GpuProcess",
    "GpuSamples",
    "GradientBucket",
    "HostLoad",
    "InputState",
    "Job",
    "LayerTimes",
    "LinkCounters",
    "LockedClock",
    "MemoryHealth",
    "NewerRecordError",
    "NicUse",
    "OtherNode",
    "Outcome",
    "Pair",
    "Phases",
    "RecordError",
    "ReplayedLayer",
    "ReplayedStep",
    "RunFile",
    "RunFolder",
    "RunRecord",
    "RunSummary",
    "RunSummaryReader",
    "SkippedArray",
    "Staging",
    "StartUp",
    "Storage",
    "StudyFolder",
    "StudyRecord",
    "TaskFile",
    "TaskRecord",
    "TracedLayer",
    "Transport",
    "Unknown",
    "Warning",
    "Workload",
    "array_bytes",
    "cut_short",
    "if_known",
    "json_schema",
    "known",
    "nulls",
    "read",
    "read_task",
    "seal",
    "timestamp",
    "write",
]

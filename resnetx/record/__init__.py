"""What is written: records, their files and their schema, and how they are read and written safely.

A record is complete on its own: with `record.json` alone another person knows what ran, where, how it ended, and has
the raw times. A field that cannot be known is null, and `unknown` says why, under the field's path. Raw samples are
stored; medians and speed-ups are derived when reading.

    python -m resnetx.record run > resnetx/schemas/run.schema.json     # regenerates the schema of one kind
"""

from resnetx.record.bench_record import (
    NOT_DESCRIBED,
    QUEUES,
    BenchFile,
    BenchPoint,
    BenchRecord,
    BenchRequest,
    CopyCell,
    Pair,
    PatternPoint,
    SkippedArray,
    array_bytes,
)
from resnetx.record.machine import (
    Device,
    DeviceMemory,
    Environment,
    Gpu,
    GpuProcess,
    GpuSamples,
    HostLoad,
    Job,
    LinkCounters,
    LockedClock,
    MemoryHealth,
    NicUse,
    OtherNode,
    Storage,
    Transport,
)
from resnetx.record.run import (
    Copies,
    DescribedWorkload,
    Deviation,
    Equality,
    GradientBucket,
    InputState,
    LargestBatch,
    Phases,
    ReplayedLayer,
    ReplayedStep,
    RunFile,
    RunRecord,
    Staging,
    StartUp,
    Workload,
)
from resnetx.record.sealing import (
    FILES,
    MAX_BYTES,
    SCHEMA,
    Failure,
    NewerRecordError,
    Outcome,
    RecordError,
    RecordKind,
    RunFolder,
    Unknown,
    Warning,
    if_known,
    known,
    nulls,
    of_known,
    read,
    record_file,
    seal,
    timestamp,
    whole,
    write,
)
from resnetx.record.tasks import (
    Ended,
    File,
    RunSummary,
    RunSummaryReader,
    StudyFolder,
    StudyRecord,
    TaskFile,
    TaskRecord,
    cut_short,
    json_schema,
    read_task,
)
from resnetx.record.traces import LayerTimes, TracedLayer

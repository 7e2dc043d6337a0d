import json
import os
from pathlib import Path

import jsonschema
import msgspec
import pytest

import resnetx
from resnetx import record
from resnetx.record import (
    BenchFile,
    BenchRecord,
    BenchRequest,
    GradientBucket,
    NewerRecordError,
    Phases,
    RecordError,
    RunFile,
    RunRecord,
    Unknown,
    if_known,
    known,
    seal,
)
from resnetx.record.__main__ import KINDS

SCHEMAS = Path(resnetx.__file__).parent / "schemas"


class Part(msgspec.Struct):
    size: int | None
    name: str | None


class Whole(msgspec.Struct):
    part: Part
    sizes: list[int | None]
    unknown: dict[str, str]


def test_sealing_turns_unknown_values_into_nulls_with_reasons():
    sealed = seal(Whole(part=Part(known(Unknown("no ruler")), "a"), sizes=[1, known(Unknown("lost"))], unknown={}))
    assert sealed.part.size is None
    assert sealed.unknown == {"part.size": "no ruler", "sizes.1": "lost"}


def test_a_null_without_a_reason_is_our_mistake():
    with pytest.raises(AssertionError, match=r"part\.size"):
        seal(Whole(part=Part(None, "a"), sizes=[], unknown={}))


def test_sealing_checks_the_types():
    with pytest.raises(msgspec.ValidationError):
        seal(Whole(part=Part("big", "a"), sizes=[], unknown={}))


def test_a_run_cut_short_gives_a_reason_for_every_field_it_does_not_know(record_of):
    found = record_of()
    empty = set(record.nulls(msgspec.to_builtins(found)))
    assert {"images_per_s", "windows_s", "environment", "study"} <= empty
    assert empty <= set(found.unknown)


@pytest.mark.slow
def test_records_fulfil_the_published_schema_and_it_rejects_others(record_of):
    schema = json.loads((SCHEMAS / "run.schema.json").read_text())
    tree = msgspec.to_builtins(record_of())
    jsonschema.validate(tree, schema)
    for broken in ({**tree, "world_size": "two"}, {key: tree[key] for key in tree if key != "outcome"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_the_published_schema_is_that_of_the_code(name, kind):
    assert (SCHEMAS / f"{name}.schema.json").read_bytes() == record.json_schema(kind), (
        f"accept the change with: python -m resnetx.record {name} > resnetx/schemas/{name}.schema.json"
    )


BENCH = BenchFile(
    kind="bench",
    schema=record.SCHEMA,
    request=BenchRequest(
        collectives=["allreduce", "broadcast"],
        sizes_bytes=[8, 64],
        gpus=2,
        devices=None,
        env={},
        threads=1,
        warmup=5,
        iterations=20,
        seed=0,
    ),
    timeout_s=60,
)


def test_a_bench_cut_short_is_a_record_of_a_bench_with_a_reason_for_every_null():
    found = record.cut_short(BENCH, 0.0, "timeout", "made by a test")
    assert isinstance(found, BenchRecord)
    assert (found.outcome, found.request, found.points) == ("timeout", BENCH.request, [])
    assert set(record.nulls(msgspec.to_builtins(found))) == set(found.unknown)
    jsonschema.validate(msgspec.to_builtins(found), json.loads((SCHEMAS / "bench.schema.json").read_text()))
    assert BENCH.request.slug == "allreduce-broadcast_g2"


def test_a_record_has_no_field_of_another_name():
    with pytest.raises(TypeError, match="pionts"):
        record.cut_short(BENCH, 0.0, "failed", "made by a test", pionts=[])


def test_a_message_may_lack_some_of_its_times():
    untimed = known(Unknown("taken in instrumented runs only"))
    found = GradientBucket(index=0, size_bytes=4, ready_s=untimed, start_s=[[1.0]], end_s=[[2.0]])
    assert (if_known(found.ready_s), if_known(found.end_s)) == (None, [[2.0]])


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (RunFile, "a bench; .*-m resnetx.collectives, or use `resnetx bench`"),
        (BenchFile, "a run; .*-m resnetx.train, or use `resnetx train`"),
    ],
)
def test_a_task_is_read_as_what_it_is_and_as_nothing_else(tmp_path, task_of, other, sentence):
    task = BENCH if other is RunFile else task_of()
    record.write(tmp_path / "run.json", task)
    assert record.read_task(tmp_path / "run.json", type(task)) == task
    with pytest.raises(RecordError, match=f"run.json: {sentence}"):
        record.read_task(tmp_path / "run.json", other)


def test_what_is_written_is_read_back_equal(tmp_path, record_of):
    found = record_of()
    record.write(tmp_path / "record.json", found)
    assert record.read(tmp_path / "record.json", RunRecord) == found


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "truncated or not JSON"),
        (b'{"kind": "run", "schema": 1, "requ', "truncated or not JSON"),
        (b'{"schema": 99}', "has schema 99.*update resnetx"),
        (b'{"schema": 1}', "not a run record of resnetx"),
        (b"[]", "not a run record of resnetx"),
        (b'{"a": 1}', "not a run record of resnetx"),
    ],
)
def test_a_file_that_is_no_record_is_named_with_what_is_wrong(tmp_path, content, sentence):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    newer = "update" in sentence
    with pytest.raises(NewerRecordError if newer else RecordError, match=sentence) as refusal:
        record.read(path, RunRecord)
    assert str(path) in str(refusal.value)


def test_a_record_that_is_too_large_to_be_read_is_not_written(tmp_path, record_of, monkeypatch):
    path = tmp_path / "record.json"
    monkeypatch.setattr("resnetx.record.sealing.MAX_BYTES", 100_000)
    small = record_of()
    record.write(path, small)
    before = path.read_bytes()
    for windows in (30_000, 100_000):  # larger with its lines laid out, or anyhow
        with pytest.raises(RecordError, match=r"not written, as it is larger than 100 kB.*; set fewer windows="):
            record.write(path, msgspec.structs.replace(small, windows_s=[[1.5] * windows]))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_the_largest_record_that_is_written_is_read(tmp_path, record_of, monkeypatch):
    path = tmp_path / "record.json"
    windows = msgspec.structs.replace(record_of(), windows_s=[[1.5] * 10_000])
    record.write(path, windows)
    monkeypatch.setattr("resnetx.record.sealing.MAX_BYTES", path.stat().st_size)
    record.write(path, windows)
    assert record.read(path, RunRecord) == windows
    monkeypatch.setattr("resnetx.record.sealing.MAX_BYTES", path.stat().st_size - 1)
    with pytest.raises(RecordError, match="not written"):
        record.write(path, windows)
    with pytest.raises(RecordError, match="larger than"):
        record.read(path, RunRecord)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"duration_s": float("nan")}, "could not be read again: Expected `float`, got `null`"),
        ({"timeout_s": float("inf")}, "could not be read again"),
        ({"repeat": 2**64}, "a whole number of 20 digits"),
        ({"reason": "\udcff"}, "surrogates not allowed"),
    ],
)
def test_what_json_cannot_say_is_not_written(tmp_path, record_of, changed, said):
    with pytest.raises(RecordError, match=said):
        record.write(tmp_path / "record.json", msgspec.structs.replace(record_of(), **changed))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", ["forward_s", "step_s", "begin_s"])
def test_phases_and_messages_are_of_all_ranks(part):
    phases = {field: [1.0, 2.0] for field in Phases.__struct_fields__} | {"clock": "host", "begin_s": [[0.0], [0.0]]}
    msgspec.convert(phases, Phases)
    for wrong in ([], [1.0] if part != "begin_s" else [[0.0]]):
        with pytest.raises(msgspec.ValidationError, match="phases of different numbers of ranks"):
            msgspec.convert({**phases, part: wrong}, Phases)
    message = {"index": 0, "size_bytes": 8, "ready_s": None, "start_s": [[1.0, 2.0]], "end_s": [[1.0, 2.0]]}
    msgspec.convert(message, GradientBucket)
    with pytest.raises(msgspec.ValidationError, match="of different ranks or steps"):
        msgspec.convert({**message, "end_s": [[1.0]]}, GradientBucket)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, record_of, monkeypatch):
    path = tmp_path / "record.json"
    record.write(path, record_of())
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        record.write(path, record_of(seed=1))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_an_interrupted_write_leaves_no_other_file_and_is_not_hidden(tmp_path, record_of, monkeypatch):
    def interrupted(old, new):
        Path(old).rename(new)  # it was done already
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record.write(tmp_path / "record.json", record_of())
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_who_may_read_a_record_is_what_the_user_lets(tmp_path, record_of):
    before = os.umask(0o077)
    try:
        record.write(tmp_path / "record.json", record_of())
    finally:
        os.umask(before)
    assert (tmp_path / "record.json").stat().st_mode & 0o777 == 0o600


def test_a_run_file_is_refused_when_it_holds_an_unknown_setting(tmp_path, task_of):
    path = tmp_path / "run.json"
    record.write(path, task_of())
    tree = json.loads(path.read_text())
    tree["request"]["model"]["y"] = 1
    path.write_text(json.dumps(tree))
    with pytest.raises(RecordError, match="unknown field `y`"):
        record.read(path, RunFile)

"""Predictions of many points: a file that pandas reads, beside a small record whose digest covers it."""

import hashlib
import json
import shutil
import subprocess
import sys

import msgspec
import pytest

import resnetx
from resnetx.errors import ConfigError
from resnetx.record import points_file
from resnetx.record.prediction import Prediction, digest

pytestmark = pytest.mark.slow  # pyarrow takes seconds to load

GRID = {
    "systems": ["dgx1-p100", "gx8"],
    "model": ["alexnet", "googlenet"],
    "batch_size": [64, 4096],
    "gpus": [1, 2, 8],
    "sensitivity": True,
}


@pytest.fixture
def many(monkeypatch):
    """Every prediction of more than four points is one of many."""
    pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    monkeypatch.setattr(points_file, "MANY_POINTS", 4)


@pytest.fixture(scope="module")
def _predicted(tmp_path_factory):
    """The prediction of the grid, and the folder that it is in."""
    pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    folder = tmp_path_factory.mktemp("grid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points_file, "MANY_POINTS", 4)
        return resnetx.predict(**GRID, out=str(folder)), folder


@pytest.fixture
def made(_predicted, many, tmp_path):
    """The prediction of the grid, whose record and points are in `tmp_path`."""
    prediction, folder = _predicted
    for name in ("prediction.json", "points.parquet"):
        shutil.copy(folder / name, tmp_path)
    return prediction


def test_points_come_back_as_they_were_made(made, tmp_path):
    found = resnetx.load(tmp_path)
    assert {point.outcome for point in found.points} == {"ok", "oom"}
    assert found == made
    assert found.digest == digest(found)
    assert resnetx.load(tmp_path / "prediction.json") == made
    assert found.to_pandas().equals(made.to_pandas())


def test_the_record_beside_them_is_small_and_covers_them(made, tmp_path):
    stored = msgspec.json.decode((tmp_path / "prediction.json").read_bytes(), type=Prediction)
    assert (stored.points, stored.points_file.points) == ([], len(made.points))
    assert digest(stored) == stored.digest == made.digest
    other = msgspec.structs.replace(stored.points_file, sha256="0" * 64)
    assert digest(msgspec.structs.replace(stored, points_file=other)) != stored.digest


@pytest.mark.slow
def test_pandas_reads_them(made, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(tmp_path / "points.parquet")
    assert list(frame.system) == [point.system for point in made.points]
    assert frame.speedup.max() == max(point.speedup for point in made.points if point.speedup)
    assert frame.interval_s[0].tolist() == made.points[0].interval_s
    assert msgspec.json.decode(frame.request[0])["model"]["kind"] == "alexnet"
    missing = frame[frame.outcome == "oom"].iloc[0]
    assert msgspec.json.decode(missing.unknown)["iteration_s"] == missing.reason


def test_few_points_stay_in_the_record(tmp_path):
    resnetx.predict(systems="gx8", gpus=[1, 8], out=str(tmp_path))
    assert "prediction.json" in {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / "points.parquet").exists()
    assert "points_file" not in (tmp_path / "prediction.json").read_text()


def test_a_smaller_prediction_leaves_no_points_of_another(made, tmp_path):
    resnetx.predict(systems="gx8", gpus=[1, 8], out=str(tmp_path))
    assert "prediction.json" in {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / "points.parquet").exists()


@pytest.mark.slow
def test_systems_are_compared_by_them(made, tmp_path, undrawn):
    found = resnetx.compare(tmp_path, out=str(tmp_path / "compared"))
    again = resnetx.load(tmp_path / "compared" / "prediction.json")
    assert again.points == made.points
    assert found.prediction == again.digest


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-1] + b"?", "SHA-256 is another one"),
        (None, "no such file"),
    ],
)
def test_other_points_are_refused(made, tmp_path, damage, said):
    path = tmp_path / "points.parquet"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ConfigError, match=said):
        resnetx.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"), [(b"not Parquet at all", "not the points of a prediction"), (None, "has 3 rows; .* 24 points")]
)
def test_what_is_no_file_of_points_is_refused(made, tmp_path, content, said):
    """Even where the record was changed to state its hash."""
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "points.parquet"
    if content is None:
        parquet.write_table(pyarrow.table({"batch_size": [1, 2, 3]}), path)
    else:
        path.write_bytes(content)
    record = tmp_path / "prediction.json"
    stored = msgspec.json.decode(record.read_bytes(), type=Prediction)
    stated = msgspec.structs.replace(stored.points_file, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    record.write_bytes(msgspec.json.encode(msgspec.structs.replace(stored, points_file=stated)))
    with pytest.raises(ConfigError, match=said):
        resnetx.load(tmp_path)


def test_without_pyarrow_one_sentence_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr(points_file, "MANY_POINTS", 1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    predicted = []
    monkeypatch.setattr("resnetx.api.predict.predicted_curves", lambda *given: predicted.append(given))
    with pytest.raises(ConfigError, match=r"out=: 2 cases are kept in points\.parquet, and pyarrow is not installed"):
        resnetx.predict(systems="gx8", gpus=[1, 8], out=str(tmp_path))
    assert not predicted  # it is said before the work is done


# ---- what was made to take memory, or time --------------------------------------------------------------------------

ROWS = 10_000


TASK = '{"name": "a", "lane": "b", "start_s": 0, "end_s": 1}'
BOMBS = {  # makes columns that a few kilobytes of Parquet hold, and that would take gigabytes
    "texts": lambda: {"compute_note": ["x" * 100_000] * ROWS, "reason": ["x" * 100_000] * ROWS},
    "json": lambda: {"timeline": [f"[{','.join([TASK] * 20_000)}]"] * 1000 + ["[]"] * (ROWS - 1000)},
    "reasons": lambda: {"unknown": [json.dumps({f"f{place}": "x" for place in range(3000)})] * ROWS},
    "lists": lambda: {"devices": [list(range(1000))] * ROWS},
    "one list": lambda: {"devices": [[0] * 20_000_000] + [[0]] * (ROWS - 1)},
}

READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
import resnetx
try:
    resnetx.load(sys.argv[1])
except resnetx.ConfigError as refusal:
    print(refusal)
"""


def _footer(columns=1, rows=0, groups=0):
    """A file without a page: what it says of itself, in Thrift's compact protocol."""
    names = [b"\x07unknown", *(b"\x05%05d" % place for place in range(columns - 1))]
    elements = [b"\x48\x06schema\x15" + _varint(2 * columns) + b"\x00"]
    elements += [b"\x15\x0c\x25\x02\x18" + name + b"\x25\x00\x00" for name in names]  # optional texts
    group = b"\x19\x0c\x16\x00\x16\x00\x00"  # without columns
    said = b"\x15\x02\x19" + _many(elements) + b"\x16" + _varint(2 * rows) + b"\x19" + _many([group] * groups) + b"\x00"
    return b"PAR1" + said + len(said).to_bytes(4, "little") + b"PAR1"


def _many(items):
    return b"\xfc" + _varint(len(items)) + b"".join(items)


def _varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


@pytest.mark.parametrize(
    ("said_of_it", "refused"),
    [
        ({"rows": 2**60}, "has 0 rows of the 1,152,921,504,606,846,976 that it states"),
        ({"columns": 1001}, "has 1,001 columns, of at most 1,000"),
        ({"groups": 100_001}, "has 100,001 columns of row groups"),
        ({"columns": 200_000}, "describes itself in 2,[0-9,]* bytes"),
    ],
)
def test_what_takes_time_or_has_no_rows_is_refused(made, tmp_path, said_of_it, refused):
    (tmp_path / "points.parquet").write_bytes(content := _footer(**said_of_it))
    record = tmp_path / "prediction.json"
    stored = msgspec.json.decode(record.read_bytes(), type=Prediction)
    sha256 = hashlib.sha256(content).hexdigest()
    stated = msgspec.structs.replace(stored.points_file, points=said_of_it.get("rows", 0), sha256=sha256)
    record.write_bytes(msgspec.json.encode(msgspec.structs.replace(stored, points_file=stated)))
    with pytest.raises(ConfigError, match=refused):
        resnetx.load(tmp_path)


def _state(folder, table):
    """Writes a table as the points of the prediction in a folder, which then states it; gives its size."""
    from pyarrow import parquet

    path = folder / "points.parquet"
    parquet.write_table(table, path, compression="zstd", row_group_size=2**30, store_schema=False)
    record = folder / "prediction.json"
    stored = msgspec.json.decode(record.read_bytes(), type=Prediction)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    stated = msgspec.structs.replace(stored.points_file, points=table.num_rows, sha256=sha256)
    record.write_bytes(msgspec.json.encode(msgspec.structs.replace(stored, points_file=stated)))
    return path.stat().st_size


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_takes_little_memory(made, tmp_path, bomb):
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(tmp_path / "points.parquet")
    table = pa.concat_tables([table.slice(0, 1)] * ROWS).combine_chunks()
    for name, values in BOMBS[bomb]().items():
        place = table.column_names.index(name)
        kind = table.schema.field(place).type
        known = list(dict.fromkeys(values)) if kind == pa.string() else []
        column = (
            pa.DictionaryArray.from_arrays(
                pa.array(map(known.index, values), pa.int32()), known
            )  # a gigabyte, written out
            if known
            else pa.array(values, kind)
        )
        table = table.set_column(place, name, column)
    assert _state(tmp_path, table) < 2**16
    ended = subprocess.run([sys.executable, "-c", READ, tmp_path], capture_output=True, text=True)
    assert "its points would take more than" in ended.stdout, ended.stderr[-500:]
    assert "points.parquet: " in ended.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda column: column.cast("float"), "column iteration_s has values of type float; expected double"),
        (lambda column: column.cast("string"), "column iteration_s has values of type string; expected double"),
        (lambda column: [float("nan")] * len(column), "column iteration_s has a number that is not finite"),
        (lambda column: [None] * len(column), None),
    ],
)
def test_a_column_has_its_type_and_finite_numbers(made, tmp_path, change, said):
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(tmp_path / "points.parquet")
    place = table.column_names.index("iteration_s")
    changed = change(table.column(place))
    column = pa.array(changed, pa.float64()) if isinstance(changed, list) else changed
    _state(tmp_path, table.set_column(place, "iteration_s", column))
    if said is None:
        assert {point.iteration_s for point in resnetx.load(tmp_path).points} == {None}
    else:
        with pytest.raises(ConfigError, match=said):
            resnetx.load(tmp_path)


def test_columns_of_a_later_resnetx_are_left_out_and_others_are_missed(made, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(tmp_path / "points.parquet")
    _state(tmp_path, table.append_column("of_tomorrow", pa.array([[{"a": 1}]] * table.num_rows)))
    assert resnetx.load(tmp_path).points == made.points
    _state(tmp_path, table.drop_columns(["unknown"]))
    with pytest.raises(ConfigError, match="has no column unknown"):
        resnetx.load(tmp_path)
    _state(tmp_path, table.append_column("gpus", table.column("gpus")))
    with pytest.raises(ConfigError, match="column gpus is there twice"):
        resnetx.load(tmp_path)

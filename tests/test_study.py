import re

import pytest

from resnetx import study
from resnetx.errors import ConfigError
from resnetx.study import Study


def a_study(**grid):
    return Study(name="test", about="a test's", settings={"repeats": 2}, grids=[grid])


def test_a_grid_is_the_product_of_its_lists():
    points = study.points(a_study(**{"model.x": [1, 4], "gpus": [1, 2], "batch_size": 16}), {})
    assert [(point["model.x"], point["gpus"]) for point in points] == [(1, 1), (1, 2), (4, 1), (4, 2)]
    assert all(point["repeats"] == 2 and point["batch_size"] == 16 for point in points)


def test_the_command_line_wins_over_the_study_and_its_lists_are_axes():
    points = study.points(a_study(gpus=[1, 2], batch_size=16), {"gpus": 4, "batch_size": [8, 16], "repeats": 1})
    assert [(point["gpus"], point["batch_size"], point["repeats"]) for point in points] == [(4, 8, 1), (4, 16, 1)]


def test_another_model_drops_the_grids_settings_of_its_own_and_doubles_are_run_once():
    points = study.points(a_study(**{"model": "resnetx", "model.x": [1, 4]}), {"model": "alexnet"})
    assert points == [{"repeats": 2, "model": "alexnet"}]


def test_devices_is_one_value_and_a_list_of_lists_is_its_axis():
    assert study.points(None, {"devices": [0, 3]}) == [{"devices": [0, 3]}]
    assert study.points(None, {"devices": [[0, 3], [0, 1]]}) == [{"devices": [0, 3]}, {"devices": [0, 1]}]


def test_the_papers_study_has_its_88_points():
    assert len(study.points(study.load("paper"), {})) == 88


def test_a_study_brings_its_benches_to_those_that_include_it(tmp_path):
    (tmp_path / "mine.yaml").write_text("about: x\ninclude: [machine]\nbenches: [{collective: reduce, size: 1KiB}]")
    assert study.load(str(tmp_path / "mine.yaml")).benches == [
        *study.load("machine").benches,
        {"collective": "reduce", "size": "1KiB"},
    ]


def test_every_study_that_comes_with_resnetx_says_what_it_is_about():
    assert {"quickstart", "paper"} <= set(study.names())
    assert all(about.endswith(".") for about in study.names().values())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("about: x\nsettings: {}\ngrids: [", "not YAML"),
        ("[]", "expected the settings about, settings and grids"),
        ("about: x\nsettings: {}", "has no cases; expected grids, or studies to include"),
        ("about: x\nsettings: {}\ngrids: 3", "grids=3: expected a list in brackets"),
        ("about: x\nsettings: {}\ngrids: []\nextra: 1", "unknown field `extra`"),
        ("!!python/object/apply:os.system [true]", "line 1: .*YAML tags are not supported; expected plain values"),
        ("about: x\ngrids: [{calibration: [a, b]}]", "calibration: not a setting of a run"),
        ("about: x\ngrids: [{batchsize: 8}]", "batchsize: not a setting of a run; did you mean batch_size"),
        ("about: x\nsettings: {dirty: true}\ngrids: [{gpus: 1}]", "dirty: not a setting of a run"),
        ("about: x\nsettings: {results: /tmp}\ngrids: [{gpus: 1}]", "results: not a setting of a run"),
        ("about: x\ngrids: [{tracker.project: theirs}]", "tracker.project: not a setting of a run"),
        ("about: x\ngrids: [{gpus: 2}]\nbenches: [{gpus: 2}]", "gpus: not a setting of a bench; benches have warmup"),
        ("about: x\ngrids: [{env.NCCL_NET_PLUGIN: x.so}]", "env.NCCL_NET_PLUGIN: not allowed in a file"),
        ("about: x\nsettings: {env: {PATH: /tmp}}\ngrids: [{gpus: 1}]", "env.PATH: not allowed in a file"),
        ("about: x\ngrids: [{env: [{NCCL_ALGO: Ring}, {GCONV_PATH: x}]}]", "env.GCONV_PATH: not allowed in a file"),
    ],
)
def test_a_wrong_study_file_is_refused_with_its_name(tmp_path, text, sentence):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as refusal:
        study.load(str(path))
    assert str(path) in str(refusal.value)


def test_a_missing_study_is_named_with_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="did you mean quickstart"):
        study.load("quikstart")
    with pytest.raises(ConfigError, match="no such file; expected a study"):
        study.load(str(tmp_path / "none.yaml"))


def test_an_empty_axis_is_refused():
    with pytest.raises(ConfigError, match=r"gpus=\[\]: expected at least one value"):
        study.points(None, {"gpus": []})


def test_too_many_points_are_refused_before_any_is_built(tmp_path):
    path = tmp_path / "mine.yaml"
    axis = list(range(2000))
    path.write_text(f"grids:\n  - {{gpus: [1, 2], seed: {axis}, batch_size: {axis}}}\n")
    found = study.load(str(path))
    said = r"study=mine: 8,000,000 cases \(2 of gpus, 2000 of seed, 2000 of batch_size\); expected at most 10,000"
    with pytest.raises(ConfigError, match=said):
        study.points(found, {})
    assert len(study.points(found, {"seed": 0, "gpus": 1})) == 2000  # the command line wins


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: ../../../pwned\ngrids: [{gpus: 1}]", "line 1: name=../../../pwned: expected a name, not a path"),
        ("grids: [{gpus: 1}]\nname: /tmp/pwned", "line 2: name=/tmp/pwned: expected a name, not a path"),
        ('name: "a\\nb"\ngrids: [{gpus: 1}]', "line 1: name=a\\x0ab: expected a name of printable characters"),
        (f"name: {'a' * 300}\ngrids: [{{gpus: 1}}]", "expected a name of at most 100 bytes"),
        ("include: [paper,\n  ../../secrets]", "line 2: includes ../../secrets, and no study has that name"),
        ("grids:\n  - {model: resnetx}\n  - {gpus: []}", r"line 3: gpus=[]: expected at least one value"),
    ],
)
def test_names_lead_nowhere_else_and_mistakes_have_lines(tmp_path, text, said):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        study.load(str(tmp_path / "mine.yaml"))


def test_a_study_is_called_by_its_name_and_not_by_a_path(tmp_path):
    for name in ("../study/paper", "/etc/passwd", "a\0b", "a" * 5000):
        with pytest.raises(ConfigError, match="no study has that name"):
            study.load(name)


def test_what_yaml_takes_for_dates_and_the_like_is_text(tmp_path):
    (tmp_path / "mine.yaml").write_text("grids: [{env.NCCL_ALGO: [NO, 12:30, 2026-01-01, 010]}]")
    points = study.points(study.load(str(tmp_path / "mine.yaml")), {})
    assert [point["env.NCCL_ALGO"] for point in points] == ["NO", "12:30", "2026-01-01", "010"]


def test_points_without_end_are_refused_before_they_are_made(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"about: x\ngrids: [{{input.root: {'x' * 10_000}, seed: {list(range(9000))}}}]")
    with pytest.raises(ConfigError, match=r"9,000 cases of up to 10,0.. characters; expected shorter values"):
        study.points(study.load(str(path)), {})

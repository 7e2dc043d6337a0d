"""Site files, and how ranks spread over nodes."""

import json
import re

import msgspec
import pytest

from resnetx import launching
from resnetx.api.train import asked_run
from resnetx.compose import asked, compose
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.launching import Container, Launch, Site, launch_from, read_site
from resnetx.record import write
from resnetx.request import varying_settings
from resnetx.settings.verbs import VERBS

SLURM = {"input": "synthetic", "launcher": "slurm"}
# A value of each setting of a site file that is a text, or has texts in it.
TEXTS = {
    "name": "alps",
    "partition": "gpu",
    "account": "abc123",
    "qos": "high",
    "constraint": "a100&ib",
    "options": ["reservation=tests"],
    "walltime": "2h",
    "modules": ["cuda/12.6"],
    "environment": {"NCCL_IB_HCA": "mlx5"},
    "interface": "ib0",
    "rendezvous": "static",
    "mpirun": ["mpirun", "--oversubscribe"],
    "container": {"kind": "enroot", "image": "a.sqsh", "mounts": ["/scratch"], "python": "python3"},
}
NO_TEXTS = {"gpus_per_node", "exclusive"}
CONTROLS = ["\n", "\r", "\r\n", "\t", "\0", "\x0b", "\x1b", "\x85", "\u2028", "\u202e"]


def site(tmp_path, text):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    return path


def test_a_site_file_has_the_habits_of_a_cluster(tmp_path):
    text = (
        "partition: gpu\ninterface: ib0\nmodules: [cuda/12.6]\nenvironment: {NCCL_IB_HCA: mlx5, NCCL_IB_GID_INDEX: 3}"
    )
    found = read_site(site(tmp_path, text))
    assert (found.partition, found.modules, found.exclusive) == ("gpu", ("cuda/12.6",), True)
    assert found.variables == {
        "GLOO_SOCKET_IFNAME": "ib0",
        "NCCL_SOCKET_IFNAME": "ib0",
        "NCCL_IB_HCA": "mlx5",
        "NCCL_IB_GID_INDEX": "3",
    }


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("partition: gpu\npartiton: gpu\n", 2, "partiton: a site file has no such setting; known: name, partition"),
        ("partition: gpu\ncontainer:\n  kind: docker\n", 3, "not one of the known values (apptainer, enroot)"),
        ("container: {kind: enroot, image: x, mount: [/a]}", 1, "known: kind, image, mounts, python"),
        ("\n\ngpus_per_node: eight\n", 3, "expected a whole number"),
        ("walltime: soon\n", 1, "walltime=soon: expected a duration"),
        ("name: a/b\n", 1, "expected a name, not a path"),
        ("partition: gpu; rm -rf x\n", 1, "partition: expected a word"),
        ("environment: {LD_PRELOAD: x.so}\n", 1, "env.LD_PRELOAD: could load other code"),
        ("- gpu\n", None, "expected a mapping of settings"),
    ],
)
def test_a_mistake_in_a_site_file_is_told_with_its_line(tmp_path, text, line, said):
    path = site(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        read_site(path)
    assert str(refused.value).startswith(f"{path}, line {line}: " if line else f"{path}: ")
    assert said in str(refused.value)


def ends_of(value, end):
    """The value with an end put behind each of its texts in turn, keys among them."""
    if isinstance(value, str):
        yield value + end
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in ends_of(inner, end))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: changed} for changed in ends_of(inner, end))
            yield {name + end * (name == key): each for name, each in value.items()}


def test_every_text_of_a_site_file_is_tried():
    assert {*TEXTS, *NO_TEXTS} == set(Site.__struct_fields__)
    assert set(TEXTS["container"]) == set(Container.__struct_fields__)


@pytest.mark.parametrize("key", TEXTS)
def test_nothing_of_a_site_file_breaks_out_of_its_word(key, tmp_path):
    """What it says becomes lines of a script, and comments of it, that sbatch reads."""
    path = site(tmp_path, json.dumps({key: TEXTS[key]}))
    read_site(path)
    for end in CONTROLS:
        for changed in ends_of(TEXTS[key], end):
            path.write_text(json.dumps({key: changed}))
            with pytest.raises(ConfigError) as refused:
                read_site(path)
            assert str(refused.value).startswith(f"{path}, line 1: ") and str(refused.value).isprintable()


@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_setting_is_refused(verb):
    """As `results=$RESULTS` of a shell without this variable: `out=` would go unnoticed."""
    for key in VERBS[verb].settings:
        if key not in ("env", "input.root", "input.stage", "rate"):  # the last three have their own sentences
            with pytest.raises(ConfigError, match=f"^{re.escape(key)}=: empty; give .* a value, or leave it out"):
                asked(verb, {key: ""})
    if "env" in VERBS[verb].settings:
        assert asked(verb, {"env.X": ""}) == {"env.X": ""}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_no_setting_has_control_characters(verb):
    for key in VERBS[verb].settings:
        for value in ("x\n", ["x", "y\x1b"], {"z\r": 1}, {"z": "a\tb"}):
            with pytest.raises(ConfigError, match="has a line break or another control character") as refused:
                asked(verb, {key: value})
            assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nodes": 2}, "nodes=2: without a launcher, ranks run on this node alone; add launcher=slurm"),
        ({"jobs": 2}, "jobs=2: without a launcher"),
        ({"launcher": "mpi", "jobs": 2}, "jobs=2: only for Slurm"),
        ({"launcher": "torchrun", "nodes": 2}, "node_rank is missing"),
        (
            {"launcher": "torchrun", "nodes": 2, "node_rank": 2, "rendezvous": "a:1"},
            "node_rank=2: expected 0 to 1, as nodes=2",
        ),
        ({"launcher": "torchrun", "nodes": 2, "node_rank": 1, "rendezvous": "a"}, "expected HOST:PORT"),
        ({"launcher": "slurm", "rendezvous": "a:1"}, "rendezvous=a:1: only for launcher=torchrun"),
        ({"launcher": "slurm", "walltime": "soon"}, "walltime=soon: expected a duration"),
        ({"launcher": "slurm", "nodes": 0}, "nodes=0: expected at least 1"),
        ({"launcher": "pbs"}, "launcher=pbs: not one of the known values (slurm, torchrun, mpi)"),
    ],
)
def test_a_launcher_that_cannot_do_it_is_refused(settings, said):
    with pytest.raises(ConfigError) as refused:
        run_settings_from(compose(settings))
    assert said in str(refused.value)


def test_the_nodes_of_predictions_are_no_launchers():
    assert request_from(compose({"input": "synthetic", "nodes": 4, "gpus": 8})).nodes == 1


def test_few_ranks_are_on_few_nodes():
    """As many ranks on a node as spread the most ranks over all nodes."""
    spread = {gpus: request_from(compose({**SLURM, "nodes": 2, "gpus": gpus}), 16).nodes for gpus in (1, 2, 8, 16)}
    assert spread == {1: 1, 2: 1, 8: 1, 16: 2}
    assert request_from(compose({**SLURM, "nodes": 2, "gpus": 2})).nodes == 2


def test_threads_are_shared_by_the_ranks_of_a_node(monkeypatch):
    monkeypatch.setattr("resnetx.config.cores", lambda: 8)
    assert request_from(compose({**SLURM, "nodes": 2, "gpus": 4})).threads == 4


def test_the_baseline_of_two_nodes_is_one_rank_on_one():
    two = request_from(compose({**SLURM, "nodes": 2, "gpus": 4, "batch_size": 64}))
    assert (two.nodes, two.on(1).nodes, two.on(2).nodes, two.on(4).nodes) == (2, 1, 1, 2)
    assert two.key != msgspec.structs.replace(two, nodes=1).key
    assert two.on(1).key == msgspec.structs.replace(two, nodes=1).on(1).key


def test_ranks_that_do_not_spread_evenly_are_refused():
    uneven = request_from(compose({**SLURM, "nodes": 2, "gpus": 3, "batch_size": 33}))
    with pytest.raises(ConfigError, match="gpus=3 does not divide over nodes=2"):
        check(uneven)
    chosen = request_from(compose({**SLURM, "nodes": 2, "gpus": 2, "devices": [0, 1]}))
    with pytest.raises(ConfigError, match=r"devices=\[0, 1\] with nodes=2"):
        check(chosen)


def test_a_time_limit_of_the_command_goes_before_that_of_the_site(tmp_path):
    path = str(site(tmp_path, "walltime: 2h"))
    limits = [launch_from(compose({**SLURM, "site": path, **more})).walltime for more in ({}, {"walltime": "30min"})]
    assert limits == [7200, 1800]


def test_a_run_file_starts_no_launcher(tmp_path, task_of):
    """It names programs and images, and may be by anybody."""
    path = tmp_path / "run.json"
    write(path, msgspec.structs.replace(task_of(), launch=Launch(launcher="mpi", nodes=2, site=Site(mpirun=("rm",)))))
    with pytest.raises(ConfigError, match="launcher=mpi, which a run file does not repeat"):
        asked_run(path, {})


def test_a_curve_goes_on_over_nodes(request_of):
    """As with devices: more GPUs are on more nodes, and are no other line."""
    one, two = (request_of(gpus=gpus, batch_size=64, threads=1) for gpus in (1, 2))
    spread = msgspec.structs.replace(two, nodes=2)
    assert varying_settings([(one, ""), (spread, "")]) == []
    assert varying_settings([(one, ""), (two, ""), (spread, "")]) == ["nodes"]


def test_what_is_not_set_is_left_to_the_cluster():
    assert Site().variables == {}
    assert launching.launch_from(compose({})) is None


def test_the_variables_of_a_site_that_change_what_is_measured_are_part_of_the_request(tmp_path):
    text = "interface: ib0\nenvironment: {NCCL_IB_HCA: mlx5_0, NCCL_NET_GDR_LEVEL: PHB, SCRATCH: /scratch/me}"
    settings = {**SLURM, "nodes": 2, "gpus": 2, "site": f"{site(tmp_path, text)}"}
    found = request_from(compose(settings))
    cards = {"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": "ib0", "NCCL_IB_HCA": "mlx5_0"}
    assert found.env == {**cards, "NCCL_NET_GDR_LEVEL": "PHB"}
    own = request_from(compose({**settings, "env.NCCL_IB_HCA": "mlx5_1"}))
    assert own.env["NCCL_IB_HCA"] == "mlx5_1" and own.key != found.key


def test_settings_go_before_the_variables_of_a_site(tmp_path):
    text = "interface: ib0\nenvironment: {NCCL_NET_GDR_LEVEL: PHB}"
    settings = {**SLURM, "nodes": 2, "gpus": 2, "site": f"{site(tmp_path, text)}"}
    found = request_from(compose({**settings, "interface": "lo", "gpudirect": False}))
    assert found.env == {} and found.way.nccl["NCCL_NET_GDR_LEVEL"] == "LOC"
    check(found)


def test_gpudirect_is_for_what_is_on_several_nodes(tmp_path):
    settings = {**SLURM, "nodes": 2, "batch_size": 8, "gpudirect": True}
    two, one = (request_from(compose({**settings, "gpus": gpus}), max_gpus=4) for gpus in (4, 2))
    assert (two.gpudirect, one.gpudirect, two.on(2).gpudirect) == (True, None, None)
    assert (two.nodes, one.nodes, one.key) == (2, 1, two.on(2).key)
    with pytest.raises(ConfigError, match="gpudirect=true: applies between nodes, and these ranks are on one"):
        check(request_from(compose({"input": "synthetic", "gpus": 2, "gpudirect": True})))

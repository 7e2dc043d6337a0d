"""What is published names neither the machine, its users, its network nor its files, and can be read all the same."""

import getpass

import msgspec
import pytest

import resnetx
from resnetx import record
from resnetx.errors import ConfigError
from resnetx.record import BenchRecord, Failure, RunRecord, StudyFolder, StudyRecord
from resnetx.record.machine import Device, GpuProcess, Job, OtherNode, Storage
from resnetx.record.publishable import Names, published
from resnetx.record.sealing import Warning as Told
from resnetx.reporting.study_scaling import load

GPU = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
TELLING = ["zebra42", "quagga.example.org", "aardvark", "okapi0", "mlx5_bongo", GPU, "8932f937", "/export", "/nfs/gnu",
           "10.20.30.40", "kudu-cluster", "4711", "filer.oryx", "trainer-of-bob"]  # fmt: skip


@pytest.fixture
def telling(record_of, record_environment, gpu_part):
    """The record of a run that names all there is to name, and ended with what a program said."""
    environment = msgspec.structs.replace(
        record_environment(),
        node="zebra42",
        host="zebra42.quagga.example.org",
        switch="kudu-cluster.leaf1",
        network=["okapi0 100 Gb/s", "mlx5_bongo port 1 400 Gb/s (4X NDR)"],
        storage=Storage(path="/nfs/gnu/images", filesystem="nfs4", device="filer.oryx:/vol", rotational=True),
        gpus=[gpu_part(GPU)],
        gpu_processes=[GpuProcess(gpu=0, pid=1, memory_bytes=1, name="trainer-of-bob")],
        variables={"NCCL_SOCKET_IFNAME": "okapi0", "NCCL_ALGO": "Ring", "LD_PRELOAD": "/export/aardvark/lib/x.so",
                   "CUDA_VISIBLE_DEVICES": GPU},
    )  # fmt: skip
    settings = {"input": "torchvision", "input.root": "/nfs/gnu/images", "env.NCCL_SOCKET_IFNAME": "okapi0"}
    blank = record_of(settings, gpus=2)
    said = 'File "/export/aardvark/net.py", line 3: okapi0 of zebra42 (10.20.30.40) failed'
    return msgspec.structs.replace(
        blank,
        reason=said,
        stderr_end=f"{said}\nsecret project of aardvark",
        failures=[Failure(rank=0, kind="error", time_s=0.0, message=said, traceback=said, node="zebra42")],
        warnings=[Told(code="shared-gpus", message="a process on zebra42", remedy="see /export/aardvark/log")],
        devices=[Device(rank=0, node="zebra42", index=0, name="H100", uuid=GPU, pci_bus_id="0000:1B:00.0")],
        job=Job(scheduler="slurm", id="4711", cluster="kudu-cluster", partition="p", nodes=["zebra42"], restarts=0),
        environment=environment,
        other_nodes=[OtherNode(rank=1, environment=environment, host_load=None)],
        unknown={**blank.unknown, "transport": "nobody on zebra42 knows"},
    )


@pytest.fixture
def gpu_part():
    def make(uuid):
        unknown = ("memory_bytes", "power_limit_W", "sm_clock_max_Hz", "ecc", "mig", "pcie_generation",
                   "pcie_generation_max", "pcie_width", "pcie_width_max", "nvlinks_active")  # fmt: skip
        named = {"index": 0, "name": "NVIDIA H100", "uuid": uuid, "pci_bus_id": "0000:1B:00.0",
                 "compute_capability": "9.0"}  # fmt: skip
        return msgspec.convert({**named, **dict.fromkeys(unknown)}, record.Gpu)

    return make


@pytest.fixture
def study(telling, tmp_path):
    """The folder of a study with one run, as it is on the machine that measured it."""
    folder = StudyFolder(tmp_path / "results" / "zebra42" / "mine")
    asked = StudyRecord(
        kind="study", schema=1, name="mine", about="On zebra42.", node="zebra42", points=[telling.request], repeats=1,
        twins=0, baseline=1, convention="caffe", resnetx="0.1.0",
    )  # fmt: skip
    record.write(folder.study, asked)
    run = folder.run(telling.request.slug, 1)
    record.write(run.record, telling)
    run.stderr.write_text("Traceback ... /export/aardvark/net.py on zebra42")
    return folder


def told_in(folder):
    """What of all that is telling stands in any file of a folder, or in the name of one."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    text = "".join(map(str, [file.relative_to(folder) for file in files]))
    text += "".join(file.read_bytes().decode(errors="replace") for file in files)
    return [name for name in [*TELLING, "aardvark", "zebra"] if name in text]


def test_the_original_tells_all_of_it(study):
    assert told_in(study.path.parent) != []


@pytest.mark.slow
def test_a_study_that_is_published_names_nobody_and_is_read_as_before(study, tmp_path):
    page = resnetx.report(study.path.parent, publish=tmp_path / "shared")
    assert page == tmp_path / "shared" / "report" / "index.html"
    assert told_in(tmp_path / "shared") == []
    (point,) = load(StudyFolder(tmp_path / "shared" / "mine")).points
    (run,) = point.runs  # it is found under what it was asked for
    assert run.outcome == "failed"
    (file,) = (tmp_path / "shared" / "mine").glob("*/record.json")
    kept = record.read(file, RunRecord)
    environment = kept.environment
    assert environment.node == kept.devices[0].node == kept.failures[0].node == "node1"
    assert environment.network == ["interface1 100 Gb/s", "interface2 port 1 400 Gb/s (4X NDR)"]
    assert environment.variables["NCCL_ALGO"] == "Ring"
    assert environment.variables["NCCL_SOCKET_IFNAME"] == kept.request.env["NCCL_SOCKET_IFNAME"] == "interface1"
    for path in ("job", "devices.0.uuid", "environment.host", "environment.switch", "environment.gpu_processes"):
        assert kept.unknown[path] == "left out of what is published"
    assert environment.host is kept.job is kept.devices[0].uuid is None
    assert kept.request_key == kept.request.key


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bound to 10.20.30.40.", "bound to (address)."),
        ("10.20.30.40:2000 and 10.20.30.41, too", "(address):2000 and (address), too"),
        ("from fe80::1%eth0 to [2001:db8::8a2e:370:7334]:80", "from (address) to [(address)]:80"),
        ("on 2001:db8:0:0:1:0:0:1.", "on (address)."),
        ("::ffff:10.20.30.40 answers", "(address) answers"),
        ("0c:42:a1:03:00:65 and 80:00:00:00:fe:80:00:00", "(address) and (address)"),
        ("see file:///export/aardvark/x.py", "see (address)"),
        ("http://kudu.example.org:80/x?y failed", "(address) failed"),
        ("g++ -I/opt/aardvark -L/export/lib", "g++ -I(path) -L(path)"),
        ("./aardvark/x ../kudu ~/x ~aardvark/y", "(path) (path) (path) (path)"),
        (r"\\kudu\share\x and C:\Users\kudu", "(path) and (path)"),
        ("cannot open '/export/my pictures/aardvark'", "cannot open '(path)'"),
        ('cannot open "~/my pictures"', 'cannot open "(path)"'),
        ("/kudu is full, and /export/aardvark.", "(path) is full, and (path)"),
        ("nfs4 of filer:/vol and filer.oryx:/vol/x", "nfs4 of (path) and (path)"),
        ("a=/export/kudu b=(/export/kudu)", "a=(path) b=((path))"),
        ("write to me.too@kudu.example.org.", "write to (address)."),
        ("git@kudu:aardvark/x.git", "(address):aardvark/x.git"),
        ("a process of filer.oryx.example.org.", "a process of (host)."),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 left", "(GPU) left"),
    ],
)
def test_no_text_has_a_path_or_an_address(text, shown):
    assert Names().without(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "219 images/s, GNU/Linux, ResNet/1 and /8", "at 12:30:45, 2026-11-25T06:39:53Z", "0000:1B:00.0", "c10::Error",
        "Linux 5.14.0-362.el9.x86_64, driver 535.104.05, torch 2.15.0+cu130", "lab.scale to 3; see stderr.log",
        "100 Gb/s (4X NDR)", "libnccl.so.2", "PIX/PXB", "ns::T", "1 / 2", "std::bad_alloc", "input.decoder=cpu",
    ],
)  # fmt: skip
def test_a_text_without_any_stays(text):
    assert Names().without(text) == text


@pytest.mark.parametrize("text", ["a." * 200_000, "/a" * 200_000, "'/" * 200_000, "0:" * 200_000, "a@" * 200_000])
def test_a_long_text_is_read_once(text):
    assert len(Names().without(text)) <= len(text) * 8


def test_what_failed_runs_and_other_programs_say_is_left_out(telling):
    kept = published(telling, Names())
    assert kept.reason == kept.failures[0].message == kept.stderr_end == "(left out of what is published)"
    (shared,) = kept.warnings
    assert (shared.code, shared.message) == ("shared-gpus", "(left out of what is published)")
    assert shared.remedy == "see (path)"


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("NCCL_SOCKET_IFNAME", "^=bongo0,okapi0", "^=interface2,interface1"),
        ("GLOO_SOCKET_IFNAME", "bongo0", "interface2"),
        ("NCCL_IB_HCA", "=bongo_0:1,bongo_1:1", "=interface2:1,interface3:1"),
        ("UCX_NET_DEVICES", "bongo_0:1,all", "interface2:1,all"),
        ("NCCL_SOCKET_IFNAME", "lo", "lo"),
    ],
)
def test_variables_that_name_networks_have_the_same_other_names(variable, value, shown, telling):
    told = msgspec.structs.replace(
        telling,
        environment=msgspec.structs.replace(
            telling.environment, variables={variable: value}, network=["okapi0 100 Gb/s"]
        ),
        request=msgspec.structs.replace(telling.request, env={variable: value}),
        other_nodes=None,
    )
    names = Names()
    names.add("interface", "okapi0")
    kept = published(told, names)
    assert kept.environment.variables[variable] == kept.request.env[variable] == shown


def test_points_that_differ_in_a_path_still_differ(telling):
    names = Names()
    other = msgspec.structs.replace(
        telling, request=msgspec.structs.replace(
            telling.request, input=msgspec.structs.replace(telling.request.input, root="/nfs/gnu/other")
        )
    )  # fmt: skip
    keys = {published(each, names).request_key for each in (telling, other, telling)}
    assert len(keys) == 2


def test_what_our_records_call_things_is_not_taken_for_the_name_of_a_host(telling):
    """A host may be called as an outcome."""
    environment = msgspec.structs.replace(telling.environment, node="failed", host="run")
    found = published(msgspec.structs.replace(telling, environment=environment), Names())
    assert (found.kind, found.outcome) == ("run", "failed")
    assert found.environment.node.startswith("node")


def test_a_bench_is_published_too(bench_of_two, tmp_path):
    told = msgspec.structs.replace(
        bench_of_two, source="/export/aardvark/log.txt", reason="on zebra42.quagga.example.org"
    )
    names = Names()
    names.add("node", "zebra42.quagga.example.org")
    found = published(told, names)
    assert isinstance(found, BenchRecord)
    assert (found.source, found.reason) == ("imported", "(left out of what is published)")
    assert found.points == told.points


@pytest.fixture
def bench_of_two():
    return msgspec.convert(
        {"kind": "bench", "schema": 1, "request": None, "source": "", "outcome": "ok", "reason": "", "failures": [],
         "stderr_end": "", "started_at": None, "duration_s": None, "world_size": 2, "library": None,
         "points": [{"collective": "allreduce", "size_bytes": 8, "times_s": [1e-6], "wrong": 0, "cpu_share": None}],
         "transport": None, "devices": None, "host_load": None, "warnings": [], "environment": None, "unknown": {}},
        BenchRecord,
    )  # fmt: skip


def test_a_copy_is_written_into_a_new_folder_only(study, tmp_path):
    with pytest.raises(ConfigError, match="exists, and is no empty folder; give a new one"):
        resnetx.report(study.path, publish=study.path)
    with pytest.raises(ConfigError, match="nothing: no such folder; expected one written by"):
        resnetx.report(tmp_path / "results" / "nothing", publish=tmp_path / "shared")


@pytest.mark.slow
def test_who_publishes_is_not_named(study, tmp_path, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "gnu-keeper")
    (file,) = study.path.glob("*/record.json")
    ran = record.read(file, RunRecord)
    record.write(file, msgspec.structs.replace(ran, unknown={**ran.unknown, "copies": "gnu-keeper has no quota"}))
    resnetx.report(study.path, publish=tmp_path / "shared")
    (kept,) = (tmp_path / "shared" / "mine").glob("*/record.json")
    assert record.read(kept, RunRecord).unknown["copies"] == "user1 has no quota"


@pytest.mark.dist
def test_a_sweep_publishes_what_it_has_measured(tmp_path, monkeypatch, preloaded):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURMD_NODENAME", "zebra42")
    monkeypatch.setattr("resnetx.host.node_name", lambda: "zebra42")
    measured = resnetx.sweep(
        model={"x": 1, "width": 16}, image_size=32, batch_size=4, input="synthetic", gpus=1, repeats=1, twins=0,
        steps=1, windows=1, warmup=3, results=tmp_path / "aardvark", publish=tmp_path / "shared", dirty=True,
    )  # fmt: skip
    assert "zebra42" in (measured.folder / "study.json").read_text()
    assert told_in(tmp_path / "shared") == []
    (copy,) = (tmp_path / "shared").glob("*/study.json")
    assert load(StudyFolder(copy.parent)).points[0].runs[0].outcome == "ok"

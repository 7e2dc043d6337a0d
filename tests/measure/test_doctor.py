"""The doctor: what it finds here is true, what is broken is found, and nothing is changed."""

import importlib
import os
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from resnetx import packages
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE
from resnetx.measure import examination, probes
from resnetx.measure.examination import Finding, examine
from resnetx.measure.machine.nvidia import Graphics, cuda_of_driver, no_graphics
from resnetx.measure.probes import Lost, apart, reinstall
from resnetx.measure.rank import device
from resnetx.record import GpuProcess, Unknown

TOPICS = [
    "system", "packages", "GPU", "torch", "NCCL", "NCCL between GPUs", "gloo", "DALI", "DALI on the GPU", "torchvision",
    "CPUs", "bf16", "clocks", "shared memory", "results", "images", "wandb",
]  # fmt: skip


NO_DRIVER = Unknown("no NVIDIA driver answers")


def in_this_process(probes, *_):
    """Probes that see what the test has changed."""
    return {name: probe() for name, probe in probes.items()}


def by_topic(results: Path, images: Path) -> dict[str, Finding]:
    return {finding.topic: finding for finding in examine(results, images)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A place with two class folders of three images in all, and no results yet."""
    folder = tmp_path_factory.mktemp("machine")
    for name in ("images/cat/1.jpg", "images/cat/2.JPEG", "images/dog/1.jpg", "images/dog/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.fixture(scope="module")
def found(folder) -> dict[str, Finding]:
    """The findings on this machine without its GPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examination, "apart", in_this_process)
        patch.setattr(examination, "graphics_here", lambda: no_graphics(NO_DRIVER))
        patch.setattr(examination, "_cards", lambda vendor: [])
        return by_topic(folder / "results/here", folder / "images")


@pytest.mark.slow
def test_every_topic_is_examined_in_the_order_of_need(found):
    assert list(found) == TOPICS


def test_only_what_is_not_ok_has_something_to_mend(found):
    assert all(finding.what for finding in found.values())
    assert not [finding for finding in found.values() if finding.state == "ok" and finding.fix]


def test_torch_is_the_one_that_runs_here(found):
    assert found["torch"].state == "ok"
    assert torch.__version__ in found["torch"].what


def test_gloo_reduced_a_tensor_and_left_no_process_group(found):
    assert "reduced a tensor" in found["gloo"].what
    assert not torch.distributed.is_initialized()


def test_the_images_are_counted(found, folder):
    assert found["images"] == Finding("images", "ok", f"{folder}/images: 2 classes, 3 images", "")


def test_a_results_folder_that_can_be_made_is_enough_and_is_not_made(found, folder):
    assert found["results"].state in ("ok", "limited")
    assert sorted(path.name for path in folder.iterdir()) == ["images"]


@pytest.mark.dali
def test_dali_decoded_a_jpeg(found):
    assert found["DALI"].state == "ok"


def test_torchvision_decoded_a_jpeg(found):
    assert found["torchvision"].state == "ok"


def test_without_a_gpu_its_findings_say_so_and_nothing_needed_is_missing(found):
    assert found["GPU"].state in ("limited", "missing")
    assert found["DALI on the GPU"].state == "limited"
    assert [topic for topic, finding in found.items() if finding.needed] == ["torch", "gloo", "results"]


# ---- what is broken -------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path, monkeypatch) -> dict[str, Finding]:
    """The findings on a machine where much is wrong."""
    monkeypatch.setattr(examination, "apart", in_this_process)
    (tmp_path / "file").touch()
    (tmp_path / "images/train/cat").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "torchvision", None)  # import raises ImportError
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)
    monkeypatch.setattr(examination, "_cards", lambda vendor: ["0000:1b:00.0"] * (vendor == examination.NVIDIA))
    monkeypatch.setattr(examination, "graphics_here", lambda: no_graphics(NO_DRIVER))
    monkeypatch.setattr(examination, "visible_cores", lambda: 10_000)
    monkeypatch.setattr(examination, "_SHARED_MEMORY_BYTES", 2**60)
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return by_topic(tmp_path / "file/results", tmp_path / "images")


def test_what_is_missing_comes_with_the_command_that_mends_it(broken, tmp_path):
    assert broken["GPU"].state == "missing" and "0000:1b:00.0" in broken["GPU"].what and broken["GPU"].fix
    assert broken["torchvision"].state == "missing" and "pip install" in broken["torchvision"].fix
    assert broken["DALI"].state == "missing" and "[train]" in broken["DALI"].fix
    assert broken["results"].state == "missing" and broken["results"].fix.startswith("results=")
    assert broken["results"].needed
    assert broken["images"].state == "missing" and broken["images"].fix == f"input.root={tmp_path}/images/train"


def test_what_is_limited_says_why(broken):
    assert broken["CPUs"].state == "limited" and "10000 are visible" in broken["CPUs"].what
    assert broken["shared memory"].state == "limited" and broken["shared memory"].fix
    assert broken["wandb"].state == "limited" and "offline" in broken["wandb"].what


def test_one_broken_library_does_not_hide_the_others(broken):
    assert list(broken) == TOPICS
    assert broken["gloo"].state in ("ok", "limited")


def test_missing_images_come_with_the_command_that_makes_them(tmp_path):
    state, what, fix = examination._images(tmp_path / "none")
    assert (state, fix) == ("missing", f"resnetx images {tmp_path}/none")
    assert str(tmp_path / "none") in what


def test_gpus_that_others_use_or_that_are_divided_are_limited():
    gpus = [SimpleNamespace(name="NVIDIA H100", mig=False)] * 8
    graphics = Graphics("570.86.15", gpus, [], "not asked", "3f")
    assert examination._gpu(None, graphics) == ("ok", "8 x NVIDIA H100; driver 570.86.15; wiring 3f", "")
    busy = replace(graphics, gpu_processes=[GpuProcess(gpu=0, pid=1, memory_bytes=1)])
    assert examination._gpu(None, busy)[0] == "limited"
    divided = replace(graphics, gpus=[*gpus[:7], SimpleNamespace(name="NVIDIA H100", mig=True)])
    assert examination._gpu(None, divided)[0] == "limited"


def test_a_system_without_the_kernels_files_is_unknown_and_nothing_linux_can_mend(monkeypatch):
    monkeypatch.setattr(examination, "kernel_text", lambda _: "")
    monkeypatch.setattr(examination.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    assert (
        examination._bf16(no_graphics(Unknown("no GPU")))[::2]
        == examination._shared_memory(None)[::2]
        == ("limited", "")
    )


def test_extras_that_no_run_needs_are_no_fault(monkeypatch):
    monkeypatch.setattr(packages, "installed", lambda module: module not in ("wandb", "vl_convert"))
    assert examination._packages()[::2] == ("limited", packages.install("pdf", "wandb"))
    monkeypatch.setattr(packages, "installed", lambda module: module not in ("wandb", "torch"))
    assert examination._packages()[::2] == ("missing", packages.install("train", "wandb"))


@pytest.mark.parametrize(
    ("chip", "runs", "fix"),
    [
        ("9.0", (12, 4), packages.install("cuda12")),
        ("9.0", (11, 4), "update the NVIDIA driver to R580 or newer"),
        ("10.0", (12, 8), "update the NVIDIA driver to R580 or newer"),
    ],
)
def test_a_driver_older_than_torch_is_told_with_what_runs_on_it(monkeypatch, chip, runs, fix):
    version = runs[0] * 1000 + runs[1] * 10
    told = SimpleNamespace(nvmlInit=lambda: None, nvmlSystemGetCudaDriverVersion_v2=lambda: version, NVMLError=OSError)
    assert cuda_of_driver(told) == runs
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    monkeypatch.setattr(probes, "cuda_of_driver", lambda: cuda_of_driver(told))
    monkeypatch.setattr(device, "unfit", lambda *_: "")
    graphics = Graphics("550.54.15", [SimpleNamespace(name="NVIDIA H100", compute_capability=chip)], [], "", "3f")
    state, what, found = probes.torch_probe(graphics)
    assert (state, found) == ("missing", fix)
    assert f"driver 550.54.15 runs CUDA up to {runs[0]}.{runs[1]}, and this torch needs R580 or newer" in what


# ---- what crashes or hangs ------------------------------------------------------------------------------------------

CRASHES = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"


@pytest.mark.slow
def test_a_library_that_crashes_is_a_finding_and_hides_no_other(tmp_path, monkeypatch):
    (tmp_path / "torchvision.py").write_text(CRASHES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = by_topic(tmp_path / "results", tmp_path)
    assert list(found) == TOPICS
    crashed = Finding("torchvision", "missing", "its probe crashed (SIGSEGV)", reinstall("torchvision"))
    assert found["torchvision"] == crashed
    assert found["torch"].state == "ok" and "reduced a tensor" in found["gloo"].what
    (tmp_path / "pynvml.py").write_text(CRASHES)
    assert examination._driver().gpus == "a query of the NVIDIA driver crashed (SIGSEGV)"


def test_each_probe_ends_by_itself(tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text(CRASHES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    asked = {
        "aborts": os.abort,
        "hangs": partial(time.sleep, 600),
        "leaves": partial(os._exit, 3),
        "raises": partial(int, "seven"),
        "answers": partial(int, "7"),
        "imports": partial(importlib.import_module, "crashing"),
    }
    assert apart(asked, {"hangs": 0.5}, imports=("crashing",)) == {
        "aborts": Lost("crashed (SIGABRT)"),
        "hangs": Lost("did not end within 0.5 s", late=True),
        "leaves": Lost("left with exit status 3"),
        "raises": Lost("left with exit status 1"),
        "answers": 7,
        "imports": Lost("crashed (SIGSEGV)"),
    }


@pytest.mark.slow
def test_ranks_that_reduce_a_tensor_and_ranks_that_cannot():
    """Over gloo, and over NCCL where no GPU is."""
    ranks = {
        "gloo": partial(probes.failures, [[0, 1], [2, 3, 4]], "gloo"),
        "nccl": partial(probes.failures, [[90, 91]], "nccl"),
    }
    found = apart(ranks, imports=("torch",))
    assert found["gloo"] == ["", ""]
    assert found["nccl"][0].startswith("the rank on GPU 90: ")


@pytest.mark.parametrize("count", [2, 5, 8])
def test_rounds_have_each_pair_once_and_no_device_twice_at_a_time(count):
    found = probes.rounds(count)
    assert sorted(chain(*found)) == list(combinations(range(count), 2))
    assert all(len(set(chain(*pairs))) == 2 * len(pairs) for pairs in found)


@pytest.mark.parametrize(
    ("broken", "state", "what"),
    [
        ([], "ok", "4 ranks, one on each GPU, reduced a tensor"),
        ([{1, 3}], "missing", "it broke; of two, those on GPUs 1 and 3 did not either (it broke)"),
        ([set(range(4))], "missing", "it broke; those on each two of them did"),
    ],
)
def test_what_ranks_on_all_gpus_cannot_do_is_tried_in_pairs(monkeypatch, broken, state, what):
    monkeypatch.setattr(probes, "at_once", lambda _: [4])

    def failures(groups, _):
        return ["it broke" if any(each <= set(group) for each in broken) else "" for group in groups]

    monkeypatch.setattr(probes, "failures", failures)
    graphics = Graphics("570.86.15", [SimpleNamespace()] * 4, [], "not asked", "3f")
    found = probes.nccl_pairs_probe(graphics)
    assert (found[0], found[1].removeprefix("ranks on all 4 GPUs did not reduce a tensor: ")) == (state, what)
    assert ("devices=1,3 env.NCCL_P2P_DISABLE=1" in found[2]) == ({1, 3} in broken)


def test_ranks_of_a_probe_take_torchs_backend_of_runs(monkeypatch, tmp_path):
    monkeypatch.setenv(NCCL_BACKEND_VARIABLE, "")  # so that it is as before behind this test
    monkeypatch.delenv(NCCL_BACKEND_VARIABLE)

    def begun(*_, **__):
        raise RuntimeError(os.environ.get(NCCL_BACKEND_VARIABLE))

    monkeypatch.setattr("torch.distributed.init_process_group", begun)
    assert probes._reduced("gloo", f"{tmp_path}/meeting", 1, 0, 0) == FIRST_NCCL_BACKEND


def test_a_rank_that_crashes_is_named_before_those_that_waited_for_it():
    late = Lost("did not end within 20 s", late=True)
    assert probes._failure([4, 5], [late, Lost("crashed (SIGSEGV)")]) == "the rank on GPU 5 crashed (SIGSEGV)"
    assert probes._failure([4, 5], [late, late]) == "their ranks did not end within 20 s"

"""Which GPUs a torch can run on: from real lists of architectures, for real generations."""

import pytest
import torch

from resnetx import packages
from resnetx.errors import ConfigError
from resnetx.measure.machine.nvidia import Graphics
from resnetx.measure.probes import torch_probe
from resnetx.measure.rank.device import built_for, check_precision, chip_from, unfit
from resnetx.record import Gpu, Unknown

CUDA_13 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_110", "sm_120", "compute_120"]  # torch 2.11 + CUDA 13
CUDA_12_6 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]  # torch 2.7 + CUDA 12.6
P100, V100, T4, A40, H200, B200, B300 = (6, 0), (7, 0), (7, 5), (8, 6), (9, 0), (10, 0), (10, 3)


@pytest.mark.parametrize(
    ("archs", "runs", "does_not"),
    [
        (CUDA_13, [T4, A40, (8, 9), H200, B200, B300, (12, 1)], [P100, V100]),
        (CUDA_12_6, [P100, (6, 1), V100, T4, A40, H200], [B200, (12, 0)]),
        (["sm_80", "compute_80"], [(8, 0), A40, H200, B200], [T4]),  # PTX is compiled for later ones
        (["sm_90a"], [H200], [B200]),
        (["gfx90a", "gfx942"], [(9, 4)], []),  # ROCm
        ([], [P100], []),
    ],
)
def test_a_kernel_runs_on_its_own_generation_from_its_minor_version_on(archs, runs, does_not):
    assert [each for each in runs if not built_for(each, archs)] == []
    assert [each for each in does_not if built_for(each, archs)] == []


def test_the_sentence_names_the_gpu_what_torch_has_and_what_to_install(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: CUDA_13)
    said = unfit("Tesla P100-SXM2-16GB", P100)
    assert said.startswith("Tesla P100-SXM2-16GB has compute capability 6.0, and torch ")
    assert "has kernels from 7.5 on" in said and packages.install("cuda12") in said
    assert unfit("NVIDIA H200", H200) == ""


def test_the_doctor_finds_a_gpu_that_torch_has_no_kernels_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: CUDA_13)
    state, what, fix = torch_probe(graphics_of("7.0"))
    assert (state, fix) == ("missing", packages.install("cuda12"))
    assert "compute capability 7.0" in what
    assert torch_probe(graphics_of(Unknown("no right")))[2] != packages.install("cuda12")


def graphics_of(capability: str) -> Graphics:
    """A machine with a GPU of this compute capability."""
    silent = Unknown("not asked")
    not_known = dict.fromkeys(Gpu.__struct_fields__, silent)
    named = {"index": 0, "name": "Tesla V100-SXM2-16GB", "compute_capability": capability}
    return Graphics("570.86.15", [Gpu(**{**not_known, **named})], silent, silent, silent)


@pytest.mark.parametrize(("precision", "least"), [("fp32", P100), ("fp16", P100), ("tf32", (8, 0)), ("bf16", (8, 0))])
def test_precisions_that_came_with_ampere_are_refused_on_what_is_older(monkeypatch, precision, least):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    for generation in (P100, V100, T4, (8, 0), H200):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, found=generation: found)
        if generation >= least:
            check_precision(precision, torch.device("cuda", 0))
        else:
            with pytest.raises(ConfigError, match=f"precision={precision}: a GPU .* older than Ampere"):
                check_precision(precision, torch.device("cuda", 0))


def test_capabilities_are_read_as_nvml_gives_them():
    assert [chip_from(text) for text in ("6.0", "12.1")] == [(6, 0), (12, 1)]

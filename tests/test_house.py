"""The house holds: what must not load torch does not, and the test can tell."""

import subprocess
import sys

import pytest

PURE = [
    "resnetx",
    "resnetx.cli",
    "resnetx.cli.topology",
    "resnetx.cli.trace",
    "resnetx.cli.verbs",
    "resnetx.config",
    "resnetx.host",
    "resnetx.measure.launch",
    "resnetx.measure.sweep",
    "resnetx.measure.worker",
    "resnetx.record",
    "resnetx.record.trace_runs",
    "resnetx.report.compare",
    "resnetx.report.page",
    "resnetx.report.scaling",
    "resnetx.statistics",
    "resnetx.study",
    "resnetx.units",
    "resnetx.workloads",
    "resnetx.workloads.buckets",
    "resnetx.workloads.counts",
]


def loaded_by(module: str) -> set[str]:
    """Top-level packages in memory after importing a module in a fresh process."""
    program = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


@pytest.mark.parametrize("module", PURE)
def test_a_module_that_needs_no_device_loads_no_torch(module):
    assert not {"torch", "torchvision", "nvidia", "wandb"} & loaded_by(module)


def test_the_command_line_loads_hydra_only_when_a_verb_runs():
    assert not {"hydra", "omegaconf", "rich"} & loaded_by("resnetx.cli")


def test_the_probe_sees_torch_where_it_is_loaded():
    assert "torch" in loaded_by("resnetx.measure.distributed")

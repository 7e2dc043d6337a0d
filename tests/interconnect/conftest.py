"""Small systems for tests, put together without files."""

import pytest

import tests.drawn_examples  # noqa: F401
from resnetx.interconnect.systems.graph import (
    Component,
    CpuSpec,
    GpuSpec,
    Link,
    SourcedValue,
    SwitchSpec,
    System,
    WireSpec,
)


def figure(value):
    return SourcedValue(value, "assumed", "a test")


def gpu(capability=7.0):
    return GpuSpec(
        about="a GPU",
        compute_capability=figure(capability),
        fp32_FLOPps=figure(1e13),
        memory_bytes=figure(1e10),
        memory_Bps=figure(1e12),
        clock_Hz=figure(1e9),
        copy_s=figure(3e-6),
    )


def wire(family, copy_Bps, **more):
    figures = {"bandwidth_Bps": figure(1.1 * copy_Bps), "copy_Bps": figure(copy_Bps), "latency_s": figure(1e-6)}
    return WireSpec(about="a wire", family=family, **figures, **more)


NVLINK = wire("nvlink", 20e9)
PCIE = wire("pcie", 13e9)
SMP = wire("smp", 20e9, peer=False)
CPU = CpuSpec(about="a CPU", staging_Bps=figure(10e9), staging_duplex_Bps=figure(17e9), staging_s=figure(20e-6))


def _machine(lanes, names=None, nvlink_Bps=20e9):
    """Two CPUs, each with a switch and half of the GPUs; `lanes`: {(gpu, gpu): NVLink lanes}, by place.

    `names` are the ids of the GPUs, by place: other names are the same machine, relabelled.
    """
    count = len(names) if names else 1 + max((max(pair) for pair in lanes), default=1)
    names = list(names or range(count))
    part, nvlink = gpu(), wire("nvlink", nvlink_Bps)
    gpus = [Component(f"gpu{number}", "gpu", part, 0, 0) for number in range(count)]
    switch = SwitchSpec(about="a switch", latency_s=figure(1e-7))
    hosts = [Component(f"plx{side}", "switch", switch, 0, 1) for side in (0, 1)]
    hosts += [Component(f"cpu{side}", "cpu", CPU, 0, 2) for side in (0, 1)]
    links = [Link("cpu0", "cpu1", "smp", SMP, 1, "a test")]
    links += [Link(f"plx{side}", f"cpu{side}", "pcie", PCIE, 1, "a test") for side in (0, 1)]
    for place in range(count):
        links.append(Link(f"gpu{names[place]}", f"plx{int(place >= (count + 1) // 2)}", "pcie", PCIE, 1, "a test"))
    for (a, b), number in lanes.items():
        if number:
            links.append(Link(f"gpu{names[a]}", f"gpu{names[b]}", "nvlink", nvlink, number, "a test"))
    return System(name="a test", about="a test", library="nccl2", components=(*gpus, *hosts), links=tuple(links))


def _switched(count, lanes=6, capability=9.0):
    """GPUs that share one NVSwitch, and nothing else."""
    part = gpu(capability)
    gpus = [Component(f"gpu{number}", "gpu", part, 0, 0) for number in range(count)]
    switch = Component("nvswitch0", "switch", SwitchSpec(about="a switch", latency_s=figure(0), reduces=True), 0, 1)
    links = [Link(one.name, "nvswitch0", "nvlink", NVLINK, lanes, "a test") for one in gpus]
    return System(name="a test", about="a test", library="nvls", components=(*gpus, switch), links=tuple(links))


@pytest.fixture(scope="session")
def machine():
    """Makes a machine of two CPUs with direct NVLinks."""
    return _machine


@pytest.fixture(scope="session")
def switched():
    """Makes a machine whose GPUs share an NVSwitch."""
    return _switched

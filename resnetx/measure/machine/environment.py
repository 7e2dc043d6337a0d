"""The machine and the software of a run, as far as they can change a figure.

`environment` makes a `record.Environment` of three parts, each of which can be asked for on its own: the host
(`host_facts`), the software (`software`, which loads torch) and the GPUs (`nvidia`, by NVML). What cannot be known is
an `Unknown` with its reason.
"""

import importlib.metadata
from pathlib import Path
from typing import Any

import resnetx
from resnetx.measure.machine.host_facts import Host, cpu_name, machine
from resnetx.measure.machine.nvidia import Graphics, graphics_here
from resnetx.measure.machine.revision import revision
from resnetx.measure.machine.software import Software, dali_version, software, torchvision_version
from resnetx.record import Environment, Unknown, known


def environment(storage_path: Path | None, nvml: Any = None) -> Environment:
    """The machine and the software. `storage_path`: where the images are; `nvml` stands in for pynvml."""
    return environment_of(machine(storage_path), software(), graphics_here(nvml))


def environment_of(host: "Host", installed: "Software", graphics: Graphics) -> Environment:
    """What a record has of these; yet to be sealed."""
    return Environment(
        node=host.node,
        system=host.system,
        container=known(host.container),
        python=installed.python,
        resnetx=installed.resnetx,
        git_revision=known(installed.git_revision),
        torch=installed.torch,
        torchvision=known(installed.torchvision),
        cuda=known(installed.cuda),
        hip=known(installed.hip),
        cudnn=known(installed.cudnn),
        nccl=known(installed.nccl),
        driver=known(graphics.driver),
        dali=known(installed.dali),
        cpu=host.cpu,
        cpu_sockets=known(host.cpu_sockets),
        cpu_cores=known(host.cpu_cores),
        cpus_usable=host.cpus_usable,
        cpu_governor=known(host.cpu_governor),
        numa_nodes=known(host.numa_nodes),
        host_memory_bytes=host.host_memory_bytes,
        storage=known(host.storage),
        network=host.network,
        gpus=known(graphics.gpus),
        gpu_processes=known(graphics.gpu_processes),
        topology=known(graphics.topology),
        topology_fingerprint=known(graphics.topology_fingerprint),
        threads=installed.threads,
        variables=installed.variables,
        host=host.host,
        switch=known(host.switch),
    )


def identity(nvml: Any = None) -> dict[str, str | None]:
    """What must not change within a study, by the fields of `record.Environment`; None where something is not here.

    Loads no torch. GPUs are their names.
    """
    try:
        torch: str | None = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = None
    graphics = graphics_here(nvml)
    gpus = [] if isinstance(graphics.gpus, Unknown) else graphics.gpus
    facts = {
        "cpu": cpu_name(),
        "gpus": ", ".join(gpu.name for gpu in gpus) or None,
        "driver": graphics.driver,
        "resnetx": resnetx.__version__,
        "git_revision": revision(),
        "torch": torch,
        "torchvision": torchvision_version(),
        "dali": dali_version(),
    }
    return {name: None if isinstance(version, Unknown) else version for name, version in facts.items()}

"""The verdict on AMD GPUs that AMD SMI does not show: which step of their set-up fails.

The steps: a card on the PCI bus, the kernel's driver, permission to open its device, a PyTorch built for ROCm.
"""

import os

from resnetx import packages
from resnetx.host import kernel_file
from resnetx.measure.doctor.finding import ProbeResult, limited, missing
from resnetx.measure.machine import amd
from resnetx.record import Unknown

_DEVICE = "dev/kfd"  # the compute device of ROCm
_IN_CONTAINER = {  # how to give a container the GPUs
    "docker": "docker run --device=/dev/kfd --device=/dev/dri ...",
    "podman": "podman run --device=/dev/kfd --device=/dev/dri ...",
    "apptainer": "apptainer exec --rocm ...",
    "kubernetes": "kubectl run ... with amd.com/gpu in the pod's resource limits",
}


def amd_verdict(container: str | Unknown, cards: list[str], why: str) -> ProbeResult:
    """`cards`: PCI addresses of AMD GPUs; `why`: AMD SMI shows none."""
    hip = packages.hip_version()
    if not cards:
        return limited("torch is built for AMD GPUs, but none is on the PCI bus: ranks run on CPUs, over gloo")
    what = f"AMD GPUs at {', '.join(cards)}"
    if hip is None:
        return limited(f"{what}, but torch is not built for them: ranks run on CPUs, over gloo", packages.rocm_torch())
    driver = amd.driver_version()
    if isinstance(driver, Unknown):
        return missing(f"{what}, but {driver}", "sudo modprobe amdgpu")
    device = kernel_file(_DEVICE)
    if not device.exists():
        return missing(f"{what}, but {device} is missing", _IN_CONTAINER.get(str(container), "sudo modprobe amdgpu"))
    if not os.access(device, os.R_OK | os.W_OK):
        return missing(f"{what}, but you cannot open {device}", "sudo usermod --append --groups render,video $USER")
    what = f"{what}; {len(amd.present().uuids)} of them can compute; driver {driver}; HIP {hip}"
    return limited(f"{what}; sensors and wiring are not known: {why}", packages.KNOWN["amdsmi"].command)

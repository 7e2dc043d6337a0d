"""What the doctor says of a machine with AMD GPUs where AMD SMI shows none of them: how far the way to one is open.

From the card on the PCI bus over the kernel's driver and the right to open it, to a PyTorch that is built for ROCm.
"""

import os

from resnetx import packages
from resnetx.host import kernel_file
from resnetx.measure.doctor.finding import Verdict, limited, missing
from resnetx.measure.machine import amd
from resnetx.record import Unknown

_DEVICE = "dev/kfd"  # through which ROCm computes
_WAYS = {
    "docker": "docker run --device=/dev/kfd --device=/dev/dri ...",
    "podman": "podman run --device=/dev/kfd --device=/dev/dri ...",
    "apptainer": "apptainer exec --rocm ...",
    "kubernetes": "kubectl run ... with amd.com/gpu in the pod's resource limits",
}


def amd_verdict(container: str | Unknown, cards: list[str], why: str) -> Verdict:
    """`cards`: PCI addresses of AMD GPUs; `why`: AMD SMI shows none."""
    hip = packages.hip_version()
    if not cards:
        return limited("torch is built for AMD GPUs, and none is on the PCI bus: ranks run on CPUs, over gloo")
    what = f"AMD GPUs at {', '.join(cards)}"
    if hip is None:
        return limited(f"{what}, and torch is not built for them: ranks run on CPUs, over gloo", packages.rocm_torch())
    driver = amd.driver_version()
    if isinstance(driver, Unknown):
        return missing(f"{what}, but {driver}", "sudo modprobe amdgpu")
    device = kernel_file(_DEVICE)
    if not device.exists():
        return missing(f"{what}, but there is no {device}", _WAYS.get(str(container), "sudo modprobe amdgpu"))
    if not os.access(device, os.R_OK | os.W_OK):
        return missing(f"{what}, but you may not open {device}", "sudo usermod --append --groups render,video $USER")
    what = f"{what}; {len(amd.present().uuids)} of them can compute; driver {driver}; HIP {hip}"
    return limited(f"{what}; no sensors and no wiring: {why}", packages.KNOWN["amdsmi"].command)

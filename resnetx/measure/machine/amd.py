"""AMD GPUs: all queries of AMD SMI, the driver's library, and the kernel's own list of GPUs.

AMD SMI raises where it has no answer, or says "N/A": `AmdSmi.ask` and `AmdSmi.fact` make an `Unknown` of both. It knows
GPUs by their PCI addresses, as the kernel and HIP do; HIP's own numbers and UUIDs are different from AMD SMI's.

None of this has run on an AMD machine yet: names and units are those of amdsmi 7.0.2.

References: AMD SMI Python API (ROCm documentation); Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
"""

import contextlib
import io
from typing import Any

from resnetx.host import kernel_file, kernel_text
from resnetx.measure.machine.host_gpus import HostGpus
from resnetx.record import Unknown

_KFD = "sys/class/kfd/kfd/topology/nodes"  # of the kernel's driver for computing: CPUs and GPUs


class AmdSmi:
    """AMD SMI, for which "not supported" is an answer."""

    def __init__(self, module: Any) -> None:
        self.module = module  # the module amdsmi

    def ask(self, call: str, *arguments: Any) -> Any:
        """What a call returns, or `Unknown` with the reason; functions come and go with versions of the package."""
        function = getattr(self.module, call, None)
        if function is None:
            return Unknown(f"{call}: not in this version of amdsmi")
        try:
            return function(*arguments)
        except self.module.AmdSmiException as error:
            return Unknown(f"{call}: {' '.join(str(error).split())}")

    def fact(self, name: str, call: str, *arguments: Any) -> Any:
        """One entry of what a call returns; names parted by dots lead into entries of entries."""
        answer = self.ask(call, *arguments)
        for part in name.split("."):
            if isinstance(answer, Unknown):
                return answer
            answer = answer.get(part, "N/A")
        return Unknown(f"{call}: {name} is not reported") if answer in ("N/A", "") else answer


def open_amdsmi(module: Any = None) -> AmdSmi | Unknown:
    """AMD SMI, initialised; `module` replaces amdsmi in tests. It stays open until the process ends."""
    if module is None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints where it finds no library
                import amdsmi
        except ModuleNotFoundError:
            return Unknown("amdsmi is not installed")
        except Exception as error:  # of ROCm's library below it, anything may be missing
            return Unknown(f"amdsmi does not load ({error})")
        module = amdsmi
    smi = AmdSmi(module)
    opened = smi.ask("amdsmi_init")
    return Unknown(f"no AMD driver answers ({opened})") if isinstance(opened, Unknown) else smi


def handles(smi: AmdSmi) -> dict[str, Any] | Unknown:
    """PCI address ("0000:c1:00.0") of each GPU -> its handle, in AMD SMI's order; one that has failed has none."""
    every = smi.ask("amdsmi_get_processor_handles")
    if isinstance(every, Unknown):
        return every
    places = [(smi.ask("amdsmi_get_gpu_device_bdf", handle), handle) for handle in every]
    return {place.lower(): handle for place, handle in places if not isinstance(place, Unknown)}


def driver_version() -> str | Unknown:
    """Of the kernel's amdgpu driver."""
    if not kernel_file("sys/module/amdgpu").exists():
        return Unknown("the kernel has not loaded amdgpu, AMD's driver")
    return kernel_text("sys/module/amdgpu/version") or f"amdgpu of {kernel_text('proc/sys/kernel/osrelease')}"


def present() -> HostGpus:
    """The GPUs that the kernel offers for computing, which needs no library. Those of a control group alone, in one."""
    nodes = sorted(kernel_file(_KFD).glob("[0-9]*"), key=lambda folder: int(folder.name))
    return HostGpus(tuple(_uuid(kernel_text(node / "properties")) for node in nodes if _is_gpu(node)))


def _is_gpu(node: Any) -> bool:
    return kernel_text(node / "gpu_id") not in ("", "0")  # a CPU's is 0, and one that may not be used cannot be read


def _uuid(properties: str) -> str:
    """ "GPU-" and sixteen hexadecimal digits, as ROCR_VISIBLE_DEVICES takes it; "" of a GPU that has no number."""
    facts = dict(line.split(maxsplit=1) for line in properties.splitlines() if " " in line)
    number = int(facts.get("unique_id", "0"))
    return f"GPU-{number:016x}" if number else ""

"""`nvidia-smi nvlink -s`: which NVLinks of each GPU are up, and at which rate.

    GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-...)
             Link 0: 25.781 GB/s
             Link 1: <inactive>
    GPU 1: Tesla V100-SXM2-32GB (UUID: GPU-...)
    NVML: Unable to retrieve NVLink information as all links are inActive

It does not say where a link leads. Other switches of `nvidia-smi nvlink` (-c, -e, -R ...) have lines of the same form,
of which none is a rate. Reference: nvidia-smi(1), "nvlink".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from resnetx.errors import FileError
from resnetx.loading import File

MOST_LINKS = 64  # of a GPU

_GPU = re.compile(r"^\s*GPU (\d{1,4}):\s*\S")
_LINK = re.compile(r"^\s*Link (\d{1,3})\s*[:,]\s*(\S.{0,200})\Z")
_NONE_UP = re.compile(
    r"^\s*(?:GPU \d{1,4}: [^)]{1,300}\)\s*)?NVML: Unable to retrieve NVLink information as all links are inactive",
    re.IGNORECASE,
)
_RATE = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) GB/s")


@dataclass(frozen=True)
class NvlinkPorts:
    """The NVLinks of one GPU, by their numbers."""

    up: tuple[int, ...]
    inactive: tuple[int, ...]  # (): none, or all, where `up` is empty, too
    Bps: float | None  # of each link that is up, and each way: the lowest; None: none is up


def recognised(lines: Sequence[str]) -> bool:
    return any(_LINK.match(line) or _NONE_UP.match(line) for line in lines)


def ports(file: File, lines: Sequence[str]) -> dict[int, NvlinkPorts]:
    """The links of each GPU; refuses what other switches say of links."""
    rates: dict[int, dict[int, float | None]] = {}
    gpu = None
    for number, line in enumerate(lines, 1):
        if found := _GPU.match(line):
            gpu = int(found[1])
        if gpu is not None and _NONE_UP.match(line):
            rates.setdefault(gpu, {})
        elif link := _LINK.match(line):
            if gpu is None:
                raise file.error("a link without its GPU; expected the line with its name above, as GPU 0: ...", number)
            of_gpu = rates.setdefault(gpu, {})
            if int(link[1]) in of_gpu or len(of_gpu) >= MOST_LINKS:
                raise _of_another_switch(file, number)
            of_gpu[int(link[1])] = _rate_Bps(file, link[2], number)
    return {gpu: _ports(links) for gpu, links in rates.items()}


def _rate_Bps(file: File, said: str, number: int) -> float | None:
    """None: inactive."""
    if "inactive" in said.lower():
        return None
    rate = _RATE.fullmatch(said.strip())
    if rate is None or not float(rate[1]):
        raise _of_another_switch(file, number)
    return float(rate[1]) * 1e9


def _of_another_switch(file: File, number: int) -> FileError:
    return file.error(
        "links without their rates, as other switches of nvidia-smi nvlink print them; expected nvidia-smi nvlink -s",
        number,
    )


def _ports(links: dict[int, float | None]) -> NvlinkPorts:
    rates = [Bps for Bps in links.values() if Bps]
    up = tuple(link for link, Bps in links.items() if Bps)
    return NvlinkPorts(up, tuple(link for link in links if link not in up), min(rates, default=None))

"""A survey from files: what other programs say of a machine, each recognised by its content.

`nvidia-smi topo -m`, `topo -p2p`, `nvlink -s` and `-L`, `rocm-smi --showtopo`, the topology that NCCL or RCCL writes or
has in its debug log, and the XML of `lstopo`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from resnetx.errors import ConfigError, FileError, shortened
from resnetx.formats import (
    bounded_xml,
    hwloc_xml,
    nccl_system,
    nccl_xml,
    nvidia_smi_topo,
    other_programs,
    rocm_smi_topo,
)
from resnetx.formats.pci_tree import PciTree
from resnetx.interconnect.survey import Survey
from resnetx.interconnect.survey_matrix import of_nvidia_smi, of_rocm_smi
from resnetx.interconnect.survey_tree import of_tree
from resnetx.loading import File
from resnetx.visible import visible

MOST_OF_OTHERS = 8  # findings of the other hosts of a log

WHAT = "the text of nvidia-smi topo -m or -p2p, of rocm-smi --showtopo, NCCL's XML or debug log, or the XML of lstopo"


def read_survey(path: Path, gpus: int | None = None, nvlinks: int = 0) -> Survey:
    """What one file says. `gpus`: see `of_tree`; `nvlinks`: of each GPU, 0 where that is not known."""
    file = File(path, WHAT, nccl_system.LOG_BYTES)
    return survey_of(file, file.text(), gpus, nvlinks)


def survey_of(file: File, text: str, gpus: int | None = None, nvlinks: int = 0) -> Survey:
    """The same of a text; `file` is who is blamed."""
    try:
        survey = _recognised(file, text, gpus, nvlinks)
    except FileError:
        raise
    except ConfigError as error:
        raise file.error(str(error)) from None
    return replace(survey, source=f"{survey.source} ({file.path.name})")


def _recognised(file: File, text: str, gpus: int | None, nvlinks: int) -> Survey:
    if bounded_xml.looks_like_xml(text):
        if len(text) > bounded_xml.XML_BYTES:
            raise file.error(f"XML of {len(text):,} letters; expected at most {bounded_xml.XML_BYTES:,}")
        top = bounded_xml.parse(file, text)
        if top.tag in ("system", "graphs"):
            return of_tree(nccl_xml.parse(file, top), gpus)
        if top.tag == "topology":
            return of_tree(hwloc_xml.parse(file, top), gpus)
        if top.tag == "nvidia_smi_log":
            raise file.error("nvidia-smi -q -x: GPUs without their wiring; expected nvidia-smi topo -m", top.line)
        raise file.error(f"<{top.tag[:40]}>: not a topology; expected {WHAT}", top.line)
    if nccl_system.has_tree(text):
        log = nccl_system.parse(file, text)
        survey = of_tree(log.tree, gpus)
        return replace(survey, findings=(*survey.findings, *log.findings, *_of_other_hosts(log)))
    if len(text) > bounded_xml.XML_BYTES and not nccl_system.recognised(text):
        raise file.error(f"{len(text):,} letters; expected {WHAT}, of at most {bounded_xml.XML_BYTES:,}")
    if rocm_smi_topo.recognised(text):
        return of_rocm_smi(rocm_smi_topo.parse(file, text))
    if nccl_system.recognised(text):
        raise nccl_system.no_tree(file, text)
    if nvidia_smi_topo.recognised(text):
        return of_nvidia_smi(nvidia_smi_topo.parse(file, text), nvlinks)
    other = other_programs.refused(text)
    raise file.error(f"{other}; expected {WHAT}" if other else f"expected {WHAT}")


def _of_other_hosts(log: nccl_system.NcclLog) -> Iterator[str]:
    """What deserves a look in the trees of the other hosts, and in what they are not like the first."""
    first = _summary(log.tree)
    said = [
        f"{shortened(visible(host))}: {each}"
        for host, tree in log.others.items()
        for each in (
            *of_tree(tree).findings,
            *(
                f"{own}; the first host: {other}"
                for own, other in zip(_summary(tree), first, strict=True)
                if own != other
            ),
        )
    ]
    yield from said[:MOST_OF_OTHERS]
    if len(said) > MOST_OF_OTHERS:
        yield f"{len(said) - MOST_OF_OTHERS} more findings of other hosts"


def _summary(tree: PciTree) -> tuple[str, str]:
    """The GPUs and network cards of a tree, in short."""
    gpus = Counter(
        (gpu.generation, gpu.lanes, sum(end.count for end in gpu.nvlinks or ())) for gpu in tree.of_kind("gpu")
    )
    kinds = sorted((count, *(figure or 0 for figure in kind)) for kind, count in gpus.items())
    of_gpus = ", ".join(f"{n} of PCIe {pcie}.0 x{lanes} and {links} NVLinks" for n, pcie, lanes, links in kinds)
    cards = tree.of_kind("nic")
    speed = sum(card.speed_Bps or 0.0 for card in cards) / 1e9
    return f"GPUs: {of_gpus}", f"network cards: {len(cards)} of together {speed:.4g} GB/s"

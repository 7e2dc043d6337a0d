"""The targets that read YAML: studies, choices of groups, systems, points typed in."""

import json
from functools import cache
from pathlib import Path

import yaml

from resnetx import study
from resnetx.api.known_rates import typed_scaling
from resnetx.cli.verbs import show_topology
from resnetx.compose import _choice, _own_choice, compose
from resnetx.config import check, request_from
from resnetx.interconnect.collectives import measured, sizes
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.survey.system_text import system_text
from resnetx.interconnect.systems import system
from resnetx.launching import read_site
from resnetx.settings.files import CONFIGS, names, searching
from tests.fuzz.harness import Target, of_two, seldom

STUDY = b"""about: What four GPUs of one quad do.
settings: {repeats: 8, precision: bf16, timeout: 90s}
include: [quickstart]
grids:
  - {model: resnetx, model.x: [4, 16], batch_size: 64, devices: [[0, 1, 2, 3], [0, 1, 4, 5]]}
  - &a {model: alexnet, batch_size: [256], gpus: [1, 2], env.NCCL_ALGO: [Ring, Tree], strategy: after}
  - {<<: *a, input: synthetic, strategy: bucket, strategy.bucket_cap_mb: 1.5}
"""
CHOICE = b"kind: resnetx\nx: 1  # blocks\nwidth: 64\nclasses: 1000\n"
SYSTEM = b"""about: two quads
wiring: a test
library: nccl2
components: # drawn
  gpu0..3: {gpu: p100-sxm2-16gb, at: [0, 0], step: [1, 0]}
  plx0..1: {switch: plx-8764, at: [0, 1]}
  nic0: {nic: mine}
  cpu0: {cpu: xeon-e5-2698v4, at: [0.5, 1]}
links:
  - {between: [gpu0..3, gpu0..3], link: nvlink9, lanes: 2}
  - {each: [gpu0..3, plx0..1], link: pcie3, lanes: 16}
  - {between: [plx0..1, cpu0], link: pcie3, lanes: 16, copy_GBps: [0.5, measured, me], source: me}
  - {between: [nic0, cpu0], link: pcie3, lanes: 8, peer: false}
cluster: {nodes: 1, network: edr100, nics: 1}
parts:
  nics:
    mine: {about: x, bandwidth_GBps: [12.5, assumed, me]}
  links:
    nvlink9:
      about: x
      family: nvlink
      bandwidth_GBps: [100, assumed, me]
      copy_GBps: [90, assumed, me]
      latency_us: [1, assumed, me]
"""
STEERED = b"""about: three GPUs whose links a photonic switch joins
wiring: a test
components:
  gpu0..2: {gpu: v100-sxm2-16gb, at: [0, 0], step: [1, 0]}
  cpu0: {cpu: xeon-e5-2698v4, at: [1, 1]}
  ocs0: {photonic: sip-mems-64, at: [1, -1]}
links:
  - {between: [gpu0..2, cpu0], link: pcie3, lanes: 16}
  - {between: [gpu0, gpu1], link: nvlink2}
  - {one_way: [gpu1, gpu0], link: nvlink2, lanes: 2}
  - {one_way: [gpu2, gpu0..1], link: nvlink2, lanes: 3, through: ocs0}
"""
SITE = b"""name: alps
partition: gpu
gpus_per_node: 4
walltime: 2h
modules: [cuda/12.6]
environment: {NCCL_IB_HCA: mlx5, NCCL_IB_GID_INDEX: 3}
container: {kind: apptainer, image: x.sif, mounts: [/scratch]}
"""
POINTS = b"""source: typed
gpus: 4
points:
  - {size: 8, time_us: 9}
  - {size: 4096, time_us: 12.5}
  - {size: 1MiB, time_us: 80}
  - {size: 4MiB, time_us: 151}
"""


def _and_as_json(*texts: bytes) -> list[bytes]:
    """Texts, and the same as JSON, which is YAML too: what changes trees can change that."""
    return [*texts, *(json.dumps(yaml.safe_load(text)).encode() for text in texts)]


def _use_study(path: Path) -> None:
    found = study.load(str(path))
    of_two(lambda: [check(request_from(compose(point))) for point in study.points(found, {"convention": "torch"})[:4]])


def _use_choice(path: Path) -> None:
    _choice.cache_clear()  # the file's name stays, what it says does not
    with searching([path.parent.parent]):
        names()
        _own_choice("model", path.stem)
        request_from(compose({"model": path.stem, "image_size": 224}))


def _systems() -> list[bytes]:
    ours = ("dgx1-p100", "dgx2", "cpu-host", "v100-ib")
    return _and_as_json(SYSTEM, STEERED, *((CONFIGS / "system" / f"{name}.yaml").read_bytes() for name in ours))


def _use_system(path: Path) -> None:
    found = system.load(str(path))
    if seldom(path):
        _write_again(path)
    if len(found.gpus) > 8:  # what follows is searched for
        return
    if seldom(path):
        show_topology.parts(found)
        of_two(lambda: show_topology.matrix(found))
        of_two(lambda: show_topology.copies(found, "auto"))
    for library in ("nccl2", "nvls", "gloo"):
        of_two(lambda library=library: collective.plan(found, library=library).explain(2**20))


def _write_again(path: Path) -> None:
    """A system as text reads back, and is then written as the same text."""
    text = system_text(system.described(str(path)))
    again = path.with_name("again.yaml")
    again.write_text(text, encoding="utf-8")
    assert system_text(system.described(str(again))) == text


@cache
def plan() -> collective.CollectivePlan:
    return collective.plan(system.load("dgx1-p100"), devices=range(4))


def use_calibration(path: Path) -> None:
    """Reads measured collectives, and fits them."""
    if typed_scaling(str(path)) is None:
        fitted(measured.read(str(path), "allreduce" if path.suffix == ".json" else None))


def fitted(found: measured.MeasuredCollective) -> None:
    """What is made of measured collectives."""
    of_two(lambda: sizes.bands(found))
    of_two(lambda: collective.calibrate(plan(), found).explain(2**20))


TARGETS = (
    Target("site", "site.yaml", lambda: _and_as_json(SITE), read_site),
    Target("study", "mine.yaml", lambda: _and_as_json(STUDY), _use_study),
    Target("choice", "model/mine.yaml", lambda: _and_as_json(CHOICE), _use_choice, named=False),
    Target("system", "mine.yaml", _systems, _use_system),
    Target("calibration", "points.yaml", lambda: _and_as_json(POINTS), use_calibration),
)

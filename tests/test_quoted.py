"""Figures that pages and the README quote in a sentence are those of their source."""

import csv
import re
from collections import defaultdict

import pytest

from resnetx.choices import Torchvision
from resnetx.interconnect.systems.system import parts_table
from resnetx.literature import explanations
from resnetx.prediction import roofline
from resnetx.prediction.messages import BETWEEN_NODES, CONTENTION
from resnetx.prediction.scaling import scaling_errors
from resnetx.prediction.stated_rates import BETWEEN, OUTSIDE, RATE_ERROR
from resnetx.workloads import tables
from tests.documentation import ROOT


def one_node():
    """Rates of one node where no loader decodes: how many, and their mean error."""
    kinds = [scaling_errors().of(("allreduce", "one node", feed)) for feed in ("none", "dali-half")]
    points = sum(kind.points for kind in kinds)
    return points, sum(kind.points * kind.mean for kind in kinds) / points


def variation():
    return f"{scaling_errors().costs.variation:.0%}"[:-1]


def supposed(what):
    """The DGX-1 over the GX8 at batch 512: as described, or with the rate of four GPUs."""
    return f"{getattr(explanations.kept().supposed[-1], what)[0]:.2f}"


def backward_s(gpu, clock_Hz=None):
    """Of 32 images of ResNet-50, by the roofline."""
    part, layers = parts_table("gpus")[gpu], tables.kept(Torchvision(name="resnet50", classes=1000), 224)
    times = roofline.modelled_step(roofline.fitted(part), layers, 224, 32, part, "fp32", clock_Hz).layers
    return sum(layer.backward_s for layer in times)


def half_over(precision, gpu):
    """How many times as fast ResNet-50 trains in fp16: of each publisher that has both, on one GPU of a kind."""
    rates = defaultdict(dict)
    for row in csv.DictReader((ROOT / "results/published/figures.csv").open()):
        if (row["kind"], row["workload"]) == ("training, one GPU", "resnet50") and row["system"].startswith(gpu):
            known = rates[row["system"], row["source"]]
            known[row["precision"]] = max(float(row["value"]), known.get(row["precision"], 0.0))
    return [known["fp16"] / known[precision] for known in rates.values() if {"fp16", precision} <= {*known}]


def ends(ratios):
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


def systems():
    return [path for path in (ROOT / "configs" / "system").glob("*.yaml") if path.stem != "cpu-host"]


QUOTED = [
    ("README.md", r"(\d+) published rates of 2 to 16 GPUs of one node", lambda: f"{one_node()[0]}"),
    ("README.md", r"of one node are\s+predicted to (\S+?) ?%", lambda: f"{one_node()[1]:.1%}"[:-1]),
    ("README.md", r"trained ResNet-50 (\S+ to \S+) times", lambda: ends(half_over("fp32", "v100"))),
    ("README.md", r"on one A100 \((\d+) and", lambda: f"{len(half_over('fp32', 'v100'))}"),
    ("README.md", r"on one A100 \(\d+ and (\d+) published", lambda: f"{len(half_over('tf32', 'a100'))}"),
    ("README.md", r"on one V100, and (\S+ to \S+) times as fast as TF32", lambda: ends(half_over("tf32", "a100"))),
    ("resnetx/measure/examination.py", r"ResNet-50 were (\S+ to \S+) times", lambda: ends(half_over("fp32", "v100"))),
    ("docs/method/prediction.md", r"else the (\d+) % that fits published rates best", variation),
    ("docs/method/prediction.md", r"takes (\S+) % longer still", lambda: f"{scaling_errors().costs.between:.1%}"[:-1]),
    ("docs/method/prediction.md", r"up to (\d+) % longer", lambda: f"{scaling_errors().costs.host_load:.0%}"[:-1]),
    ("docs/method/paper.md", r"(\S+) of the GX8 at batch 512", lambda: supposed("described")),
    ("docs/method/paper.md", r"over NVLink it is at (\S+),", lambda: supposed("supposed")),
    ("docs/method/prediction.md", r"multiprocessors: (\d+) %", lambda: f"{CONTENTION['nccl2']:.0%}"[:-1]),
    ("docs/method/prediction.md", r"in-switch reduction (\d+) %", lambda: f"{CONTENTION['nvls']:.0%}"[:-1]),
    ("docs/predict.md", r"within: (\d+) % of a stated rate", lambda: f"{RATE_ERROR:.0%}"[:-1]),
    ("docs/method/prediction.md", r"up to two on it\). It has an error of (\S+) %", lambda: f"{BETWEEN:.0%}"[:-1]),
    ("docs/method/prediction.md", r"GPU's part has an error of (\S+) %", lambda: f"{OUTSIDE:.0%}"[:-1]),
    ("docs/method/prediction.md", r"between nodes at least (\d+) %", lambda: f"{BETWEEN_NODES:.0%}"[:-1]),
    ("docs/method/validation.md", r"at 1370 MHz; (\S+) and", lambda: f"{backward_s('k80-562mhz'):.3f}"),
    ("docs/method/validation.md", r"and (\S+) s are predicted", lambda: f"{backward_s('v100-sxm2-16gb', 1370e6):.3f}"),
    ("docs/interconnect.md", r"(\d+) machines are described", lambda: f"{len(systems())}"),
]  # fmt: skip


@pytest.mark.parametrize(("page", "pattern", "source"), QUOTED, ids=[f"{page}: {text}" for page, text, _ in QUOTED])
def test_a_quoted_figure_is_that_of_its_source(page, pattern, source):
    (quoted,) = re.findall(pattern, (ROOT / page).read_text())
    assert quoted == source()

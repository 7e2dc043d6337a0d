"""A kind of model is one entry: one that only this test has is built, fed, trained, counted, checked and labelled."""

import ast
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from resnetx import choices, config, inputs, workloads
from resnetx.api import doctor
from resnetx.errors import ConfigError
from resnetx.inputs import empty_batch
from resnetx.measure.rank import equality, training
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.strategies import replicate
from resnetx.request import Request
from resnetx.workloads.kinds import AUXILIARY_WEIGHT, KINDS, Kind

PACKAGE = Path(workloads.__file__).parents[1]
CPU = torch.device("cpu")
ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=CPU)


class Pair(choices.ModelChoice, frozen=True, tag="pair"):
    """Two classifiers on one convolution: an output of which only this kind knows the loss."""

    channels: int
    classes: int
    image_size: ClassVar[int] = 32
    smallest_image_size: ClassVar[int] = 4
    label: ClassVar[str] = "Pair"


class PairOfClassifiers(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.left = nn.Linear(4 * channels, classes)
        self.right = nn.Linear(4 * channels, classes)

    def forward(self, images_N3HW: Tensor) -> dict[str, Tensor]:
        features_NF = self.stem(images_N3HW)
        return {"left": self.left(features_NF), "right": self.right(features_NF)}


class PairKind(Kind[Pair]):
    def build(self, model: Pair, image_size: int) -> nn.Module:
        if image_size % 2:
            raise ConfigError(f"image_size={image_size}: {model.label} expected an even number")
        return PairOfClassifiers(model.channels, model.classes)

    def loss(self, model: Pair, outputs: Any, labels_N: Tensor) -> Tensor:
        return sum(functional.cross_entropy(each, labels_N) for each in outputs.values())


@pytest.fixture
def request_of_pair(request_of, monkeypatch):
    monkeypatch.setitem(KINDS, Pair, PairKind())

    def make(**settings: Any) -> Request:
        own = Pair(channels=8, classes=2)
        return msgspec.structs.replace(request_of(image_size=32, batch_size=8, **settings), model=own)

    return make


def test_a_new_kind_is_counted(request_of_pair):
    request = request_of_pair()
    table = workloads.table(request.model, 32)
    assert [layer.kind for layer in table] == ["conv", "relu", "adaptiveavgpool", "linear", "linear"]
    work = workloads.workload(request.model, 32, 8, "torch")
    assert (work.workload, work.model) == ("Pair", {"kind": "pair", "channels": 8, "classes": 2})
    assert work.parameters == 8 * (27 + 1) + 2 * 2 * (32 + 1)
    assert (work.stated, work.notes) == ({}, [])


@pytest.mark.slow
def test_a_new_kind_trains_with_its_own_loss(request_of_pair):
    request = request_of_pair()
    torch.manual_seed(0)
    replica = replicate(training.build(request, ALONE), request, ALONE)
    batches = inputs.open_for(request, 0, CPU)
    with torch.no_grad():
        outputs, (_, labels) = replica(next(batches)[0]), next(batches)
        expected = sum(functional.cross_entropy(outputs[name], labels) for name in ("left", "right"))
    step, progress = training.training_step(replica, batches, request, ALONE)
    for _ in range(30):
        step()
        progress.note()
    assert progress.losses[0] == pytest.approx(expected.item())
    assert progress.losses[-1] < progress.losses[0]


def test_a_new_kind_is_verified(request_of_pair):
    request = request_of_pair()
    model = training.build(request, ALONE).double()
    found = equality.compare(model, next(inputs.open_for(request, 0, CPU)), request, ALONE, 2, "none")
    assert max(found.loss, *found.layers.values()) <= equality.TOLERANCE


def test_a_new_kind_is_checked_before_any_run(request_of_pair, monkeypatch):
    fits = request_of_pair()
    config.check(fits)
    assert doctor.obstacle_to(fits) == ""
    odd = msgspec.structs.replace(fits, image_size=33)
    assert doctor.obstacle_to(odd) == "image_size=33: Pair expected an even number"
    small = msgspec.structs.replace(fits, image_size=2)
    assert doctor.obstacle_to(small) == "image_size=2: expected at least 4 for Pair"
    monkeypatch.setattr("resnetx.packages.installed", lambda module: module != "wandb")
    monkeypatch.setattr(PairKind, "packages", ("torch", "wandb"))
    assert doctor.obstacle_to(fits).startswith("wandb is not installed")


def test_a_new_kind_has_names_of_folders_and_keys(request_of_pair):
    request = request_of_pair()
    assert request.slug == f"pair_b8_g1_{request.key}"
    other = msgspec.structs.replace(request, model=Pair(channels=9, classes=2))
    assert other.key != request.key


def test_a_batch_that_another_rank_fills_is_like_one_of_the_input(request_of_pair):
    request = request_of_pair(channels_last=True)
    made, empty = next(inputs.open_for(request, 0, CPU)), empty_batch(request, CPU)
    for one, other in zip(made, empty, strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


# ---- the kinds that there are ----------------------------------------------------------------------------------------


def test_every_model_of_a_request_has_its_kind():
    assert set(KINDS) == set(get_args(choices.Model))


LOGITS, LABELS = torch.tensor([[2.0, 1.0]]), torch.tensor([0])


@pytest.mark.parametrize(
    "model", [choices.GoogLeNetSettings(classes=2), choices.Torchvision(name="inception_v3", classes=2)]
)
def test_auxiliary_outputs_count_with_their_weight_and_absent_ones_do_not(model):
    loss = functional.cross_entropy(LOGITS, LABELS)
    assert workloads.loss(model, LOGITS, LABELS) == loss
    both = workloads.loss(model, (LOGITS, LOGITS, LOGITS), LABELS)
    assert torch.isclose(both, (1 + 2 * AUXILIARY_WEIGHT) * loss)
    assert torch.isclose(workloads.loss(model, (LOGITS, None), LABELS), loss)


def test_the_weight_is_that_of_the_paper():
    assert AUXILIARY_WEIGHT == 0.3  # Szegedy et al. 2015, section 5


# Files that may name one kind of model: its settings, its entry, its table, and rates that were published for it.
OWN = (
    *("choices.py", "workloads/kinds.py", "workloads/user_", "workloads/tables/", "literature/training_rates.py"),
    "literature/steered_page.py",  # a list of workloads that somebody measured
)


@pytest.mark.slow
def test_no_other_file_tells_one_kind_of_model_from_another():
    kinds = {kind.__name__ for kind in KINDS}
    naming = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if kinds & choices_used_in(file)}
    assert "workloads/kinds.py" in naming
    assert "literature/training_rates.py" in naming
    assert {name for name in naming if not name.startswith(OWN)} == set()


def choices_used_in(file: Path) -> set[str]:
    """Names of `resnetx.choices` that a file imports, or takes from the module."""
    used, program = set(), file.read_text()
    for node in ast.walk(ast.parse(program)) if "choices" in program else ():
        if isinstance(node, ast.ImportFrom) and node.module == "resnetx.choices":
            used |= {alias.name for alias in node.names}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "choices":
            used.add(node.attr)
    return used

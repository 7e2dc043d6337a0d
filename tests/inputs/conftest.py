"""One small tree of real JPEG files, shared by the tests that only read it; those that spoil it take a copy."""

import shutil
from pathlib import Path

import pytest

from resnetx.inputs import image_tree


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 classes of 4 images, 256x256."""
    root = tmp_path_factory.mktemp("made") / "images"
    image_tree.make(root, classes=3, per_class=4, size="256", seed=0, workers=1)
    return root


@pytest.fixture
def tree(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "tree"))


@pytest.fixture
def victim(tree: Path) -> Path:
    """One file of `tree`, for a test to spoil."""
    return tree / "n00000001" / "n00000001_00002.JPEG"

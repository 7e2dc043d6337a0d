import os
from pathlib import Path

import pytest

from resnetx.errors import ConfigError
from resnetx.inputs import folders, image_tree
from resnetx.record import Unknown


def test_labels_follow_the_sorted_names_of_the_class_folders(tmp_path: Path) -> None:
    for name in ("b/2.JPEG", "b/1.jpg", "a/x.jpeg", "c/y.JPG"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    tree = folders.read(tmp_path)
    assert tree.classes == ["a", "b", "c"]
    assert list(zip(tree.files, tree.labels, strict=True)) == [
        ("a/x.jpeg", 0),
        ("b/1.jpg", 1),
        ("b/2.JPEG", 1),
        ("c/y.JPG", 2),
    ]


def test_hidden_files_other_files_and_hidden_folders_are_no_images(tmp_path: Path) -> None:
    for name in ("a/x.jpg", "a/.x.jpg.part", "a/.y.jpg", "a/notes.txt", ".cache/z.jpg", "readme.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert folders.read(tmp_path).files == ["a/x.jpg"]


def test_a_linked_class_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.jpg").write_bytes(b"x")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").symlink_to(tmp_path / "elsewhere")
    assert folders.read(root).files == ["a/x.jpg"]


def test_what_is_wrong_with_a_root_is_a_sentence_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"input\.root=.*missing: no such folder; make images with `resnetx images`"):
        folders.read(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"input\.root=.*file: not a folder"):
        folders.read(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"input\.root=.*empty: contains no class folder"):
        folders.read(tmp_path / "empty")


def test_an_empty_class_folder_is_named(tree: Path) -> None:
    (tree / "n00000009").mkdir()
    with pytest.raises(ConfigError, match=r"n00000009: the class folder contains no JPEG file"):
        folders.read(tree)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list any folder")
def test_an_unreadable_folder_is_named(tree: Path) -> None:
    (tree / "n00000001").chmod(0)
    with pytest.raises(ConfigError, match=r"n00000001: cannot be listed \(Permission denied\)"):
        folders.read(tree)


def test_the_state_tells_images_classes_and_bytes(made: Path) -> None:
    tree = folders.read(made)
    state = folders.state(tree, 0.5, "cpu")
    size_bytes = sum(path.stat().st_size for path in made.rglob("*.JPEG"))
    assert (state["images"], state["classes"], state["size_bytes"]) == (12, 3, size_bytes)
    assert state["encoded"] is True


def test_the_bytes_are_unknown_when_a_file_or_folder_has_gone(tree: Path, victim: Path) -> None:
    listing = folders.read(tree)
    victim.unlink()
    size_bytes = folders.state(listing, 0.5, "cpu")["size_bytes"]
    assert isinstance(size_bytes, Unknown)
    assert "appeared or disappeared" in size_bytes
    victim.parent.rename(tree.parent / "elsewhere")
    size_bytes = folders.state(listing, 0.5, "cpu")["size_bytes"]
    assert isinstance(size_bytes, Unknown)
    assert f"{victim.parent}: cannot be listed (No such file or directory)" in size_bytes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a link to itself"])
def test_what_is_no_file_is_named_before_anything_waits_for_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "tree" / "n0" / "a.jpg"
    path.parent.mkdir(parents=True)
    {"a pipe": os.mkfifo, "a folder": Path.mkdir, "a link to itself": lambda own: own.symlink_to(own)}[kind](path)
    with pytest.raises(ConfigError, match=r"n0/a\.jpg: not a file"):
        folders.read(tmp_path / "tree")
    (fault,) = image_tree.verify(tmp_path / "tree", workers=1)
    assert str(path) in fault

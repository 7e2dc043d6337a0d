"""Which state of the code measures, by real git checkouts."""

import subprocess
from pathlib import Path

import pytest

from resnetx.measure.machine import has_changes, revision, same_code
from resnetx.record import Unknown


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one commit."""
    git(tmp_path, "init")
    change(tmp_path, "resnetx/code.py", "one")
    commit(tmp_path)
    return tmp_path


def change(folder, name, text):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "-m", "a test's")
    return git(folder, "rev-parse", "HEAD")


def test_the_revision_is_the_commit_and_changes_of_code_are_told_apart(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    change(checkout, "README.md", "what is no code changes no measurement")
    assert revision(checkout) == head
    found = set()
    for name, text in (("resnetx/code.py", "two"), ("resnetx/code.py", "three"), ("configs/new.yaml", "x: 1")):
        change(checkout, name, text)
        found.add(revision(checkout))
    assert len(found) == 3
    assert all(each.startswith(f"{head}+changes-") and has_changes(each) for each in found)
    assert not has_changes(head)


def test_without_a_checkout_or_a_commit_there_is_a_reason(tmp_path):
    assert "not run from a git checkout" in revision(tmp_path)
    git(tmp_path, "init")
    assert "no commit" in revision(tmp_path)
    (tmp_path / "site-packages").mkdir()
    assert isinstance(revision(tmp_path / "site-packages"), Unknown)


def test_commits_that_change_no_code_have_the_same(checkout):
    first = git(checkout, "rev-parse", "HEAD")
    change(checkout, "results/run.json", "{}")
    second = commit(checkout)
    change(checkout, "resnetx/code.py", "two")
    third = commit(checkout)
    assert same_code(first, second, checkout)
    assert not same_code(second, third, checkout)
    assert not same_code(third, "0" * 40, checkout)
    assert not same_code(third, f"{third}+changes-12345678", checkout)

from concurrent.futures import ThreadPoolExecutor

import pytest

from resnetx.api.measuring import new_folder, run_folder
from resnetx.errors import ConfigError


def test_commands_that_begin_at_once_have_a_folder_each(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: run_folder(tmp_path, "train", "same", "node"), range(400)))
    assert len({folder.path for folder in folders}) == 400
    assert all(folder.path.is_dir() for folder in folders)
    assert all(folder.path.name.endswith("_same") for folder in folders)


def test_a_folder_is_named_after_the_time_and_what_is_in_it(tmp_path):
    assert len(new_folder(tmp_path / "a" / "b").name) == len("20260131T235959123")
    assert new_folder(tmp_path, "slug").name[18:] == "_slug"


def test_one_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write .*file/below \(Not a directory\)"):
        new_folder(tmp_path / "file" / "below")

"""Reading files of any origin: within bounds, or rejected in one sentence that names the file.

Everything that resnetx reads comes in here. A file is a regular one within its limit of bytes (`File`); JSON becomes a
typed struct (`read_json`), YAML plain values with their lines (`YamlFile`). Nothing in a file is executed,
interpolated or followed elsewhere, nesting is limited, and every problem is an `errors.FileError`, which
names the file and, if known, the line.

    record = read_json(File(path, "a record of resnetx", 2**26), RunRecord)
    tree = YamlFile(File(path, "a study", YAML_BYTES)).tree

Also here: which words from files may name a file or a folder (`name_fault`).
"""

from resnetx.loading.content import (
    File,
    UnboundedError,
    decode,
    is_file,
    is_folder,
    name_fault,
    read_json,
    refuse_unbounded,
)
from resnetx.loading.yaml_file import YAML_BYTES, YamlFile, is_bare_text, own_yaml

__all__ = [
    "YAML_BYTES",
    "File",
    "UnboundedError",
    "YamlFile",
    "decode",
    "is_bare_text",
    "is_file",
    "is_folder",
    "name_fault",
    "own_yaml",
    "read_json",
    "refuse_unbounded",
]

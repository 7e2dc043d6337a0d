"""The revision of resnetx that measures: the commit of its checkout, if it runs from one.

Records name the state, and a study is measured in one. What counts are the files that decide what a run does, `CODE`: a
commit of results or of documentation changes no measurement.
"""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import resnetx
from resnetx.record import Unknown

CODE = ("resnetx", "configs")  # folders of a checkout
CHECKOUT = Path(resnetx.__file__).parent.parent
_CHANGES = "+changes"
_PLAIN = ("--no-ext-diff", "--no-textconv")  # whatever the user has configured


class _GitError(Exception):
    """git failed; has the reason."""


def revision(checkout: Path = CHECKOUT) -> str | Unknown:
    """The commit; where files of CODE differ from it "COMMIT+changes-DIGEST", with a digest of the difference."""
    if not (checkout / ".git").exists():  # a folder above may be a checkout, but not of resnetx
        return Unknown("the package does not run from a git checkout")
    try:
        commit = _git(checkout, "rev-parse", "--verify", "--quiet", "HEAD").decode().strip()
        difference = _git(checkout, "diff", *_PLAIN, "--binary", "HEAD", "--", *CODE)
        for name in _git(checkout, "ls-files", "--others", "--exclude-standard", "-z", "--", *CODE).split(b"\0")[:-1]:
            difference += name + (checkout / os.fsdecode(name)).read_bytes()
    except (_GitError, OSError) as error:
        return Unknown(str(error))
    return commit + (f"{_CHANGES}-{hashlib.sha256(difference).hexdigest()[:8]}" if difference else "")


def has_changes(git_revision: str | Unknown) -> bool:
    """Whether a revision has uncommitted changes, so that its code cannot be obtained elsewhere."""
    return isinstance(git_revision, str) and _CHANGES in git_revision


@cache  # a study may keep thousands of runs
def same_code(before: str, now: str, checkout: Path = CHECKOUT) -> bool:
    """Whether two revisions have the same files of CODE; False where that cannot be told."""
    if before == now:
        return True
    if has_changes(before) or has_changes(now):
        return False
    try:
        return not _git(checkout, "diff", *_PLAIN, "--name-only", before, now, "--", *CODE)
    except _GitError:  # a commit that this checkout does not have
        return False


def _git(checkout: Path, *arguments: str) -> bytes:
    command = ["git", "--no-optional-locks", "-C", str(checkout), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _GitError(f"git failed: {error}") from None
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise _GitError(said or "the checkout has no commit yet")
    return ended.stdout

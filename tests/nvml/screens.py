"""What `resnetx doctor` shows of GPUs on each machine, on a terminal of 80 columns, as kept in `doctor/`.

python -m tests.nvml.screens        writes all of it anew
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.nvml.machines import MACHINES, built, playing

KEPT = Path(__file__).with_name("doctor")
COLUMNS = 80
MACHINES_SHOWN = (
    "h200", "8 x h200", "8 x h200 without its fabric manager", "dgx1-p100", "dgx1-v100", "pcie box", "mig", "shared",
    "no permission", "no driver", "another driver",
)  # fmt: skip


def kept(machine: str) -> Path:
    """The file of a machine."""
    return KEPT / f"{machine.replace(' ', '-')}.txt"


def screen(machine: str, library: Path, folder: Path, python: str = sys.executable) -> str:
    """All that the doctor shows."""
    environment = playing(MACHINES[machine], library, folder) | {"COLUMNS": str(COLUMNS), "TERM": "dumb"}
    leader, follower = pty.openpty()
    command = [python, "-m", "resnetx", "doctor", "--all"]
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=follower, stderr=subprocess.DEVNULL):
        os.close(follower)
        shown = _read(leader)
    os.close(leader)
    return shown.replace("\r\n", "\n")


def _read(terminal: int) -> str:
    """What is written to a terminal until its last writer has ended, which Linux tells by an error."""
    parts = []
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


def about_gpus(machine: str, shown: str) -> str:
    """The findings about GPUs, and the commands that would change them, as far as nothing else lays them out.

    All other lines are about this host, or the libraries that are installed; so are clocks where NVML does not answer.
    """
    topics = ("GPU",) if "nvmlInitWithFlags" in MACHINES[machine].errors else ("GPU", "clocks")
    _answer, table, *rest = shown.split("\n\n")
    commands = "".join(rest[:1])
    found, wanted = [], False
    for line in table.splitlines():
        state, _, rest = line.partition(" ")
        wanted = rest.lstrip().split("  ")[0] in topics if state else wanted  # else it goes on with the line before
        found += [line] if wanted else []
    given = [line for line in commands.splitlines() if line.split("  ")[0] in topics]
    return "\n".join([*found, "", *(re.sub(" {2,}", "  ", line, count=1) for line in given), ""])


def main() -> None:
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder))
        assert library is not None, "this machine has no C compiler"
        for machine in MACHINES_SHOWN:
            kept(machine).write_text(about_gpus(machine, screen(machine, library, Path(folder))))


if __name__ == "__main__":
    main()

"""Kills runs at random moments, and counts what that cost: records lost, processes left, culprits named wrongly.

    python -m tests.bench.kill_runs [KILLS] [SEED]

Each run is a real one on two gloo ranks. Its launcher, torchrun or one of its ranks gets SIGINT, SIGTERM or SIGKILL: at
any moment from the first import on, or in the window between the finished measurement and the launcher's end.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from resnetx import record
from resnetx.measure.launch import FOLDER_VARIABLE, PREFIX
from resnetx.record import RunRecord
from tests.bench.started import arguments

RUN = [
    *(sys.executable, "-m", "resnetx", "train"),
    *("input=synthetic", "model.x=1", "model.width=16", "model.classes=10", "image_size=32", "batch_size=8"),
    *("threads=1", "warmup=3", "steps=1", "windows=1", "gpus=2"),
]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
VICTIMS = ("launcher", "torchrun", 0, 1)
PATIENCE_S = 120


@dataclass(frozen=True)
class Kill:
    """One killed run."""

    victim: str | int  # "launcher", "torchrun" or a rank
    signal: str
    when: str
    measured: bool  # before the signal, or soon enough after it
    outcome: str
    reason: str
    lost: bool
    left: int  # processes, after 10 seconds
    scratch: int  # folders, when the run had ended
    wrong: bool
    traceback: bool


def members(results: Path) -> dict[str | int, int]:
    """The processes of the run below a results folder: torchrun and ranks -> process id."""
    found: dict[str | int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = dict(each.partition("=")[::2] for each in (entry / "environ").read_text().split("\0"))
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, UnicodeDecodeError):
            continue
        if state != "Z" and variables.get(FOLDER_VARIABLE, "").startswith(f"{results}/"):
            found[int(variables["RANK"]) if "RANK" in variables else "torchrun"] = int(entry.name)
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def found_record(results: Path) -> RunRecord | None:
    for path in results.rglob("record.json"):
        try:
            return record.read(path, RunRecord)
        except record.RecordError:
            continue
    return None


def outcome(results: Path) -> str:
    return ended.outcome if (ended := found_record(results)) else ""


def kill_one(results: Path, chance: random.Random, typical_s: float) -> Kill:
    """Starts a run, kills a part of it, and judges what is left."""
    victim, number = chance.choice(VICTIMS), chance.choice(SIGNALS)
    late = chance.random() < 0.5
    delay_s = chance.uniform(0, typical_s)
    if late:  # ranks exit within some milliseconds, torchrun and the launcher after some tenths of a second
        delay_s = chance.uniform(0, 0.03 if victim in (0, 1) else 0.4)
    temporary = results / "tmp"
    temporary.mkdir(parents=True)
    start = time.monotonic()
    child = subprocess.Popen(
        [*RUN, f"results={results}"],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    known: dict[str | int, int] = {}
    while late and outcome(results) != "ok" and child.poll() is None:
        if len(known) < 3:
            known = members(results)
        time.sleep(0.002)
    time.sleep(delay_s)
    when = f"{'measured + ' if late else ''}{delay_s:.2f} s of {typical_s:.1f}"
    pid = child.pid if victim == "launcher" else (known or members(results)).get(victim)
    before = outcome(results)
    hit = pid is not None and child.poll() is None and lives(pid)
    if hit:
        os.kill(pid, number)
    _, err = child.communicate(timeout=PATIENCE_S)
    end = time.monotonic() + 10
    while (left := members(results)) and time.monotonic() < end:
        time.sleep(0.05)
    ended = found_record(results)
    scratch = len(list(temporary.glob(f"{PREFIX}*")))
    return Kill(
        victim=victim,
        signal=number.name if hit else "missed",
        when=f"{when} (ran {time.monotonic() - start:.1f} s)",
        measured="ok" in (before, ended.outcome if ended else ""),
        outcome=ended.outcome if ended else "none",
        reason=(ended.reason or "; ".join(each.message for each in ended.warnings if each.code == "shutdown"))
        if ended
        else "",
        lost=before == "ok" and (ended is None or ended.outcome != "ok"),
        left=len(left),
        scratch=scratch,
        wrong=hit and ended is not None and not names(victim, number, ended),
        traceback=victim == "launcher" and "Traceback" in err,
    )


def names(victim: str | int, number: signal.Signals, ended: RunRecord) -> bool:
    """Whether the record names what was killed; a finished one need not."""
    told = ended.reason if ended.outcome != "ok" else "; ".join(each.message for each in ended.warnings)
    if ended.outcome == "ok" and "shutting down" not in told:
        return True  # it came too late to change anything
    if victim == "launcher":
        return "interrupted" in told or "it was killed" in told
    if victim == "torchrun":
        return f"torchrun was {'killed' if number == signal.SIGKILL else 'ended'} ({number.name})" in told
    others = {0, 1} - {victim}
    return f"rank {victim}" in told and not any(f"rank {other}" in told for other in others)


def main(kills: int = 40, seed: int = 0) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        subprocess.run([*RUN, f"results={folder}/whole"], check=True, stdout=subprocess.DEVNULL)
        typical_s = time.monotonic() - start
        done = []
        for number in range(kills):
            done.append(kill_one(Path(folder) / str(number), chance, typical_s))
            print(msgspec.json.encode(done[-1]).decode(), flush=True)
    hits = [each for each in done if each.signal != "missed"]
    print(f"\n{len(done)} runs, {len(hits)} hit:", dict(Counter(f"{each.victim} {each.signal}" for each in hits)))
    print(f"after the measurement: {sum(each.measured for each in hits)}")
    for what in ("lost", "left", "wrong", "traceback"):
        print(f"{what}: {sum(map(bool, (getattr(each, what) for each in done)))}")
    killed = [each for each in hits if each.victim == "launcher" and each.signal == "SIGKILL"]
    print(f"scratch folders left: {sum(each.scratch for each in done)}, with {len(killed)} launchers killed by SIGKILL")


if __name__ == "__main__":
    main(*map(int, arguments(__doc__)))

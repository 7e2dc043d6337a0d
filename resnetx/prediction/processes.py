"""Many curves at once: each process predicts a share of them, and the order of the answer is that of the question.

    predicted_curves([CurveQuestion(subject, deployment, placements, baseline, setting), ...])

A process is a fresh interpreter that reads its share from standard input: nothing of the caller is forked (a notebook
has threads) or run again (a script without a guard is not imported). Few points are predicted right here, as a process
takes as long to start as a thousand points. The points are the same either way.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from resnetx import host
from resnetx.prediction.predict import Placement, curve
from resnetx.prediction.provenance import RecordInput, SourcedPoint
from resnetx.prediction.scenario import Deployment, Subject, TrainingSetup

POINTS_EACH = 2000  # of a process, at least: about a second of work, of which starting takes another half


class CurveQuestion(NamedTuple):
    """A curve as `predict.curve` is asked for it."""

    subject: Subject
    deployment: Deployment
    placements: Sequence[Placement]
    baseline: Placement
    setting: TrainingSetup


def predicted_curves(questions: Sequence[CurveQuestion], processes: int | None = None) -> list[SourcedPoint]:
    """The points of all curves; `processes`: how many predict them; unless set, by the points and the host's cores."""
    count = _useful(questions) if processes is None else processes
    if count <= 1:
        return [point for question in questions for point in curve(*question)]
    shares = [questions[first::count] for first in range(count)]  # neighbours cost alike: each takes every nth
    with ThreadPoolExecutor(count) as waiting:
        answers = list(waiting.map(_by_a_process, shares))
    return [point for index in range(len(questions)) for point in answers[index % count][index // count]]


def _useful(questions: Sequence[CurveQuestion]) -> int:
    """How many processes are worth starting."""
    points = sum(len(question.placements) for question in questions)
    return min(host.cores(), points // POINTS_EACH, len(questions)) if sys.executable else 1


def _by_a_process(share: Sequence[CurveQuestion]) -> list[list[SourcedPoint]]:
    answer: list[list[SourcedPoint]] = answered_by_a_process("resnetx.prediction.processes", share)
    return answer


def answered_by_a_process(module: str, share: Sequence[object]) -> Any:
    """What a module's interpreter, which finds this very package, answers to what it is sent."""
    home = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    ended = subprocess.run(
        [sys.executable, "-P", "-m", module],
        input=pickle.dumps(share, pickle.HIGHEST_PROTOCOL),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
        preexec_fn=host.dying_with(os.getpid()) if sys.platform == "linux" else None,  # nobody reads its answer then
    )
    if ended.returncode:
        told = ended.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"a process that predicts ended with status {ended.returncode}: {told}")
    return pickle.loads(ended.stdout)


def main() -> None:
    """One share: questions in, points out."""
    share: Sequence[CurveQuestion] = pickle.load(sys.stdin.buffer)
    inputs: dict[RecordInput, RecordInput] = {}
    answer = [[_sharing(inputs, point) for point in curve(*question)] for question in share]
    pickle.dump(answer, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)


def _sharing(inputs: dict[RecordInput, RecordInput], sourced: SourcedPoint) -> SourcedPoint:
    """The point with one object for inputs that are the same as others': pickled once, and less to keep."""
    return replace(sourced, inputs=tuple(inputs.setdefault(line, line) for line in sourced.inputs))


if __name__ == "__main__":
    main()

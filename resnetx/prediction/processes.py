"""Many curves at once: each process predicts a share of them, and the order of the answer is that of the question.

    predicted_curves([Curve(workload, deployment, setting, placements, baseline), ...])

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
from typing import Any

from resnetx import host
from resnetx.prediction.predict import Curve, predict_curve
from resnetx.prediction.result import SourcedPoint
from resnetx.record.prediction import PredictionInput

POINTS_EACH = 2000  # of a process, at least: about a second of work, of which starting takes another half
GRID_POINTS = 100_000  # of a prediction; of more, no more is kept than a table on disk (`grid`)


def predicted_curves(curves: Sequence[Curve], processes: int | None = None) -> list[SourcedPoint]:
    """The points of all curves; `processes`: how many predict them; unless set, by the points and the host's cores."""
    count = _useful(curves) if processes is None else processes
    if count <= 1:
        return [point for curve in curves for point in predict_curve(curve)]
    shares = [curves[first::count] for first in range(count)]  # neighbours cost alike: each takes every nth
    with ThreadPoolExecutor(count) as waiting:
        answers = list(waiting.map(_by_a_process, shares))
    return [point for index in range(len(curves)) for point in answers[index % count][index // count]]


def _useful(curves: Sequence[Curve]) -> int:
    """How many processes are worth starting."""
    shares = min(sum(len(curve.placements) for curve in curves) // POINTS_EACH, len(curves))
    return min(host.cores(), shares) if shares > 1 and sys.executable else 1


def _by_a_process(share: Sequence[Curve]) -> list[list[SourcedPoint]]:
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
    """One share: curves in, points out."""
    share: Sequence[Curve] = pickle.load(sys.stdin.buffer)
    inputs: dict[PredictionInput, PredictionInput] = {}
    answer = [[_sharing(inputs, point) for point in predict_curve(curve)] for curve in share]
    pickle.dump(answer, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)


def _sharing(inputs: dict[PredictionInput, PredictionInput], sourced: SourcedPoint) -> SourcedPoint:
    """The point with one object for inputs that are the same as others': pickled once, and less to keep."""
    return replace(sourced, inputs=tuple(inputs.setdefault(line, line) for line in sourced.inputs))


if __name__ == "__main__":
    main()

"""Predictions that are stored before anything of their system was measured: sealed, dated, and whole."""

from pathlib import Path

from resnetx import record
from resnetx.record.prediction import Prediction, digest

H200 = Path(__file__).parents[2] / "results" / "h200" / "predicted" / "prediction.json"


def test_what_is_predicted_for_h200s_is_untouched_and_whole():
    stored = record.read(H200, Prediction)
    assert stored.digest == digest(stored)
    assert stored.made_at.startswith("2026-11-22")
    of_one = [point for point in stored.points if (point.gpus, point.precision) == (1, "fp32")]
    assert {point.workload for point in of_one} == {
        "AlexNet", "GoogLeNet", "ResNet/1", "ResNet/2", "ResNet/4", "ResNet/8", "ResNet/16", "ResNet/32"
    }  # fmt: skip
    assert len(of_one) == 22  # a fourth of the paper's 88 points on each system
    kinds = {(point.gpus, point.precision) for point in stored.points}
    assert kinds == {(gpus, precision) for gpus in (1, 8) for precision in ("fp32", "tf32", "bf16")}
    assert len(stored.points) == 6 * len(of_one)
    assert {point.system for point in stored.points} == {"dgx-h200"}
    assert all(point.iteration_s for point in stored.points)

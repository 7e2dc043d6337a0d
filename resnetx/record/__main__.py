"""Prints the JSON Schema of a kind of record: run (unless named), bench, trace, prediction, steering, check."""

import sys

from resnetx.record import BenchRecord, RunRecord, json_schema
from resnetx.record.prediction import Prediction
from resnetx.record.topologies import Check, Steering
from resnetx.record.traces import Trace

KINDS = {
    "run": RunRecord,
    "bench": BenchRecord,
    "trace": Trace,
    "prediction": Prediction,
    "steering": Steering,
    "check": Check,
}

if __name__ == "__main__":
    print(json_schema(KINDS[sys.argv[1] if len(sys.argv) > 1 else "run"]).decode(), end="")

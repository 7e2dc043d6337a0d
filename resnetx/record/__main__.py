"""Prints the JSON Schema of a kind of `record.json`: run (unless another is named) or bench."""

import sys

from resnetx.record import BenchRecord, RunRecord, TaskRecord, json_schema

KINDS: dict[str, type[TaskRecord]] = {"run": RunRecord, "bench": BenchRecord}

print(json_schema(KINDS[sys.argv[1] if len(sys.argv) > 1 else "run"]).decode(), end="")

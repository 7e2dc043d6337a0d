"""Prints the JSON Schema of `record.json`."""

from resnetx.record import json_schema

print(json_schema().decode(), end="")

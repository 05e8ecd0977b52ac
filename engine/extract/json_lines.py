"""NDJSON: a document with a JSON value on each line."""

from typing import Any

from engine.extract.json_value import MISSING, parse_json


def read_json_lines(text: str) -> tuple[list[Any], int]:
    """The values of the lines, and the number of lines that are not JSON and were skipped; blank ones do not count."""
    values = [parse_json(line) for line in text.split("\n") if line and not line.isspace()]
    valid = [value for value in values if value is not MISSING]
    return valid, len(values) - len(valid)

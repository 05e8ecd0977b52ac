"""Runs the command `try` on a stored page in a child process, which keeps parsers out of the console."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson

from console.format import plural
from console.tui.widgets.line_canvas import Span

_TIMEOUT = 20.0
_MAX_ROWS = 200


def run_trial(data: Path, defs: Path, data_def: str, job: int) -> list[Span]:
    """Rows, links and rejected records as lines, or the error. Takes about a second: call it on a worker thread."""
    command = [sys.executable, "-m", "console", "try", data_def, "--job", str(job), "--json"]
    try:
        process = subprocess.run(
            [*command, "--defs", str(defs), "--data", str(data)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [(f"no answer within {_TIMEOUT:g} s", "bad")]
    if process.returncode:
        return [(line, "bad") for line in process.stderr.decode("utf-8", "replace").splitlines()]
    try:
        return list(_trial_lines(orjson.loads(process.stdout), data_def))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [(f"the output of `try` cannot be read: {error}", "bad")]


def _trial_lines(trial: dict[str, list[dict[str, object]]], data_def: str) -> Iterator[Span]:
    rows, links, rejected = trial["rows"], trial["links"], trial["rejected"]
    counts = f"{plural(len(rows), 'row')}, {plural(len(links), 'link')}, {len(rejected)} rejected"
    yield f"{data_def}: {counts}, nothing written", "strong"
    for reject in rejected[:_MAX_ROWS]:
        yield f"✗ {reject['field']}: {reject['reason']}  {reject['place']}", "bad"
    for number, row in enumerate(rows[:_MAX_ROWS], 1):
        yield f"row {number}", "accent"
        for name, value in row.items():
            yield f"  {name:<16} {value if isinstance(value, str) else orjson.dumps(value).decode()}", "text"
    for link in links[:_MAX_ROWS]:
        yield f"→ {link['group']}: {link['url']}", "dim"

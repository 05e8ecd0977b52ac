"""The command `check`: every problem of the defs, at once."""

from pathlib import Path

import click
import orjson

from engine.defs.loader import load
from engine.errors import DefsError, Problem


def check(path: Path, *, as_json: bool) -> int:
    """Validate and tell; returns 0, or 2 where the defs cannot be used. Warnings alone are no problem."""
    try:
        loaded = load(path)
        problems, good = list(loaded.warnings), True
    except DefsError as error:
        problems, good = error.problems, False
        remedy = error.remedy
    if as_json:
        click.echo(orjson.dumps({"ok": good, "problems": [told(p) for p in problems]}))
        return 0 if good else 2
    for problem in problems:
        click.echo(str(problem), err=True)
    if not good:
        click.echo(remedy, err=True)
        return 2
    defs = loaded.definitions
    click.echo(
        f"{len(defs.files)} files ok: {len(defs.locator_groups)} locator groups, {len(defs.task_groups)} task groups,"
        f" {len(defs.data_defs)} dataDefs"
    )
    return 0


def told(problem: Problem) -> dict[str, object]:
    """A problem as `--json` shows it."""
    return {
        "file": problem.file, "line": problem.line, "col": problem.column, "code": problem.code,
        "message": problem.message, "warning": problem.warning,
    }  # fmt: skip

"""The command `check`: every problem of the defs, at once."""

from collections.abc import Iterator
from pathlib import Path

import click
import orjson

from console.format import plural
from engine.defs.loader import find_relative_urls, load
from engine.errors import DefsError, Problem
from engine.model.definition import Definitions


def check(path: Path, *, as_json: bool) -> int:
    """Validate and tell; returns 0, or 2 where the defs cannot be used. Warnings alone are no problem."""
    try:
        loaded = load(path)
        problems, good = [*loaded.warnings, *_missing_base_warnings(loaded.definitions)], True
    except DefsError as error:
        problems, good = error.problems, False
        remedy = error.remedy
    if as_json:
        click.echo(orjson.dumps({"ok": good, "problems": [problem_as_dict(p) for p in problems]}))
        return 0 if good else 2
    for problem in problems:
        click.echo(str(problem), err=True)
    if not good:
        click.echo(remedy, err=True)
        return 2
    defs = loaded.definitions
    click.echo(
        f"ok: {plural(len(defs.files), 'file')}, {plural(len(defs.locator_groups), 'locator group')},"
        f" {plural(len(defs.task_groups), 'task group')}, {plural(len(defs.data_defs), 'dataDef')}"
    )
    return 0


def _missing_base_warnings(definitions: Definitions) -> Iterator[Problem]:
    """Only a run knows whether it is given a base."""
    for place, url in find_relative_urls(definitions):
        message = f"relative URL '{url}': `run` needs --base-url, or write `baseUrl:`"
        yield Problem(
            file=place.file, line=place.line, column=place.column, code="no-base", message=message, warning=True
        )


def problem_as_dict(problem: Problem) -> dict[str, object]:
    """A problem as `--json` shows it."""
    return {
        "file": problem.file, "line": problem.line, "col": problem.column, "code": problem.code,
        "message": problem.message, "warning": problem.warning,
    }  # fmt: skip

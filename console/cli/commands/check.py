"""The command `check`: reports every problem of the defs at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import FilePath, common_options, load_settings
from console.format import plural

if TYPE_CHECKING:
    from engine.errors import Problem
    from engine.model.definition import Definitions


@click.command()
@click.argument("defs", type=FilePath(), default=Path("defs"))
@click.option("--json", "as_json", is_flag=True, help="Print the problems as one JSON object.")
@common_options
def check(defs: Path, as_json: bool, data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Validate defs; exit 2 with problems."""
    import orjson

    from engine.defs.loader import load
    from engine.errors import DefsError

    load_settings(assign)  # raises UsageError on what crawl.toml has wrong
    remedy = None
    try:
        loaded = load(defs)
        problems = [*loaded.warnings, *_missing_base_warnings(loaded.definitions)]
    except DefsError as error:
        problems, remedy = error.problems, error.remedy
    valid = remedy is None
    if as_json:
        click.echo(orjson.dumps({"ok": valid, "problems": [problem_as_dict(p) for p in problems]}))
        return 0 if valid else 2
    for problem in problems:
        click.echo(str(problem), err=True)
    if remedy is not None:
        click.echo(remedy, err=True)
        return 2
    definitions = loaded.definitions
    click.echo(
        f"ok: {plural(len(definitions.files), 'file')}, {plural(len(definitions.locator_groups), 'locator group')},"
        f" {plural(len(definitions.task_groups), 'task group')}, {plural(len(definitions.data_defs), 'dataDef')}"
    )
    return 0


def _missing_base_warnings(definitions: "Definitions") -> "Iterator[Problem]":
    """Warnings only: `run` may get its base URL from a flag."""
    from engine.defs.loader import find_relative_urls
    from engine.errors import Problem

    for place, url in find_relative_urls(definitions):
        message = f"relative URL '{url}': `run` needs --base-url, or write `baseUrl:`"
        yield Problem(
            file=place.file, line=place.line, column=place.column, code="no-base", message=message, warning=True
        )


def problem_as_dict(problem: "Problem") -> dict[str, object]:
    """A problem as `--json` prints it."""
    return {
        "file": problem.file, "line": problem.line, "col": problem.column, "code": problem.code,
        "message": problem.message, "warning": problem.warning,
    }  # fmt: skip

"""The command `check`: reports every problem of the defs at once."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import FilePath, common_options, load_settings_of
from console.format import plural

_MAX_SEEDS_READ, _MAX_SEED_WARNINGS = 100_000, 5

if TYPE_CHECKING:
    from engine.errors import Problem
    from engine.model.definition import Definitions
    from engine.settings import Settings


@click.command()
@click.argument("defs", type=FilePath(), required=False)
@click.option("--defs", "defs_flag", type=FilePath(), help="The same as DEFS, as in other commands.")
@click.option("--json", "as_json", is_flag=True, help="Print the problems as one JSON object.")
@common_options
def check(defs: Path | None, defs_flag: Path | None, as_json: bool, data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Validate defs; exit 2 with problems."""
    import orjson

    from engine.defs.loader import load
    from engine.errors import DefsError, UsageError

    if defs is not None and defs_flag is not None:
        raise UsageError("DEFS and --defs are the same", "Give one of them.")
    defs = defs or defs_flag or Path("defs")
    settings, warnings = load_settings_of(defs, assign)  # raises UsageError on what crawl.toml has wrong
    remedy = None
    try:
        loaded = load(defs, settings.default_steps, keep_documents=settings.documents)
        definitions = loaded.definitions
        problems = [
            *warnings,
            *loaded.warnings,
            *_missing_base_warnings(definitions, settings),
            *_file_warnings(definitions, settings),
            *_seed_warnings(definitions, settings),
        ]
    except DefsError as error:
        problems, remedy = [*warnings, *error.problems], error.remedy
    valid = remedy is None
    if as_json:
        click.echo(orjson.dumps({"ok": valid, "problems": [problem_as_dict(p) for p in problems]}))
        return 0 if valid else 2
    for problem in problems:
        click.echo(str(problem), err=True)
    if remedy is not None:
        click.echo(remedy, err=True)
        return 2
    click.echo(
        f"ok: {plural(len(definitions.files), 'file')}, {plural(len(definitions.locator_groups), 'locator group')},"
        f" {plural(len(definitions.task_groups), 'task group')}, {plural(len(definitions.data_defs), 'dataDef')}"
    )
    return 0


def _missing_base_warnings(definitions: "Definitions", settings: "Settings") -> "Iterator[Problem]":
    """Warnings only: `run` may get its base URL from a flag."""
    from engine.defs.loader import find_relative_urls
    from engine.errors import Problem

    for place, url in () if settings.base_url else find_relative_urls(definitions):
        message = f"relative URL '{url}': `run` needs --base-url, or write `baseUrl:`"
        yield Problem(
            file=place.file, line=place.line, column=place.column, code="no-base", message=message, warning=True
        )


def _file_warnings(definitions: "Definitions", settings: "Settings") -> "Iterator[Problem]":
    """Warnings only: `run` may get the flag."""
    from engine.defs.loader import find_file_urls
    from engine.errors import Problem

    for place, url in () if settings.allow_file else find_file_urls(definitions, settings.base_url):
        message = f"'{url}': `run` reads files only with --allow-file"
        yield Problem(
            file=place.file, line=place.line, column=place.column, code="no-file", message=message, warning=True
        )


def _seed_warnings(definitions: "Definitions", settings: "Settings") -> "Iterator[Problem]":
    """The first lines of each seed file that give no job."""
    from engine import urls
    from engine.defs.url_list import read_urls, shown_path
    from engine.errors import Problem, UsageError

    def lines_of(file: str) -> "Iterator[tuple[int, str]]":
        with contextlib.suppress(UsageError):  # the loader warns of a missing file
            yield from itertools.islice(read_urls(file), _MAX_SEEDS_READ)

    base = settings.base_url or definitions.base_url
    needs_base = "" if base else "; a relative one needs `baseUrl:` or --base-url"
    files = {locator.from_file for group in definitions.locator_groups for locator in group.locators}
    for file in sorted(files - {None, "-"}, key=str):
        bad = ((number, url) for number, url in lines_of(str(file)) if urls.resolve(url, base) is None)
        for number, url in itertools.islice(bad, _MAX_SEED_WARNINGS):
            message = f"no usable URL: {urls.without_credentials(url)[:200]}{needs_base}"
            yield Problem(
                file=shown_path(str(file)), line=number, column=1, code="bad-seed", message=message, warning=True
            )


def problem_as_dict(problem: "Problem") -> dict[str, object]:
    """A problem as `--json` prints it."""
    return {
        "file": problem.file, "line": problem.line, "col": problem.column, "code": problem.code,
        "message": problem.message, "warning": problem.warning,
    }  # fmt: skip

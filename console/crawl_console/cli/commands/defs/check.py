"""The command `check`: reports every problem of the defs at once."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawl_console.cli.options import FilePath, arguments_option, base_url_option, common_options, load_settings_of
from crawl_console.cli.output import write_json, write_stderr
from crawl_console.format import plural
from crawl_engine.errors import DefsError, Problem, UsageError

_MAX_SEEDS_READ, _MAX_SEED_WARNINGS = 100_000, 5

if TYPE_CHECKING:
    from crawl_engine.defs.loader import LoadedDefs
    from crawl_engine.model.locator import Locator
    from crawl_engine.settings import Settings


@click.command()
@click.argument("defs", type=FilePath(), required=False)
@click.option("--defs", "defs_flag", type=FilePath(), help="The same as DEFS, as in other commands.")
@arguments_option
@base_url_option
@click.option("--json", "as_json", is_flag=True, help="Print the problems as one JSON object.")
@common_options("assigned")
def check(
    defs: Path | None, defs_flag: Path | None, base_url: str | None, as_json: bool, assigned: dict[str, str],
    arguments: dict[str, str],
) -> int:  # fmt: skip
    """Validate defs; exit 2 with problems."""
    from crawl_engine.defs.arguments import require_used
    from crawl_engine.defs.loader import load_to_run

    if defs is not None and defs_flag is not None:
        raise UsageError("DEFS and --defs are the same", "Give one of them.")
    defs = defs or defs_flag or Path("defs")
    # raises for mistakes in crawl.toml
    settings, warnings = load_settings_of(defs, assigned, base_url=base_url)
    remedy = None
    try:
        loaded = load_to_run(defs, settings.default_steps, keep_documents=settings.documents, arguments=arguments)
        require_used(arguments, loaded.arguments)
        problems = [*warnings, *loaded.warnings, *_find_warnings(loaded, settings)]
    except DefsError as error:
        problems, remedy = [*warnings, *error.problems], error.remedy
    valid = remedy is None
    if as_json:
        write_json({"ok": valid, "problems": [problem_as_dict(problem) for problem in problems]})
        return 0 if valid else 2
    write_stderr(*map(str, problems))
    if remedy is not None:
        write_stderr(remedy)
        return 2
    definitions = loaded.definitions
    click.echo(
        f"ok: {plural(len(definitions.files), 'file')}, {plural(len(definitions.locator_groups), 'locator group')},"
        f" {plural(len(definitions.task_groups), 'task group')}, {plural(len(definitions.data_defs), 'dataDef')}"
    )
    return 0


def _find_warnings(loaded: "LoadedDefs", settings: "Settings") -> Iterator[Problem]:
    """What `run` refuses without a flag or variable, and the first lines of each seed file that give no job."""
    from crawl_engine import urls
    from crawl_engine.browser.find import require_browser
    from crawl_engine.defs.builders.definitions import canonical_host
    from crawl_engine.defs.checks.secrets import UNSET, find_unusable
    from crawl_engine.defs.loader import find_file_urls, find_relative_urls
    from crawl_engine.defs.url_list import shown_path
    from crawl_engine.robots.host_policy import find_mistyped_hosts

    definitions = loaded.definitions
    for place, reason in find_unusable(loaded.root):
        yield _warning(place.file, place.line, place.column, UNSET, f"{reason}; `run` needs it")
    try:
        require_browser(definitions, settings)
    except UsageError as error:
        place = next(group.place for group in definitions.task_groups if group.loader is not None)
        message = f"{error.message}; {error.remedy}"
        yield _warning(place.file, place.line, place.column, "no-browser", message)
    for place, url in () if settings.base_url else find_relative_urls(definitions):
        message = f"relative URL '{url}'{urls.scheme_hint(url)}: `run` needs --base-url, or write `baseUrl:`"
        yield _warning(place.file, place.line, place.column, "no-base", message)
    for place, url in () if settings.allow_file else find_file_urls(definitions, settings.base_url):
        message = f"'{url}': `run` reads files only with --allow-file"
        yield _warning(place.file, place.line, place.column, "no-file", message)

    base = settings.base_url or definitions.base_url
    places = {canonical_host(name) or name: entry.place for name, entry in loaded.root.entries_of("hosts")}
    for name, similar in find_mistyped_hosts(definitions, base):
        message = f"hosts.{name}: no locator names it; did you mean {similar}?"
        yield _warning(places[name].file, places[name].line, places[name].column, "unused-host", message)
    locators = {each.from_file: each for group in definitions.locator_groups for each in group.locators}
    for file in sorted(locators.keys() - {None, "-"}, key=str):
        with contextlib.suppress(UsageError):  # the loader warns of a missing file
            for text in _find_bad_seeds(locators[file], base):
                number, _, message = text.removeprefix(f"{shown_path(str(file))}:").partition(": ")
                yield _warning(shown_path(str(file)), int(number), 1, "bad-seed", message)


def _find_bad_seeds(locator: "Locator", base: str | None) -> Sequence[str]:
    """The first lines of a list that give no job, each with the reason."""
    from crawl_engine.supervise.seeding.seed_reader import SeedReader

    reader = SeedReader(base)
    for _ in itertools.islice(reader.list_listed(locator), _MAX_SEEDS_READ):
        if len(reader.problems) >= _MAX_SEED_WARNINGS:
            break
    return reader.problems[:_MAX_SEED_WARNINGS]


def _warning(file: str, line: int, column: int, code: str, message: str) -> Problem:
    return Problem(file=file, line=line, column=column, code=code, message=message, warning=True)


def problem_as_dict(problem: Problem) -> dict[str, object]:
    """A problem as `--json` prints it."""
    return {
        "file": problem.file, "line": problem.line, "col": problem.column, "code": problem.code,
        "message": problem.message, "warning": problem.warning,
    }  # fmt: skip

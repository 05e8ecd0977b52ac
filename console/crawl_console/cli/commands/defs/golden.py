"""The command `test`: compares rows and links of saved pages with golden ones, and records pages."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawl_console.cli.options import (
    Number,
    arguments_option,
    base_url_option,
    browser_option,
    common_options,
    complete_names,
    defs_option,
    load_defs,
)
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_console.format import plural
from crawl_engine.errors import CrawlError, PageUnavailable, UsageError

if TYPE_CHECKING:
    from crawl_console.cli.page_source import FoundPage
    from crawl_engine.model.definition import Definitions
    from crawl_engine.preview.golden_tests import Difference, GoldenResult
    from crawl_engine.settings import Settings

_MAX_DIFFERENCES, _MAX_SHOWN = 50, 160
"""Differences of a test, and characters of a value, that are printed."""
_ABSENT = "no such field"


@click.command("test")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--update", is_flag=True, help="Write rows and links as they are now: they become the golden ones.")
@click.option("--watch", is_flag=True, help="Test again after each save of the defs or tests, until Ctrl-C.")
@click.option("--record", metavar="URL|FILE", is_flag=False, flag_value="", help="Make a test of this page.")
@click.option("--job", type=Number(), metavar="ID", help="Make a test of the stored page of this job.")
@click.option("--name", metavar="NAME", help="With --record: the name of the test.  [default: the dataDef]")
@click.option(
    "--data-def", metavar="DATADEF", shell_complete=complete_names("data_def"),
    help="With --record: whose rows, if several give rows of the page.",
)  # fmt: skip
@click.option("--url", metavar="U", help="With --record FILE: the address of FILE.")
@browser_option
@click.option("--no-links", is_flag=True, help="With --record: leave out the links of the page.")
@defs_option
@arguments_option
@base_url_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on one line.")
@common_options("data", "assigned")
def test(
    names: Sequence[str], update: bool, watch: bool, record: str | None, job: int | None, name: str | None,
    data_def: str | None, url: str | None, browser: bool, no_links: bool, defs: Path, base_url: str | None,
    as_json: bool, data: Path, assigned: dict[str, str], arguments: dict[str, str],
) -> int:  # fmt: skip
    """Compare saved pages with their golden rows and links; no network. Exit 0: all equal, 1: differences."""
    if record is None and job is None:
        if no_links or browser or any(given is not None for given in (name, data_def, url)):
            message = "--name, --data-def, --url, --browser and --no-links go with --record"
            raise UsageError(message, "Name the tests to run as arguments.")
        if update and watch:
            raise UsageError("--update and --watch exclude each other", "Give one of them.")
        if watch:
            return _watch(defs, base_url, assigned, arguments, names, as_json=as_json)
        return _run(
            *load_defs(defs, assigned, arguments, base_url=base_url), defs, names, update=update, as_json=as_json
        )
    if names or update or watch:
        raise UsageError("--record makes one test", "Give no NAME, --update or --watch; --name names the new test.")
    if bool(record) == (job is not None):
        raise UsageError("which page?", "Give exactly one of --record URL, --record FILE and --job ID.")
    if url is not None and job is not None:
        raise UsageError("--url is the address of a FILE", "A stored page has one.")
    if browser and job is not None:
        raise UsageError("--browser loads a URL", "A stored page is used as it is: give its URL to load it again.")
    if job is None:
        definitions, settings = load_defs(defs, assigned, arguments, base_url=base_url)
        return _record(
            definitions, settings, defs, record, url, None, name, data_def, has_links=not no_links, as_json=as_json,
            browser=browser,
        )  # fmt: skip
    from crawl_console.cli.page_source import find_stored_page

    page = find_stored_page(data, job)
    definitions, settings = load_defs(defs, assigned, arguments, data, page.origin.run, base_url=base_url)
    return _record(
        definitions, settings, defs, None, None, page, name, data_def, has_links=not no_links, as_json=as_json
    )


def _watch(
    defs: Path, base_url: str | None, assigned: dict[str, str], arguments: dict[str, str], names: Sequence[str], *,
    as_json: bool,
) -> int:  # fmt: skip
    """Run the tests, and again after each save; errors are printed and wait for the next one."""
    from crawl_engine.defs.watcher import iterate_saves

    for _ in iterate_saves(defs):
        try:
            _run(*load_defs(defs, assigned, arguments, base_url=base_url), defs, names, update=False, as_json=as_json)
        except CrawlError as error:
            write_stderr(*str(error).splitlines())
    return 0


def _run(
    definitions: "Definitions", settings: "Settings", defs: Path, names: Sequence[str], *, update: bool, as_json: bool
) -> int:
    from msgspec.structs import replace

    from crawl_engine.defs.builders.table_settings import complete_tables
    from crawl_engine.preview.extraction_client import ExtractionClient
    from crawl_engine.preview.golden_tests import read_tests, run_test, update_test

    definitions = complete_tables(definitions, settings)
    tests = read_tests(defs, definitions, names)
    results: list[GoldenResult] = []
    with ExtractionClient(replace(settings, run_time=None)) as client:
        for each in tests:
            result = run_test(each, definitions, client)
            results.append(result)
            if update and result.differences and result.problem is None:
                update_test(result)
            if not as_json:
                write_lines(*_result_lines(result, updated=update))
    states = [_state_of(result, updated=update) for result in results]
    counts = {state: states.count(state) for state in ("passed", "updated", "failed")}
    if as_json:
        tests_json = [_result_as_dict(result, state) for result, state in zip(results, states, strict=True)]
        write_json({**counts, "tests": tests_json})
    else:
        shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count or state == "passed")
        color = False if "NO_COLOR" in os.environ else None
        click.secho(shown, fg="red" if counts["failed"] else "green", color=color)
    return 1 if counts["failed"] else 0


def _record(
    definitions: "Definitions", settings: "Settings", defs: Path, source: str | None, url: str | None,
    page: "FoundPage | None", name: str | None, data_def: str | None, *, has_links: bool, as_json: bool,
    browser: bool = False,
) -> int:  # fmt: skip
    from msgspec.structs import replace

    from crawl_console.cli.page_source import find_page
    from crawl_engine.defs.builders.table_settings import complete_tables
    from crawl_engine.defs.yaml.sources import tests_folder
    from crawl_engine.preview.extraction_client import ExtractionClient
    from crawl_engine.preview.golden_tests import find_failure, find_reasons, freeze_document, links_of, record_test
    from crawl_engine.preview.page_trial import PageTrial, find_data_def

    definitions = complete_tables(definitions, settings)
    chosen = data_def or _choose_data_def(definitions, None if page is None else page.origin.group)
    target = find_data_def(definitions, chosen)
    folder = tests_folder(defs) / _check_name(name or chosen)
    if folder.exists():
        raise UsageError(f"{folder} exists", "Give another --name, or delete the folder.")
    page = page or find_page(str(source), url, chosen, definitions, settings, browser=browser)
    origin = replace(page.origin, run_time=settings.run_time or page.origin.run_time)
    page = replace(page, document=freeze_document(page.document), origin=origin)
    with ExtractionClient(settings) as client:
        trial = PageTrial(definitions, target, client)
        result = page.extract(trial, definitions, client)
        failure = find_failure(result)
        if failure is not None:
            raise PageUnavailable(f"{page.document.url}: {failure}", "A crawl would fail this page.")
        write_stderr(*find_reasons(trial, page.document, result))
    links = links_of(result) if has_links and (result.links or target.links or target.next is not None) else None
    if links is None and not target.columns:
        raise UsageError(f"{chosen} gives links alone, and none would be compared", "Leave out --no-links.")
    record_test(folder, chosen, page.document, page.origin, result, links)
    if as_json:
        write_json({"passed": 0, "updated": 0, "failed": 0, "tests": [_as_dict(folder.name, chosen, "recorded")]})
    else:
        counts = [plural(len(result.rows), "row")] if target.columns else []
        counts += [plural(len(links), "link")] if links is not None else []
        write_lines(f"{folder}: {' and '.join(counts)} of {chosen}")
    return 0


def _choose_data_def(definitions: "Definitions", group: str | None) -> str:
    """The only dataDef that gives rows, or the only one, of the group or of all groups. Raises UsageError."""
    groups = [each for each in definitions.task_groups if group is None or each.name == group]
    used = dict.fromkeys(task.data_def for each in groups for task in each.tasks)
    targets = (definitions.data_def(name) for name in used)
    names = [target.name for target in targets if target is not None and target.columns] or list(used)
    if len(names) != 1:
        raise UsageError("which dataDef?", f"Give --data-def: {', '.join(names) or 'no task uses one'}.")
    return names[0]


def _check_name(name: str) -> str:
    if name[:1] in ("", ".", "_") or Path(name).name != name or not name.isprintable():
        raise UsageError(f"--name {name!r} cannot name a folder", "Use letters, digits, `-` and `_`; begin with one.")
    return name


def _state_of(result: "GoldenResult", *, updated: bool) -> str:
    if result.passed:
        return "passed"
    return "updated" if updated and result.problem is None else "failed"


def _result_lines(result: "GoldenResult", *, updated: bool) -> Iterator[str]:
    """Nothing for a test that passed."""
    if result.passed:
        return
    yield f"{result.test.name} ({result.test.data_def.name}): {_state_of(result, updated=updated)}"
    if result.problem is not None:
        yield f"  {result.problem}"
    yield from (f"  {_describe(difference)}" for difference in result.differences[:_MAX_DIFFERENCES])
    if len(result.differences) > _MAX_DIFFERENCES:
        yield f"  and {plural(len(result.differences) - _MAX_DIFFERENCES, 'more difference')}; --json has all"
    yield from (f"  {text}" for text in result.reasons)


def _describe(difference: "Difference") -> str:
    expected, got = difference.expected, difference.got
    row = "link" if difference.row is None else f"row {difference.row}"
    if difference.field is None:
        return f"{row}: {'extra' if expected is None else 'missing'} {_cut(expected or got or '', 0)}"
    pairs = zip(expected or "", got or "", strict=False)
    same = next((index for index, (one, other) in enumerate(pairs) if one != other), 0)
    shown = [_ABSENT if text is None else _cut(text, same) for text in (expected, got)]
    return f"{row}, {difference.field}: expected {shown[0]}, got {shown[1]}"


def _cut(text: str, same: int) -> str:
    """The part of a long text that differs, with some of the `same` characters before it."""
    if len(text) <= _MAX_SHOWN:
        return text
    start = max(0, same - _MAX_SHOWN // 4)
    cut = text[start : start + _MAX_SHOWN]
    return f"{'…' if start else ''}{cut}{'…' if start + _MAX_SHOWN < len(text) else ''}"


def _result_as_dict(result: "GoldenResult", state: str) -> dict[str, Any]:
    return _as_dict(
        result.test.name, result.test.data_def.name, state, differences=result.differences, problem=result.problem
    )


def _as_dict(
    name: str, data_def: str, state: str, *, differences: Sequence["Difference"] = (), problem: str | None = None
) -> dict[str, Any]:
    from orjson import Fragment

    return {
        "name": name, "data_def": data_def, "state": state,
        "differences": [
            {
                "row": each.row, "field": each.field,
                "expected": None if each.expected is None else Fragment(each.expected),
                "got": None if each.got is None else Fragment(each.got),
            }
            for each in differences
        ],
        "problem": problem,
    }  # fmt: skip
